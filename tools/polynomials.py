"""Derive the polynomials of the compiled engines; write rescntk/engines/compiled/coefficients.h.

With a = min(1 − ρ, 1 + ρ) in [0, 1] the arc-cosine kernels need two functions:

    p(a) = arccos(1 − a) / (π √a),     r(a) = (√(a(2 − a)) − (1 − a) arccos(1 − a)) / (π a^(3/2)),

which formulas.h calls psi0 and psi1. Both functions are analytic but for a ≥ 2. There they have the
same branch point, so quotients with one denominator, P(t)/D(t) and R(t)/D(t), are near them, where
t = 1 − a.

- Quotients equal the functions at the zeros of Chebyshev polynomials of [0, 1], in 60 digits. The
  zeros of P, R and D lie at a > 2, so that all coefficients of powers of t are positive.
- P, R and D are multiplied by the number that makes the error of rounded coefficients least.
- The degree is the least with an error under a quarter of a rounding unit before coefficients are
  rounded.

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
TARGET = Path(__file__).parent.parent / "rescntk" / "engines" / "compiled" / "coefficients.h"
SCALES = 128
"""Numbers from 1 to 2 that P, R and D are multiplied by."""


def p(a: mpmath.mpf) -> mpmath.mpf:
    """Return p(a), at 0 its limit √2/π."""
    return mp.acos(1 - a) / (mp.pi * mp.sqrt(a)) if a else mp.sqrt(2) / mp.pi


def r(a: mpmath.mpf) -> mpmath.mpf:
    """Return r(a), at 0 its limit (2/3) √2/π."""
    if not a:
        return 2 * mp.sqrt(2) / (3 * mp.pi)
    return (mp.sqrt(a * (2 - a)) - (1 - a) * mp.acos(1 - a)) / (mp.pi * a ** mp.mpf("1.5"))


def horner(coefficients: list[mpmath.mpf], t: mpmath.mpf) -> mpmath.mpf:
    """Return a polynomial at t, of its coefficients, constant first."""
    value = mp.mpf(0)
    for coefficient in reversed(coefficients):
        value = value * t + coefficient
    return value


def interpolate(degree: int, of_p: int) -> list[list[mpmath.mpf]]:
    """Return P, R and D, constant first: equal p at `of_p` points and r at the rest."""
    rows, values, zero = [], [], [mp.mpf(0)] * (degree + 1)
    for function, n in ((p, of_p), (r, 3 * degree + 2 - of_p)):
        for k in range(n):
            a = (1 + mp.cos(mp.pi * (2 * k + 1) / (2 * n))) / 2
            powers, value = [(1 - a) ** j for j in range(degree + 1)], function(a)
            numerator = powers + zero if function is p else zero + powers
            rows.append(numerator + [-value * x for x in powers[1:]])
            values.append(value)
    solution = [*mp.lu_solve(mp.matrix(rows), mp.matrix(values))]
    n = degree + 1
    return [solution[:n], solution[n : 2 * n], [mp.mpf(1), *solution[2 * n :]]]


GRID = [mp.mpf(k) / 100 for k in range(101)]
VALUES = [[function(1 - t) for t in GRID] for function in (p, r)]


def error(polynomials: list[list[mpmath.mpf]]) -> float:
    """Return the largest relative error of both quotients on a grid."""
    worst = 0.0
    for t, of_p, of_r in zip(GRID, *VALUES, strict=True):
        P, R, D = (horner(c, t) for c in polynomials)
        worst = max(worst, abs(P / (D * of_p) - 1), abs(R / (D * of_r) - 1))
    return float(worst)


def derive(dtype: type) -> tuple[list[list[float]], float, float]:
    """Return rounded P, R and D of the least degree, and the error before and after rounding."""
    for degree in range(2, 12):
        choices = [interpolate(degree, (3 * degree + 2 + k) // 2) for k in (0, 1)]
        before, exact = min((error(c), c) for c in choices)
        if before > float(np.finfo(dtype).eps) / 4:
            continue
        rounded = [
            [[float(dtype(mp.nstr(x * (1 + mp.mpf(k) / SCALES), 40))) for x in c] for c in exact]
            for k in range(SCALES)
        ]
        after, best = min((error(c), c) for c in rounded)
        return best, before, after
    raise ArithmeticError("no degree suffices")


def source() -> str:
    """Return the text of the file."""
    lines = [
        "// ReLU's dual activation (formulas.h): psi0 = P(t)/D(t), psi1 = R(t)/D(t), t = 1 - a.",
        "// The coefficients of t^0 come first. Written by tools/polynomials.py.",
        "#pragma once",
        "template <class R> struct Quotients;",
    ]
    for dtype, real, suffix in ((np.float64, "double", ""), (np.float32, "float", "f")):
        polynomials, before, after = derive(dtype)
        n = len(polynomials[0])
        lines += [
            f"// Relative errors: {before:.1g}, and {after:.1g} with rounded coefficients.",
            f"template <> struct Quotients<{real}> {{",
            f"    {real} p[{n}], r[{n}], d[{n}];",
            "    DEVICE static constexpr Quotients numbers()",
            "    {",
        ]
        for k, c in enumerate(polynomials):
            numbers = [x.hex() + suffix for x in c]
            rows = [", ".join(numbers[first : first + 2]) for first in range(0, n, 2)]
            begin, end = ("return {{" if k == 0 else "        {"), ("}};" if k == 2 else "},")
            lines.append(f"        {begin}" + (",\n" + " " * 17).join(rows) + end)
        lines += ["    }", "};"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = source()
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == text
        sys.exit(0 if same else f"{TARGET.name} is not what this script derives")
    TARGET.write_text(text)
