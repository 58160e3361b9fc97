"""Random networks and signals against the definition in 128 bits."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import KINDS, PARTS
from tests import tolerances
from tests.helpers import ENGINES, nightly, rarely, supports
from tests.oracles import definition, quadruple

RELATIONS = "random", "parallel", "proportional", "opposite", "near", "walks"


def drawn(seed):
    """Return a network whose layers are alike, and two signals."""
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


def drawn_with_layers_of_their_own(seed):
    """Return a network whose layers differ in every number, normalized or not, and two signals."""
    rng = np.random.default_rng(seed)
    depth, channels, d = int(rng.integers(1, 7)), int(rng.choice([1, 2])), int(rng.integers(1, 8))
    # Half of the networks have ReLU, since compiled engines take no other activation.
    activation = ("relu", "erf", "gelu", "relu")[seed % 4]

    def each(draw):
        return tuple(draw() for _ in range(depth))

    network = Network(
        depth=depth,
        filter_size=each(lambda: int(rng.choice([1, 3, 5, 9]))),
        outer_filter_size=each(lambda: int(rng.choice([1, 3, 5]))),
        input_filter_size=int(rng.choice([1, 3])),
        dilation=each(lambda: int(rng.choice([1, 1, 2]))),
        skip=each(lambda: bool(rng.random() < 0.7)),
        alpha=each(lambda: 10 ** rng.uniform(-2, 1)),
        c_v=each(lambda: 10 ** rng.uniform(-0.5, 0.5)),
        c_w=each(lambda: 10 ** rng.uniform(-0.5, 0.5)),
        bias=each(lambda: 10 ** rng.uniform(-1, 0.5) if rng.random() < 0.5 else 0.0),
        norm=bool(rng.random() < 0.5),
        activation=activation,
        negative_slope=float(rng.choice([0, 0.3])) if activation == "relu" else 0.0,
        readout_scale=float(rng.choice([1, 0.25])),
        input_scale=[None, 0.7][rng.integers(2)],
        trained=tuple(part for part in PARTS if rng.random() < 0.6) or ("inner",),
    )
    x, z = rng.standard_normal((2, channels, d))
    z = [z, x * (1 + 10 ** rng.uniform(-14, -1) * z), -x, 1.7 * x][rng.integers(4)]
    return network, np.array([x, z])


LEFT_OUT = {"activation", "norm", "readout_scale", "input_scale"}
"""Fields of quadruple.c at their defaults where all layers are alike."""


@pytest.mark.parametrize(
    ("draw", "left_out"), [(drawn, LEFT_OUT), (drawn_with_layers_of_their_own, set())]
)
def test_all_other_fields_of_the_oracle_are_drawn(draw, left_out):
    networks = [draw(seed)[0] for seed in range(60)]
    values = {name: {getattr(net, name) for net in networks} for name in quadruple.KNOWN_FIELDS}
    assert {name for name, of in values.items() if len(of) == 1} == left_out


@pytest.mark.parametrize("seed", range(12))
def test_both_arithmetics_have_one_definition(seed):
    """The oracle of 128 bits has some 34 digits. Of the other's 40 digits κ0 may lose half."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    network, X = drawn_with_layers_of_their_own(seed)
    exact, half_of_the_digits = quadruple.Grams(network, X), 1e-17
    pairs, number = definition.pixel_pairs(X, network)[network.depth], definition.mp.mpf
    for (k, P), (h, head) in product(enumerate(pairs), enumerate(quadruple.HEADS)):
        (own, K), (_, other) = definition.head(P, head)
        found = number(exact.high[k, h, 0, 1]) + number(exact.low[k, h, 0, 1])
        size = definition.mp.sqrt(own) * definition.mp.sqrt(other)
        assert abs(found * size - K) <= half_of_the_digits * own


def assert_accurate_in_128_bits(engine, seed, draw=drawn):
    """Compare the kernels of a seed with the oracle, and return the heads that were compared."""
    network, X = draw(seed)
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
def test_kernels_of_random_networks_are_exact(engine, part):
    """`make test` draws 215 networks, and each night 400 more.

    The engine "array", which takes longest, computes a third of them.
    """
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    step = 3 if engine == "array" else 1
    seeds, compared = range(100 * part, 100 * part + (100 if part else 15), step), Counter()
    for seed in seeds:
        compared.update(assert_accurate_in_128_bits(engine, seed))
    # Each seed has two kinds in two precisions, normalized or not. Where the terms of GAP cancel,
    # its kernels are not compared.
    most = 8 * len(seeds)
    assert min(compared.values()) >= most / 2 and len(compared) == len(quadruple.HEADS)


@pytest.mark.parametrize("part", [0, *rarely(1), *nightly(2, 3, 4)])
@pytest.mark.parametrize("engine", ENGINES)
def test_kernels_of_random_networks_with_layers_of_their_own_are_exact(engine, part):
    """These networks have all activations and biases, and some are normalized.

    The engine "array" computes a third of them.
    """
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    step, draw = 3 if engine == "array" else 1, drawn_with_layers_of_their_own
    seeds = range(40 * part, 40 * part + 40, step)
    taken = [seed for seed in seeds if supports(engine, draw(seed)[0])]
    compared = sum(len(assert_accurate_in_128_bits(engine, seed, draw)) for seed in taken)
    # Each seed has three heads, of which GAP is not compared where its terms cancel, with two kinds
    # in two precisions, normalized or not.
    assert len(taken) >= len(seeds) / 3 and compared >= 8 * 2 * len(taken)
