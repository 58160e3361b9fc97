"""Names and numbers in pictures: long ones are cut, and small ones are 0."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from rescntk import plots
from rescntk.plots.style import display_name, wrap_words


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
