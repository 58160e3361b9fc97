"""Golden values: kernels of the first edition (commit c75eb0e0), on stored signals.

The first edition's script wrote the values, the signals, and √(K(x, x) K(z, z)).
"""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network, literature
from rescntk.validation import DTYPES, HEADS, PARTS
from tests import tolerances
from tests.helpers import rarely

FILE = Path(__file__).parent / "data" / "first_edition.npz"
HALF = {"readout_scale": 0.3, "input_scale": 2.0, "c_v": 1.5, "c_w": 0.7}

SOME = [*PARTS, ("inner", "outer")]
NETWORKS = [
    *(Network(depth, skip=skip) for depth in (1, 2, 5, 20, 50) for skip in (True, False)),
    *(Network(3, alpha=alpha) for alpha in (1e-6, 1e-3, 0.1, 0.5, 3.0, 30.0, 1e3)),
    *(Network(50, alpha=alpha) for alpha in (1e-6, 0.1, 1e3)),
    *(Network(3, size, skip=skip) for size in (1, 5, 9, 31) for skip in (True, False)),
    *(Network(3, 3, outer_filter_size=outer) for outer in (1, 5, 9)),
    *(Network(3, 3, input_filter_size=first, skip=first < 9) for first in (3, 9)),
    Network(3, 5, outer_filter_size=1, input_filter_size=31),
    *(Network(3, dilation=step, skip=step != 3) for step in (2, 3, (1, 2, 4), (4, 1, 1))),
    *(Network(3, bias=bias, skip=bias < 1) for bias in (0.01, 0.3, 2.0)),
    Network(20, bias=0.3, alpha=0.3, outer_filter_size=1),
    *(Network(3, negative_slope=slope, skip=slope != 0.3) for slope in (0.01, 0.3, 0.5)),
    Network(3, negative_slope=0.2, bias=0.5, dilation=2, input_filter_size=3),
    *(Network(3, trained=parts, skip=i % 2 == 0) for i, parts in enumerate(SOME)),
    Network(3, trained=PARTS, **HALF),
    Network(3, skip=False, **HALF),
    literature.barzilai_resnet(4, 5, 0.4),
    literature.barzilai_cnn(4, 5),
    literature.geifman_cnn(4),
    literature.one_convolution_resnet(4, 3, 0.4),
]
"""Networks of convolutions. With depth 50 and α = 1000 only normalized kernels are in range."""

VECTORS = [
    literature.tirer_resnet(6, 0.3, 1.2, 0.9),
    literature.tirer_mlp(6, 1.4),
    literature.huang_resnet(32),
    literature.huang_resnet(32, gamma=0.5),
    literature.huang_ffnet(32),
]
ERF = [
    *(Network(depth, skip=skip, activation="erf") for depth in (1, 3) for skip in (True, False)),
    Network(3, activation="erf", alpha=0.2, input_filter_size=3, dilation=2, **HALF),
    Network(10, activation="erf", alpha=0.3, trained=("input", "inner")),
]
ON_SIGNALS = [
    Network(4, 3, alpha=0.7),
    Network(4, 5, skip=False, input_filter_size=3),
    Network(3, 3, bias=0.2, negative_slope=0.1, outer_filter_size=1),
]


def grams(networks, *signals):
    """Return a function that yields names and Grams of all kinds and heads, plain and normalized.

    Of lists GAP alone; of networks that leave the range of numbers normalized ones alone.
    """

    def group(dtype, engine):
        for (i, network), name in product(enumerate(networks), signals):
            heads = HEADS if isinstance(SIGNALS[name], np.ndarray) else ("gap",)
            options = {"dtype": dtype, "engine": engine}
            for word in ("", " normalized")[network.alpha**network.depth >= 1e100 :]:
                every = (
                    rk.gram(network, SIGNALS[name], head=head, normalized=bool(word), **options)
                    for head in heads
                )
                yield f"{name} {i}{word}", np.stack([K for pair in every for K in pair])

    return group


ORDINARY = ("others", "waves", "walks", "zero mean", "zero pixels", "many channels", "long")
SPECIAL = ("proportional", "opposite", "near", "one time point", "sizes")
GROUPS = {
    "networks": grams(NETWORKS, "random"),
    "vectors": grams(VECTORS, "one time point"),
    "erf": grams(ERF, "random", "waves"),
    "signals": grams(ON_SIGNALS, *ORDINARY),
    "special signals": grams(ON_SIGNALS, *SPECIAL),
    "lists and images": grams(ON_SIGNALS, "unequal", "images"),
}


def load():
    """Return the stored signals by name, and (values, sizes) by (group, dtype, case)."""
    with np.load(FILE) as file:
        stored = dict(file)
    signals = {name[8:]: X for name, X in stored.items() if name.startswith("signals ")}
    signals["unequal"] = [signals.pop(f"unequal {i}") for i in range(3)]
    pairs = [np.split(stored[of], stored["ends"]) for of in ("values", "sizes")]
    cases = map(tuple, stored["cases"].tolist())
    return signals, dict(zip(cases, zip(*pairs, strict=True), strict=True))


SIGNALS, GOLDEN = load()
CASES = [(name, dtype, "auto") for name in GROUPS for dtype in DTYPES]
CASES += rarely(*((name, "float64", "reference") for name in GROUPS))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_values(case):
    """Cases of a group; erf on waves, whose kernels cancel, has a bar of its own."""
    group, dtype, engine = case
    names, wrong = [], {}
    for name, K in GROUPS[group](dtype, engine):
        golden, sizes = GOLDEN[group, dtype, name]
        values = np.ravel(K).astype(np.float64)
        assert values.shape == golden.shape
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(values == golden, 0.0, np.abs(values - golden) / sizes)
        bar = tolerances.FIRST_EDITION[dtype]
        if group == "erf" and name.startswith("waves"):
            bar = tolerances.FIRST_EDITION_CANCELLED
        if not apart.max() <= bar:
            wrong[name] = apart.max()
        names.append((group, dtype, name))
    assert not wrong and names == [case for case in GOLDEN if case[:2] == (group, dtype)]
