"""Which symbols a formula holds, and what the course's table says of them."""

from pathlib import Path

import pytest

from tests.course.symbols import Symbol, SymbolTable, formulas, symbols

TABLE = SymbolTable(Path(__file__).parents[2] / "course" / "book" / "symbols.csv")


@pytest.mark.parametrize(
    ("formula", "found"),
    [
        (r"\pi", [r"\pi"]),
        (r"\pi_{\text{ref}}", [r"\pi_ref"]),
        (r"\pi_{ref}(y \mid x)", [r"\pi_ref", "y", "x"]),
        (r"\pi_\theta", [r"\pi_\theta", r"\theta"]),
        (r"\hat A_t^{\mu}", [r"\hat A_t", "t", r"\mu"]),
        (r"\bar r", [r"\bar r"]),
        (r"\bar{\mu}", [r"\bar \mu"]),
        (r"\mathbb{E}_{a \sim \mu} [f]", [r"\mathbb E_a\sim\mu", "a", r"\mu", "f"]),
        (r"\mathrm{KL}(\mu \Vert \pi)", ["KL", r"\mu", r"\pi"]),
        (r"\mathrm{td}_t", ["td_t", "t"]),
        (r"\text{if } A > 0 \text{ else}", ["A"]),
        (r"\sum_{i=1}^n x_i \tag{97}", ["x_i"]),
        (r"\log \frac{1 + \epsilon_{\mathrm{low}}}{2}", [r"\epsilon_low"]),
        (r"D_{\mathrm{TV}}^{\max}", ["D_TV"]),
        (r"f'(x)", ["f", "x"]),
        (r"x_", ["x"]),
    ],
)
def test_symbols_are_read_with_accent_and_index(formula: str, found: list[str]):
    assert [one.base + (f"_{one.subscript}" if one.subscript else "") for one in symbols(formula)] == found


def test_formulas_in_code_and_in_folds_do_not_count():
    text = "$a$ costs \\$5, `$b$`\n\n```\n$c$\n```\n\n<details>$d$</details>\n\n$$e\n= f$$"
    assert formulas(text) == ["a", "e\n= f"]


@pytest.mark.parametrize(
    ("symbol", "written"),
    [
        (Symbol(r"\pi"), r"$\pi$"),
        (Symbol(r"\pi", "k"), r"$\pi_k$"),
        (Symbol(r"\pi", r"\theta"), r"$\pi$"),
        (Symbol("G"), "$G$"),
        (Symbol("G", "t"), "$G_t$"),
        (Symbol("G", "t+1"), "$G_t$"),
        (Symbol("R", "i"), "$R(x, y)$"),
        (Symbol("R", "t"), "$R_t$"),
        (Symbol(r"\hat L", ""), "$L$"),
        (Symbol("d", r"\mu"), r"$d_\pi$"),
    ],
)
def test_the_entry_of_a_symbol_is_the_one_with_its_index_or_else_without(symbol: Symbol, written: str):
    found = TABLE.entry(symbol)
    assert found is not None and found.symbol == written


@pytest.mark.parametrize("symbol", [Symbol(r"\varepsilon"), Symbol(r"\bar G"), Symbol("c", "9")])
def test_what_the_course_does_not_have_is_not_found(symbol: Symbol):
    assert TABLE.entry(symbol) is None


def test_one_symbol_has_one_meaning(tmp_path: Path):
    path = tmp_path / "symbols.csv"
    path.write_text('symbol,meaning\n"$N, G$",sizes\n$G$,a return\n', encoding="utf-8")
    with pytest.raises(ValueError, match="explains G twice"):
        SymbolTable(path)


def test_what_a_text_needs_is_in_the_order_of_the_table():
    needed, missing = TABLE.needed(r"$\mu$ and $\pi$, $\mathrm{clip}(r)$ and $\varepsilon$, $Y_t$")
    assert [entry.symbol for entry in needed] == [r"$\pi$", r"$\mu$", "$t$", "$r$"]
    assert missing == ["Y_{t}", r"\varepsilon"]
