"""The polynomials p(a) and r(a) of ReLU's dual activation, read from coefficients.h.

tools/polynomials.py defines them, derives their coefficients and writes that file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

_TEXT = (Path(__file__).parent / "coefficients.h").read_text("utf-8")

P64, R64, P32, R32 = (
    tuple(dtype(float.fromhex(number.strip().rstrip("f"))) for number in numbers.split(","))
    for dtype, numbers in zip(
        (np.float64, np.float64, np.float32, np.float32),
        re.findall(r"return {{(.*?)}};", _TEXT, re.DOTALL),
        strict=True,
    )
)
"""Coefficients, constant first."""


def polynomial(a: Any, c: Any, degree: int) -> Any:
    """Return the sum of c[k] a^k, in two chains: of even and of odd powers."""
    b = a * a
    first, second = c[degree] * b + c[degree - 2], c[degree - 1] * b + c[degree - 3]
    for k in range(degree - 4, -1, -2):
        first = first * b + c[k]
    for k in range(degree - 5, -1, -2):
        second = second * b + c[k]
    return second * a + first if degree % 2 == 0 else first * a + second
