"""Names, numbers and sizes of pictures: what is written has room, and small numbers are 0."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from rescntk import plots
from rescntk.plots.style import display_name, label_curves, wrap_words


def test_long_names_keep_both_ends():
    """They are as long as the longest name that stays, which fits into a title."""
    names = ["".join(chr(97 + k % 26) for k in range(length)) for length in range(1, 80)]
    kept = [name for name in names if display_name(name) == name]
    assert kept == names[: len(kept)] and 24 <= len(kept) <= 32
    for name in names[len(kept) :]:
        start, _, end = display_name(name).partition("…")
        assert len(display_name(name)) == len(kept)
        assert name.startswith(start) and name.endswith(end) and len(start) > len(end) > 5


def test_names_are_one_line_without_formulas():
    assert display_name(" two\n lines\t$x$ ") == r"two lines \$x\$"
    assert display_name("a" * 17 + " " + "b" * 30 + " " + "c" * 8) == "a" * 17 + "…" + "c" * 8


def test_words_are_wrapped_between_words():
    lines = wrap_words("one two-three four", 9).splitlines()
    assert lines == ["one", "two-three", "four"]


def drawn(contributions, intercept):
    """Return the axes of a signal, drawn with these contributions and an intercept."""
    pytest.importorskip("matplotlib")
    model = SimpleNamespace(contributions=lambda X: contributions, intercept_=np.array([intercept]))
    ax = plots.contributions(model, np.ones((1, 1, contributions.shape[-1])))[0]
    ax.figure.savefig(io.BytesIO())
    return ax


@pytest.mark.parametrize(("part", "is_drawn"), [(3e-4, False), (8e-4, True)])
def test_intercepts_that_three_digits_do_not_have_are_zero(part, is_drawn):
    """Half a unit of the third digit of a decision is 5e-4 of it at the least."""
    ax = drawn(np.full((1, 1, 4), 0.25), part)
    shown = f"{part:.3g}" if is_drawn else "0"
    assert ax.get_title().endswith(f"+ intercept {shown}")


def test_contributions_of_zero_are_drawn():
    line = drawn(np.zeros((1, 1, 4)), 1.0).collections[0]
    assert line.get_clim()[0] == -line.get_clim()[1] < 0


@pytest.mark.parametrize("height", [1e-6, 0.5, 1.0])
def test_names_of_curves_that_end_together_are_apart(height):
    """They are inside of the axes, in the order of the ends."""
    pytest.importorskip("matplotlib")
    ax = plots.figure((4, 3)).subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ends = [(np.ones(1), np.full(1, height + 1e-9 * k), f"curve {k}", "black") for k in range(5)]
    label_curves(ax, [*ends, (np.ones(0), np.ones(0), "nothing", "black")], 0.15)
    places = {text.get_text(): text.get_position()[1] for text in ax.texts if text.get_text()}
    heights = [places[name] for name in ("nothing", *(f"curve {k}" for k in range(5)))]
    gap, rounding = 0.15, 1e-9
    assert np.diff(heights).min() >= gap - rounding and heights[0] > 0 and heights[-1] <= 1.1


@pytest.mark.slow
@pytest.mark.parametrize(("n", "channels"), [(1, 1), (8, 1), (3, 4)])
def test_pictures_of_contributions_have_room_for_each_channel(n, channels):
    """Half an inch and more; time is named below the last channel of a signal alone."""
    pytest.importorskip("matplotlib")
    model = SimpleNamespace(contributions=lambda X: np.ones((n, 1, 4)), intercept_=np.zeros(1))
    model.classes_ = ["walking upstairs with a bag", "standing beside a machine"]
    options = {"y": [model.classes_[0]] * n}
    panels = plots.contributions(model, np.ones((n, channels, 4)), **options).reshape(n, channels)
    drawing = panels[0, 0].figure
    drawing.canvas.draw()
    for row in panels:
        for ax in row:
            assert ax.get_window_extent().height / drawing.dpi > 0.3
            labelled = ax.xaxis.get_tick_params()["labelbottom"] is not False
            assert labelled == (ax is row[-1])
        title, whole = row[0].title.get_window_extent(), drawing.bbox
        assert 0 <= title.x0 and title.x1 <= whole.x1 and title.y1 <= whole.y1


def test_errors_that_cannot_be_drawn_leave_axes_that_can():
    pytest.importorskip("matplotlib")
    columns = {"n": np.array([1.0, 2.0]), "test_error": np.array([0.0, np.inf])}
    curve = SimpleNamespace(rows=[SimpleNamespace(test_error=0.0)], column=columns.get)
    ax = plots.learning_curve(curve)
    ax.figure.savefig(io.BytesIO())
    assert all(0 < low < high for low, high in (ax.get_xlim(), ax.get_ylim()))
