"""The polynomials p(a) and r(a) of the compiled engines.

tools/polynomials.py defines the polynomials, derives their coefficients, constant first, and writes
them behind the function.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def polynomial(a: Any, c: Any, degree: int) -> Any:
    """Return the sum of c[k] a^k; rescntk/engines/cpu/layers.py compiles it for vectors."""
    b = a * a
    first, second = c[degree] * b + c[degree - 2], c[degree - 1] * b + c[degree - 3]
    for k in range(degree - 4, -1, -2):
        first = first * b + c[k]
    for k in range(degree - 5, -1, -2):
        second = second * b + c[k]
    return second * a + first if degree % 2 == 0 else first * a + second


# Degree 18; truncated by 2e-17, relatively.
P64 = tuple(map(np.float64, (
    0.45015815807855303, 0.03751317983987564, 0.00844046546442507, 0.0025120432714529307,
    0.0008547930425932389, 0.00031471098117365757, 0.00012213551482788204, 4.8544795153372625e-05,
    2.3195458675430442e-05, -2.2873114960199797e-06, 3.460419989822555e-05, -6.525326994907856e-05,
    0.00011080327258598078, -0.00013687625959514212, 0.00012754304139369471, -8.557648187341667e-05,
    3.955053770370357e-05, -1.1261280138402475e-05, 1.527104740182858e-06,
)))  # fmt: skip

# Degree 16; truncated by 5e-17, relatively.
R64 = tuple(map(np.float64, (
    0.3001054387190354, 0.015005271935946796, 0.002411561561610428, 0.0005582318249220994,
    0.00015541717475577531, 4.841407302919641e-05, 1.6307253182092548e-05, 5.597039148010689e-06,
    2.840347225937841e-06, -1.1711648904343405e-06, 4.471610999228698e-06, -6.260420548328054e-06,
    7.229972599882493e-06, -5.7194460595988465e-06, 3.122797236559908e-06, -1.0320320210270318e-06,
    1.649376186704804e-07,
)))  # fmt: skip

# Degree 7; truncated by 2e-08, relatively.
P32 = tuple(map(np.float32, (
    0.45015814900398254, 0.03751382976770401, 0.0084270890802145, 0.0026154667139053345,
    0.0004707357147708535, 0.001062651164829731, -0.000633641320746392, 0.00038570811739191413,
)))  # fmt: skip

# Degree 6; truncated by 2e-08, relatively.
R32 = tuple(map(np.float32, (
    0.3001054525375366, 0.015004935674369335, 0.002416837029159069, 0.0005278484313748777,
    0.00023626931942999363, -5.608631545328535e-05, 7.463455403922126e-05,
)))  # fmt: skip
