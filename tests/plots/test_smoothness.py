"""Pictures of smoothness: what is drawn are the numbers, and can be told apart."""

import numpy as np
import pytest

from rescntk import Kernel, literature, plots
from rescntk.theory import smoothness
from tests.drawings import closed, drawn

pytest.importorskip("matplotlib")

ANGLES = smoothness.grid(6)
TARGETS = smoothness.target(ANGLES)
KERNELS = {
    "MLP": Kernel(literature.tirer_mlp(3), "ntk", "trace"),
    "ResNet": Kernel(literature.tirer_resnet(3, 0.1), "ntk", "trace"),
    "Gaussian": smoothness.gaussian_kernel,
}
SHAPES = {name: smoothness.kernel_shape(kernel, 256) for name, kernel in KERNELS.items()}


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
    for line, (name, interpolation) in zip(drawn(ax, 3), found.items(), strict=True):
        assert (line.get_ydata()[:-1] == interpolation.values).all()
        assert closed(line)
        assert line.get_label().startswith(f"{name}: curvature {interpolation.curvature:.3g}, μ = ")
    assert ax.get_lines()[2].get_label().endswith("μ = 1")
    assert "·$10^{-" in ax.get_lines()[0].get_label()
    dots = ax.get_lines()[3]
    np.testing.assert_allclose(dots.get_xdata(), ANGLES / np.pi, atol=1e-12)
    assert (dots.get_ydata() == TARGETS).all()
    plain = plots.interpolations(found, ANGLES, TARGETS).get_lines()[0]
    assert plain.get_label() == f"MLP: curvature {found['MLP'].curvature:.3g}"


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
    line, values = plots.kernel_spectra(SHAPES, 60, absolute=True).get_lines()[0], SHAPES["MLP"]
    expected = smoothness.magnitudes(values)[line.get_xdata()]
    assert (np.abs(line.get_ydata() - expected) <= 1e-15 * expected.max()).all()
