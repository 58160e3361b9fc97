"""Pictures of condition numbers: what is drawn are the numbers."""

import io
import subprocess
import sys

import numpy as np
import pytest

from rescntk import plots
from rescntk.theory import conditioning, multisphere
from tests.drawings import lines

pytest.importorskip("matplotlib")


def test_condition_numbers():
    table = conditioning.compare(multisphere.sample(20, 6, 8, rng=0), (1, 3, 10, 30, 300))
    ax = plots.figure((4, 3)).subplots()
    assert plots.condition_numbers(table, ax) is ax
    drawn = lines(ax)
    for name, label, colour in (
        ("cgpk", "CGPK (no skip connections)", "#0072B2"),
        ("rescgpk", "ResCGPK", "#D55E00"),
    ):
        line = drawn[label + colour]
        assert (line.get_xdata() == table.column("depth")).all()
        assert (line.get_ydata() == table.column(name)).all()
        assert (drawn["lower bound" + colour].get_ydata() == table.column(name + "_lower")).all()
        improved = drawn["improved upper bound" + colour].get_ydata()
        expected = table.column(name + "_improved")
        assert (improved[np.isfinite(expected)] == expected[np.isfinite(expected)]).all()
        assert np.isnan(improved[~np.isfinite(expected)]).all()
        law = drawn["asymptotic law" + colour]
        assert (law.get_ydata() == table.column(name + "_asymptote")[2:]).all()
    assert len(ax.collections) == 2  # a band for each, where the upper bound exists
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    assert "20 signals, 6 channels × 8 pixels" in ax.get_title()
    assert len({line.get_marker() for line in ax.get_lines()} - {"None"}) == 2


@pytest.mark.parametrize("signals", [[0, 1, 2, 3, 0], [0, 0, 0]])
def test_infinite_condition_numbers_leave_a_gap(signals):
    """Signals that are there twice; and of equal signals alone, of which nothing is finite."""
    X = multisphere.sample(4, 3, 6, rng=0)[signals]
    ax = plots.condition_numbers(conditioning.compare(X, (1, 3)), title="mine")
    assert np.isnan(lines(ax)["ResCGPK#D55E00"].get_ydata()).all()
    assert (lines(ax)["infinite: singular up to rounding#D55E00"].get_ydata() == 0.95).all()
    assert ax.get_title() == "mine"
    ax.figure.savefig(io.BytesIO())


def test_pyplot_is_left_alone():
    """A library must not choose a backend or leave figures open."""
    code = (
        "import sys; from rescntk import plots; from rescntk.theory import conditioning as c,"
        " multisphere as m; plots.condition_numbers(c.compare(m.sample(4, 3, 5, 0), (1, 2)));"
        " sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
