"""Pictures of degeneracy: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

from rescntk import plots
from rescntk.theory import (
    degeneracy,
    smoothness,
)
from tests.drawings import closed, drawn, looks

pytest.importorskip("matplotlib")


ANGLES = smoothness.grid(6)
TARGETS = smoothness.target(ANGLES)


def test_kernels_over_depth():
    angles = np.linspace(0, np.pi, 21)
    X, x = smoothness.circle(angles), smoothness.circle([0.0])
    found = degeneracy.kernels_over_depth(X, x, (1, 10, 50))
    axes = plots.kernels_over_depth(np.cos(angles), found)
    limits = degeneracy.ffnet_limit, degeneracy.resnet_limit
    sides = zip(axes.T, (found.ffnet, found.resnet), limits, strict=True)
    for (ax, below), values, limit in sides:
        assert below.get_legend() and below.get_xlabel() and ax.get_title()
        assert below.get_yscale() == "log"
        lines = ax.get_lines()[1:]
        assert len(looks(lines)) == len(looks(below.get_lines()[:3])) == 3
        for k, (line, distance) in enumerate(zip(lines, below.get_lines(), strict=False)):
            assert (line.get_ydata() == values[k, ::-1, 0]).all()
            assert (np.diff(line.get_xdata()) > 0).all()
            height = distance.get_ydata()
            shown = np.isfinite(height)
            expected = np.abs(line.get_ydata() - limit(line.get_xdata()))
            assert (height[shown] == expected[shown]).all() and (expected[~shown] < 1e-14).all()
            if limit is degeneracy.resnet_limit:
                assert shown.any() == (k > 0)  # one layer is the limit
    assert (axes[0, 0].get_lines()[0].get_ydata() == 0.25).all()
    assert lines[0].get_label() == "1 layer" and lines[1].get_label() == "10 layers"
    axes[0, 0].figure.savefig(io.BytesIO())


def test_distances_from_limits():
    depths = np.array([10, 100, 1000])
    signs = np.array([-1, 1, -1])
    ffnet = {"a": signs / depths, "b": 2 / depths}
    resnet = {"a": 3 / depths, "b": 4 / depths}
    rate = degeneracy.ffnet_rate(depths)
    ax = plots.distances_from_limits(depths, ffnet, resnet, ffnet_rate=rate)
    lines = drawn(ax, 11)
    for line, markers, factor in zip(lines[:8:2], lines[1:8:2], (1, 2, 3, 4), strict=True):
        assert (line.get_ydata() == factor / depths).all()
        assert markers.get_markerfacecolor() == "white" and markers.get_linestyle() == "None"
        assert list(markers.get_xdata()) == ([10, 1000] if factor == 1 else [])
        assert (markers.get_ydata() == factor / markers.get_xdata()).all()
    assert "below" in lines[8].get_label()
    assert (lines[9].get_ydata() == rate).all()
    assert len(plots.distances_from_limits(depths, ffnet, resnet).get_lines()) == 10


def test_degenerate_regression():
    limit = degeneracy.degenerate_regression(TARGETS, 0.1)
    wave = np.cos(smoothness.grid(64))
    ax = plots.degenerate_regression({"wave": wave}, limit, ANGLES, TARGETS)
    line, given, elsewhere, at = drawn(ax, 4)
    assert closed(line) and (line.get_ydata()[:-1] == wave).all()
    assert set(elsewhere.get_ydata()) == {float(limit.elsewhere)}
    assert (at.get_ydata() == limit.at_points).all() and at.get_linestyle() == "None"
    assert (at.get_xdata() == given.get_xdata()).all()
