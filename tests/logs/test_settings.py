"""Names and defaults of the table are those of the libraries' own files, which are read and not imported.

TRL's are those that are installed. ``RLNOTES_VERL``, ``RLNOTES_OPENRLHF`` and ``RLNOTES_SLIME`` name folders with the
packages of the others, at the versions of the table: an unpacked wheel, or a checkout.
"""

import ast
import importlib.util
import os
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlnotes.logs.table import table

UNKNOWN = object()  # a default that is computed


def package(name: str) -> Path:
    """The folder of a library's files."""
    if name == "trl":
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            pytest.skip("TRL is not installed: pip install 'rlnotes[bridge]'")
        return Path(found.submodule_search_locations[0])
    folder = os.environ.get(f"RLNOTES_{name.upper()}")
    if not folder:
        pytest.skip(f"RLNOTES_{name.upper()} names no folder with {table().libraries[name].title}'s files")
    return next(path for path in Path(folder).rglob(name) if (path / "__init__.py").exists())


def parsed(path: Path) -> ast.Module:
    with warnings.catch_warnings(action="ignore"):  # of what Python thinks of their texts
        return ast.parse(path.read_text(encoding="utf-8"))


def valued(node: ast.expr | None) -> Any:
    """A default as it is written; in a loop over prefixes, that of the actor."""
    if node is None:
        return None
    try:
        return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, {"prefix": "actor"})
    except NameError:
        return UNKNOWN


def of_dataclasses(path: Path) -> dict[str, Any]:
    """Fields and defaults of the classes in a file."""
    found = {}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            value = node.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
                value = next((one.value for one in value.keywords if one.arg == "default"), None)
            found[node.target.id] = valued(value)
    return found


def of_parser(path: Path) -> dict[str, Any]:
    """Options and defaults of the calls of add_argument in a file, and of slime's reset_arg."""
    found = {}
    for node in ast.walk(parsed(path)):
        if not (isinstance(node, ast.Call) and re.search(r"add_argument$|^reset_arg$", ast.unparse(node.func))):
            continue
        names = [value for one in node.args if isinstance(value := valued(one), str)]
        told = {one.arg: one.value for one in node.keywords}
        switch = valued(told.get("action")) in ("store_true", "store_false")
        found |= dict.fromkeys(names, False if switch else valued(told.get("default")))
    return found


@cache
def declared(library: str) -> dict[str, Any]:
    """All settings of a library with their defaults."""
    folder = package(library)
    if library == "trl":
        spec = importlib.util.find_spec("transformers")
        assert spec is not None and spec.origin is not None
        inherited = of_dataclasses(Path(spec.origin).parent / "training_args.py")
        base = folder / "trainer" / "base_config.py"
        own = of_dataclasses(base) if base.exists() else {}
        return inherited | own | of_dataclasses(folder / "trainer" / "grpo_config.py")
    if library == "verl":
        yaml = pytest.importorskip("yaml")
        text = (folder / "trainer" / "config" / "_generated_ppo_trainer.yaml").read_text(encoding="utf-8")
        return dict(flat(yaml.safe_load(text)))
    return of_parser(folder / dict(openrlhf="cli/train_ppo_ray.py", slime="utils/arguments.py")[library])


def flat(found: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in found.items():
        pairs += flat(value, f"{before}{name}.") if isinstance(value, dict) else [(before + name, value)]
    return pairs


LIBRARIES = ("trl", "verl", "openrlhf", "slime")


@pytest.mark.parametrize("library", LIBRARIES)
def test_settings_and_defaults_are_the_librarys_own(library: str):
    known = declared(library)
    wrong = {}
    for setting in table().settings.values():
        if (option := setting.options.get(library)) is None:
            continue
        if option.name not in known:
            wrong[option.name] = "unknown"
        elif known[option.name] is not UNKNOWN and known[option.name] != option.default:
            wrong[option.name] = f"{known[option.name]}, not {option.default}"
    assert wrong == {}


@pytest.mark.parametrize("library", LIBRARIES)
def test_metrics_are_the_librarys_own(library: str):
    """The last part of a name stands in quotes in the library's code, or behind a name that is put in; of a pattern all
    that is no *.
    """
    code = "\n".join(path.read_text(encoding="utf-8") for path in package(library).rglob("*.py"))
    missing = []
    for metric in table().metrics.values():
        name = metric.names.get(library, ("*",))[0]
        last = re.sub(r"^eval_|\d+$", "", name.rpartition("/")[2])  # put before by transformers, counted by slime
        if "*" in name:
            found = all(part.strip("/") in code for part in name.split("*"))
        else:
            found = re.search(rf"[\"'/}}_]{re.escape(last)}[\"'/{{]", code)
        if not found:
            missing.append(name)
    assert missing == []


def test_the_readers_own_names_are_those_of_our_trainer():
    """Settings of ``TrainConfig``; metrics that a run writes are read from one in the tests of the command."""
    from dataclasses import fields

    from rlnotes.lm.config import TrainConfig

    known = {one.name: one.default for one in fields(TrainConfig)}
    own = [one.options["rlnotes"] for one in table().settings.values() if "rlnotes" in one.options]
    assert {one.name: known[one.name] for one in own} == {one.name: one.default for one in own}
