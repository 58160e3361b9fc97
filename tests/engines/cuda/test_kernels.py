"""The kernels' text: the coefficients of the polynomials, and what CuPy compiles."""

import pytest

from rescntk.engines import polynomials
from rescntk.engines.cuda import kernels

pytestmark = pytest.mark.slow


def test_coefficients_are_in_the_source():
    text = kernels.source()
    for name in ("P64", "R64", "P32", "R32"):
        numbers = getattr(polynomials, name)
        line = next(
            line for line in text.splitlines() if line.startswith("__constant__") and name in line
        )
        found = [
            float.fromhex(word.rstrip("f")) for word in line.split("{")[1].rstrip("};").split(", ")
        ]
        assert found == [float(number) for number in numbers]
