"""The polynomials P, R and D of ReLU's dual activation, read from coefficients.h.

tools/polynomials.py defines these polynomials, computes their coefficients and writes that file.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

_TEXT = (Path(__file__).parent / "coefficients.h").read_text("utf-8")
_NUMBERS = [float.fromhex(number) for number in re.findall(r"0x[\d.a-f]+p[+-]\d+", _TEXT)]
_COUNTS = [int(count) for count in re.findall(r"\[(\d+)\][,;]", _TEXT)]
_DTYPES = np.repeat([np.float64, np.float32], 3)

P64, R64, D64, P32, R32, D32 = (
    np.array(numbers[::-1], dtype)
    for numbers, dtype in zip(np.split(_NUMBERS, np.cumsum(_COUNTS)[:-1]), _DTYPES, strict=True)
)
"""The coefficients of the polynomials in t = 1 − a, the highest power first."""
