"""The polynomials P, R and D of ReLU's dual activation, read from coefficients.h.

tools/polynomials.py defines them, derives their coefficients and writes that file.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

_TEXT = (Path(__file__).parent / "coefficients.h").read_text("utf-8")
_NUMBERS = [float.fromhex(number) for number in re.findall(r"0x[\d.a-f]+p[+-]\d+", _TEXT)]

P64, R64, D64 = np.reshape(_NUMBERS[:24], (3, 8))[:, ::-1]
P32, R32, D32 = np.float32(np.reshape(_NUMBERS[24:], (3, 4))[:, ::-1])
"""Coefficients, the highest power of t = 1 − a first."""
