"""Pictures of eigenvalues: what is drawn are the numbers."""

import io

import numpy as np
import pytest

from rescntk import literature, plots
from rescntk.theory import spectrum

pytest.importorskip("matplotlib")


def test_eigenvalue_decay():
    decays = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)
    ax = plots.eigenvalue_decay(decays)
    drawn = [line for line in ax.get_lines() if line.get_marker() in "osD"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend[-3:] == ["even k", "odd k", "law"]
    drawn = [line for line in drawn if len(line.get_xdata())]
    for decay, even, odd in zip(decays, drawn[::2], drawn[1::2], strict=True):
        for line, parity in ((even, 0), (odd, 1)):
            some = decay.frequencies % 2 == parity
            assert (line.get_xdata() == decay.frequencies[some]).all()
            assert (line.get_ydata() == decay.eigenvalues[some]).all()
        label = f"slope {decay.exponent:.2f} ± {decay.uncertainty:.2f}, law {decay.law:g}"
        assert even.get_label().endswith(label.replace("-", "−"))
        assert even.get_markerfacecolor() != odd.get_markerfacecolor()
    laws = [line for line in ax.get_lines() if line.get_linestyle() == ":"][:-1]  # and a legend's
    for decay, line in zip(decays, laws, strict=True):
        slope = np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata()))
        assert np.abs(slope - decay.law).max() <= 1e-9
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    assert "2 layers, no skips\n2 channels × 3 pixels, filter size 3" in ax.get_title()
    ax.figure.savefig(io.BytesIO())


def test_eigenvalues_below_their_errors_are_left_out():
    """Odd frequencies of a single layer."""
    found = spectrum.decay_exponents(literature.geifman_cnn(1), 2, 1, max_frequency=12)
    ax = plots.eigenvalue_decay(found, title="mine")
    odd = next(line for line in ax.get_lines() if line.get_markerfacecolor() == "white")
    assert list(odd.get_xdata()) == [1]
    assert ax.get_title() == "mine"
    ax.figure.savefig(io.BytesIO())


def test_eigenvalues_of_0_have_a_name_alone():
    found = spectrum.decay_exponents(literature.barzilai_resnet(1), 2, 3, max_frequency=12)
    ax = plots.eigenvalue_decay(found)
    assert "2 pixels (0, 1): λ = 0" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert "1 layer, skips" in ax.get_title()
    ax.figure.savefig(io.BytesIO())
