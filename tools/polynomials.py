"""Derive the polynomials of the compiled engines; write rescntk/engines/coefficients.h.

With a = min(1 − ρ, 1 + ρ) in [0, 1] the arc-cosine kernels need two functions:

    p(a) = arccos(1 − a) / (π √a),     r(a) = (√(a(2 − a)) − (1 − a) arccos(1 − a)) / (π a^(3/2)).

Both functions are analytic up to a = 2.

- They are interpolated at the zeros of a Chebyshev polynomial of [0, 1], in 60 digits.
- The interpolants are rewritten in powers of a, and rounded once. The coefficients fall off like
  2^-n, so that nothing cancels.
- The degrees are the least whose truncation error is under a quarter of a rounding unit.

    python tools/polynomials.py            # write the file
    python tools/polynomials.py --check    # only say whether the file is up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

import mpmath
import numpy as np

mp = mpmath.mp.clone()
mp.dps = 60
TARGET = Path(__file__).parent.parent / "rescntk" / "engines" / "coefficients.h"


def p(a: mpmath.mpf) -> mpmath.mpf:
    """Return p(a), at 0 its limit √2/π."""
    return mp.acos(1 - a) / (mp.pi * mp.sqrt(a)) if a else mp.sqrt(2) / mp.pi


def r(a: mpmath.mpf) -> mpmath.mpf:
    """Return r(a), at 0 its limit (2/3) √2/π."""
    if not a:
        return 2 * mp.sqrt(2) / (3 * mp.pi)
    return (mp.sqrt(a * (2 - a)) - (1 - a) * mp.acos(1 - a)) / (mp.pi * a ** mp.mpf("1.5"))


def interpolate(function, degree: int) -> list[mpmath.mpf]:
    """Return coefficients, constant first, of the interpolant at Chebyshev's points of [0, 1]."""
    n = degree + 1
    nodes = [(1 + mp.cos(mp.pi * (2 * k + 1) / (2 * n))) / 2 for k in range(n)]
    # Newton's form, then powers.
    divided = [function(x) for x in nodes]
    for order in range(1, n):
        for k in range(n - 1, order - 1, -1):
            divided[k] = (divided[k] - divided[k - 1]) / (nodes[k] - nodes[k - order])
    powers = [mp.mpf(0)] * n
    for k in range(n - 1, -1, -1):
        shifted = [mp.mpf(0), *powers[:-1]]
        powers = [s - nodes[k] * p for s, p in zip(shifted, powers, strict=True)]
        powers[0] += divided[k]
    return powers


def truncation_error(function, powers: list[mpmath.mpf]) -> float:
    """Return the largest relative error of the unrounded polynomial on a fine grid."""
    grid = [mp.mpf(k) / 400 for k in range(401)]
    return float(max(abs(mp.polyval(powers[::-1], a) / function(a) - 1) for a in grid))


def derive(function, dtype: type) -> tuple[list[float], float]:
    """Return rounded coefficients of the least sufficient degree, and the truncation error."""
    for degree in range(3, 30):
        powers = interpolate(function, degree)
        error = truncation_error(function, powers)
        if error <= float(np.finfo(dtype).eps) / 4:
            return [float(dtype(str(c))) for c in map(mp.nstr, powers, [40] * 40)], error
    raise ArithmeticError("no degree suffices")


def source() -> str:
    """Return the text of the file."""
    lines = [
        "// Coefficients of the polynomials of ReLU's dual activation, constant first. Written by "
        "tools/polynomials.py.",
        "#pragma once",
        "template <class R> struct Poly;",
    ]
    for dtype, real, suffix in ((np.float64, "double", ""), (np.float32, "float", "f")):
        lines.append(f"template <> struct Poly<{real}> {{")
        for name, function in (("p", p), ("r", r)):
            coefficients, error = derive(function, dtype)
            degree = len(coefficients) - 1
            numbers = [c.hex() + suffix for c in coefficients]
            rows = [", ".join(numbers[first : first + 4]) for first in range(0, degree + 1, 4)]
            lines += [
                f"    // Degree {degree}; truncated by {error:.1g}, relatively.",
                f"    struct {name.upper()} {{ {real} c[{degree + 1}]; }};",
                f"    HERE static constexpr {name.upper()} {name}()",
                "    {",
                "        return {{" + ",\n                 ".join(rows) + "}};",
                "    }",
            ]
        lines.append("};")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = source()
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == text
        sys.exit(0 if same else f"{TARGET.name} is not what this script derives")
    TARGET.write_text(text)
