"""Pictures of degeneracy: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

from rescntk import plots
from rescntk.theory import degeneracy, smoothness
from tests.drawings import looks

pytest.importorskip("matplotlib")


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
