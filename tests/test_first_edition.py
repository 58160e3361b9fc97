"""Golden values: kernels of the first edition (commit c75eb0e0), on stored signals.

The first edition's script wrote the values, the signals, and √(K(x, x) K(z, z)). A case is a
network, signals, a dtype, and whether kernels are normalized. It has values of all heads and kinds.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES, HEADS
from tests import tolerances
from tests.helpers import rarely

with np.load(Path(__file__).parent / "data/first_edition.npz") as file:
    STORED = dict(file)
SIGNALS = {name[8:]: X for name, X in STORED.items() if name.startswith("signals ")}
SIGNALS["unequal"] = [SIGNALS[f"unequal {i}"] for i in range(3)]
CASES = [json.loads(case) for case in STORED["cases"]]
VALUES, SIZES = (np.split(STORED[name], STORED["ends"]) for name in ("values", "sizes"))
GROUPS = dict.fromkeys(case["group"] for case in CASES)


@pytest.mark.parametrize("engine", ["auto", *rarely("array")])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", GROUPS)
def test_golden_values(group, dtype, engine):
    """erf on waves, whose kernels cancel, has a bar of its own."""
    for case, values, sizes in zip(CASES, VALUES, SIZES, strict=True):
        if (case["group"], case["dtype"]) != (group, dtype):
            continue
        network, X = rk.Network(**case["network"]), SIGNALS[case["signals"]]
        options = {"normalized": case["normalized"], "dtype": dtype, "engine": engine}
        heads = HEADS if isinstance(X, np.ndarray) else ("gap",)
        kernels = np.array([rk.gram(network, X, head=head, **options) for head in heads])
        apart = np.abs(kernels.astype(np.float64).ravel() - values)
        bar = tolerances.FIRST_EDITION[dtype]
        if network.activation == "erf" and case["signals"] == "waves":
            bar = tolerances.FIRST_EDITION_CANCELLED
        assert (apart <= bar * sizes).all(), case
