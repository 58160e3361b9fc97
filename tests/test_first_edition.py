"""Golden values: kernels and theory of the first edition (commit c75eb0e0), on stored signals.

A group is a generator of cases: a name, an array, and the sizes that its errors are relative to.
The first edition's script wrote the values, the sizes and the signals.
"""

from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network, literature
from rescntk.derivative import alpha_derivative
from rescntk.theory import locality, spectrum
from rescntk.theory.limits import Family
from rescntk.validation import DTYPES, HEADS, KINDS, PARTS
from tests import tolerances
from tests.engine_names import rarely

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


def sizes(K):
    """Return √(K(x, x) K(z, z)), which errors of kernels are relative to."""
    diagonal = np.sqrt(np.diagonal(K, axis1=-2, axis2=-1).astype(np.float64))
    return diagonal[..., :, None] * diagonal[..., None, :]


def square(name, *matrices):
    K = np.stack(matrices)
    return name, K, sizes(K)


def grams(name, network, X, dtype, engine, heads=HEADS):
    options = {"engine": engine, "dtype": dtype}
    for normalized in (False, True):
        if normalized or network.alpha**network.depth < 1e100:
            every = [rk.gram(network, X, head=h, normalized=normalized, **options) for h in heads]
            word = " normalized" if normalized else ""
            yield square(f"{name}{word}", *(K for pair in every for K in pair))


def over(networks, *signals):
    def group(S, dtype, engine="auto"):
        for i, network in enumerate(networks):
            for name in signals:
                heads = HEADS if isinstance(S[name], np.ndarray) else ("gap",)
                yield from grams(f"{name} {i}", network, S[name], dtype, engine, heads)

    return group


ORDINARY = ("others", "waves", "walks", "zero mean", "zero pixels", "many channels", "long")
SPECIAL = ("proportional", "opposite", "near", "one time point", "sizes")
KERNELS = {
    "networks": over(NETWORKS, "random"),
    "vectors": over(VECTORS, "one time point"),
    "erf": over(ERF, "random", "waves"),
    "signals": over(ON_SIGNALS, *ORDINARY),
    "special signals": over(ON_SIGNALS, *SPECIAL),
    "lists and images": over(ON_SIGNALS, "unequal", "images"),
}


RESNET, CNN = Network(3, alpha=0.8), Network(3, skip=False)
SPECTRA = (RESNET, CNN, Network(3, negative_slope=0.3), Network(2, 5, dilation=2, **HALF))
FIELDS = (RESNET, CNN, Network(9, 5, alpha=0.2, dilation=3))
FAMILIES = {
    "cnn": (CNN,),
    "resnet": (RESNET,),
    "shrinking": (RESNET, 1.0),
    "frozen": (Network(1, trained=("inner", "outer")), 1.0),
    "half": (RESNET, 0.5),
}
PAIRS = [(kind, head) for kind in KINDS for head in HEADS]
THEORY = {
    "spectrum": {
        f"{i} {pair}": lambda S, net=net, pair=pair: spectrum.eigenvalues(net, 3, 3, 2, *pair)
        for i, net in enumerate(SPECTRA)
        for pair in PAIRS
    },
    "locality": {
        f"{i} {kind}": lambda S, of=(net, 32, kind): locality.effective_receptive_field(*of)
        for i, net in enumerate(FIELDS)
        for kind in KINDS
    },
    "limits": {
        f"{name} {kind} {head}": lambda S, family=family, kind=kind, head=head: (
            Family(*family).predict(kind, S["sphere"], head).complements(4)
        )
        for name, family in FAMILIES.items()
        for kind, head in PAIRS
    },
}


def theory(cases):
    """Return a group of functions of the signals; errors are relative to the largest entry."""

    def group(S):
        for name, compute in cases.items():
            values = np.asarray(compute(S), dtype=np.float64)
            yield name, values, np.abs(values[np.isfinite(values)]).max()

    return group


def derivatives(S):
    """Yield derivatives by log α; errors are relative to the kernels' sizes."""
    for alpha in (0.01, 0.5, 20.0):
        for make in (rk.ResCGPK, rk.ResCNTK):
            K, derived = alpha_derivative(make(3, alpha=alpha), S["others"])
            yield f"{make.__name__} {alpha}", alpha * derived, sizes(K)


GROUPS = {
    **{(name, dtype): (group, dtype) for name, group in KERNELS.items() for dtype in DTYPES},
    **{(name, "theory"): (theory(cases),) for name, cases in THEORY.items()},
    ("derivatives", "theory"): (derivatives,),
}
"""Groups by name and tolerance, each with its arguments between the signals and the engine."""


def load():
    """Return the stored signals by name, and (values, sizes) by (group, tolerance, case)."""
    with np.load(FILE) as file:
        stored = dict(file)
    signals = {name[8:]: X for name, X in stored.items() if name.startswith("signals ")}
    signals["unequal"] = [signals.pop(f"unequal {i}") for i in range(3)]
    pairs = [np.split(stored[of], stored["ends"]) for of in ("values", "sizes")]
    cases = map(tuple, stored["cases"].tolist())
    return signals, dict(zip(cases, zip(*pairs, strict=True), strict=True))


SIGNALS, GOLDEN = load()
CASES = [(key, ()) for key in GROUPS]
CASES += rarely(*((key, ("reference",)) for key in GROUPS if key[1] == "float64"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_values(case):
    """Cases of a group; erf on waves, whose kernels cancel, has a bar of its own."""
    key, engine = case
    group, *dtype = GROUPS[key]
    bar = tolerances.FIRST_EDITION[key[1]]
    if key[0] == "derivatives":
        bar = tolerances.derivative("float64")
    names, wrong = [], {}
    for name, values, _ in group(SIGNALS, *dtype, *engine):
        golden, sizes = GOLDEN[(*key, name)]
        values = np.ravel(values).astype(np.float64)
        assert values.shape == golden.shape
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(values == golden, 0.0, np.abs(values - golden) / sizes)
        cancelled = key[0] == "erf" and name.startswith("waves")
        if not apart.max() <= (tolerances.FIRST_EDITION_CANCELLED if cancelled else bar):
            wrong[name] = apart.max()
        names.append((*key, name))
    assert not wrong and names == [case for case in GOLDEN if case[:2] == key]
