"""The infinite-depth-limit checker: limits against closed forms, verdicts where they are known."""

import csv
import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import rescntk as rk
from rescntk import plots
from rescntk.theory import conditioning, degeneracy, depth, families, limits, multisphere
from rescntk.theory.extrapolation import Estimate, decay, settle
from rescntk.theory.verdict import judge
from tests import tolerances
from tests.oracles import definition
from tests.oracles.papers import _row_box, kappa0, kappa1

EPS = tolerances.EPS["float64"]
SHORT = tuple(2**k for k in range(3, 12))
DEEP = tuple(2**k for k in range(3, 18))  # to 131072
mp = mpmath.mp.clone()
mp.dps = 40


def powers(last):
    return tuple(2**k for k in range(3, last + 1))


def pairs(A):
    return A[np.triu_indices(len(A), 1)]


def row_heads(rows):
    """Heads of rows (offset, pixel) of one pair: equivariant, trace, and GAP before it is
    normalized."""
    return {"equivariant": rows[0, 0], "trace": rows[0].mean(), "gap": rows.mean()}


# ------------------------------------------------------- kernels on the multi-sphere, to the last


def exact_scalar(gap, depth, alpha, skip, inner, outer, extra_in, readout):
    """1 − (normalized GPK, NTK) of fully connected networks from covariances, in 40 digits."""
    K = 1 - mp.mpf(gap)
    share = mp.mpf(alpha) ** 2 / (1 + mp.mpf(alpha) ** 2) if skip else mp.mpf(1)
    T, own = extra_in * K, mp.mpf(extra_in)
    for _ in range(depth):
        angle = mp.pi - mp.acos(K)
        both, slope = (mp.sqrt(1 - K * K) + angle * K) / mp.pi, angle / mp.pi
        T = (1 - share) * T + share * (outer * both + slope * (inner * K + T))
        own += share * (inner + outer)
        K = (1 - share) * K + share * both
    return float(1 - K), float(1 - (T + readout * K) / (own + readout))


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.25])
@pytest.mark.parametrize(
    "trained",
    [("inner", "outer", "readout"), ("inner",), ("input", "outer"), ("outer", "readout")],
)
def test_complements_at_depth_3000(skip, exponent, trained):
    """Both kernels keep all their digits, however small α is: the rest of a sum is carried on."""
    X = multisphere.project(np.array([[[1.0], [0.2]], [[0.6], [0.8]], [[1.0], [0.2001]]]))
    alpha = 3000.0**-exponent
    network = rk.Network(3000, 1, alpha=alpha, skip=skip, trained=trained)
    gaps = multisphere.dot_products(X, complement=True)[:, :, 0]
    flags = (part in trained for part in ("inner", "outer", "input", "readout"))
    flags = [int(flag) for flag in flags]
    computed = [
        multisphere.gram_complements([network], X, kind=kind, head="trace")[0]
        for kind in ("gpk", "ntk")
    ]
    for i, k in ((0, 1), (0, 2)):
        expected = exact_scalar(float(gaps[i, k]), 3000, alpha, skip, *flags)
        for value, exact in zip(computed, expected, strict=True):
            assert abs(value[i, k] - exact) <= tolerances.complement(3000) * abs(exact)


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3, 3, alpha=0.7),
        rk.Network(3, 5, outer_filter_size=3, skip=False),
        rk.Network(3, 3, outer_filter_size=1, alpha=1.3, c_v=1.3, c_w=1.9, trained=("inner",)),
        rk.Network(3, 1, outer_filter_size=3, alpha=0.4, input_scale=2.0, trained=("input",)),
        rk.Network(3, 3, alpha=0.7, readout_scale=3.0, trained=("outer", "readout", "input")),
    ],
)
def test_complements_are_the_definition(network, head):
    """Against pixel pairs in 40 digits, three depths and two α in one call."""
    X = multisphere.sample(3, 2, 4, rng=3)
    networks = [network, network.replace(depth=2), network.replace(depth=3, alpha=0.2)]
    for kind, which in (("gpk", 0), ("ntk", 1)):
        computed = multisphere.gram_complements(networks, X, kind=kind, head=head)
        for one, gaps in zip(networks, computed, strict=True):
            pixels = definition.pixel_pairs(X, one)[one.depth][which]
            K = definition.head(pixels, head)
            own = np.array([mp.sqrt(K[i, i]) for i in range(3)])
            exact = np.array(1 - K / np.multiply.outer(own, own), dtype=float)
            # X is on the multi-sphere to a few units only, and the definition knows it.
            assert np.abs(gaps - exact).max() <= 50 * EPS


def test_networks_pass_together_as_they_do_alone():
    X = multisphere.sample(4, 3, 5, rng=1)
    networks = [rk.Network(n, 3, alpha=a) for n, a in ((9, 0.1), (4, 1.0), (9, 1.0), (1, 0.1))]
    for kind in ("gpk", "ntk"):
        together = multisphere.gram_complements(networks, X, kind=kind, head="gap")
        alone = [
            multisphere.gram_complements([network], X, kind=kind, head="gap")[0]
            for network in networks
        ]
        assert (together == np.stack(alone)).all()
        assert (together == together.transpose(0, 2, 1)).all()
        assert (together.diagonal(axis1=1, axis2=2) == 0).all()


def test_one_signal_has_no_pairs():
    networks = [rk.Network(3), rk.Network(2)]
    for head in ("trace", "gap", "equivariant"):
        X = multisphere.sample(1, 3, 4, rng=0)
        gaps = multisphere.gram_complements(networks, X, kind="ntk", head=head)
        assert gaps.shape == (2, 1, 1)
        assert (gaps == 0).all()


def test_gap_complements_do_not_cancel():
    """Normalizing GAP takes differences of complements; deep in, they are all alike."""
    A = (
        np.array([[mp.mpf(3) / 7, mp.mpf(2) / 7], [mp.mpf(2) / 7, mp.mpf(1) / 2]])
        * mp.mpf(10) ** -9
    )
    exact = 1 - (1 - A[0, 1]) / mp.sqrt((1 - A[0, 0]) * (1 - A[1, 1]))
    computed = multisphere.normalize_complements(A.astype(float))
    assert abs(computed[0, 1] - float(exact)) <= 8 * EPS * 1e-9
    assert (computed.diagonal() == 0).all()


@pytest.mark.parametrize(
    ("networks", "says"),
    [
        ([], "networks is empty"),
        (["net"], "network is 'net', expected a rescntk.Network"),
        ([rk.Network(2, activation="erf")], "dot products alone for activation 'relu'"),
        ([rk.Network(2, input_filter_size=3)], "input_filter_size 1"),
        ([rk.Network(2), rk.Network(2, 5)], "networks differ in more than depth and alpha"),
        ([rk.Network(2, skip=False, c_w=0)], "its kernels are 0"),
        ([rk.Network(2, input_scale=0)], "its kernels are 0"),
        ([rk.Network(2, alpha=0, trained=("inner",))], "its tangent kernel is 0"),
        ([rk.Network(2, trained=())], "its tangent kernel is 0"),
    ],
)
def test_networks_that_the_recursion_does_not_take(networks, says):
    with pytest.raises(ValueError, match=says):
        multisphere.gram_complements(networks, multisphere.sample(3, 2, 4, 0), kind="ntk")


def test_signals_elsewhere():
    X = multisphere.sample(3, 2, 4, 0)
    assert multisphere.contains(X)
    assert not multisphere.contains(1.001 * X)
    with pytest.raises(ValueError, match="not on the multi-sphere"):
        multisphere.gram_complements([rk.Network(2)], 2 * X)


# ---------------------------------------------------------------------------- predicted limits


@pytest.mark.parametrize(("inner", "outer"), [(3, 3), (1, 3), (5, 1), (3, 7)])
@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
def test_the_two_layer_limit_in_closed_form(inner, outer, head):
    """½ box(κ1(u) + u κ0(u)) with u = box t, and the deep kernel is on its way there."""
    X, d = multisphere.sample(4, 3, 6, rng=2), 6
    network = rk.Network(1, inner, outer_filter_size=outer, trained=("inner", "outer"))
    rows = [multisphere.dot_products(X, offset=offset) for offset in range(d)]
    K = np.empty((4, 4))
    for i, k in np.ndindex(4, 4):
        shown = []
        for row in rows:
            u = _row_box(row[i, k], inner)
            shown.append(_row_box((kappa1(u) + u * kappa0(u)) / 2, outer))
        K[i, k] = row_heads(np.array(shown))[head]
    own = np.sqrt(K.diagonal())
    expected = K / np.multiply.outer(own, own)
    limit = limits.two_layer(network).replace(head=head)(X)
    # κ0 at the pixels that a signal shares with itself: √(2 eps)/π, of which the mean is taken.
    assert np.abs(limit - expected).max() <= 2 * np.sqrt(2 * 16 * EPS) / np.pi
    gaps = multisphere.gram_complements(
        [network.replace(depth=n, alpha=1 / n) for n in (1000, 2000)], X, kind="ntk", head=head
    )
    near, nearer = (np.abs(1 - gap - limit).max() for gap in gaps)
    assert near <= 3e-3
    # O(1/L), then a relative L^-1/2 from κ0's root at correlations near −1.
    assert abs(near / nearer - 2) <= 3 * 1000**-0.5


def test_the_two_layer_limit_is_for_any_signals_and_activation(rng):
    X = rng.standard_normal((4, 2, 5))
    for network in (
        rk.Network(1, 3, trained=("inner", "outer")),
        rk.Network(1, 3, activation="erf", c_v=1.3, c_w=0.7, trained=("inner",)),
        rk.Network(1, 1, input_filter_size=3, trained=("outer",)),
    ):
        limit = limits.two_layer(network).replace(head="gap")(X)
        distances = [
            np.abs(
                rk.Kernel(network.replace(depth=n, alpha=1 / n), "ntk", "gap", normalized=True)(X)
                - limit
            ).max()
            for n in (100, 200)
        ]
        assert distances[0] <= 0.05
        assert 1.8 <= distances[0] / distances[1] <= 2.2


def test_huangs_theorem_7():
    """Ω̄_1 = ½(σ̂ + ρ σ̂') of the poster."""
    X = multisphere.sample(5, 3, 1, rng=0)
    t = multisphere.dot_products(X)[..., 0]
    off = ~np.eye(5, dtype=bool)
    limit = limits.two_layer(rk.literature.huang_resnet(7))(X)
    expected = (kappa1(t) + t * kappa0(t)) / 2
    assert np.abs(limit - expected)[off].max() <= tolerances.TRANSCRIPTION


def test_a_window_of_a_window_is_refused():
    with pytest.raises(ValueError, match="filter_size is 3 and input_filter_size is 5"):
        limits.two_layer(rk.Network(1, input_filter_size=5))


@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_the_constant_of_theorem_6_1(kind, head, alpha):
    """L^(2γ−1) times the distance tends to the predicted constant; general signals too."""
    family = families.decaying(rk.Network(1, alpha=alpha, outer_filter_size=1), 1.0)
    for X in (multisphere.sample(4, 3, 5, 1), np.random.default_rng(1).standard_normal((4, 2, 5))):
        prediction = family.predict(kind)
        constant = prediction.distance_constant(X, head)
        limit = prediction.complements(X, head)
        deep = 1000
        K = rk.Kernel(family(deep), kind, head, normalized=True)(X)
        distance = math.sqrt(np.mean(pairs(1 - limit - K) ** 2))
        # The next order is Lα² = α²/L, times a factor of the same kind as the first.
        assert abs(deep * distance / constant - 1) <= 20 * alpha**2 / deep


@pytest.mark.parametrize("pixels", [1, 3])
def test_gap_sees_its_own_pixels(pixels):
    """¼ becomes d/(d + 3), and 1 − K̄ becomes (1/d) of the law."""
    X = multisphere.sample(4, 3, pixels, rng=0)
    quarter = limits.fixed(rk.Network(1), "ntk")
    found = pairs(1 - quarter.complements(X, "gap"))
    assert np.abs(found - pixels / (pixels + 3)).max() <= 8 * EPS
    ones = limits.fixed(rk.Network(1), "gpk")
    law = conditioning.asymptotic_complement(1)
    assert abs(ones.distance_constant(X, "gap") / law - 1 / pixels) <= 1e-11
    assert abs(ones.distance_constant(X, "trace") / law - 1) <= 8 * EPS
    # 16 d/(d+3)² times ⅜, from the derivative of (¼+η)/((1 + (d−1)(¼+η))/d).
    expected = 0.375 * 16 * pixels / (pixels + 3) ** 2
    assert abs(quarter.distance_constant(X, "gap") / expected - 1) <= 1e-9


def test_pixels_that_agree_stay_so_without_filters():
    """Two of three pixels the same: a filter mixes them in, size 1 does not."""
    X = multisphere.sample(3, 3, 3, rng=0)
    X[1, :, :2] = X[0, :, :2]
    for size, agreeing in ((1, 2 / 3), (3, 0.0)):
        limit = limits.fixed(rk.Network(1, size), "ntk").complements(X, "trace")
        assert abs(limit[0, 1] - 0.75 * (1 - agreeing)) <= 8 * EPS
        deep = multisphere.gram_complements([rk.Network(4000, size)], X, kind="ntk", head="trace")[
            0
        ]
        assert np.abs(deep - limit).max() <= 1e-3 * 30 / 4


def test_at_gamma_one_half_there_is_a_flow():
    """dρ/ds = κ1 − ρ and dτ/ds = κ1 + κ0 (ρ + τ) − τ to s = 1, where Θ̂ = (ρ + τ)/3."""
    X = multisphere.sample(4, 3, 1, rng=4)
    t = pairs(multisphere.dot_products(X)[..., 0])

    def flow(_, state):
        rho, tau = np.split(state, 2)
        both = kappa1(rho)
        return np.concatenate([both - rho, both + kappa0(rho) * (rho + tau) - tau])

    start = np.concatenate([t, np.zeros_like(t)])
    rho, tau = np.split(
        solve_ivp(flow, (0, 1), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1], 2
    )
    ladder = powers(11)
    family = families.huang_resnet(0.5)
    trained = families.decaying(family(1).replace(trained=("inner", "outer", "readout")), 0.5)
    for kind, limit in (("gpk", rho), ("ntk", (rho + tau) / 3)):
        gaps = multisphere.gram_complements(
            [trained(n) for n in ladder], X, kind=kind, head="trace"
        )
        values = np.array([pairs(1 - gap) for gap in gaps])
        for k, expected in enumerate(limit):
            found = settle(np.array(ladder, float), values[:, k], np.full(len(ladder), 1e-15))
            assert found.uncertainty <= 1e-7
            assert found.admits(expected, 1e-11)


# ------------------------------------------------------------------------- extrapolation


@given(
    st.floats(0.15, 3),
    st.floats(0.15, 3),
    st.floats(-3, 3),
    st.sampled_from([0.0, 1.0, -0.3]),
    st.sampled_from([2.0, 1.5, 3.0]),
)
def test_limits_are_within_their_uncertainty(p, further, b, limit, ratio):
    """limit + L^-p + b L^-(p+further): whatever the ladder."""
    depths = np.unique(np.round(8 * ratio ** np.arange(14)))
    assume(abs(b) * depths[-1] ** -further <= 0.2)  # in the end the first term leads
    values = limit + depths**-p * (1 + b * depths**-further)
    found = settle(depths, values, 4 * EPS * (abs(limit) + np.abs(values)))
    assert abs(found.value - limit) <= found.uncertainty + 16 * EPS


def test_logarithms_are_not_taken_for_powers():
    depths = 2.0 ** np.arange(3, 18)
    for values in (0.3 + 1 / np.log(depths), np.log(depths), np.log(np.log(depths))):
        found = settle(depths, values, EPS * values)
        assert found.uncertainty >= 0.3 * abs(values[-1] - values[0]) or found.admits(0.3)
    alternating = 0.3 + (-1.0) ** np.arange(15) * depths**-0.5
    assert settle(depths, alternating, EPS * depths).uncertainty == math.inf
    growing = settle(depths, depths**0.1, EPS * depths)
    assert growing.uncertainty == math.inf


@given(st.floats(0.2, 2.5), st.floats(-2, 2), st.sampled_from([0, 1]))
def test_exponents_are_within_their_uncertainty(p, b, log_power):
    depths = 2.0 ** np.arange(4, 17)
    factor = 0.4 * np.log(depths) + b + 3 if log_power else 1 + b / np.sqrt(depths)
    values = depths**-p * factor
    found = decay(depths, values, 4 * EPS * values, log_power, p)
    assert found.vanishes(math.inf)
    assert not found.stays
    assert found.exponent.admits(p, 1e-6)
    assert found.constant.admits(0.4 if log_power else 1.0, 1e-6)
    assert found.exponent.uncertainty <= 0.1 * p


def test_rounding_errors_are_no_decay():
    depths = 2.0 ** np.arange(3, 15)
    values = depths**-4.0 + 1e-13 * np.random.default_rng(0).uniform(size=12)
    found = decay(depths, values, np.full(12, 1e-13))
    assert found.vanished
    assert found.vanishes(0.02)
    assert found.remainder.uncertainty == 1e-13
    gone = decay(depths, values * 0, np.full(12, 1e-13))
    assert gone.vanished
    assert gone.vanishes(0.02)


def test_estimates_in_words():
    assert str(Estimate(0.23412, 0.16)) == "0.23 ± 0.16"
    assert str(Estimate(-3e-14, 2e-11)) == "-3e-14 ± 2.0e-11"
    assert str(Estimate(1.0000000123, 2e-9)) == "1.000000012 ± 2.0e-09"
    assert str(Estimate(math.nan, math.inf)) == "unknown"
    assert str(Estimate(0.5, 0.0)) == "0.5"


# ---------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("family", "kind", "exponent"),
    [
        (families.resnet(0.75), "ntk", 0.5),
        (families.resnet(0.75), "gpk", 0.5),
        (families.resnet(1.0), "ntk", 1.0),
        (families.resnet(1.25), "ntk", 1.5),
        (families.resnet(0.75, readout=False), "ntk", 0.5),
        (families.resnet(1.0, filter_size=5, readout=False), "ntk", 1.0),
        (families.resnet(1.25, readout=False), "ntk", 1.0),  # the first layer's O(1/L)
        (families.huang_resnet(1.25), "ntk", 1.5),  # and no such layer for filters of size 1
        (families.huang_resnet(1.0), "ntk", 1.0),
        (families.huang_resnet(0.75), "gpk", 0.5),
    ],
)
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_converges_as_predicted(family, kind, exponent, head):
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
    """At depth 131072, L^-0.2 is still a tenth; the theorem is for γ > ½ and not for ½."""
    six = depth.check(families.resnet(0.6, readout=readout), depths=DEEP if readout else powers(15))
    assert six.verdict == depth.AS_PREDICTED
    default = depth.check(families.resnet(0.6, readout=readout))
    assert (default.verdict, default.as_predicted) == (depth.AS_PREDICTED, True)
    assert six.exponent.admits(0.2)
    assert six.exponent.uncertainty <= 0.05
    five = depth.check(families.resnet(0.5, readout=readout), depths=SHORT)
    assert five.verdict == depth.ELSEWHERE
    assert five.as_predicted is None
    assert five.exponent.admits(0.0)
    assert five.exponent.uncertainty <= 1e-4
    assert five.remainder.value >= 0.03
    # Handed the prediction of the other, it is refuted.
    wrong = families.resnet(0.6, readout=readout).predict("ntk")
    handed = depth.check(families.resnet(0.5, readout=readout), depths=SHORT, prediction=wrong)
    assert handed.verdict == depth.ELSEWHERE
    assert handed.as_predicted is False
    # Nor is it told from γ = 0.51 wrongly: that is too slow for any ladder.
    slow = depth.check(families.resnet(0.51, readout=readout), depths=SHORT)
    assert slow.verdict == depth.UNDECIDED
    assert slow.as_predicted is None


@pytest.mark.parametrize(
    ("family", "slowdown", "head", "ladder"),
    [
        (families.cnn(), 1.0, "trace", powers(14)),
        (families.resnet_fixed(1.0), 2.0, "trace", DEEP),
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
    # Off by a thousandth, which is what is left of the distance.
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
    ladder = powers(16)
    networks = [rk.Network(n, alpha=1 / n if n <= 1024 else 1.0) for n in ladder]
    gaps = multisphere.gram_complements(networks, X, kind="ntk", head="trace")
    values = np.array([pairs(gap) for gap in gaps])
    dots = families.resnet(1.0).predict("ntk")
    limit = pairs(dots.complements(X, "trace"))

    def until(last):
        k = last - 2
        return judge(ladder[:k], values[:k], np.full(k, 1e-15), limit, dots)

    assert until(10).verdict == depth.AS_PREDICTED  # nothing tells yet
    for last in (11, 12, 13):
        assert until(last).verdict == depth.UNDECIDED
        assert until(last).as_predicted is None
    long_after = until(16)
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


def ladder_of(function, last=16):
    """Kernels of ten pairs that differ, from a function of depth."""
    L = np.array(powers(last), dtype=float)
    pattern = np.linspace(-1, 1, 10)
    return tuple(int(v) for v in L), np.array([function(n, pattern) for n in L])


def judged(function, last=16, **prediction):
    ladder, values = ladder_of(function, last)
    limit = prediction.pop("limit", None)
    handed = None if limit is None else limits.Prediction(0.5, **prediction)
    noise = np.full(len(ladder), 1e-15)
    return judge(ladder, values, noise, limit, handed, prediction.get("constant"))


def test_verdicts_on_sequences():
    """Where numbers are given, not networks."""
    limit = 0.7 + 0.1 * np.linspace(-1, 1, 10)
    # 1/log L converges more slowly than any power: nobody can tell.
    slow = judged(lambda n, u: limit + 0.1 * u / np.log(n), limit=limit, exponent=1.0)
    assert slow.verdict == depth.UNDECIDED
    # A small thing left over after a fast decay, and after a slow one.
    left = judged(lambda n, u: limit + u / n + 1e-4, limit=limit, exponent=1.0)
    assert left.verdict == depth.ELSEWHERE
    assert left.remainder.admits(1e-4, 1e-8)
    hidden = judged(lambda n, u: limit + u * n**-0.2 + 1e-3, limit=limit, exponent=0.2)
    assert hidden.verdict != depth.ELSEWHERE  # not to be seen under L^-0.2 = 0.1
    far = judged(lambda n, u: limit + 0.3 * u * n**-0.2 + 0.2, limit=limit, exponent=0.2)
    assert far.verdict == depth.ELSEWHERE
    # Everything to one value: degenerate without any prediction, and against a wrong one.
    for handed in ({}, {"limit": limit, "exponent": 1.0}):
        same = judged(lambda n, u: 0.4 + u / n, **handed)
        assert same.verdict == depth.DEGENERATES
        assert same.as_predicted is (False if handed else None)
    # Growing, wandering, oscillating: no verdict.
    for wild in (
        lambda n, u: 0.5 + 0.1 * u * np.sin(np.log(n)),
        lambda n, u: 0.5 + 0.01 * u * np.log(n),
        lambda n, u: 0.5 + 0.01 * u * n**0.1,
    ):
        for handed in ({}, {"limit": limit, "exponent": 1.0}):
            assert judged(wild, **handed).verdict == depth.UNDECIDED


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
)
def test_verdicts_are_never_wrong(p, b, left, last):
    """limit + left + u L^-p (1 + b u L^-p): as predicted only if what is left is hidden below
    the distance at the deepest; something else only if something is left."""
    limit = 0.7 + 0.1 * np.linspace(-1, 1, 10)

    def kernel(n, u):
        return limit + left + 0.3 * u * n**-p * (1 + b * u * n**-p)

    found = judged(kernel, last, limit=limit, exponent=p)
    deepest = 0.3 * 2.0 ** (-p * last)
    if found.verdict == depth.AS_PREDICTED:
        assert left <= 0.1 * deepest
    elif found.verdict == depth.ELSEWHERE:
        assert left > 0
    else:
        assert found.verdict == depth.UNDECIDED
    if left == 0:
        assert found.as_predicted is not False
    if left > 100 * deepest or (left == 0 and p >= 0.4 and last >= 12):
        assert found.verdict != depth.UNDECIDED


@given(st.floats(0.02, 0.5), st.floats(0.01, 0.3), st.sampled_from([0.03, 0.1, 0.3]))
def test_what_is_left_is_not_taken_for_nothing(p, left, size):
    """To a spread, and a distance, of `left` at the slowest of rates: never to 0."""

    def kernel(n, u):
        return 0.4 + u * (left + size * n**-p)

    alone = judged(kernel, 14)
    assert alone.verdict in (depth.ELSEWHERE, depth.UNDECIDED)
    for rate in (None, p):
        found = judged(kernel, 14, limit=np.full(10, 0.4), exponent=rate)
        assert found.verdict in (depth.ELSEWHERE, depth.UNDECIDED)
        assert found.as_predicted is not True


@pytest.mark.parametrize("p", [0.02, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize(("c", "b"), [(0.01, 0.1), (0.05, 0.3), (0.05, 0.1)])
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
    """They follow the law of all from depth 3πs/√(2δ) on."""
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


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_float32_signals_are_on_the_multisphere(head):
    X = multisphere.sample(5, 4, 5, rng=0).astype(np.float32)
    for family, kind in ((families.resnet(1.0), "ntk"), (families.resnet(1.0), "gpk")):
        report = depth.check(family, X, kind=kind, head=head)
        assert (report.verdict, report.as_predicted) == (depth.AS_PREDICTED, True)


def test_vectors_need_no_multisphere(rng):
    """Theorem 6 of Huang et al. is about all vectors; of one channel signs are left."""
    Z = rng.standard_normal((4, 3, 1))
    one, other = (
        depth.check(families.huang_ffnet(), V, depths=SHORT) for V in (Z, multisphere.project(Z))
    )
    assert one.verdict == depth.DEGENERATES
    assert np.abs(one.column("distance") - other.column("distance")).max() <= 1e-14
    signs = rng.choice([-1.0, 1.0], (5, 1, 6))
    for family in (families.resnet(1.0), families.cnn()):
        report = depth.check(family, signs, depths=SHORT)
        assert report.as_predicted is not False
        assert report.verdict != depth.ELSEWHERE


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
            lambda n: rk.Network(n, alpha=math.log(n) / math.sqrt(n)), X, kind=kind
        )
        assert report.verdict in (depth.UNDECIDED, depth.DEGENERATES)


def test_two_signals_are_one_pair():
    X = multisphere.sample(2, 3, 4, rng=0)
    report = depth.check(families.resnet(1.0), X, depths=SHORT)
    assert (report.verdict, report.as_predicted) == (depth.AS_PREDICTED, True)
    quarter = depth.check(families.cnn(), X, depths=powers(13))
    assert (quarter.verdict, quarter.as_predicted) == (depth.DEGENERATES, True)
    half = depth.check(families.resnet(0.5), X, depths=SHORT)
    assert half.verdict == depth.ELSEWHERE


def test_predictions_as_people_write_them():
    X = multisphere.sample(3, 3, 4, rng=0)
    for limit in (np.float32(0.25), 0.25, (0.75 * np.eye(3) + 0.25).tolist()):
        report = depth.check(families.cnn(), X, depths=powers(12), prediction=limit)
        assert report.verdict == depth.DEGENERATES
    windows = rk.Network(1, 3, input_filter_size=3, trained=("inner", "outer"))
    report = depth.check(families.decaying(windows, 1.0), X, depths=powers(8))
    assert report.prediction == "none"


def test_undecided_says_how_deep():
    for family, scale in ((families.resnet_fixed(0.1), 1e4), (families.resnet(0.4), 1e9)):
        report = depth.check(family, depths=SHORT)
        assert report.verdict == depth.UNDECIDED
        words = report.reason.split("networks of depth ")[1]
        assert float(words.split(",")[0]) >= scale


# ---------------------------------------------------------------------------- what check does


def test_signals_off_the_multisphere_take_the_general_kernels(rng):
    """ReLU kernels normalized do not see a factor: both routes have the same numbers."""
    X = multisphere.sample(4, 3, 4, rng=0)
    family = families.resnet(1.0)
    ladder = powers(8)
    on, off = (depth.check(family, Z, depths=ladder) for Z in (X, 2 * X))
    assert off.route == "normalized kernel matrices"
    assert np.abs(on.column("distance") - off.column("distance")).max() <= 1e-13
    assert off.verdict == depth.AS_PREDICTED
    other = depth.check(family, rng.standard_normal((4, 2, 5)), depths=ladder, kind="gpk")
    assert other.verdict == depth.AS_PREDICTED
    assert other.constant.admits(other.predicted_constant, 1e-3 * other.predicted_constant)
    erf = families.decaying(rk.Network(1, activation="erf", trained=("inner", "outer")), 1.0)
    report = depth.check(erf, X, depths=ladder)
    assert report.route == "normalized kernel matrices"
    assert report.verdict == depth.AS_PREDICTED


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_both_routes_agree(kind):
    X = multisphere.sample(4, 3, 4, rng=0)
    one, other = (
        depth.check(families.cnn(), X, depths=powers(8), kind=kind, head="gap", engine=engine)
        for engine in ("auto", "reference")
    )
    assert (one.route, other.route) == (
        "complements on the multi-sphere",
        "normalized kernel matrices",
    )
    assert np.abs(one.column("complement") - other.column("complement")).max() <= 1e-13
    with pytest.raises(ValueError, match="engine is 'slow'"):
        depth.check(families.cnn(), X, depths=powers(8), engine="slow")


def test_progress_is_shown(capfd):
    pytest.importorskip("tqdm")
    depth.check(families.cnn(), depths=powers(10), progress=True)
    assert "15.4k/15.4k" in capfd.readouterr().err  # 15 pairs, 1024 layers


def test_general_kernels_of_one_network_come_from_one_pass(monkeypatch):
    calls = []
    monkeypatch.setattr(
        depth, "gram", lambda *a, **k: calls.append(k["depths"]) or rk.gram(*a, **k)
    )
    X = 2 * multisphere.sample(4, 3, 4, rng=0)
    depth.check(lambda n: rk.Network(n, alpha=0.5), X, depths=powers(8))
    assert calls == [list(powers(8))]


def test_reports_are_reproducible_and_complete(tmp_path):
    reports = [depth.check(families.resnet(0.75), depths=SHORT, rng=7) for _ in range(2)]
    assert str(reports[0]) == str(reports[1])
    report = reports[0]
    assert str(report) != str(depth.check(families.resnet(0.75), depths=SHORT, rng=8))
    assert len(report) == len(SHORT)
    assert [row.depth for row in report] == list(SHORT)
    report.write_csv(tmp_path / "limits.csv")
    with open(tmp_path / "limits.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in depth.Row._fields:
        column = np.array([float(row[name]) for row in rows])
        assert np.array_equal(column, report.column(name), equal_nan=True)
    text = str(report)
    assert f"verdict: {report.verdict}: {report.reason}" in text
    assert f"exponent {report.exponent}" in text
    table = text.splitlines()[2 : 4 + len(SHORT)]
    assert len({len(line) for line in table}) == 1
    with pytest.raises(ValueError, match="column is 'kappa'"):
        report.column("kappa")


def test_rows_are_what_they_say():
    X = multisphere.sample(5, 3, 4, rng=0)
    report = depth.check(families.resnet(1.0), X, depths=powers(8), kind="gpk")
    limit = pairs(multisphere.dot_products(X).mean(axis=2))
    previous = None
    for row in report:
        K = pairs(rk.ResCGPK(row.depth, alpha=1 / row.depth, head="trace", normalized=True)(X))
        assert abs(row.off_diagonal - K.mean()) <= 1e-14
        assert abs(row.complement - (1 - K).mean()) <= 1e-14
        assert abs(row.spread - K.std()) <= 1e-14
        assert abs(row.distance - np.sqrt(np.mean((K - limit) ** 2))) <= 1e-14
        assert abs(row.largest - np.abs(K - limit).max()) <= 1e-14
        if previous is not None:
            old, before = previous
            assert abs(row.step - np.sqrt(np.mean((K - old) ** 2))) <= 1e-14
            assert abs(row.slope - np.log2(before.distance / row.distance)) <= 1e-12
        previous = K, row


def test_profiles():
    curve = depth.profile(families.huang_resnet(), (10, 1000), n_points=11)
    assert curve.values.shape == (2, 11)
    assert curve.family == "Huang's ResNet, α = L^-1"
    assert (curve.values[:, -1] == 1).all()
    t = curve.t[:-1]
    expected = (kappa1(t) + t * kappa0(t)) / 2
    assert np.abs(curve.limit[:-1] - expected).max() <= 1e-7  # κ0 at t = −1
    assert np.abs(curve.values[1] - curve.limit)[1:].max() <= 1e-3
    assert abs(curve.values[1] - curve.limit)[0] <= 1000**-0.5  # κ0 at t = −1
    assert depth.profile(families.resnet(0.5), (10,), n_points=3).limit is None
    assert depth.profile(lambda n: rk.Network(n), (1,), kind="gpk", n_points=3).limit is None


def test_families_are_the_papers():
    for n in (1, 5, 64):
        assert families.resnet(0.75, 5)(n) == rk.literature.barzilai_resnet(n, 5, n**-0.75)
        assert families.resnet_fixed(0.5)(n) == rk.literature.barzilai_resnet(n, 3, 0.5)
        assert families.cnn(5)(n) == rk.literature.barzilai_cnn(n, 5)
        assert families.huang_resnet(0.6)(n) == rk.literature.huang_resnet(n, 0.6)
        assert families.huang_ffnet()(n) == rk.literature.huang_ffnet(n)
    assert families.resnet(1.0, readout=False)(3).trained == ("inner", "outer")
    assert families.resnet(0.0).predict("gpk").rate == "L^-2"
    assert families.resnet(0.0, readout=False).name == "ResNet, α = 1, readout frozen"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"family": 3}, "family is 3, expected a function"),
        ({"family": lambda n: n}, "network is 8, expected a rescntk.Network"),
        ({"depths": (1, 2, 4)}, "expected at least 6"),
        ({"depths": (8, 16, 32, 64, 65, 128)}, "depths has 64 and then 65, expected each"),
        ({"depths": (8, 16, 32, 64, 128, 16)}, "depths has 128 and then 16"),
        ({"depths": 5}, "depths is 5"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": "mean"}, "head is 'mean'"),
        ({"X": np.ones((3, 4))}, r"X has shape \(3, 4\)"),
        ({"X": multisphere.sample(1, 3, 4, 0)}, "X has 1 case, expected at least 2"),
        (
            {"X": multisphere.sample(2, 3, 4, 0), "family": lambda n: rk.Network(n)},
            "X has 2 cases, expected at least 3: without a prediction",
        ),
        ({"family": lambda n: rk.Network(5)}, "returns a network of depth 5 for depth 8"),
        ({"family": lambda n: rk.Network(n, input_scale=0)}, "kernels are 0 and have no limit"),
        ({"X": multisphere.sample(3, 3, 4, 0)[[0, 1, 2, 1]]}, "the same signal as cases 1 and 3"),
        (
            {"X": np.eye(4)[:3, :, None] * 2},
            "the same dot product for all pairs of signals",
        ),
        (
            {"X": 2 * multisphere.sample(3, 3, 4, 0), "family": families.cnn()},
            "which the prediction .* requires",
        ),
        (
            {"X": multisphere.sample(3, 3, 4, 0), "prediction": np.eye(4)},
            r"limit has shape \(4, 4\), expected finite numbers \(3, 3\)",
        ),
        (
            {"X": multisphere.sample(3, 3, 4, 0), "prediction": np.triu(np.ones((3, 3)))},
            "not symmetric",
        ),
        ({"prediction": 2.0}, "limit is 2.0, expected a correlation"),
        ({"prediction": "dot"}, "limit is 'dot', expected a Kernel, a number"),
        ({"prediction": True}, "limit is True, expected a Kernel, a number"),
        ({"prediction": [[1.0], [1.0, 2.0]]}, "expected a Kernel, a number"),
    ],
)
def test_refusals(options, says):
    options = {"family": families.resnet(1.0), "depths": powers(8), **options}
    with pytest.raises(ValueError, match=says):
        depth.check(options.pop("family"), options.pop("X", None), **options)


def test_more_refusals():
    for make, says in (
        (lambda: families.resnet(-1), "gamma is -1, expected a finite number of at least 0"),
        (lambda: families.decaying(rk.Network(1, skip=False), 1.0), "no skip connections"),
        (lambda: limits.decaying(rk.Network(1, skip=False), 1.0, "ntk"), "no skip connections"),
        (lambda: limits.decaying(rk.Network(1, alpha=0), 1.0, "ntk"), "alpha is 0"),
        (lambda: limits.fixed(rk.Network(1, alpha=0), "ntk"), "without a residual branch"),
        (lambda: limits.fixed(rk.Network(1, c_v=0), "ntk"), "alpha, c_v, c_w are 1.0, 0.0, 1.0"),
        (lambda: limits.Prediction(0.5, exponent=-1), "exponent is -1"),
        (lambda: limits.Prediction(0.5, log_power=2), "log_power is 2"),
        (lambda: families.resnet(1.0)(0), "depth is 0"),
        (lambda: depth.profile(families.cnn(), (1,), n_points=0), "n_points is 0"),
        (lambda: depth.profile(families.cnn(), (1,), n_points=1), "n_points is 1, expected at"),
        (lambda: plots.limit_profiles(), "profiles is empty"),
        (lambda: plots.limit_distances(), "reports is empty"),
        (lambda: conditioning.slowdown(0.0), "expected a positive number"),
    ):
        with pytest.raises(ValueError, match=says):
            make()


def test_a_signal_without_energy_is_refused():
    X = np.random.default_rng(0).standard_normal((4, 2, 3))
    X[2] = 0
    with pytest.raises(ValueError, match="has a signal whose kernel with itself is 0"):
        depth.check(families.resnet(1.0), X, depths=powers(8))
