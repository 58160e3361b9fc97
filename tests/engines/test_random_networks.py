"""Random networks and signals against the definition in 128 bits."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network
from rescntk.validation import KINDS, PARTS
from tests import tolerances
from tests.helpers import ENGINES, nightly, rarely
from tests.oracles import quadruple

RELATIONS = "random", "parallel", "proportional", "opposite", "near", "walks"


def drawn(seed):
    """Return a network and two signals."""
    rng = np.random.default_rng(seed)
    skip, channels, d = bool(rng.random() < 0.7), int(rng.choice([1, 1, 2, 3])), rng.integers(1, 10)
    some = [part for part in PARTS if rng.random() < 0.6]
    depth = int(rng.choice([1, 2, 3, 5, 10, 20, 50]))
    network = Network(
        depth=depth,
        filter_size=int(rng.choice([1, 3, 5, 9, 15, 31 if depth < 20 else 15])),
        outer_filter_size=int(rng.choice([1, 3, 5, 9])),
        input_filter_size=int(rng.choice([1, 1, 3])),
        skip=skip,
        alpha=10 ** rng.uniform(-3, 2) if skip else 1.0,
        c_v=float(rng.choice([2, 2, 0.7])),
        c_w=float(rng.choice([1, 1, 1.9])),
        bias=10 ** rng.uniform(-2, 1) if rng.random() < 0.3 else 0.0,
        negative_slope=float(rng.choice([0, 0, 0.01, 0.3])),
        dilation=int(rng.choice([1, 1, 2, 4])),
        trained=tuple(some or ["inner"]),
    )

    def noise(low, high, *shape):
        return 10 ** rng.uniform(low, high) * rng.standard_normal((channels, *shape))

    def amplitudes():
        return 10 ** rng.uniform(-2, 2, d)

    x = noise(0, 0, d) * amplitudes()
    relation = RELATIONS[seed % len(RELATIONS)]
    if relation == "walks":
        return network, np.cumsum(rng.standard_normal((2, channels, d)), axis=-1)
    z = {
        "random": noise(0, 0, d),
        "parallel": x * amplitudes() * (1 + noise(-14, -1, d)),
        "proportional": 3.7 * x,
        "opposite": -x * amplitudes(),
        "near": x * (1 + noise(-16, -3, d)),
    }[relation]
    return network, np.array([x, z])


LEFT_OUT = {"activation", "norm", "readout_scale", "input_scale"}
"""Fields of quadruple.c at their defaults: tests/engines/test_layers.py and others change them."""


def test_all_other_fields_of_the_oracle_are_drawn():
    networks = [drawn(seed)[0] for seed in range(60)]
    values = {name: {getattr(net, name) for net in networks} for name in quadruple.KNOWN_FIELDS}
    assert {name for name, of in values.items() if len(of) == 1} == LEFT_OUT


def assert_accurate_in_128_bits(engine, seed):
    """Return the heads of the kernels that were compared."""
    network, X = drawn(seed)
    exact, compared = quadruple.Grams(network, X), []
    cases = product(tolerances.KERNEL.items(), quadruple.HEADS, (False, True))
    for (dtype, bar), head, normalized in cases:
        options = {"head": head, "dtype": dtype, "normalized": normalized, "engine": engine}
        try:
            grams = rk.gram(network, X, **options)
        except OverflowError:
            assert not normalized
            continue
        for kind, K in zip(KINDS, grams, strict=True):
            if exact.resolves(kind, head):
                error = exact.error(K, kind, head, normalized)
                assert error <= bar, (seed, network, options, kind, error)
                compared.append(head)
    return compared


@pytest.mark.parametrize("part", [0, *rarely(1, 2), *nightly(3, 4, 5, 6)])
@pytest.mark.parametrize("engine", ENGINES)
def test_random_networks(engine, part):
    """215 of them, and 400 each night; for "reference", which takes longest, a third."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    step = 3 if engine == "reference" else 1
    seeds, compared = range(100 * part, 100 * part + (100 if part else 15), step), Counter()
    for seed in seeds:
        compared.update(assert_accurate_in_128_bits(engine, seed))
    # Of each seed two kinds in two precisions, normalized or not; terms of GAP may cancel.
    most = 8 * len(seeds)
    assert min(compared.values()) >= most / 2 and len(compared) == len(quadruple.HEADS)
