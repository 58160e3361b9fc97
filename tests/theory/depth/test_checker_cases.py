"""Verdicts of the depth checker on varied signals, channels, heads, kinds, networks and laws."""

import dataclasses
from collections import Counter
from unittest import mock

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import HEADS, PARTS
from rescntk.theory import depth, multisphere
from rescntk.theory.depth import Family, checker
from tests.families import powers
from tests.helpers import nightly

pytestmark = pytest.mark.slow

LADDER = powers(10)

SIGNALS = {
    "Gaussian": lambda g, rng: g,
    "one channel": lambda g, rng: g[:, :1],
    "opposites": lambda g, rng: with_second(g, -g[0] * rng.uniform(0.5, 2.0)),
    "near opposites": lambda g, rng: with_second(g, -g[0] * near_one(g[0].shape, rng)),
    "near copies": lambda g, rng: with_second(g, g[0] * near_one(g[0].shape, rng)),
    "half equal": lambda g, rng: with_second(g, np.where(np.arange(g.shape[2]) < 2, g[0], g[1])),
    "mean 0": lambda g, rng: centred(g),
    "sign flips of mean 0": lambda g, rng: with_second(centred(g), -centred(g)[0]),
    "mean near 0": lambda g, rng: g - rng.uniform(0.9, 1.0) * g.mean(axis=2, keepdims=True),
    "spikes": lambda g, rng: g * (rng.random(g[:, :1].shape) < 0.4) + np.eye(g.shape[2])[0],
    "padded with 0": lambda g, rng: g * (np.arange(g.shape[2]) < 3),
    "one padded with 0": lambda g, rng: with_second(g, g[1] * (np.arange(g.shape[2]) < 3)),
    "uneven pixels": lambda g, rng: g * np.exp(2 * rng.standard_normal(g[:, :1].shape)),
    "uneven sizes": lambda g, rng: g * 10.0 ** rng.integers(-6, 6, (len(g), 1, 1)),
    "random walks": lambda g, rng: np.cumsum(g[:, :1], axis=2),
    "positive": lambda g, rng: np.abs(g[:, :1]),
    "common offset": lambda g, rng: g + 3 * rng.standard_normal((1, g.shape[1], 1)),
    "signs": lambda g, rng: np.sign(g[:, :1]),
    "multi-sphere": lambda g, rng: multisphere.project(g),
    "opposites on the multi-sphere": lambda g, rng: multisphere.project(with_second(g, -g[0])),
}
TRAINED = (PARTS[1:], PARTS[1:3], ("inner",), ("outer",), PARTS, ("inner", "readout"), ("input",))
FILTERS = (3, None), (3, None), (1, None), (1, 3), (3, 1), (5, 3)
ACTIVATIONS = ({},) * 3 + ({"negative_slope": 0.2}, {"activation": "erf"})
GAMMAS = (1.0, 1.0, 1.0, 0.5, 0.75, 1.25, 1.5, 0.6, 0.0)


def near_one(shape, rng):
    return 1 + 10 ** rng.uniform(-4, -1) * rng.standard_normal(shape)


def centred(signals):
    return signals - signals.mean(axis=2, keepdims=True)


def with_second(signals, second):
    return np.concatenate([signals[:1], second[None], signals[2:]])


def case(number):
    """Return the name of the signals, the signals, a family, a kind and a head."""
    rng = np.random.default_rng([7, number])
    name = list(SIGNALS)[number % len(SIGNALS)]
    shape = int(rng.integers(3, 6)), int(rng.integers(2, 5)), int(rng.choice([4, 5, 7, 9, 12]))
    X = SIGNALS[name](rng.standard_normal(shape), rng)
    X = X[np.sort(np.unique(X, axis=0, return_index=True)[1])]
    inner, outer = FILTERS[rng.integers(len(FILTERS))]
    network = rk.Network(
        1,
        inner,
        outer_filter_size=outer,
        input_filter_size=int(rng.choice([1, 1, 3])),
        dilation=int(rng.choice([1, 1, 2])),
        alpha=float(rng.choice([0.5, 1.0, 2.0])),
        trained=TRAINED[rng.integers(len(TRAINED))],
        **ACTIVATIONS[rng.integers(len(ACTIVATIONS) if np.abs(X).max() < 1e3 else 4)],
    )
    gamma = float(rng.choice(GAMMAS))
    if name in ("signs", "multi-sphere", "opposites on the multi-sphere") and rng.random() < 0.5:
        network = network.replace(activation="relu", negative_slope=0.0, input_filter_size=1)
        gamma = float(rng.choice([0.0, 0.25]))
    head = "gap" if "mean" in name else HEADS[rng.integers(3)]
    return name, X, Family(network, gamma), ("gpk", "ntk", "ntk")[rng.integers(3)], head


def wrong_laws(used, limit, rng):
    """Return laws that are wrong: other exponents, logarithms and limits."""
    exponents = [{"exponent": factor * used.exponent} for factor in (0.5, 0.8, 1.25, 2.0)]
    laws = [*exponents, {"log_power": 1 - used.log_power}]
    pairs = [limit] * len(laws)
    laws += [{}] * 3
    pairs += [limit + 0.1, 0.8 * limit + 0.1, limit + 0.3 * (rng.permutation(len(limit)) == 0)]
    return [
        (dataclasses.replace(used, **law), wrong) for law, wrong in zip(laws, pairs, strict=True)
    ]


COUNTS = {
    24: (
        {checker.AGREES: 15, checker.OPEN: 6, checker.UNDEFINED: 3},
        {checker.CONTRADICTS: 116, checker.OPEN: 52},
    ),
    120: (
        {checker.AGREES: 68, checker.OPEN: 41, checker.UNDEFINED: 11},
        {checker.CONTRADICTS: 535, checker.OPEN: 337},
    ),
}
"""Verdicts on so many right and wrong laws; docs/theory/depth_checks.md has those of 120."""


@pytest.mark.parametrize("n_cases", [24, *nightly(120)])
def test_no_verdict_is_false(n_cases):
    """No right law is contradicted, and no wrong law agrees."""
    right, wrong = Counter(), Counter()
    for number in range(n_cases):
        name, X, family, kind, head = case(number)
        with mock.patch.object(checker, "judge", wraps=checker.judge) as judge:
            report = depth.check_convergence(family, X, kind=kind, head=head, depths=LADDER)
        depths, values, noise, used, limit, subject = judge.call_args.args
        laws = wrong_laws(used, limit, np.random.default_rng(number)) if not used.undefined else []
        verdicts = [checker.judge(depths, values, noise, *law, subject).verdict for law in laws]
        right[report.verdict] += 1
        wrong.update(verdicts)
        assert report.verdict != checker.CONTRADICTS, f"{name}: {report}"
        assert checker.AGREES not in verdicts, f"{name}: {verdicts} {report}"
        if report.verdict == checker.AGREES:
            near = 0.05  # where next terms of a law that agrees leave a fitted exponent
            assert abs(report.exponent.value - report.prediction.exponent) <= near
    assert (right, wrong) == COUNTS[n_cases]
