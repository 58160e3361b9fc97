"""Pictures of smoothness and degeneracy: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

from rescntk import literature, plots
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
SHAPES = {name: smoothness.shape(kernel, 256) for name, kernel in KERNELS.items()}


def looks(lines):
    return {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}


def drawn(ax, count):
    """Return the first `count` lines, which must differ in their looks; the picture renders."""
    lines = ax.get_lines()[:count]
    assert len(looks(lines)) == count
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    ax.figure.savefig(io.BytesIO())
    return lines


def test_kernel_shapes():
    for line, values in zip(drawn(plots.kernel_shapes(SHAPES), 3), SHAPES.values(), strict=True):
        assert (line.get_ydata() == values / values.max()).all()
        assert line.get_xdata()[128] == 0 and line.get_ydata()[128] == 1


def test_interpolations():
    found = {
        name: smoothness.interpolation(kernel, ANGLES, TARGETS, 256)
        for name, kernel in KERNELS.items()
    }
    ax = plots.interpolations(found, ANGLES + 2 * np.pi, TARGETS)
    for line, (name, one) in zip(drawn(ax, 3), found.items(), strict=True):
        assert (line.get_ydata() == one.values).all()
        assert line.get_label().startswith(f"{name}: μ = ")
        assert line.get_label().endswith(f"curvature {one.curvature:.3g}")
    assert "μ = 1," in ax.get_lines()[2].get_label()
    assert "·$10^{-" in ax.get_lines()[0].get_label()
    dots = ax.get_lines()[3]
    np.testing.assert_allclose(dots.get_xdata(), ANGLES / np.pi, atol=1e-12)
    assert (dots.get_ydata() == TARGETS).all()


def test_kernel_spectra():
    ax = plots.kernel_spectra(SHAPES, last=60)
    for line, values in zip(drawn(ax, 3), SHAPES.values(), strict=True):
        spectrum = smoothness.magnitudes(values)
        k = line.get_xdata()
        assert (line.get_ydata() == spectrum[k] / spectrum.max()).all()
    assert ax.get_lines()[0].get_xdata()[-1] == 60
    assert ax.get_lines()[2].get_xdata()[-1] == smoothness.CUTOFF
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_gaussian_ratios():
    cutoffs = np.arange(4, 20)
    ratios = {
        name: smoothness.interpolation(
            kernel, ANGLES, TARGETS, 256, cutoff=cutoffs
        ).gaussian_rkhs_ratio
        for name, kernel in KERNELS.items()
    }
    own = plots.figure((4, 3)).subplots()
    ax = plots.gaussian_ratios(ratios, cutoffs, own)
    assert ax is own
    for line, values in zip(drawn(ax, 3), ratios.values(), strict=True):
        assert (line.get_ydata() == values).all()


def test_kernels_over_depth():
    angles = np.linspace(0, np.pi, 21)
    found = degeneracy.kernels(smoothness.circle(angles), smoothness.circle([0.0]), (1, 10, 50))
    axes = plots.kernels_over_depth(np.cos(angles), found)
    for ax, values in zip(axes, (found.ffnet, found.resnet), strict=True):
        assert ax.get_legend() and ax.get_xlabel() and ax.get_title()
        lines = ax.get_lines()[1:]
        assert len(looks(lines)) == 3
        for k, line in enumerate(lines):
            assert (line.get_ydata() == values[k, ::-1, 0]).all()
            assert (np.diff(line.get_xdata()) > 0).all()
    assert (axes[0].get_lines()[0].get_ydata() == 0.25).all()
    assert lines[0].get_label() == "1 layer" and lines[1].get_label() == "10 layers"
    axes[0].figure.savefig(io.BytesIO())


def test_distances_from_limits():
    depths = np.array([10, 100, 1000])
    ax = plots.distances_from_limits(
        depths, {"a": -1 / depths, "b": 2 / depths}, {"a": 3 / depths, "b": 4 / depths}
    )
    lines = drawn(ax, 6)
    for line, factor in zip(lines, (1, 2, 3, 4), strict=False):
        assert (line.get_ydata() == factor / depths).all()
    assert (lines[4].get_ydata() == degeneracy.ffnet_rate(depths)).all()
