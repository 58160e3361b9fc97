"""Pictures of smoothness and degeneracy: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

from rescntk import literature, plots, regression
from rescntk.kernels import Kernel
from rescntk.theory import degeneracy, smoothness

pytest.importorskip("matplotlib")

ANGLES = smoothness.grid(6)
TARGETS = smoothness.target(ANGLES)
KERNELS = {
    "MLP": Kernel(literature.tirer_mlp(3), "ntk", "trace"),
    "ResNet": Kernel(literature.tirer_resnet(3, 0.1), "ntk", "trace"),
    "Gaussian": smoothness.gaussian_kernel,
}
SHAPES = {name: smoothness.kernel_shape(kernel, 256) for name, kernel in KERNELS.items()}


def looks(lines):
    return {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}


def drawn(ax, count):
    """Return the first `count` lines, which must differ in their looks; the picture renders."""
    lines = ax.get_lines()[:count]
    assert len(looks(lines)) == count
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    ax.figure.savefig(io.BytesIO())
    return lines


def closed(line):
    """Return whether the line goes once around the circle, and ends where it began."""
    x, y = line.get_data()
    return x[0] == -1 and x[-1] == 1 and y[0] == y[-1]


def test_kernel_shapes():
    for line, values in zip(drawn(plots.kernel_shapes(SHAPES), 3), SHAPES.values(), strict=True):
        assert (line.get_ydata()[:-1] == values / values.max()).all()
        assert line.get_xdata()[128] == 0 and line.get_ydata()[128] == 1
        assert closed(line)


def test_interpolations():
    found = {
        name: smoothness.interpolation(kernel, ANGLES, TARGETS, 256)
        for name, kernel in KERNELS.items()
    }
    ax = plots.interpolations(found, ANGLES + 2 * np.pi, TARGETS, cutoff=14)
    for line, (name, one) in zip(drawn(ax, 3), found.items(), strict=True):
        assert (line.get_ydata()[:-1] == one.values).all()
        assert closed(line)
        assert line.get_label().startswith(f"{name}: curvature {one.curvature:.3g}, μ = ")
    assert ax.get_lines()[2].get_label().endswith("μ = 1")
    assert "·$10^{-" in ax.get_lines()[0].get_label()
    dots = ax.get_lines()[3]
    np.testing.assert_allclose(dots.get_xdata(), ANGLES / np.pi, atol=1e-12)
    assert (dots.get_ydata() == TARGETS).all()
    plain = plots.interpolations(found, ANGLES, TARGETS).get_lines()[0]
    assert plain.get_label() == f"MLP: curvature {found['MLP'].curvature:.3g}"


def test_posteriors():
    X, Z = smoothness.circle(ANGLES), smoothness.circle(smoothness.grid(60))
    found = {}
    for name in ("MLP", "ResNet"):
        kernel = KERNELS[name].replace(kind="gpk")
        found[name] = regression.posterior(kernel(X), kernel(Z, X), kernel.diag(Z), TARGETS)
    ax = plots.posteriors(found, ANGLES, TARGETS)
    for line, band, one in zip(drawn(ax, 2), ax.collections, found.values(), strict=True):
        assert (line.get_ydata()[:-1] == one.mean).all()
        assert closed(line)
        x, y = band.get_paths()[0].vertices.T
        for height in (one.mean + 2 * np.sqrt(one.variance), one.mean - 2 * np.sqrt(one.variance)):
            assert any(abs(height[7] - v) < 1e-12 for v in y[np.abs(x + 1 - 14 / 60) < 1e-12])


def test_kernel_spectra():
    ax = plots.kernel_spectra(SHAPES, last=60)
    for line, values in zip(drawn(ax, 3), SHAPES.values(), strict=True):
        spectrum = smoothness.magnitudes(values)
        k = line.get_xdata()
        assert (line.get_ydata() == spectrum[k] / spectrum.max()).all()
    assert ax.get_lines()[0].get_xdata()[-1] == 60
    assert ax.get_lines()[2].get_xdata()[-1] == smoothness.CUTOFF
    assert ax.get_xscale() == ax.get_yscale() == "log"
    marked = ax.get_lines()[0].get_xdata()[ax.get_lines()[0].get_markevery()]
    assert marked[0] == 1 and marked[-1] == 60
    assert len(marked) < 13 and np.log(marked[1:] / marked[:-1]).max() < np.log(2) + 1e-9
    with pytest.raises(ValueError, match=r"last is 129, expected at most 128, .* shapes\['MLP'\]"):
        plots.kernel_spectra(SHAPES, last=129)


def test_gaussian_ratios():
    cutoffs = np.arange(4, 20)
    ratios = {}
    for name, kernel in KERNELS.items():
        values = smoothness.interpolation(kernel, ANGLES, TARGETS, 256).values
        ratios[name] = smoothness.gaussian_rkhs_ratio(values, ANGLES, TARGETS, cutoffs)
    own = plots.figure((4, 3)).subplots()
    ax = plots.gaussian_ratios(ratios, cutoffs, own)
    assert ax is own
    for line, values in zip(drawn(ax, 3), ratios.values(), strict=True):
        assert (line.get_ydata() == values).all()


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
    ax = plots.distances_from_limits(
        depths, {"a": signs / depths, "b": 2 / depths}, {"a": 3 / depths, "b": 4 / depths}
    )
    lines = drawn(ax, 11)
    for line, markers, factor in zip(lines[:8:2], lines[1:8:2], (1, 2, 3, 4), strict=True):
        assert (line.get_ydata() == factor / depths).all()
        assert markers.get_markerfacecolor() == "white" and markers.get_linestyle() == "None"
        assert list(markers.get_xdata()) == ([10, 1000] if factor == 1 else [])
        assert (markers.get_ydata() == factor / markers.get_xdata()).all()
    assert "below" in lines[8].get_label()
    assert (lines[9].get_ydata() == degeneracy.ffnet_rate(depths)).all()


def test_degenerate_regression():
    limit = degeneracy.degenerate_regression(TARGETS, 0.1)
    wave = np.cos(smoothness.grid(64))
    ax = plots.degenerate_regression({"wave": wave}, limit, ANGLES, TARGETS)
    line, given, elsewhere, at = drawn(ax, 4)
    assert closed(line) and (line.get_ydata()[:-1] == wave).all()
    assert set(elsewhere.get_ydata()) == {float(limit.elsewhere)}
    assert (at.get_ydata() == limit.at_points).all() and at.get_linestyle() == "None"
    assert (at.get_xdata() == given.get_xdata()).all()
