import matplotlib.pyplot as plt
import pytest
from IPython.display import DisplayHandle

from rlnotes.notebook.figures import STYLES, bundle, new_figure
from rlnotes.notebook.live import LivePlot


def metrics(steps: int):
    for step in range(1, steps + 1):
        yield dict(phase=1, step=step, reward=step / 100, entropy=1 - step / 100)


NAMES = {"reward": "mean reward", "entropy": "entropy (nats)"}


def test_live_plot_passes_metrics_through_and_draws_one_figure(capsys):
    plot = LivePlot(NAMES, "a run", goal=0.9)
    rows = list(plot.follow(metrics(50)))
    assert [row["step"] for row in rows] == list(range(1, 51))
    assert plot.alt() == (
        "a run, step 1 to 50: mean reward from 0.01 to 0.5, minimum 0.01 at 1, maximum 0.5 at 50; "
        "entropy (nats) from 0.99 to 0.5, minimum 0.5 at 50, maximum 0.99 at 1; "
        "a line marks the goal 0.9 in the first panel"
    )
    assert plt.get_fignums() == []  # figures do not pile up in the global list


def test_the_last_state_is_drawn_also_after_an_interrupt(capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(LivePlot, "draw", lambda self: drawn.append(len(self.rows)))

    def interrupted():
        yield from metrics(3)
        raise KeyboardInterrupt

    plot = LivePlot(NAMES, "a run")
    with pytest.raises(KeyboardInterrupt):
        list(plot.follow(interrupted()))
    assert drawn[-1] == 3


class Clock:
    """Time that passes only as it is told to."""

    now = 0.0

    def monotonic(self):
        return self.now


def drawn_steps(monkeypatch, draw_seconds: float) -> list[int]:
    """The steps at which a run of 100 seconds, ten steps in each, was drawn."""
    clock, drawn = Clock(), []
    plot = LivePlot(NAMES, "a run")

    def slowly(figure, alt):
        clock.now += draw_seconds
        drawn.append(len(plot.rows))
        return {}, {}

    monkeypatch.setattr("rlnotes.notebook.live.time", clock)
    monkeypatch.setattr("rlnotes.notebook.live.bundle", slowly)
    monkeypatch.setattr("rlnotes.notebook.live.show", lambda figure, alt: slowly(figure, alt) and DisplayHandle())
    for _ in plot.follow(metrics(1000)):
        clock.now += 0.1
    return drawn


@pytest.mark.parametrize("draw_seconds", [0.01, 0.4, 2.0])
def test_drawing_takes_a_tenth_of_the_time_at_most(monkeypatch, draw_seconds: float):
    monkeypatch.setattr("rlnotes.notebook.live.watched", lambda: True)
    monkeypatch.setattr(DisplayHandle, "update", lambda self, data, raw, metadata: None)
    drawn = drawn_steps(monkeypatch, draw_seconds)
    assert drawn[0] == 1 and drawn[-1] == 1000
    most = min(0.1 * (100 + draw_seconds * len(drawn)) / draw_seconds, 100 / 0.5)
    assert most / 2 < len(drawn) <= most + 2  # the first and the last are drawn whatever the time


def test_where_nobody_watches_only_the_end_is_drawn(monkeypatch):
    monkeypatch.setattr("rlnotes.notebook.live.watched", lambda: False)
    assert drawn_steps(monkeypatch, 0.4) == [1000]


def test_the_axis_says_what_a_step_is(capsys, monkeypatch):
    labels = []

    def keep(figure, alt):
        labels.extend(axis.get_xlabel() for axis in figure.axes)

    monkeypatch.setattr("rlnotes.notebook.live.show", keep)
    LivePlot(NAMES, "a run", xlabel="update").draw()
    assert labels == ["update", "update"]


def test_a_plot_without_rows_says_so(capsys):
    plot = LivePlot(NAMES, "a run")
    assert list(plot.follow(iter(()))) == []
    assert plot.alt() == "a run: no step yet"


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (0.00041, 0.000385, "x from 0.00041 to 0.000385"),
        (0.003, 0.003004, "x from 0.003 to 0.003"),
        (0.35156, 0.8789, "x from 0.352 to 0.879"),
        (21.4, 487.31, "x from 21.4 to 487"),
        (-1234.6, -999.7, "x from -1235 to -1000"),
        (0.0, 999.4, "x from 0 to 999"),
    ],
)
def test_small_and_large_numbers_are_said_with_three_digits_or_more(capsys, first: float, last: float, said: str):
    plot = LivePlot({"x": "x"}, "a run")
    list(plot.follow(iter([dict(step=1, x=first), dict(step=2, x=last)])))
    assert plot.alt().startswith(f"a run, step 1 to 2: {said}, minimum ")


def test_a_fall_between_the_ends_is_said_and_so_is_a_metric_that_comes_late(capsys):
    plot = LivePlot({"x": "return", "late": "accuracy"}, "a run", xlabel="update")
    rows = [dict(step=1, x=21.0), dict(step=2, x=485.0, late=0.5), dict(step=3, x=98.0, late=0.25)]
    rows.append(dict(step=4, x=99.0))
    list(plot.follow(iter(rows)))
    assert plot.alt() == (
        "a run, update 1 to 4: return from 21 to 99, minimum 21 at 1, maximum 485 at 2; "
        "accuracy from 0.5 to 0.25, minimum 0.25 at 3, maximum 0.5 at 2"
    )


def test_curves_differ_in_more_than_colour():
    assert len({style["linestyle"] for style in STYLES}) == len({style["marker"] for style in STYLES}) == len(STYLES)


def test_a_figure_carries_its_alternative_text():
    figure, _ = new_figure(2)
    data, metadata = bundle(figure, "two empty panels")
    assert data["image/png"].startswith("iVBOR") and data["text/plain"] == "two empty panels"
    assert metadata["image/png"]["alt"] == "two empty panels"
