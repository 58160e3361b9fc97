"""The depth checker: its routes, reports, and fits to sequences of known laws."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import brentq

import rescntk as rk
from rescntk.theory import depth, multisphere
from rescntk.theory.depth import Prediction, checker
from rescntk.theory.depth.checker import extrapolate, fit_exponent
from tests import families, tolerances
from tests.families import SHORT, pairs, powers
from tests.oracles import definition


@pytest.mark.slow
@pytest.mark.parametrize(
    ("c_v", "constant", "ntk", "wrong"), [(2.0, 9 / 8, 4 / 7, 1 / 4), (2.2, 9 / 2, 1 / 4, 4 / 7)]
)
def test_biases_at_infinite_depth(c_v, constant, ntk, wrong, monkeypatch):
    """The phases of docs/theory/biases.md; the constant and the limit of the other one fail."""
    X, q = multisphere.sample(2, 3, 4, rng=0), 0.5 if c_v == 2.0 else 1.0
    family = partial(rk.Network, skip=False, bias=0.3, c_v=c_v)
    both = rk.gram(family(1), X, head="trace", depths=powers(13), normalized=True)
    monkeypatch.setattr(checker, "gram", lambda *_, kinds, **__: [getattr(both, kinds[0])])

    def check(kind, *law):
        prediction = Prediction(*law, correction_exponent=q)
        return depth.check_convergence(
            family, X, kind=kind, head="trace", depths=powers(13), prediction=prediction
        )

    ones = check("gpk", 1.0, 2.0)
    assert ones.verdict == checker.AGREES
    L = ones.column("depth")
    law = ones.column("distance") * L**2 / np.pi**2  # and corrections like L^-q
    rest = (2**q * law[1:] - law[:-1]) / (2**q - 1)
    beyond = 0.05  # what terms after the first correction leave
    assert abs(rest[-1] - constant) <= beyond * constant
    right = check("ntk", ntk, *((0.5, 0) if c_v == 2.0 else (1.0, 1)))
    assert right.verdict == (checker.AGREES if c_v == 2.0 else checker.OPEN)
    next_term = 0.03  # of slopes at the last depth, from corrections like L^-q
    assert abs(right.rows[-1].slope - (0.5 if c_v == 2.0 else 0.95)) <= next_term
    assert check("ntk", wrong, 1.0).verdict == checker.CONTRADICTS


@pytest.mark.slow
@pytest.mark.parametrize("c_v", [2.0, 4.0])
def test_biases_and_signals_of_different_energy(c_v):
    """χ = 1: 1 − K̄ = Y/L² with k Y^(3/2) = Y + D²/8, and the NTK's limit 2/(2 + √(2Y)/π)."""
    X, k = np.random.default_rng(1).standard_normal((2, 1, 5)), 2 * np.sqrt(2) / (3 * np.pi)
    X[1] = 2 * X[0]
    energy = (X**2).mean(axis=(1, 2))
    D = np.diff(energy)[0] / (0.3**2 * (1 + c_v / 2))
    Y = brentq(lambda Y: k * Y**1.5 - Y - D**2 / 8, 1 / k**2, 1e4)
    network = rk.Network(1, skip=False, bias=0.3, c_v=c_v, c_w=2 / c_v)
    depths = np.array([4000, 16000])
    found = rk.gram(network, X, head="trace", depths=depths, normalized=True)
    for kernel, limit in (
        (depths**2 * (1 - found.gpk[:, 0, 1]), Y),
        (found.ntk[:, 0, 1], 2 / (2 + np.sqrt(2 * Y) / np.pi)),
    ):
        near, far = np.abs(kernel / limit - 1)
        assert far < 0.6 * near and far <= 0.01  # corrections fall like L^-1/2 at least
    assert Y > 1.5 / k**2


@pytest.mark.slow
@pytest.mark.parametrize("head", ["trace", "gap"])
@pytest.mark.parametrize(
    ("options", "growth"),
    [({"bias": 1.0}, 1.0), ({"bias": 0.3, "alpha": 0.7}, 1.0), ({"bias": 0.3, "skip": False}, 0.1)],
)
def test_biases_with_input_and_readout_trained(options, growth, head):
    """1/√((1 + τ_x)(1 + τ_z)), τ the share of the variance that the input has, 1/d of it by GAP."""
    X, bias = np.random.default_rng(0).standard_normal((2, 3, 5)), options["bias"]
    c_w = 1.0 if options.get("skip", True) else 1.1
    network = rk.Network(2000, c_w=c_w, trained=("input", "readout"), **options)
    energy = (X**2).mean(axis=(1, 2))
    tau = energy / (energy + 2 * bias**2 / growth)
    limit = np.prod(1 + tau / (5 if head == "gap" else 1)) ** -0.5
    found = rk.Kernel(network, "ntk", head, normalized=True)(X)[0, 1]
    assert abs(found - limit) <= depth.asymptotic_complement(network.replace(bias=0.0))
    # What later layers' biases add falls geometrically, but their share does not.
    added_later = 1e-5
    shallow = network.replace(depth=40 if network.skip else 400)
    variance = np.diag(rk.Kernel(shallow, "gpk", "trace")(X))
    assert np.abs(energy * network.growth**shallow.depth / variance / tau - 1).max() <= added_later


@pytest.mark.parametrize(("options", "share"), [({"bias": 1}, 0.667), ({"bias": 0.3}, 0.643)])
def test_shares_of_biases(options, share):
    """The two numbers of docs/theory/biases.md, of signals of mean energy 1."""
    network = rk.Network(40, **options)
    if share < 0.65:
        network = network.replace(depth=400, skip=False, c_w=1.1)
    variance = rk.Kernel(network, "gpk", "trace").diag(multisphere.sample(1, 3, 5, rng=0))[0]
    assert round(1 - network.growth**network.depth / variance, 3) == share


def report_of_resnet():
    """Return a report on signals that the checker draws."""
    options = {"kind": "ntk", "head": "trace", "depths": SHORT, "rng": 7}
    return depth.check_convergence(families.resnet(0.75), **options)


@pytest.fixture(scope="module")
def report():
    return report_of_resnet()


@pytest.mark.slow
def test_reports_are_reproducible(report):
    assert str(report) == str(report_of_resnet())


@pytest.mark.slow
def test_files_of_reports_have_their_rows(report, tmp_path):
    report.write_csv(tmp_path / "limits.csv")
    rows = np.genfromtxt(tmp_path / "limits.csv", delimiter=",", names=True)
    assert rows["depth"].tolist() == list(SHORT)
    for name in checker.DepthRow._fields:
        assert np.array_equal(rows[name], report.column(name), equal_nan=True)


@pytest.mark.slow
def test_reasons_have_the_exponent_and_the_predicted_one(report):
    assert f"exponent of the distance is {report.exponent}, predicted 0.5" in report.reason


@pytest.mark.slow
def test_reports_end_with_their_reason_and_verdict(report):
    assert f"{report.reason}\nverdict: {report.verdict}: " in str(report)


def plain(n):
    return rk.Network(n, alpha=1 / n)


@pytest.mark.slow
def test_progress_counts_layers_of_pairs(capfd):
    depth.check_convergence(plain, kind="ntk", head="trace", depths=powers(10), progress=True)
    assert "42.8k/42.8k" in capfd.readouterr().err  # 21 pairs, 8 + … + 1024 layers


@pytest.mark.slow
def test_nothing_is_predicted_of_networks_that_are_no_family():
    report = depth.check_convergence(plain, kind="ntk", head="trace", depths=powers(8))
    assert (report.verdict, report.reason) == (checker.UNDEFINED, "nothing is predicted")
    assert np.isnan(report.column("distance")).all() and report.family == "plain"


def test_rows_are_what_they_say():
    X = multisphere.sample(5, 3, 4, rng=0)
    report = depth.check_convergence(
        families.resnet(1.0), X, kind="gpk", head="trace", depths=powers(8)
    )
    limit = pairs(multisphere.dot_products(X).mean(axis=2))
    assert [row.depth for row in report] == list(powers(8))
    for row in report:
        K = pairs(rk.ResCGPK(row.depth, alpha=1 / row.depth, head="trace", normalized=True)(X))
        bar = tolerances.KERNEL["float64"]
        assert abs(row.off_diagonal - K.mean()) <= bar
        assert abs(row.complement - (1 - K).mean()) <= bar
        assert abs(row.distance - np.sqrt(np.mean((K - limit) ** 2))) <= bar
    slopes = -np.diff(np.log2(report.column("distance")))
    assert np.abs(report.column("slope")[1:] - slopes).max() <= tolerances.ROUTES


@pytest.mark.slow
@pytest.mark.parametrize("limit", [np.float32(0.25), 0.25, (0.75 * np.eye(2) + 0.25).tolist()])
def test_predicted_limits_may_be_numbers_or_matrices(limit):
    """Of two signals in float32; the limits of signals with themselves do not count."""
    X = multisphere.sample(2, 3, 4, rng=0).astype(np.float32)
    report = depth.check_convergence(
        families.cnn(),
        X,
        kind="ntk",
        head="trace",
        depths=SHORT,
        prediction=Prediction(limit, 1.0, log_power=1),
    )
    assert report.verdict == checker.AGREES


@pytest.mark.slow
def test_vectors_off_the_sphere_are_taken_on_it(rng):
    """Theorem 6 of Huang et al. is about all vectors."""
    Z = rng.standard_normal((4, 3, 1))
    check = partial(
        depth.check_convergence, families.huang_ffnet(), kind="ntk", head="trace", depths=powers(8)
    )
    free, projected = (check(V).column("distance") for V in (Z, multisphere.project(Z)))
    assert np.abs(free - projected).max() <= tolerances.KERNEL["float64"]


def judged_numbers(monkeypatch, network, X, **options):
    """Return the complements of pairs that are judged, and their errors as the checker has them."""
    kept = []
    monkeypatch.setattr(
        checker, "judge", lambda _, values, noise, *rest: kept.extend((values, noise))
    )
    depth.check_convergence(lambda n: network.replace(depth=n), X, **options)
    return kept


def test_networks_may_have_numbers_of_their_layers_at_some_depths(monkeypatch):
    """A network of one layer has one α, and deeper ones fall from it."""
    kept, X, depths = [], multisphere.sample(3, 2, 5, rng=0), (1, 2, 4, 8, 16, 32)
    monkeypatch.setattr(checker, "judge", lambda _, values, *rest: kept.append(values))

    def family(n):
        return rk.Network(n, alpha=tuple(1 / np.arange(1, n + 1)))

    depth.check_convergence(family, X, kind="gpk", head="trace", depths=depths)
    pairs = np.triu_indices(len(X), 1)
    exact = [1.0 - rk.Kernel(family(n), "gpk", "trace", normalized=True)(X) for n in depths]
    assert np.abs(kept[0] - np.array([K[pairs] for K in exact])).max() <= tolerances.ROUTES


def exact_complements(network, X, depths, kind, head):
    """Return 1 − (normalized kernel) of all pairs at these depths, in 40 digits."""
    kernels, found = definition.pixel_pairs(X, network.replace(depth=depths[-1])), []
    for n in depths:
        K = definition.head(kernels[n][("gpk", "ntk").index(kind)], head)
        sizes = [definition.mp.sqrt(K[i, i]) for i in range(len(X))]
        found.append(
            [
                1 - K[i, j] / (sizes[i] * sizes[j])
                for i, j in np.transpose(np.triu_indices(len(X), 1))
            ]
        )
    return np.array(found)


CLOSE = multisphere.sample(4, 3, 1, rng=0)
CLOSE[1] = CLOSE[0] + 1e-2 * CLOSE[1]
CLOSE = multisphere.project(CLOSE)
NEARLY_EQUAL = multisphere.sample(2, 3, 1, rng=1)
NEARLY_EQUAL[1] = NEARLY_EQUAL[0] + 1e-4 * NEARLY_EQUAL[1]
NEARLY_EQUAL = multisphere.project(NEARLY_EQUAL)


@pytest.mark.parametrize("X", [CLOSE, NEARLY_EQUAL])
@pytest.mark.parametrize("engine", ["auto", "array"])
@pytest.mark.parametrize(("kind", "skip"), [("gpk", False), ("ntk", True)])
def test_errors_of_kernels_are_within_those_that_the_fit_takes(X, kind, skip, engine, monkeypatch):
    """And these are no larger than the bars of complements and of kernels."""
    network, depths = rk.Network(1, 1, skip=skip), powers(8)
    options = {"kind": kind, "head": "trace", "depths": depths, "engine": engine}
    values, noise = judged_numbers(monkeypatch, network, X, **options)
    exact = exact_complements(network, X, depths, kind, "trace")
    errors = np.vectorize(lambda a, b: float(definition.mp.mpf(float(a)) - b))(values, exact)
    assert (np.sqrt((errors**2).mean(axis=1)) <= noise).all()
    if engine == "auto":  # which keeps the digits of complements
        size = np.sqrt((values**2).mean(axis=1))
        assert (noise <= tolerances.complement(np.array(depths)) * size).all()
    else:
        assert (noise[:3] <= tolerances.KERNEL["float64"]).all()  # up to depth 50


def test_complements_keep_their_digits_where_means_of_pixels_nearly_cancel(monkeypatch):
    """GAP of signals whose mean has little more than a twentieth of their energy."""
    X = np.zeros((2, 2, 20))
    X[:, 0], X[:, 0, :8] = 1.0, -1.0
    X[0, 1, 0], X[1, 1, 7] = 2.0, -2.0
    X = multisphere.project(X)
    assert (1 / 20 < (X.mean(axis=2) ** 2).mean(axis=1)).all()  # of an energy of 1
    options = {"kind": "gpk", "head": "gap", "depths": powers(10)}
    values, noise = judged_numbers(monkeypatch, rk.Network(1, skip=False), X, **options)
    size = np.sqrt((values**2).mean(axis=1))
    assert (noise <= tolerances.complement(np.array(powers(10))) * size).all()


@pytest.mark.parametrize(("head", "keeps_digits"), [("trace", True), ("gap", False)])
def test_complements_lose_digits_where_one_signal_has_mean_0(head, keeps_digits, monkeypatch):
    """Then kernels are subtracted from 1, with errors of some units of 1 at any depth."""
    X = multisphere.sample(2, 2, 6, rng=0)
    X[0, :, 3:] = -X[0, :, :3]
    X[1] = X[1, :, :1]
    options = {"kind": "gpk", "head": head, "depths": powers(12)}
    _, noise = judged_numbers(monkeypatch, rk.Network(1, skip=False), X, **options)
    assert (noise.min() < tolerances.EPS["float64"]) == keeps_digits


EPS = tolerances.EPS["float64"]
PATTERN = np.linspace(-1, 1, 10)
LIMIT = 0.7 + 0.1 * PATTERN


@given(
    st.floats(0.15, 3),
    st.floats(0.15, 3),
    st.floats(-3, 3),
    st.sampled_from([0.0, 1.0, -0.3]),
    st.sampled_from([2.0, 1.5, 3.0]),
)
def test_limits_are_within_their_bars(p, further, b, limit, ratio):
    """limit + L^-p + b L^-(p+further): whatever the depths."""
    depths = np.unique(np.round(8 * ratio ** np.arange(14)))
    assume(abs(b) * depths[-1] ** -further <= 0.2)  # in the end the first term leads
    values = limit + depths**-p * (1 + b * depths**-further)
    noise = 4 * EPS * (abs(limit) + np.abs(values))
    found, error = extrapolate(depths, values, noise, (p, p, 2 * p, 2 * p))
    assert abs(found - limit) <= checker._STANDARD_ERRORS * error


@given(st.floats(0.2, 2.5), st.floats(-2, 2), st.sampled_from([0, 1]))
def test_exponents_are_within_their_bars(p, b, log_power):
    """And a power without a logarithm has no exponent beside one."""
    depths = 2.0 ** np.arange(4, 17)
    factor = 0.4 * np.log(depths) + b + 3 if log_power else 1 + b / np.sqrt(depths)
    values = depths**-p * factor
    found, bar = fit_exponent(depths, values, 4 * EPS * values, 0.5, log_power, depths[-1] ** -1.5)
    assert abs(found - p) <= bar <= 0.1 * checker._STANDARD_ERRORS * p
    values = depths**-p * (1 + 0.5 * abs(b) / depths)
    assert log_power or math.isinf(fit_exponent(depths, values, 4 * EPS * values, 1, 1, 1e-6).error)


def test_sizes_that_are_rounding_errors_have_no_exponent():
    depths = 2.0 ** np.arange(4, 17)
    found = fit_exponent(depths, 1 / depths, 1 / depths, 1.0, 0, 0.0)
    assert math.isnan(found.value) and found.error == math.inf and str(found) == "unknown"


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_bars_of_exact_powers_are_what_errors_of_sizes_do_to_an_exponent(theta):
    """To the first removal from slopes of the last three sizes, with the worst signs."""
    depths, relative = 2.0 ** np.arange(3, 13), 1e-7
    sizes, r = depths**-1.5, 2.0**-theta
    _, bar = fit_exponent(depths, sizes, relative * sizes, theta, 0, 0.0)
    signs = np.array([r, -(1 + r), 1.0])  # of log sizes in the exponent
    worst = relative * np.abs(signs).sum() / ((1 - r) * np.log(2))
    roundings = 1e-5  # of slopes, over `relative`
    assert abs(bar / (checker._STANDARD_ERRORS * worst) - 1) <= roundings


@pytest.mark.parametrize("exponent", [0.1, 1.5])
@pytest.mark.parametrize("start", [1e-12, 0.1, 10.0])
def test_three_sizes_of_a_power_with_a_logarithm_have_its_exponent(exponent, start):
    """Also where the logarithm's factor begins near 0."""
    logs = np.log([8.0, 16.0, 40.0])
    sizes = (logs - logs[0] + start) * np.exp(-exponent * logs)
    found = checker._log_exponent(logs, sizes)
    of_curvature = 1e-13 * (1 + start) ** 2  # a line over log L has what is left of 1/start²
    assert abs(found - exponent) <= of_curvature


def judged(function, last=16, limit=LIMIT, **prediction):
    """Judge ten pairs, given by a function of depth and of a pattern over pairs."""
    depths = powers(last)
    values = np.array([function(float(n), PATTERN) for n in depths])
    settings = checker.Subject("", "gpk", "gap", (5, 1, 1))
    law = Prediction(0.5, **prediction)
    return checker.judge(depths, values, np.full(len(depths), 1e-15), law, limit, settings)


@pytest.mark.parametrize(
    ("prediction", "verdict"),
    [
        ({}, checker.AGREES),
        ({"exponent": 1.01}, checker.CONTRADICTS),
        ({"limit": LIMIT + 1e-4}, checker.CONTRADICTS),
        ({"limit": LIMIT - 1e-4}, checker.CONTRADICTS),
        ({"exponent": 0.5}, checker.OPEN),  # the constant of a law may be 0 for some signals
        ({"onset": 2.0**16}, checker.OPEN),  # before the law sets in, nothing is known
        ({"onset": 8.0}, checker.AGREES),
        # Windows near a square-root point: up to half the power contradicts nothing.
        ({"exponent": 1.3, "settled": 2.0**17}, checker.OPEN),
        ({"exponent": 1.3, "settled": 1.0}, checker.CONTRADICTS),
    ],
)
def test_verdicts_on_a_power(prediction, verdict):
    report = judged(lambda n, u: LIMIT + u / n, **prediction)
    assert report.verdict == verdict
    assert ("of a higher order" in report.reason) == (prediction == {"exponent": 0.5})


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_rounding_errors_of_a_limit_contradict_nothing(power):
    """Of kernels without errors, and a limit that is off by two units of its last digit."""
    depths = powers(16)
    values = np.array([LIMIT + PATTERN / n**power for n in map(float, depths)])
    settings, limit = checker.Subject("", "gpk", "gap", (5, 1, 1)), LIMIT * (1 + 2 * EPS)
    law = Prediction(0.5, exponent=power)
    report = checker.judge(depths, values, np.zeros(len(depths)), law, limit, settings)
    assert report.verdict == checker.AGREES


def test_a_limit_that_is_off_by_its_error_contradicts_nothing():
    """Such as the flow's, which is integrated."""
    for error, verdict in ((1e-9, checker.OPEN), (0.0, checker.CONTRADICTS)):
        law = {"limit": LIMIT + 1e-9, "exponent": 3.0, "error": error}
        assert judged(lambda n, u: LIMIT + u / n**3, **law).verdict == verdict


def test_the_exponent_of_a_power_has_eight_digits():
    assert judged(lambda n, u: LIMIT + u / n).exponent.error <= 1e-8


@pytest.mark.parametrize("exponent", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("wild", [lambda n, u: u / np.log(n), lambda n, u: u * np.sin(np.log(n))])
def test_what_converges_more_slowly_than_any_power_has_no_exponent(wild, exponent):
    report = judged(lambda n, u: LIMIT + 0.1 * wild(n, u), exponent=exponent)
    assert report.verdict != checker.AGREES


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
    st.booleans(),
)
@example(1.125, 0.0, 1e-6, 13, False)
@example(1.838, -0.54, 1e-6, 10, True)
def test_limits_are_never_judged_wrongly(p, b, left, last, alone):
    """limit + left + u L^-p (1 + b u L^-p), left over in one pair or in all."""
    rest = left * (np.arange(10) == 3) if alone else left

    def kernel(n, u):
        return LIMIT + rest + 0.3 * u * n**-p * (1 + b * u * n**-p)

    report = judged(kernel, last, exponent=p, correction_exponent=min(p, 1.0))
    if left == 0:
        assert report.verdict != checker.CONTRADICTS
        assert report.verdict == checker.AGREES or p < 0.4 or last < 12
    elif left > 0.1 * report.rows[-1].distance:
        assert report.verdict != checker.AGREES
    if left > 100 * 0.3 * 2.0 ** (-p * last) and p >= 0.2:
        assert report.verdict == checker.CONTRADICTS


@pytest.mark.parametrize(
    ("value", "error", "of_limit", "verdict"),
    [
        (1.0, 0.049, 0.0, checker.AGREES),
        (1.0, 0.051, 0.0, checker.OPEN),
        (1.04, 0.03, 0.0, checker.CONTRADICTS),
        (1.48, 0.03, 0.0, checker.OPEN),
        (2.02, 0.03, 0.0, checker.OPEN),
        (1.75, 0.03, 0.0, checker.CONTRADICTS),
        (1.0, 0.01, 0.09, checker.AGREES),
        (1.0, 0.01, 0.11, checker.OPEN),
        (1.0, 0.01, 0.51, checker.CONTRADICTS),
    ],
)
def test_verdicts_are_those_of_the_page(value, error, of_limit, verdict):
    """Of a fitted exponent with its error bar, 1 predicted, and a limit's error."""
    fitted = checker.FittedExponent(value, error)
    assert checker._verdict(fitted, Prediction(0.5), 1e4, of_limit)[0] == verdict


def test_a_limit_contradicts_nothing_before_windows_have_settled():
    """Until then pairs add a term that extrapolation does not remove."""
    fitted = checker.FittedExponent(0.98, 0.03)
    laws = [Prediction(0.5, settled=settled) for settled in (1e5, 1e3)]
    verdicts = [checker._verdict(fitted, law, 1e4, 0.51)[0] for law in laws]
    assert verdicts == [checker.OPEN, checker.CONTRADICTS]


def test_vectors_of_any_length_have_predictions():
    """Their normalized kernels do not depend on lengths; a channel may be 0."""
    X = np.array([[[3.0], [0.0]], [[0.5], [0.5]], [[1.0], [-2.0]]])
    family = depth.Family(rk.Network(1, 1))
    report = depth.check_convergence(family, X, kind="gpk", head="trace", depths=powers(8))
    assert not report.prediction.undefined
