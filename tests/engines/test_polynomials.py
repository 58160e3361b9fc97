"""The polynomials p(a) and r(a): derived by their script, and as accurate as it says."""

import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

from rescntk.engines import polynomials
from tests import tolerances

TOOLS = Path(__file__).parents[2] / "tools"


def test_polynomials_are_what_the_script_derives():
    check = [sys.executable, TOOLS / "polynomials.py", "--check"]
    subprocess.run(check, check=True)


@pytest.mark.parametrize("bits", [64, 32])
def test_polynomials_are_the_functions(bits):
    """Against the closed forms, in the arithmetic in which they are used."""
    mp = mpmath.mp.clone()
    mp.dps = 120  # of which r loses up to 30
    a = np.concatenate([np.linspace(0, 1, 2001)[1:], np.geomspace(1e-30, 1, 301)])
    a = a.astype(f"float{bits}")
    exact = [mp.mpf(float(v)) for v in a]
    p = [mp.acos(1 - v) / (mp.pi * mp.sqrt(v)) for v in exact]
    r = [
        (mp.sqrt(v * (2 - v)) - (1 - v) * mp.acos(1 - v)) / (mp.pi * v ** mp.mpf("1.5"))
        for v in exact
    ]
    for name, function in (("P", p), ("R", r)):
        c = getattr(polynomials, f"{name}{bits}")
        computed = polynomials.polynomial(a, c, len(c) - 1)
        assert computed.dtype == a.dtype
        error = max(abs(float(c) / f - 1) for c, f in zip(computed, function, strict=True))
        # A quarter of a unit from truncation, a half each from the coefficients, the last
        # product and the last sum.
        assert error <= 1.75 * tolerances.EPS[f"float{bits}"]
