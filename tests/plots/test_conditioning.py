"""Pictures of condition numbers: what is drawn are the numbers."""

import io
import subprocess
import sys

import numpy as np
import pytest

from rescntk import plots
from rescntk.theory import (
    conditioning,
    multisphere,
)
from tests.drawings import lines

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def table():
    return conditioning.compare(multisphere.sample(20, 6, 8, rng=0), (1, 3, 10, 30, 300))


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
