"""Verdicts of the depth checker on families whose limits are known, or wrongly predicted."""

import dataclasses
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import depth, families, limits, multisphere
from rescntk.validation import KINDS
from tests.ladders import SHORT, powers

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
AGREEING, TELLING = 34, {0.01: 32, 0.03: 36}
"""Counts of docs/theory/depth_checker.md, for the ladder 8, 16, …, 2048."""

ERRORS = (0.005, 0.01, 0.03, 0.1)


def contradicted(check, right, quantity):
    """Return for both signs whether errors of growing size in a prediction are contradicted."""
    factors = [[1 + sign * error for error in ERRORS] for sign in (-1, 1)]
    wrong = [[{quantity: f * getattr(right, quantity)} for f in row] for row in factors]
    reports = [[check(prediction=dataclasses.replace(right, **w)) for w in row] for row in wrong]
    return [[report.verdict == depth.CONTRADICTS for report in row] for row in reports]


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
        limit = report.prediction.complements(X, head)
        constant = None if np.isnan(report.predicted_constant) else report.predicted_constant
        changes = {"limit": lambda X, head: limit, "constant": constant}
        right = dataclasses.replace(report.prediction, **changes)
        exponents = contradicted(check, right, "exponent")
        constants = contradicted(check, right, "constant") if constant else []
        for found in exponents + constants:
            assert found == sorted(found), report.family
        for error in telling:
            telling[error] += all(found[ERRORS.index(error)] for found in exponents)
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
        assert abs(report.exponent.value - 1.0) <= 0.7 * report.exponent.uncertainty


def test_an_exponent_planted_in_a_family_s_prediction_counts():
    family = families.huang_resnet()
    Z = multisphere.sample(4, 3, 1, rng=0)
    Z[1] = -Z[0]  # half the exponent
    for error in (0.005, 0.02, 0.05):
        planted = dataclasses.replace(family.predict("ntk"), exponent=1.0 + error)
        assert depth.check(family, depths=SHORT, prediction=planted).verdict == depth.CONTRADICTS
        assert planted.at(Z, "trace").exponent == 0.5 * (1.0 + error)
    for name, value in (("correction", 0.3), ("onset", 50.0)):  # so do these
        planted = dataclasses.replace(family.predict("ntk"), **{name: value})
        for X, factor in ((Z[[0, 2]], 1.0), (Z, 0.5 if name == "correction" else 1.0)):
            assert getattr(planted.at(X, "trace"), name) == factor * value


def test_gamma_six_tenths_and_gamma_one_half():
    """At depth 16384, L^-0.2 is still a seventh; the theorem is for γ > ½ and not for ½."""
    six = depth.check(families.resnet(0.6), kind="gpk")
    assert six.verdict == depth.AGREES
    assert six.exponent.admits(0.2) and six.exponent.uncertainty <= 0.01
    # Handed the prediction of γ = 0.6, γ = ½ refutes it; its own flow it does not.
    linear = families.resnet(0.6).predict("ntk")
    five = depth.check(families.resnet(0.5), depths=SHORT, prediction=linear)
    assert five.verdict == depth.CONTRADICTS
    assert five.remainder.value >= 0.1 and five.step_exponent.admits(1.0)
    # With a = 4 and 10 the laws set in at depths 10⁶ and 10⁴.
    for a, gamma in ((4.0, 0.6), (10.0, 0.25)):
        assert depth.check(families.decaying(rk.Network(1, alpha=a), gamma)).verdict == depth.OPEN


@pytest.mark.parametrize("off", [1e-3, -1e-5, 3e-7])
def test_one_wrong_entry_is_found(off):
    """A single pair of ten: in root mean square 1e-5 hides below a distance of 5e-5."""
    X = multisphere.sample(5, 4, 3, rng=0)
    wrong = 1 - families.resnet(1.0).predict("ntk").complements(X, "trace")
    wrong[0, 1] = wrong[1, 0] = wrong[0, 1] + off
    report = depth.check(families.resnet(1.0), X, depths=powers(13), prediction=wrong)
    assert report.verdict == depth.CONTRADICTS
    assert report.remainder.admits(abs(off))
    assert report.remainder.uncertainty <= 0.2 * abs(off)


def test_wrong_limits_and_limits_without_a_rate():
    X = multisphere.sample(5, 4, 5, rng=0)
    family = families.resnet(1.0)
    right = limits.dot_product(family(1))
    assert depth.check(family, X, depths=SHORT, prediction=right).verdict == depth.AGREES
    other = depth.check(family, X, depths=SHORT, prediction=limits.two_layer(family(1)))
    assert other.verdict == depth.CONTRADICTS and other.forgets is False
    third = depth.check(families.cnn(), X, depths=powers(12), prediction=0.3)
    assert third.verdict == depth.CONTRADICTS and third.forgets is True
    assert third.remainder.admits(0.05)
    log = depth.check(families.cnn(), X, prediction=limits.Prediction(0.25, 1.0), depths=SHORT)
    assert log.verdict != depth.AGREES  # log(L)/L is no power


def test_where_the_dot_product_is_0_one_layer_is_the_limit(monkeypatch, rng):
    """GAP and signals of mean 0: F⁰ = 0. Between them and others the limit is 0, like √(Lα²)."""
    pairs_of_kernels, compute = {}, rk.gram

    def gram(network, X, *, kinds, **options):  # both kinds in one pass, for two checks
        key = network, X.tobytes(), options["head"]
        if key not in pairs_of_kernels:
            pairs_of_kernels[key] = compute(network, X, **options)
        return [getattr(pairs_of_kernels[key], kind) for kind in kinds]

    monkeypatch.setattr(depth, "gram", gram)
    family, X = families.resnet(1.0), rng.standard_normal((4, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    mixed, near, first = X.copy(), X.copy(), X.copy()
    mixed[:2] += rng.standard_normal((2, 2, 1))
    near[:2] += 1e-3 * rng.standard_normal((2, 2, 1))
    first[:, :, 0] *= [[1], [0], [0], [1]]
    ball = multisphere.sample(4, 3, 2, rng)
    ball = np.concatenate([ball, -ball], axis=2)
    for (head, Z, exponents), kind in product(
        (
            ("gap", X, (1.0,)),
            ("gap", 1e-200 * X, (1.0,)),
            ("gap", mixed, (0.5,)),
            ("equivariant", first, (0.5,)),
            ("gap", ball, (1.0, 0.5)),  # the NTK has opposite windows there
        ),
        KINDS,
    ):
        report = depth.check(family, Z, kind=kind, head=head, depths=powers(10))
        assert report.verdict != depth.CONTRADICTS and report.predicted_exponent in exponents
        assert report.exponent.uncertainty <= 0.05
        limit = 1 - report.prediction.complements(Z, head)
        K = rk.Kernel(family(250), kind, head, normalized=True)(Z)
        assert np.abs(K - limit).max() <= 5 * 500.0**-report.predicted_exponent
        assert "F⁰(x, x) is 0 for" in str(report)
    # A mean of 1e-3, or of rounding errors of earlier numbers, counts at greater depth.
    away = X + np.array([[1e4], [1e5]])
    for Z, kind in product((near, away - away.mean(axis=2, keepdims=True)), KINDS):
        report = depth.check(family, Z, kind=kind, head="gap", depths=powers(10))
        assert report.verdict == depth.OPEN and "the law sets in at depth" in report.reason


def test_predictions_that_are_undefined_say_why(rng):
    X = rng.standard_normal((4, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    family, dilated = families.resnet(1.0), families.decaying(rk.Network(1, dilation=2), 1.0)
    handed = limits.dot_product(family(1))
    for own, prediction, why in (
        (dilated, None, r"F⁰(x, x) is 0 for 4 of the signals, X[0] first, and no kernel is known"),
        (families.resnet(8.0), None, "beyond depth "),  # Lα² = 1e-23 at depth 32
        (family, handed, "the predicted kernel of X[0] with itself is 0 up to rounding"),
    ):
        report = depth.check(own, X, head="gap", depths=powers(8), prediction=prediction)
        assert report.verdict == depth.OPEN and not report.findings
        assert report.reason.startswith(f"the prediction is undefined: {why}")
        assert np.isnan(report.column("predicted")).all() and report.reason in str(report)


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
    assert (report.verdict, report.forgets) == (depth.OPEN, False)
    assert report.reason == "nothing is predicted"
    assert np.isnan(report.column("distance")).all()
    assert report.family == "plain"
    forgetful = depth.check(lambda n: rk.Network(n, skip=False), kind="gpk", depths=SHORT)
    assert (forgetful.verdict, forgetful.forgets) == (depth.OPEN, True)
    erf = families.decaying(rk.Network(1, activation="erf"), 0.3)
    assert erf.predict("gpk") is None and erf.predict("ntk") is None
    assert families.fixed(rk.Network(1, trained=("input",))).predict("ntk") is None


def test_families_that_do_not_move():
    X = multisphere.sample(5, 4, 5, rng=0)

    def still(n):
        return rk.Network(n, alpha=0.0)

    dots = limits.dot_product(still(1))
    assert depth.check(still, X, depths=SHORT, prediction=dots).verdict == depth.AGREES
    wrong = depth.check(still, X, depths=SHORT, prediction=limits.two_layer(still(1)))
    assert wrong.verdict == depth.CONTRADICTS


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
        assert "the law sets in at depth" in report.reason


def test_opposite_signals_with_a_frozen_readout():
    """κ0 has its square root at u = −1: γ − ½ instead of 2γ − 1."""
    Z = multisphere.sample(4, 3, 1, rng=0)
    Z[1] = -Z[0]
    report = depth.check(families.huang_resnet(1.0), Z, depths=SHORT)
    assert (report.predicted_exponent, report.verdict) == (0.5, depth.AGREES)
    Z[1, 0] += 1e-4  # nearly opposite: between the two laws
    near = depth.check(families.huang_resnet(1.0), multisphere.project(Z), depths=SHORT)
    assert near.verdict == depth.OPEN
    X = multisphere.sample(4, 3, 5, rng=0)
    X[1] = -X[0]
    wide = depth.check(families.resnet(1.0, readout=False), X, depths=SHORT)
    assert (wide.predicted_exponent, wide.verdict) == (0.5, depth.AGREES)


def test_exponential_convergence_is_over_when_it_is():
    """erf: correlations of the tangent kernel vanish faster than any power of depth."""
    X = multisphere.sample(4, 3, 2, rng=0)
    report = depth.check(families.fixed(rk.Network(1, activation="erf")), X, depths=powers(9))
    assert report.forgets is True
