"""Levels and sizes of channels beside the training signals'."""

import numpy as np
import pytest

from rescntk.learn import channels


@pytest.mark.parametrize("power", [0, 900, -900])
@pytest.mark.parametrize("form", ["array", "list", "images"])
def test_what_differs(form, power, rng):
    """Channels: as before, with an offset, with a gain, constant now, constant before."""
    old, new = (3 * rng.standard_normal((60, 5, 36)) + 7 for _ in range(2))
    old[:, 4] = 7.0
    new[:, 1] += 6
    new[:, 2] = 7 + 0.5 * (new[:, 2] - 7)
    new[:, 3] = 7.0
    old, new = np.ldexp(old, power), np.ldexp(new, power)
    if form == "list":
        old, new = ([x[:, : 20 + k % 16] for k, x in enumerate(X)] for X in (old, new))
    if form == "images":
        old, new = (X.reshape(60, 5, 6, 6) for X in (old, new))
    found = channels.compare(old, new)
    assert found.offsets[:4] == pytest.approx([0, 2, 0, 0], abs=0.1)
    assert found.gains[:4] == pytest.approx([1, 1, 0.5, 0], abs=0.05)
    assert np.isnan(found.offsets[4]) and np.isnan(found.gains[4])
    assert found.moved.tolist()[:3] == [False, True, False]
    assert found.scaled.tolist()[:3] == [False, False, True]
    assert found.dead.tolist() == [False, False, False, True, False]
    rows = channels.rows(found)
    assert [row[3] for row in rows[:4]] == ["", "level", "size", "constant now"]
    assert rows[4][:3] == ("4", "–", "–")
    shifted = channels.compare(old, old)
    assert np.abs(shifted.offsets[:4]).max() == 0 and (shifted.gains[:4] == 1).all()
