"""Verdicts of the depth checker on families whose limits are known, or wrongly predicted."""

import dataclasses
import math

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import degeneracy, depth, families, limits, multisphere
from rescntk.theory.findings import judge
from tests import tolerances
from tests.ladders import SHORT, pairs, powers

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize(
    ("family", "kind", "head", "exponent"),
    [
        (families.resnet(0.75), "ntk", "trace", 0.5),
        (families.resnet(0.75), "gpk", "trace", 0.5),
        (families.resnet(0.75), "gpk", "gap", 0.5),
        (families.resnet(1.0), "ntk", "trace", 1.0),
        (families.resnet(1.0), "ntk", "gap", 1.0),
        (families.resnet(1.25), "ntk", "gap", 1.5),
        (families.resnet(0.75, readout=False), "ntk", "gap", 0.5),
        (families.resnet(1.0, filter_size=5, readout=False), "ntk", "trace", 1.0),
        (families.resnet(1.25, readout=False), "ntk", "gap", 1.0),  # the first layer's O(1/L)
        (families.huang_resnet(1.25), "ntk", "trace", 1.5),  # no such layer with filters of size 1
        (families.huang_resnet(1.0), "ntk", "gap", 1.0),
        (families.huang_resnet(0.75), "gpk", "trace", 0.5),
    ],
)
def test_converges_as_predicted(family, kind, head, exponent):
    report = depth.check(family, kind=kind, head=head, depths=powers(13))
    assert report.verdict == depth.AS_PREDICTED
    assert report.as_predicted is True
    assert report.predicted_exponent == exponent
    assert report.exponent.admits(exponent, 1e-3 * exponent)
    assert report.exponent.uncertainty <= 0.1
    assert report.route == "complements on the multi-sphere"
    if not math.isnan(report.predicted_constant):
        assert report.constant.admits(report.predicted_constant, 1e-3 * report.predicted_constant)


@pytest.mark.parametrize("readout", [True, False])
def test_gamma_one_half_from_gamma_six_tenths(readout):
    """At depth 32768, L^-0.2 is still an eighth; the theorem is for γ > ½ and not for ½."""
    six = depth.check(families.resnet(0.6, readout=readout), depths=powers(15 if readout else 12))
    assert six.verdict == depth.AS_PREDICTED
    default = depth.check(families.resnet(0.6, readout=readout))
    assert (default.verdict, default.as_predicted) == (depth.AS_PREDICTED, True)
    assert six.exponent.admits(0.2)
    assert six.exponent.uncertainty <= 0.05
    five = depth.check(families.resnet(0.5, readout=readout), depths=SHORT)
    assert (five.verdict, five.as_predicted) == (depth.AS_PREDICTED, True)
    assert five.exponent.admits(1.0, 1e-3)
    # Handed the prediction of the other, it is refuted.
    wrong = families.resnet(0.6, readout=readout).predict("ntk")
    handed = depth.check(families.resnet(0.5, readout=readout), depths=SHORT, prediction=wrong)
    assert handed.verdict == depth.ELSEWHERE
    assert handed.as_predicted is False
    stays = depth.check(
        families.resnet(0.5, readout=readout),
        depths=SHORT,
        prediction=dataclasses.replace(wrong, exponent=0.0, constant=None, rate_at=None),
    )
    assert (stays.verdict, stays.as_predicted) == (depth.ELSEWHERE, None)
    assert stays.exponent.admits(0.0)
    assert stays.exponent.uncertainty <= 1e-4
    assert stays.remainder.value >= 0.03
    # Nor is it told from γ = 0.51 wrongly: that is too slow for any ladder.
    slow = depth.check(families.resnet(0.51, readout=readout), depths=SHORT)
    assert slow.verdict == depth.UNDECIDED
    assert slow.as_predicted is None


@pytest.mark.parametrize(
    ("family", "slowdown", "head", "ladder"),
    [
        (families.cnn(), 1.0, "trace", powers(14)),
        (families.resnet_fixed(1.0), 2.0, "trace", powers(15)),
        (families.cnn(5), 1.0, "gap", powers(13)),
        (families.resnet_fixed(0.5, filter_size=5), 5.0, "equivariant", powers(14)),
        (families.fixed(rk.Network(1, alpha=2.0, c_v=1.0)), 1.5, "gap", powers(13)),  # α_eff² = 2
    ],
)
def test_the_law_of_fixed_alpha(family, slowdown, head, ladder):
    report = depth.check(family, depths=ladder, kind="gpk", head=head)
    assert report.verdict == depth.DEGENERATES
    assert report.as_predicted is True
    law = 4.5 * np.pi**2 * slowdown**2 / (5 if head == "gap" else 1)
    assert abs(report.predicted_constant / law - 1) <= 1e-11
    assert report.exponent.admits(2.0)
    assert report.constant.admits(law)
    assert report.exponent.uncertainty <= tolerances.RESOLVED
    assert report.constant.uncertainty <= tolerances.RESOLVED * law
    last = report.rows[-1]
    bar = tolerances.asymptote(last.depth, slowdown, 0.05)
    assert abs(last.distance / last.predicted - 1) <= bar
    assert report.spread_exponent.admits(3.0, 1e-3)  # the law forgets; the next term does not


@pytest.mark.parametrize(
    ("family", "slowdown", "ladder"),
    [
        (families.huang_ffnet(), 1.0, powers(14)),
        (families.cnn(), 1.0, powers(13)),
        (families.resnet_fixed(1.0), 2.0, powers(14)),
        (families.resnet_fixed(0.5, filter_size=5), 5.0, powers(15)),
        (families.fixed(rk.Network(1, 3, outer_filter_size=1, skip=False)), 1.0, powers(13)),
        (families.fixed(rk.Network(1, alpha=1.5, trained=("outer",))), 1.45, powers(13)),
        (families.fixed(rk.Network(1, skip=False, trained=("inner", "input"))), 1.0, powers(13)),
    ],
)
def test_one_quarter_and_its_logarithm(family, slowdown, ladder):
    """Θ̂ → ¼ off the diagonal, and L(Θ̂ − ¼) grows by ⅜ for every factor e of depth."""
    X = multisphere.sample(4, 4, 4, rng=2)
    report = depth.check(family, X, depths=ladder)
    assert report.verdict == depth.DEGENERATES
    assert report.as_predicted is True
    assert report.exponent.admits(1.0, tolerances.RESOLVED)
    assert report.exponent.uncertainty <= 0.2
    excess = (report.column("off_diagonal") - 0.25) * report.column("depth")
    growth = np.diff(excess) / np.diff(np.log(report.column("depth")))
    assert abs(growth[-1] - 0.375) <= 3 * slowdown * math.log(ladder[-1]) ** 2 / ladder[-1]


@pytest.mark.parametrize(("kind", "exponent"), [("gpk", 1.0), ("ntk", 0.5)])
def test_slow_decay_degenerates_like_fixed_alpha(kind, exponent):
    """γ = ¼: the law with s = 1/α² = √L."""
    report = depth.check(families.resnet(0.25), kind=kind)
    assert report.verdict == depth.DEGENERATES
    assert report.as_predicted is True
    assert report.exponent.admits(exponent, tolerances.RESOLVED)
    if kind == "gpk":
        assert report.constant.admits(4.5 * np.pi**2, 1e-3 * 4.5 * np.pi**2)


def test_wrong_predictions_are_found_out():
    X = multisphere.sample(5, 4, 5, rng=0)
    family = families.resnet(1.0)
    other = depth.check(family, X, depths=SHORT, prediction=limits.two_layer(family(1)))
    assert other.verdict == depth.ELSEWHERE
    assert other.as_predicted is False
    # A limit that is off by a thousandth: the distance tends to a thousandth.
    right = 1 - family.predict("ntk").complements(X, "trace")
    off = right + 1e-3 * ~np.eye(5, dtype=bool)
    near = depth.check(family, X, depths=powers(15), prediction=limits.Prediction(off, 1.0))
    assert near.verdict == depth.ELSEWHERE
    assert near.remainder.admits(1e-3, 1e-8)

    def handed(family, last=11, **prediction):
        given = limits.Prediction(**prediction)
        return depth.check(family, X, depths=powers(last), prediction=given)

    # The right limit without a rate; with one that is too fast, too slow, of a wrong constant.
    assert depth.check(family, X, depths=SHORT, prediction=right).as_predicted is True
    fast = handed(family, limit=right, exponent=1.3)
    assert (fast.verdict, fast.as_predicted) == (depth.UNDECIDED, False)
    assert "the exponent predicted is 1.3" in fast.reason
    slow = handed(family, limit=right, exponent=0.8)
    assert slow.verdict == depth.AS_PREDICTED
    constant = handed(family, limit=right, exponent=1.0, constant=0.5)
    assert (constant.verdict, constant.as_predicted) == (depth.UNDECIDED, False)
    assert "where 0.5 is predicted" in constant.reason
    # 0.3 is not the limit of the CNTK, which degenerates all the same.
    third = handed(families.cnn(), 12, limit=0.3)
    assert (third.verdict, third.as_predicted) == (depth.DEGENERATES, False)
    assert third.remainder.admits(0.05, 1e-4)


def test_families_without_a_prediction():
    def plain(n):
        return rk.Network(n, alpha=1 / n)

    report = depth.check(plain, depths=SHORT)
    assert (report.verdict, report.as_predicted) == (depth.ELSEWHERE, None)
    assert "without a prediction" in report.reason
    assert report.prediction == "none"
    assert np.isnan(report.column("distance")).all()
    assert "distance " not in str(report).splitlines()[-2]
    assert report.family == "plain"
    for kind in ("gpk", "ntk"):
        report = depth.check(lambda n: rk.Network(n, skip=False), kind=kind, depths=powers(12))
        assert (report.verdict, report.as_predicted) == (depth.DEGENERATES, None)
    assert families.fixed(rk.Network(1, activation="erf")).predict("ntk") is None
    assert families.fixed(rk.Network(1, trained=("input",))).predict("ntk") is None
    assert families.resnet(0.3).predict("gpk") is not None
    erf = families.decaying(rk.Network(1, activation="erf"), 0.3)
    assert erf.predict("gpk") is None
    assert erf.predict("ntk") is None


def test_a_family_that_turns():
    """α = 1/L, which converges to the dot product, until it does not."""
    X = multisphere.sample(5, 4, 5, rng=0)
    ladder = powers(15)
    networks = [rk.Network(n, alpha=1 / n if n <= 1024 else 1.0) for n in ladder]
    complements = multisphere.gram_complements(networks, X, kind="ntk", head="trace")
    values = np.array([pairs(complement) for complement in complements])
    dots = families.resnet(1.0).predict("ntk")
    limit = pairs(dots.complements(X, "trace"))

    def until(last):
        k = last - 2
        return judge(ladder[:k], values[:k], np.full(k, 1e-15), limit, dots)

    assert until(10).verdict == depth.AS_PREDICTED  # nothing tells yet
    for last in (11, 12, 13):
        assert until(last).verdict == depth.UNDECIDED
        assert until(last).as_predicted is None
    long_after = until(15)
    assert (long_after.verdict, long_after.as_predicted) == (depth.DEGENERATES, False)


def test_families_that_do_not_move():
    X = multisphere.sample(5, 4, 5, rng=0)

    def still(n):
        return rk.Network(n, alpha=0.0)

    dots = limits.dot_product(still(1))
    assert depth.check(still, X, depths=SHORT, prediction=dots).verdict == depth.AS_PREDICTED
    wrong = depth.check(still, X, depths=SHORT, prediction=limits.two_layer(still(1)))
    assert (wrong.verdict, wrong.as_predicted) == (depth.ELSEWHERE, False)
    assert depth.check(still, X, depths=SHORT).verdict == depth.ELSEWHERE


@pytest.mark.parametrize(
    ("c", "b", "p"),
    [
        *((0.01, 0.1, p) for p in (0.02, 0.1, 0.5)),
        *((0.05, 0.3, p) for p in (0.02, 0.05, 0.2)),
        *((0.05, 0.1, p) for p in (0.05, 0.1, 0.2, 0.5)),
    ],
)
def test_flows_that_look_like_the_dot_product(c, b, p):
    """α² = (c + b L^-p)/L: to the flow at time c, next to its start."""
    X = multisphere.sample(4, 3, 3, 0)

    def flow(n):
        return rk.Network(n, alpha=math.sqrt((c + b * n**-p) / n))

    dots = limits.dot_product(flow(1))
    for prediction in (dots, limits.Prediction(dots, p)):
        report = depth.check(flow, X, depths=powers(12), prediction=prediction)
        assert report.verdict in (depth.ELSEWHERE, depth.UNDECIDED)
        assert report.as_predicted is not True


@pytest.mark.parametrize("gamma", [0.05, 0.1, 0.125, 0.15, 0.2, 0.3])
def test_slow_corrections_refute_nothing(gamma):
    """Corrections of L^-2γ beside a law of L^(4γ−2): fits without them refute the right law."""
    X = multisphere.sample(4, 4, 3, rng=0)
    report = depth.check(families.resnet(gamma), X, kind="gpk", depths=powers(13))
    assert report.verdict == depth.DEGENERATES
    assert report.as_predicted is (None if gamma == 0.05 else True)
    assert report.constant.admits(4.5 * np.pi**2)
    tangent = depth.check(families.resnet(gamma), X, depths=powers(13))
    assert tangent.as_predicted is not False
    if tangent.verdict == depth.UNDECIDED and math.isfinite(tangent.exponent.uncertainty):
        assert tangent.exponent.admits(1 - 2 * gamma)


@pytest.mark.parametrize("last", [13, 15])
def test_a_logarithm_is_no_power(last):
    """log(L)/L has a slope of 0.93 to 0.95 at these depths: nearly 1, and not resolved from 1."""
    X = multisphere.sample(4, 4, 3, rng=0)
    power = depth.check(
        families.cnn(), X, depths=powers(last), prediction=limits.Prediction(0.25, 1)
    )
    assert power.exponent.admits(1.0, 0.07)
    assert power.as_predicted is False
    assert "there is a factor log(L), of constant 0.375" in power.reason.replace(
        "0.374999", "0.375"
    )


@pytest.mark.parametrize(("off", "head"), [(0.96, "trace"), (1.04, "gap")])
def test_constants_off_by_four_percent_are_refuted(off, head):
    """The default tolerance is 1 %; a larger tolerance accepts them; so with a logarithm."""
    X = multisphere.sample(4, 4, 3, rng=0)
    for family, kind, last in ((families.resnet(1.0), "ntk", 11), (families.cnn(), "ntk", 13)):
        right = family.predict(kind)
        constant = off * right.distance_constant(X, head)
        wrong = dataclasses.replace(right, constant=constant)
        options = {"depths": powers(last), "kind": kind, "head": head, "prediction": wrong}
        report = depth.check(family, X, **options)
        assert report.as_predicted is False
        assert "the constant is" in report.reason
        assert depth.check(family, X, tolerance=0.05, **options).as_predicted is True


@pytest.mark.parametrize("off", [1e-3, 1e-5, 1e-6])
@pytest.mark.parametrize("sign", [-1, 1])
def test_one_wrong_entry_is_found(off, sign):
    """One pair of ten: in root mean square 1e-5 hides below a distance of 5e-5."""
    X = multisphere.sample(5, 4, 3, rng=0)
    wrong = 1 - families.resnet(1.0).predict("ntk").complements(X, "trace")
    wrong[0, 1] = wrong[1, 0] = wrong[0, 1] + sign * off
    prediction = limits.Prediction(wrong, 1.0)
    report = depth.check(families.resnet(1.0), X, depths=powers(13), prediction=prediction)
    assert (report.verdict, report.as_predicted) == (depth.ELSEWHERE, False)
    assert report.remainder.admits(off, 1e-4 * off)


@pytest.mark.parametrize("gamma", [0.42, 0.45, 0.48, 0.49, 0.495, 0.505, 0.51, 0.52])
def test_numbers_printed_for_undecided_families_cover_the_truth(gamma):
    """Near γ = ½ a ladder sees a small part of the way, and smooth slopes mislead."""
    X = multisphere.sample(4, 4, 3, rng=1)
    for kind, readout in (("gpk", True), ("ntk", True), ("ntk", False)):
        family = families.resnet(gamma, readout=readout)
        report = depth.check(family, X, kind=kind, depths=powers(12))
        assert report.as_predicted is not False
        if report.verdict == depth.UNDECIDED:
            for found, truth in (
                (report.exponent, report.predicted_exponent),
                (report.remainder, 0.0),
                (report.step_exponent, report.predicted_exponent),
            ):
                assert not math.isfinite(found.uncertainty) or found.admits(truth)


def test_a_limit_that_is_off_by_little():
    """3e-7 is below a hundredth of the last distance, and is not nothing."""
    X = multisphere.sample(5, 4, 5, rng=0)
    right = 1 - families.resnet(1.0).predict("ntk").complements(X, "trace")
    off = limits.Prediction(right + 3e-7 * ~np.eye(5, dtype=bool), 1.0)
    report = depth.check(families.resnet(1.0), X, prediction=off)
    assert report.verdict != depth.AS_PREDICTED
    assert report.as_predicted is not True


def test_rates_that_are_not_resolved_are_not_confirmed():
    X = multisphere.sample(5, 4, 5, rng=0)
    vague = depth.check(families.resnet_fixed(0.1), X, kind="gpk", depths=powers(13))
    assert vague.exponent.uncertainty > 0.6
    assert vague.as_predicted is None
    right = families.resnet(1.0).predict("ntk")
    slow = limits.Prediction(1 - right.complements(X, "trace"), 0.01, constant=1e-9)
    # 1e-9 L^-0.01 may be there, far below what is seen.
    assert depth.check(families.resnet(1.0), X, depths=SHORT, prediction=slow).as_predicted is None
    fast = limits.Prediction(1 - right.complements(X, "trace"), 0.7, constant=0.8)
    found = depth.check(families.resnet(1.0), X, depths=SHORT, prediction=fast)
    assert found.as_predicted is False


@pytest.mark.parametrize("noise", [0.1, 1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_signals_that_nearly_agree_refute_nothing(kind, noise):
    """Pixels that nearly agree follow the common law from depth 3πs/√(2δ) on."""
    X = multisphere.sample(4, 4, 3, rng=0)
    X[1] = X[0] + noise * np.random.default_rng(1).standard_normal(X[0].shape)
    X = multisphere.project(X)
    for family in (families.cnn(), families.resnet_fixed(1.0), families.resnet(0.25)):
        report = depth.check(family, X, kind=kind, depths=SHORT)
        assert report.verdict in (depth.DEGENERATES, depth.UNDECIDED)
        assert report.as_predicted is not False
    plain = depth.check(lambda n: rk.Network(n, skip=False), X, kind=kind, depths=SHORT)
    assert plain.verdict in (depth.DEGENERATES, depth.UNDECIDED)
    if noise <= 1e-3 and kind == "ntk":
        told = depth.check(families.cnn(), X, kind=kind, depths=SHORT)
        assert told.verdict == depth.UNDECIDED
        assert "networks of depth" in told.reason


def test_opposite_signals_with_a_frozen_readout():
    """κ0 has its square root at u = −1: γ − ½ instead of 2γ − 1."""
    Z = multisphere.sample(4, 3, 1, rng=0)
    Z[1] = -Z[0]
    report = depth.check(families.huang_resnet(1.0), Z)
    assert report.predicted_exponent == 0.5
    assert (report.verdict, report.as_predicted) == (depth.AS_PREDICTED, True)
    Z[1, 0] += 1e-4  # nearly opposite: between the two laws
    near = depth.check(families.huang_resnet(1.0), multisphere.project(Z), depths=SHORT)
    assert near.verdict in (depth.AS_PREDICTED, depth.UNDECIDED)
    assert near.as_predicted is not False
    X = multisphere.sample(4, 3, 5, rng=0)
    X[1] = -X[0]
    wide = depth.check(families.resnet(1.0, readout=False), X, depths=powers(13))
    assert wide.predicted_exponent == 0.5
    assert wide.verdict == depth.AS_PREDICTED


def test_huangs_law_has_its_constant():
    Z = multisphere.sample(6, 4, 1, rng=0)
    t = pairs(multisphere.dot_products(Z)[..., 0])
    for gamma in (0.75, 1.0):
        report = depth.check(families.huang_resnet(gamma), Z, depths=powers(13))
        expected = math.sqrt(np.mean(degeneracy.resnet_rate(t) ** 2))
        assert abs(report.predicted_constant / expected - 1) <= 1e-9
        assert report.constant.admits(expected, 1e-3 * expected)
        assert report.as_predicted is True


def test_exponential_convergence_is_over_when_it_is():
    """erf: correlations of the tangent kernel vanish faster than any power of depth."""
    X = multisphere.sample(4, 3, 2, rng=0)
    erf = families.fixed(rk.Network(1, activation="erf"))
    report = depth.check(erf, X, depths=powers(9))
    assert (report.verdict, report.as_predicted) == (depth.DEGENERATES, None)
    assert "rounding error" in report.reason


def test_growth_that_is_slower_than_a_power():
    """α = log L/√L has log² L effective layers: it degenerates, some day."""
    X = multisphere.sample(4, 3, 3, rng=0)
    for kind in ("gpk", "ntk"):
        report = depth.check(
            lambda n: rk.Network(n, alpha=math.log(n) / math.sqrt(n)),
            X,
            kind=kind,
            depths=powers(13),
        )
        assert report.verdict in (depth.UNDECIDED, depth.DEGENERATES)


def test_undecided_says_how_deep():
    for family, scale in ((families.resnet_fixed(0.1), 1e4), (families.resnet(0.4), 1e9)):
        report = depth.check(family, depths=SHORT)
        assert report.verdict == depth.UNDECIDED
        words = report.reason.split("networks of depth ")[1]
        assert float(words.split(",")[0]) >= scale
