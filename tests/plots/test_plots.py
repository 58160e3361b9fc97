"""Pictures: what is drawn are the numbers, and they can be told apart."""

import io
import subprocess
import sys

import numpy as np
import pytest

from rescntk import literature, plots
from rescntk.theory import conditioning, depth, families, multisphere, spectrum

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def table():
    return conditioning.compare(multisphere.sample(20, 6, 8, rng=0), (1, 3, 10, 30, 300))


def lines(ax):
    return {line.get_label().strip() + line.get_color(): line for line in ax.get_lines()}


def test_condition_numbers(table):
    ax = plots.condition_numbers(table)
    drawn = lines(ax)
    for name, label, colour in (
        ("cgpk", "CGPK (no skip connections)", "#0072B2"),
        ("rescgpk", "ResCGPK", "#D55E00"),
    ):
        line = drawn[label + colour]
        assert (line.get_xdata() == table.column("depth")).all()
        assert (line.get_ydata() == table.column(name)).all()
        assert (drawn["lower bound" + colour].get_ydata() == table.column(name + "_lower")).all()
        law = drawn["asymptotic law" + colour]
        assert (law.get_ydata() == table.column(name + "_asymptote")[2:]).all()
    assert len(ax.collections) == 2  # a band for each, where the upper bound exists
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    assert "20 signals, 6 channels × 8 pixels" in ax.get_title()
    assert len({line.get_marker() for line in ax.get_lines()} - {"None"}) == 2


def test_unresolved_condition_numbers_leave_a_gap():
    X = multisphere.sample(4, 3, 6, rng=0)[[0, 1, 2, 3, 0]]
    ax = plots.condition_numbers(conditioning.compare(X, (1, 3)))
    assert np.isnan(lines(ax)["ResCGPK#D55E00"].get_ydata()).all()
    ax.figure.savefig(io.BytesIO())


def test_condition_ratios(table):
    other = conditioning.compare(multisphere.sample(20, 6, 8, rng=0), (1, 10), alpha=0.5)
    ax = plots.condition_ratios([table, other])
    drawn = lines(ax)
    assert (drawn["α = 1: condition numbers#0072B2"].get_ydata() == table.column("ratio")).all()
    assert (drawn["limit 25#D55E00"].get_ydata() == 25).all()
    ax.figure.savefig(io.BytesIO())


LADDER = [2**k for k in range(3, 11)]


def test_limit_distances():
    reports = [
        depth.check(families.resnet(1.0), depths=LADDER),
        depth.check(families.resnet(1.0, readout=False), depths=LADDER),
        depth.check(families.huang_ffnet(), depths=LADDER),
        depth.check(families.resnet(0.5), depths=LADDER),
        depth.check(families.resnet(1.0).network, depths=LADDER),
    ]
    ax = plots.limit_distances(*reports)
    points = [line for line in ax.get_lines() if line.get_linestyle() == "None"]
    laws = [line for line in ax.get_lines() if line.get_linestyle() != "None"]
    assert len(points) == 5
    assert len({line.get_marker() for line in points}) == 5
    for line, report in zip(points, reports, strict=True):
        name = "spread" if report.prediction == "none" else "distance"
        assert (line.get_xdata() == LADDER).all()
        assert (line.get_ydata() == report.column(name)).all()
        assert report.verdict in line.get_label()
    assert "exponent 1.000 ± " in points[0].get_label()
    assert ax.get_ylabel() == (
        "distance from the predicted limit (rms over pairs) or "
        "spread of the pairs (standard deviation)"
    )
    labels = [line.get_label().strip() for line in laws]
    constant = f"{reports[0].predicted_constant:.4g}"
    assert labels == [
        f"predicted: {constant} $L^{{-1}}$",
        "predicted rate $L^{-1}$, through the last",
        r"predicted: 0.375 $\log L$ $L^{-1}$",
    ]
    assert (laws[0].get_ydata() == reports[0].column("predicted")).all()
    assert laws[1].get_ydata()[-1] == reports[1].column("distance")[-1]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    mine = plots.figure((4, 3)).subplots()
    assert plots.limit_distances(reports[0], ax=mine) is mine
    # A law that two share is one line.
    quarter = depth.check(families.cnn(1), depths=LADDER)
    assert len(plots.limit_distances(reports[2], quarter).get_lines()) == 3
    ax.figure.savefig(io.BytesIO())


def test_limit_profiles():
    curves = [depth.profile(f, (1, 30), n_points=9) for f in (families.cnn(), families.resnet(0.5))]
    picture = plots.limit_profiles(*curves)
    first, second = picture.axes
    assert [line.get_label() for line in first.get_lines()] == ["$L$ = 1", "$L$ = 30", "limit"]
    assert (first.get_lines()[1].get_ydata() == curves[0].values[1]).all()
    assert len(second.get_lines()) == 2  # no theorem for γ = ½
    styles = [line.get_linestyle() for line in first.get_lines()]
    assert len(set(styles)) == 3  # told apart in grey
    assert first.get_ylabel() and first.get_xlabel() and first.get_title()
    picture.savefig(io.BytesIO())


def test_given_axes_and_title_are_used(table):
    ax = plots.figure((4, 3)).subplots()
    assert plots.condition_numbers(table, ax, title="mine") is ax
    assert ax.get_title() == "mine"


def test_pyplot_is_left_alone():
    """A library must not choose a backend or leave figures open."""
    code = (
        "import sys; from rescntk import plots; from rescntk.theory import conditioning as c,"
        " multisphere as m; plots.condition_numbers(c.compare(m.sample(4, 3, 5, 0), (1, 2)));"
        " sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
