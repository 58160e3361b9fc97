"""Pictures of eigenvalues: what is drawn are the numbers."""

import io

import numpy as np
import pytest

from rescntk import literature, plots
from rescntk.theory import (
    spectrum,
)
from tests.drawings import lines

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def decays():
    return spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)


def test_eigenvalue_decay(decays):
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


def test_decay_exponents(decays):
    ax = plots.decay_exponents([decays, decays], ["one", "other"])
    bars = [bar for bar in ax.patches if np.isfinite(bar.get_x())]
    for decay, bar in zip(decays, bars[:3], strict=True):
        assert abs(bar.get_y() - decay.lowest) <= 1e-12
        assert abs(bar.get_y() + bar.get_height() - decay.highest) <= 1e-12
    drawn = lines(ax)
    assert list(drawn["one#0072B2"].get_ydata()) == [decay.exponent for decay in decays]
    assert drawn["one#0072B2"].get_marker() != drawn["other#D55E00"].get_marker()
    ax.figure.savefig(io.BytesIO())
    assert ax.get_title() == "Slopes fitted on frequencies 6 … 12"
    (errors,) = ax.collections[1].get_segments()[:1]
    first = decays.decays[0]
    assert (
        np.abs(errors[:, 1] - first.exponent - [-1, 1] * np.array(first.uncertainty)).max() < 1e-9
    )
    with pytest.raises(ValueError, match="labels has 1 names, expected 2"):
        plots.decay_exponents([decays, decays], ["one"])
    with pytest.raises(ValueError, match="found is empty"):
        plots.decay_exponents([], [])


def test_eigenvalues_of_0_have_a_name_alone():
    found = spectrum.decay_exponents(literature.barzilai_resnet(1), 2, 3, max_frequency=12)
    ax = plots.eigenvalue_decay(found)
    assert "2 pixels (0, 1): λ = 0" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert "1 layer, skips" in ax.get_title()
    ax.figure.savefig(io.BytesIO())
    ax = plots.decay_exponents([found], ["shallow"])
    assert np.isnan(lines(ax)["shallow#0072B2"].get_ydata()[1:]).all()
    ax.figure.savefig(io.BytesIO())


def test_ensemble():
    found = spectrum.mixture(literature.barzilai_resnet(2), 2, 3, 6)
    ax = plots.ensemble(found)
    largest = np.argsort(-found.eigenvalues.ravel())[:40]
    for name, values in (("CNNs of all", found.mixed), ("CNN alone", found.alone)):
        (drawn,) = [line for line in ax.get_lines() if name in line.get_label()]
        expected = (values / found.eigenvalues).ravel()[largest]
        assert (drawn.get_xdata() == found.eigenvalues.ravel()[largest]).all()
        assert np.abs(drawn.get_ydata() / expected - 1).max() <= 1e-12
    # Quantiles of all eigenvalues of half a decade, of 20 or more.
    bins = np.floor(2 * np.log10(found.eigenvalues))
    median = next(line for line in ax.get_lines() if line.get_linestyle() == "-.")
    for centre, middle in zip(*median.get_data(), strict=True):
        some = bins == np.floor(2 * np.log10(centre))
        assert some.sum() >= 20
        ratio = np.median((found.alone / found.eigenvalues)[some])
        assert abs(middle / ratio - 1) <= 1e-12
    assert len(median.get_xdata()) >= 3
    assert "× dot product" in ax.get_title()
    ax.figure.savefig(io.BytesIO())
