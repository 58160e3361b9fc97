"""Verdicts of the depth checker on families whose limits are known, or wrongly predicted."""

import dataclasses
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import depth, multisphere
from rescntk.theory.limits import Family, Prediction
from rescntk.validation import KINDS
from tests import families
from tests.families import SHORT, powers

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
"""Counts of docs/theory/depth_limits.md, for the ladder 8, 16, …, 2048."""

ERRORS = (0.005, 0.01, 0.03, 0.1)


def contradicted(check, right):
    """Return for both signs whether errors of growing size in the exponent are contradicted."""
    factors = [[1 + sign * error for error in ERRORS] for sign in (-1, 1)]
    wrong = [[dataclasses.replace(right, exponent=f * right.exponent) for f in r] for r in factors]
    return [[check(prediction=w).verdict == depth.CONTRADICTS for w in row] for row in wrong]


def test_verdicts_are_monotone_and_never_wrong(monkeypatch):
    """A contradicted error stays contradicted when it grows, and the truth never is."""
    agreeing, telling, compute = 0, dict.fromkeys(TELLING, 0), multisphere.gram_complements
    for family, kind, head in CASES:
        X = multisphere.sample(6, 4, 1 if family(1).filter_size == 1 else 5, 0)
        kernels = compute([family(n) for n in SHORT], X, kind=kind, head=head)  # for all checks
        monkeypatch.setattr(multisphere, "gram_complements", lambda *_, **__: kernels)
        check = partial(depth.check, family, X, kind=kind, head=head, depths=SHORT)
        report = check()
        assert report.verdict != depth.CONTRADICTS
        agreeing += report.verdict == depth.AGREES
        exponents = contradicted(check, report.prediction)
        for verdicts in exponents:
            assert verdicts == sorted(verdicts), report.family
        for error in telling:
            telling[error] += all(verdicts[ERRORS.index(error)] for verdicts in exponents)
    assert (agreeing, telling) == (AGREEING, TELLING)


@pytest.mark.parametrize(("k", "ratio"), [(0, 1.3), (1, 1.5), (2, 3.0)])
def test_any_ladder_and_any_signals(k, ratio):
    """No right prediction is contradicted on ladders that are denser, or wider."""
    ladder = sorted({round(8 * ratio**k) for k in range(24) if k < 6 or 8 * ratio**k <= 1000})
    for seed, (family, kind, head) in enumerate(CASES[k::6]):
        report = depth.check(family, kind=kind, head=head, depths=ladder, rng=seed)
        assert report.verdict != depth.CONTRADICTS


@pytest.mark.parametrize(("ratio", "n_depths"), [(2, 10), (1.5, 11), (1.3, 15)])
def test_what_logarithms_leave_is_in_the_bar(ratio, n_depths):
    """The second correction to log(L)/L has powers of log L, which removals leave behind."""
    ladder = [round(8 * ratio**k) for k in range(n_depths)]
    for family in (families.resnet_fixed(1.0), families.huang_ffnet()):
        report = depth.check(family, depths=ladder)
        assert abs(report.exponent.value - 1.0) <= 0.7 * report.exponent.bar


def test_gamma_six_tenths_and_gamma_one_half():
    """At depth 16384, L^-0.2 is still a seventh; the theorem is for γ > ½ and not for ½."""
    six = depth.check(families.resnet(0.6), kind="gpk")
    assert six.verdict == depth.AGREES
    assert abs(six.exponent.value - 0.2) <= six.exponent.bar <= 0.02
    # Handed the prediction of γ = 0.6, γ = ½ refutes it; its own flow it does not.
    X = multisphere.sample(6, 4, 5, 0)
    linear = families.resnet(0.6).predict("ntk", X)
    five = depth.check(families.resnet(0.5), X, depths=SHORT, prediction=linear)
    assert five.verdict == depth.CONTRADICTS and five.rows[-1].distance >= 0.1
    assert depth.check(families.resnet(0.5), X, depths=SHORT).verdict == depth.AGREES
    # With a = 4 and 10 the laws set in at depths 10⁶ and 10⁴.
    for a, gamma in ((4.0, 0.6), (10.0, 0.25)):
        assert depth.check(Family(rk.Network(1, alpha=a), gamma)).verdict == depth.OPEN


@pytest.mark.parametrize(
    ("off", "verdict"),
    [
        (0.01, depth.CONTRADICTS),
        (1e-3, depth.CONTRADICTS),
        (-3e-5, depth.CONTRADICTS),
        (1e-5, depth.OPEN),
    ],
)
def test_one_wrong_entry_is_found(off, verdict):
    """A single pair of ten, of distances of 5e-5 at the deepest network: no law agrees."""
    X = multisphere.sample(5, 4, 3, rng=0)
    right = families.resnet(1.0).predict("ntk", X)
    limit = right.limit.copy()
    limit[0, 1] = limit[1, 0] = limit[0, 1] + off
    wrong = dataclasses.replace(right, limit=limit)
    report = depth.check(families.resnet(1.0), X, depths=powers(14), prediction=wrong)
    assert report.verdict == verdict


def test_limits_of_other_laws_fail():
    X = multisphere.sample(5, 4, 5, rng=0)
    family = families.resnet(1.0)
    right = family.predict("ntk", X)
    assert depth.check(family, X, depths=SHORT, prediction=right).verdict == depth.AGREES
    frozen = families.resnet(1.0, readout=False).predict("ntk", X)
    assert depth.check(family, X, depths=SHORT, prediction=frozen).verdict == depth.CONTRADICTS
    third = depth.check(families.cnn(), X, depths=powers(12), prediction=Prediction(0.3))
    assert third.verdict == depth.CONTRADICTS
    power = depth.check(families.cnn(), X, prediction=Prediction(0.25), depths=SHORT)
    assert power.verdict != depth.AGREES  # log(L)/L is no power


@pytest.mark.usefixtures("each_gram_once")
def test_where_the_dot_product_is_0_one_layer_is_the_limit(rng):
    """GAP and signals of mean 0: F⁰ = 0. For some of the signals alone nothing is predicted."""
    family, X = families.resnet(1.0), rng.standard_normal((4, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    mixed, near = X.copy(), X.copy()
    mixed[:2] += rng.standard_normal((2, 2, 1))
    near += 1e-3 * rng.standard_normal((4, 2, 1))
    report = depth.check(family, mixed, head="gap", depths=powers(9))
    assert report.verdict == depth.UNDEFINED
    assert "F⁰(x, x) is 0 for 2 of the signals, X[2] first, and not for all" in report.reason
    ball = multisphere.sample(4, 3, 2, rng)
    ball = np.concatenate([ball, -ball], axis=2)
    for (head, Z, exponents), kind in product(
        (
            ("gap", X, (1.0,)),
            ("gap", 1e-200 * X, (1.0,)),
            ("gap", ball, (1.0, 0.5)),  # the NTK has opposite windows there
        ),
        KINDS,
    ):
        report = depth.check(family, Z, kind=kind, head=head, depths=powers(9))
        prediction, K = report.prediction, rk.Kernel(family(250), kind, head, normalized=True)(Z)
        assert report.verdict != depth.CONTRADICTS and prediction.exponent in exponents
        assert report.exponent.bar <= 0.1
        assert np.abs(K - prediction.limit).max() <= 5 * 500.0**-prediction.exponent
        assert "F⁰(x, x) is 0 for" in str(report)
    # A mean of 1e-3, or of rounding errors of earlier numbers, counts at greater depth.
    away = X + np.array([[1e4], [1e5]])
    for Z, kind in product((near, away - away.mean(axis=2, keepdims=True)), KINDS):
        report = depth.check(family, Z, kind=kind, head="gap", depths=powers(9))
        deeper = report.verdict == depth.OPEN and "the law sets in deeper" in report.reason
        assert deeper or (Z is not near and report.verdict == depth.UNDEFINED)
    # At γ = 8 rounding errors of means are all of F⁰ from depth 32 on, below errors of kernels.
    report = depth.check(families.resnet(8.0), X, head="gap", depths=powers(9))
    assert report.verdict != depth.CONTRADICTS


@pytest.mark.parametrize("mean", [0.1, 0.01])
def test_means_that_nearly_cancel_keep_their_digits(mean, rng):
    """On the multi-sphere GAP's complements lose what its kernels keep: 1 − K̄ was off by 1e-7."""
    ball = multisphere.sample(4, 3, 2, rng)
    ball = np.concatenate([ball, -ball], axis=2) + mean * rng.standard_normal((4, 3, 1))
    report = depth.check(families.resnet(4.0), multisphere.project(ball), head="gap", depths=SHORT)
    assert report.verdict != depth.CONTRADICTS


def test_families_without_a_prediction():
    def plain(n):
        return rk.Network(n, alpha=1 / n)

    report = depth.check(plain, depths=SHORT)
    assert (report.verdict, report.reason) == (depth.UNDEFINED, "nothing is predicted")
    assert np.isnan(report.column("distance")).all() and report.reason in str(report)
    assert report.family == "plain"


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_signals_that_nearly_agree_refute_nothing(kind, noise):
    """Pixels that nearly agree follow the common law from depth 3πs/√(2δ) on."""
    X = multisphere.sample(4, 4, 3, rng=0)
    X[1] = X[0] + noise * np.random.default_rng(1).standard_normal(X[0].shape)
    X = multisphere.project(X)
    for family in (families.cnn(), families.resnet_fixed(1.0), families.resnet(0.25)):
        report = depth.check(family, X, kind=kind, depths=SHORT)
        assert report.verdict != depth.CONTRADICTS
    if noise <= 1e-3:
        assert "the law sets in deeper" in report.reason


@pytest.mark.parametrize("size", [1, 5])
def test_where_windows_are_pixels_the_first_layer_moves_nothing(size, rng):
    """Signals of one time point, and of an input filter as long as they: no error of 1/L."""
    family = Family(rk.Network(1, input_filter_size=size, trained=("inner", "outer")), 1.5)
    report = depth.check(family, rng.standard_normal((3, 3, size)), depths=SHORT)
    assert (report.prediction.exponent, report.verdict) == (2.0, depth.AGREES)


def test_the_first_layer_where_the_dot_product_is_0(rng):
    """Windows of two pixels ±x have the pixels' covariances; a window sees beside a pixel of 0."""
    X = rng.standard_normal((4, 3, 1)) * [[[1, -1]]]
    first = rng.standard_normal((4, 2, 6)) * (np.arange(6) > 0)
    for Z, head, exponent in ((X, "gap", 2.5), (first, "equivariant", 1.0)):
        report = depth.check(families.resnet(1.75), Z, kind="gpk", head=head, depths=SHORT)
        assert (report.prediction.exponent, report.verdict) == (exponent, depth.AGREES)


def test_branches_too_weak_or_too_strong_for_the_rest(rng):
    """GAP's mean of 0 loses α² in roundings, L^199 leaves float64, and the flow takes hours."""
    X = rng.standard_normal((3, 2, 4))
    X -= X.mean(axis=2, keepdims=True)
    weak = (1e-6, 0.5, depth.OPEN), (3e-8, 0.5, depth.OPEN), (1.0, 100.0, depth.UNDEFINED)
    for alpha, gamma, verdict in (*weak, (1e3, 0.5, depth.UNDEFINED)):
        family = Family(rk.Network(1, alpha=alpha), gamma)
        report = depth.check(family, X, kind="gpk", head="gap", depths=SHORT[:6])
        assert report.verdict == verdict


def test_opposite_signals_with_a_frozen_readout():
    """κ0 has its square root at u = −1: γ − ½ instead of 2γ − 1."""
    Z = multisphere.sample(4, 3, 1, rng=0)
    Z[1] = -Z[0]
    report = depth.check(families.huang_resnet(1.0), Z, depths=SHORT)
    assert (report.prediction.exponent, report.verdict) == (0.5, depth.AGREES)
    Z[1, 0] += 1e-4  # nearly opposite: between the two laws
    near = depth.check(families.huang_resnet(1.0), multisphere.project(Z), depths=SHORT)
    assert near.verdict == depth.OPEN
    X = multisphere.sample(4, 3, 5, rng=0)
    X[1] = -X[0]
    wide = depth.check(families.resnet(1.0, readout=False), X, depths=SHORT)
    assert (wide.prediction.exponent, wide.verdict) == (0.5, depth.AGREES)


FROZEN = rk.Network(1, trained=("inner", "outer"))
POINTWISE = FROZEN.replace(filter_size=1, outer_filter_size=1)


def with_opposite(X):
    return np.concatenate([X, -X[:1]])


@pytest.mark.parametrize(
    ("network", "shape", "change", "head", "exponent", "last", "verdict"),
    [
        # Opposites, and one channel without filters, off the multi-sphere.
        (FROZEN, (4, 3, 5), with_opposite, "trace", 0.5, 11, depth.AGREES),
        (POINTWISE, (6, 1, 7), np.asarray, "trace", 0.5, 10, depth.AGREES),
        (POINTWISE, (6, 1, 7), np.asarray, "gap", 0.5, 10, depth.AGREES),
        # Parallel pixels beside pixels that are not: κ0 has a root at u = 1, too.
        (POINTWISE.replace(outer_filter_size=3), (6, 1, 7), np.abs, "trace", 0.5, 12, depth.AGREES),
        # Inner weights frozen, κ0 is no part of the limit.
        (FROZEN.replace(trained="outer"), (4, 3, 5), with_opposite, "trace", 1.0, 10, depth.AGREES),
        # Where x has a window of zeros and z has not, K has a root.
        (
            FROZEN.replace(trained="outer"),
            (4, 3, 9),
            lambda X: X * np.where(np.arange(4) < 1, 1.0, np.arange(9)[:, None] < 4).T[:, None],
            "trace",
            0.5,
            10,
            depth.AGREES,
        ),
        # Ordinary signals of one channel have windows that are nearly opposite.
        (FROZEN, (6, 1, 16), np.asarray, "gap", 1.0, 10, depth.AGREES),
        (FROZEN, (6, 1, 24), np.asarray, "gap", 1.0, 10, depth.OPEN),
        # Sign flips of signals of mean 0 under GAP, with a trained readout.
        (
            rk.Network(1),
            (3, 2, 5),
            lambda X: with_opposite(X - X.mean(axis=2, keepdims=True)),
            "gap",
            0.5,
            12,
            depth.AGREES,
        ),
    ],
)
def test_roots_off_the_multisphere(network, shape, change, head, exponent, last, verdict):
    """Half the power where κ0 or K has a square root: docs/theory/depth_limits.md, section 6."""
    X = change(np.random.default_rng(3).standard_normal(shape))
    report = depth.check(Family(network, 1.0), X, head=head, depths=powers(last))
    assert report.prediction.exponent == exponent
    assert abs(report.rows[-1].slope - exponent) <= 0.06
    assert report.verdict == verdict, str(report)


def test_one_channel_without_filters_has_the_next_order(rng):
    """Opposite pixels alone change, and K has (1 + u)^(3/2): the constant of the law is 0."""
    X, family = rng.standard_normal((5, 1, 7)), Family(POINTWISE.replace(trained="outer"), 1.0)
    report = depth.check(family, X, depths=powers(10))
    assert abs(report.rows[-1].slope - 1.5) <= 0.06
    assert report.verdict == depth.OPEN and "of a higher order" in report.reason
