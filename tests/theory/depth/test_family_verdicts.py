"""Verdicts of the depth checker on families whose limits are known, or wrongly predicted."""

import dataclasses
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import KINDS
from rescntk.theory import depth, multisphere
from rescntk.theory.depth import Family, checker
from tests import families
from tests.families import SHORT, powers
from tests.helpers import nightly

pytestmark = pytest.mark.slow

GAMMAS = (0.0, 0.125, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5)
CASES = [
    *((families.resnet(gamma), kind, "trace") for gamma in GAMMAS for kind in ("gpk", "ntk")),
    *((families.resnet(g, readout=False), "ntk", "trace") for g in GAMMAS if g >= 0.5),
    *((families.huang_resnet(g), "ntk", "trace") for g in (0.5, 0.6, 0.75, 1, 1.02, 1.25, 1.5)),
    *((families.cnn(), kind, head) for kind in ("gpk", "ntk") for head in ("trace", "gap")),
    *((families.huang_ffnet(), kind, "trace") for kind in ("gpk", "ntk")),
    *((families.resnet_fixed(0.5), kind, "trace") for kind in ("gpk", "ntk")),
    (families.resnet(0.75, readout=False), "ntk", "gap"),
    (families.resnet(1.0), "ntk", "gap"),
    (families.resnet(0.75), "gpk", "equivariant"),
]
AGREEING, TELLING = 34, {0.01: 26, 0.03: 31}
"""Numbers of families that agree and that tell an error, as computed to depth 2048."""

ERRORS = (0.005, 0.01, 0.03, 0.1)


def contradicted(check, right):
    """Return for both signs whether errors of growing size in the exponent are contradicted."""
    factors = [[1 + sign * error for error in ERRORS] for sign in (-1, 1)]
    wrong = [[dataclasses.replace(right, exponent=f * right.exponent) for f in r] for r in factors]
    return [[check(prediction=w).verdict == checker.CONTRADICTS for w in row] for row in wrong]


def kernels_of(cases, depths):
    """Yield a family, kind, head, signals and complements for each case, many in one pass."""
    alike = {}
    for family, kind, head in cases:
        alike.setdefault((family(1).replace(alpha=1.0), kind, head), []).append(family)
    for (network, kind, head), found in alike.items():
        X = multisphere.sample(6, 4, 1 if network.filter_size == 1 else 5, 0)
        layers = [family(n) for family in found for n in depths]
        kernels = multisphere.gram_complements(layers, X, kind=kind, head=head)
        for family, K in zip(found, np.split(kernels, len(found)), strict=True):
            yield family, kind, head, X, K


def test_verdicts_are_monotone_and_never_wrong(monkeypatch):
    """A contradicted error stays contradicted when it grows, and the truth never is."""
    agreeing, telling = 0, dict.fromkeys(TELLING, 0)
    every = list(kernels_of(CASES, SHORT))
    assert len(every) == 52
    for family, kind, head, X, kernels in every:
        monkeypatch.setattr(multisphere, "gram_complements", lambda *_, K=kernels, **__: K)
        check = partial(depth.check_convergence, family, X, kind=kind, head=head, depths=SHORT)
        report = check()
        assert report.verdict != checker.CONTRADICTS
        agreeing += report.verdict == checker.AGREES
        exponents = contradicted(check, report.prediction)
        for verdicts in exponents:
            assert verdicts == sorted(verdicts), report.family
        for error in telling:
            telling[error] += all(verdicts[ERRORS.index(error)] for verdicts in exponents)
    assert (agreeing, telling) == (AGREEING, TELLING)


def test_a_slow_law():
    """At depth 16384, L^-0.2 is still a seventh."""
    X = multisphere.sample(3, 4, 1, rng=0)
    six = depth.check_convergence(families.resnet(0.6, 1), X, kind="gpk", head="trace")
    assert (six.column("depth") == powers(14)).all()
    assert six.verdict == checker.AGREES
    assert abs(six.exponent.value - 0.2) <= six.exponent.error <= 0.02


@pytest.mark.parametrize("seed", [1, *nightly(2, 4)])
@pytest.mark.parametrize(
    ("trained", "exponent"), [("outer", 0.5), ("inner", 0.25), (("input", "inner"), 0.5)]
)
def test_corrections_at_opposite_windows(seed, trained, exponent):
    """The first correction has the relative order h^½, whatever is trained."""
    X = multisphere.project(np.random.default_rng(seed).standard_normal((2, 3, 3)))
    X[1, :, 0] = -X[0, :, 0]
    family, options = Family(rk.Network(1, 1, trained=trained), 0.75), {"kind": "ntk"}
    report = depth.check_convergence(family, X, head="trace", depths=powers(16), **options)
    assert report.prediction.exponent == exponent
    assert report.prediction.correction_exponent == 0.25
    assert report.verdict != checker.CONTRADICTS


@pytest.mark.parametrize(("a", "gamma"), [(4.0, 0.6), (10.0, 0.25)])
def test_laws_that_set_in_late(a, gamma):
    """At depths of 10⁶ and 10⁴."""
    X, family = multisphere.sample(3, 4, 1, rng=0), Family(rk.Network(1, alpha=a), gamma)
    report = depth.check_convergence(family, X, kind="ntk", head="trace", depths=SHORT)
    assert report.verdict == checker.OPEN


def test_where_the_dot_product_is_0_one_layer_is_the_limit(rng):
    """GAP and signals of mean 0: F⁰ = 0. For some of the signals alone nothing is predicted."""
    family, X = families.resnet(1.0), rng.standard_normal((4, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    check = partial(depth.check_convergence, kind="ntk", head="gap", depths=powers(9))
    report = check(family, X + np.array([1.0, 2.0, 0.0, 0.0])[:, None, None])
    assert report.verdict == checker.UNDEFINED
    assert "F⁰(x, x) is 0 for 2 of the signals, X[2] first, and not for all" in report.reason
    ball = multisphere.sample(4, 3, 2, rng)
    ball = np.concatenate([ball, -ball], axis=2)  # the NTK has opposite windows there
    for (Z, exponents), kind in product(((1e-200 * X, (1.0,)), (ball, (1.0, 0.5))), KINDS):
        report = check(family, Z, kind=kind)
        prediction, K = report.prediction, rk.Kernel(family(250), kind, "gap", normalized=True)(Z)
        assert report.verdict != checker.CONTRADICTS and prediction.exponent in exponents
        assert report.exponent.error <= 0.1
        assert np.abs(K - prediction.limit).max() <= 5 * 500.0**-prediction.exponent
    # A mean of 1e-3, or of rounding errors of earlier numbers, counts at greater depth.
    away = X + np.array([[1e4], [1e5]])
    for kind in KINDS:
        near = check(family, X + 1e-3 * rng.standard_normal((4, 2, 1)), kind=kind)
        assert near.verdict == checker.OPEN and "the law sets in deeper" in near.reason
        rounded = check(family, away - away.mean(axis=2, keepdims=True), kind=kind)
        assert rounded.verdict in (checker.OPEN, checker.UNDEFINED)
    # Windows of two pixels ±x have the pixels' covariances.
    pairs = rng.standard_normal((4, 3, 1)) * [[[1, -1]]]
    report = check(families.resnet(1.75), pairs, kind="gpk", depths=SHORT)
    assert (report.prediction.exponent, report.verdict) == (2.5, checker.AGREES)
    # At γ = 8 rounding errors of means are all of F⁰ from depth 32 on, below errors of kernels.
    assert check(families.resnet(8.0), X).verdict != checker.CONTRADICTS


@pytest.mark.parametrize(
    ("alpha", "gamma", "verdict"),
    [
        (1e-6, 0.5, checker.OPEN),  # GAP's mean of 0 loses α² in roundings
        (3e-8, 0.5, checker.OPEN),
        (1.0, 100.0, checker.UNDEFINED),  # L^199 leaves float64
        (1e3, 0.5, checker.UNDEFINED),  # the limit would take hours
    ],
)
def test_branches_too_weak_or_too_strong_for_the_rest(alpha, gamma, verdict, rng):
    X = rng.standard_normal((3, 2, 4))
    X -= X.mean(axis=2, keepdims=True)
    family = Family(rk.Network(1, alpha=alpha), gamma)
    report = depth.check_convergence(family, X, kind="gpk", head="gap", depths=SHORT[:6])
    assert report.verdict == verdict


def with_opposite(X):
    return np.concatenate([X, -X[:1]])


def centred_flips(X):
    return with_opposite(X - X.mean(axis=2, keepdims=True))


FROZEN = rk.Network(1, trained=("inner", "outer"))
POINTWISE = FROZEN.replace(filter_size=1, outer_filter_size=1)
OUTER, WHOLE = FROZEN.replace(trained="outer"), FROZEN.replace(input_filter_size=5)
PARALLEL = POINTWISE.replace(outer_filter_size=3)
OUTER_POINTWISE = POINTWISE.replace(trained="outer")
ZEROS = np.where(np.arange(4) < 1, 1.0, np.arange(9)[:, None] < 4).T[:, None]


@pytest.mark.parametrize(
    ("family", "shape", "change", "head", "exponent", "last", "verdict"),
    [
        # κ0 has a root at u = −1: opposites, and one channel without filters.
        (Family(FROZEN, 1.0), (3, 3, 5), with_opposite, "trace", 0.5, 11, checker.AGREES),
        (Family(POINTWISE, 1.0), (4, 1, 7), np.asarray, "gap", 0.5, 10, checker.AGREES),
        # Parallel pixels beside pixels that are not: κ0 has a root at u = 1, too.
        (Family(PARALLEL, 1.0), (6, 1, 7), np.abs, "trace", 0.5, 12, checker.AGREES),
        # Inner weights frozen, κ0 is no part of the limit; without filters the next order leads.
        (Family(OUTER, 1.0), (3, 3, 5), with_opposite, "trace", 1.0, 10, checker.AGREES),
        (Family(OUTER_POINTWISE, 1.0), (5, 1, 7), np.asarray, "trace", 1.0, 10, checker.OPEN),
        # Where x has a window of zeros and z has not, K has a root.
        (Family(OUTER, 1.0), (4, 3, 9), lambda X: X * ZEROS, "trace", 0.5, 10, checker.AGREES),
        # Ordinary signals of one channel have windows that are nearly opposite.
        (Family(FROZEN, 1.0), (6, 1, 16), np.asarray, "gap", 1.0, 10, checker.AGREES),
        # Sign flips of signals of mean 0 under GAP, with a trained readout.
        (families.resnet(1.0), (3, 2, 5), centred_flips, "gap", 0.5, 12, checker.AGREES),
        # Where windows are pixels, no error of 1/L.
        (Family(POINTWISE, 1.5), (3, 3, 1), np.asarray, "trace", 2.0, 11, checker.AGREES),
        (Family(WHOLE, 1.5), (3, 3, 5), np.asarray, "trace", 2.0, 11, checker.AGREES),
    ],
)
def test_exponents_off_the_multisphere(family, shape, change, head, exponent, last, verdict):
    """Half the power where κ0 or K has a square root: docs/theory/depth_rates.md."""
    X = change(np.random.default_rng(3).standard_normal(shape))
    report = depth.check_convergence(family, X, kind="ntk", head=head, depths=powers(last))
    assert (report.prediction.exponent, report.verdict) == (exponent, verdict), str(report)
    next_term = 0.06  # of a slope from 2^9 to 2^10 layers, where half powers of L follow
    assert abs(report.rows[-1].slope - exponent - 0.5 * (verdict == checker.OPEN)) <= next_term
