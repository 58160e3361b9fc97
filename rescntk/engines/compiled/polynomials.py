"""The polynomials P, R and D of ReLU's dual activation, read from coefficients.h.

tools/polynomials.py defines them, derives their coefficients and writes that file.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

_TEXT = (Path(__file__).parent / "coefficients.h").read_text("utf-8")
_NUMBERS = [float.fromhex(number) for number in re.findall(r"0x[\d.a-f]+p[+-]\d+", _TEXT)]

P64, R64, D64 = (np.array(_NUMBERS[k : k + 8][::-1]) for k in (0, 8, 16))
P32, R32, D32 = (np.array(_NUMBERS[k : k + 4][::-1], np.float32) for k in (24, 28, 32))
"""Coefficients, the highest power of t = 1 − a first."""
