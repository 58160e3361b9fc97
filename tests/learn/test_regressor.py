"""The regressor: predictions, deviations, intervals, several targets, units."""

from types import SimpleNamespace

import numpy as np
import pytest

from rescntk.learn import ResidualKernelRegressor, View
from rescntk.learn.ensemble.levels import LevelsAndSizes
from rescntk.learn.views.defaults import CLASSIFIER_VIEWS
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, ignores_scores
from tests.learn.estimators import fitted_views

PENALTIES = (1e-3, 1e-1)

BAR = tolerances.regression(30, min(PENALTIES))
"""For ridge regression of thirty signals."""


def rising(rng, n, noise=0.0):
    """Return signals whose frequency is the target."""
    y = rng.uniform(0.2, 1.2, n)
    X = np.sin(np.arange(40) * y[:, None, None] + rng.uniform(0, 6, (n, 1, 1)))
    return X + 0.05 * rng.standard_normal(X.shape), y + noise * rng.standard_normal(n)


@pytest.fixture
def fitted(rng):
    """A model of frequencies, new signals and their targets."""
    model = ResidualKernelRegressor("fast", random_state=0).fit(*rising(rng, 60))
    return model, *rising(rng, 40)


def test_frequencies_are_predicted(fitted):
    model, Z, truth = fitted
    assert model.score(Z, truth) > 0.95


def test_scores_left_out_are_those_of_new_signals(fitted):
    model, Z, truth = fitted
    assert abs(model.left_out_score_ - model.score(Z, truth)) < 5 * model.left_out_score_error_


def test_scores_left_out_err_by_their_standard_error():
    """Over sixty training sets the root mean square of errors is near the standard error."""
    errors, a_quarter = [], 1 / 4
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((1040, 1, 6))
        y = X[:, 0, :3].sum(axis=1) + rng.standard_normal(1040)
        views = [View(linear=True, standardize="channel")]
        model = ResidualKernelRegressor(views, penalty=0.1, n_jobs=1).fit(X[:40], y[:40])
        score = 1 - np.mean((model.predict(X[40:]) - y[40:]) ** 2) / y[:40].var()
        errors.append((model.left_out_score_ - score) / model.left_out_score_error_)
    assert abs(np.sqrt(np.mean(np.square(errors))) - 1) < a_quarter


def test_errors_of_one_size_leave_no_error_of_the_score(rng):
    """Means of the others, far from targets 1 and −1 by one number."""
    X, y = rng.standard_normal((20, 1, 8)), (-1.0) ** np.arange(20)
    with pytest.warns(UserWarning, match="these views do not find"):
        model = ResidualKernelRegressor(**ONE_VIEW, penalty=1e9).fit(X, y)
    assert abs(model.left_out_score_ - (1 - (20 / 19) ** 2)) <= BAR
    assert 0 <= model.left_out_score_error_ <= BAR


@ignores_scores  # of much noise
@pytest.mark.parametrize("noise", [0.02, 0.2, 1.0, np.inf])
def test_penalties_for_noise_are_powers_of_ten_up_to_ten(noise, rng):
    """As documented, beside the least one, which is for exact targets."""
    X, y = rising(rng, 40, noise=min(noise, 1.0))
    if np.isinf(noise):
        y = rng.standard_normal(40)
    powers = [10.0**k for k in range(-4, 3)]
    *errors, default, most = (
        ResidualKernelRegressor(**ONE_VIEW, penalty=penalty).fit(X, y).views_["error"][0]
        for penalty in (*powers, None, powers)
    )
    assert_within(default, min(errors[:-1]), BAR)
    # Of noise the greatest penalty is the best, as long as there are greater ones.
    assert np.isfinite(noise) or (most < default < min(errors[:-2]))


def test_intervals_reach_as_far_as_weights_of_errors_say(rng):
    """A signal of weight three has the errors of three; noise is of the heavy signals."""
    X, y = rising(rng, 60)
    weights = np.where(np.arange(60) % 2, 1.0, 3.0)
    y = y + np.where(weights > 1, 0.3, 0.02) * rng.standard_normal(60)
    model = ResidualKernelRegressor(**ONE_VIEW, penalty=0.1).fit(X, y, sample_weight=weights)
    ratios = np.abs(y - model.left_out_prediction_) / np.sqrt(model.left_out_novelty_)
    ratios = np.sort(np.repeat(ratios, weights.astype(int)))
    widths = [
        np.subtract(*model.predict_interval(X[:1], coverage)[::-1])[0] for coverage in (0.9, 0.5)
    ]
    expected = [ratios[int(np.ceil(120 * c * 61 / 60)) - 1] for c in (0.9, 0.5)]
    assert_within(widths[0] / widths[1], expected[0] / expected[1], BAR)


def test_variances_of_views_and_between_views_add_up(rng):
    """At training signals that are novel to no view, views have the weights of the table."""
    X, y = rising(rng, 30, noise=0.2)
    views, options = [View(), View(differences="only", filter_size=3)], {"penalty": 0.1}
    model = ResidualKernelRegressor(views, **options).fit(X, y)
    singles = [ResidualKernelRegressor([view], **options).fit(X, y) for view in views]
    known = X[np.max([single.novelty(X) for single in singles], axis=0) < 1]
    mean, deviation = model.predict(known, return_std=True)
    parts = np.array([single.predict(known, return_std=True) for single in singles])
    weights = model.views_["weight"]
    squares = parts[:, 1] ** 2 + (parts[:, 0] - weights @ parts[:, 0]) ** 2
    assert len(known) > 5 and weights.min() > 0.1
    assert_within(mean, weights @ parts[:, 0], tolerances.KERNEL["float32"])
    assert_within(deviation**2, weights @ squares, tolerances.KERNEL["float32"])


def test_deviations_are_positive(fitted):
    model, Z, _ = fitted
    mean, deviation = model.predict(Z, return_std=True)
    assert mean.shape == deviation.shape == (40,) and (deviation > 0).all()


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover_new_targets_as_often_as_they_say(coverage, rng):
    X, y = rising(rng, 80, noise=0.1)
    Z, truth = rising(rng, 400, noise=0.1)
    model = ResidualKernelRegressor(**FOUR_VIEWS, random_state=0).fit(X, y)
    low, high = model.predict_interval(Z, coverage)
    inside = np.mean((low <= truth) & (truth <= high))
    # Two standard errors of a share of .5 among 80 training signals and 400: √(1/80 + 1/400).
    two_errors = 0.12
    assert abs(inside - coverage) < two_errors


@pytest.fixture(scope="module")
def model_of_thirty_signals():
    X, y = rising(np.random.default_rng(0), 30, noise=0.1)
    return ResidualKernelRegressor(**FOUR_VIEWS, random_state=0).fit(X, y), X


def test_a_coverage_that_too_few_signals_tell_warns(model_of_thirty_signals):
    model, X = model_of_thirty_signals
    with pytest.warns(UserWarning, match="30 training signals or groups support at most 0.968"):
        model.predict_interval(X, 0.999)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, "x"])
def test_other_coverages_are_refused(coverage, model_of_thirty_signals):
    model, X = model_of_thirty_signals
    with pytest.raises(ValueError, match="coverage is"):
        model.predict_interval(X, coverage)


@pytest.fixture(scope="module")
def model_of_three_targets():
    """Return a model of one target, in two units, and of equal numbers; its signals and target."""
    X, y = rising(np.random.default_rng(0), 30)
    Y = np.column_stack([y, 1e200 - 1e200 * y, np.full(30, 3.0)])
    return ResidualKernelRegressor(**ONE_VIEW, penalty=PENALTIES).fit(X, Y), X, y


def test_units_of_targets_do_not_matter(model_of_three_targets):
    model, X, _ = model_of_three_targets
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (30, 3)
    assert_within(mean[:, 1], 1e200 - 1e200 * mean[:, 0], BAR)
    assert_within(deviation[:, 1], 1e200 * deviation[:, 0], BAR)


def test_equal_targets_are_predicted_beside_others(model_of_three_targets):
    model, X, _ = model_of_three_targets
    assert_within(model.predict(X)[:, 2], 3.0, tolerances.ROUTES)


def test_a_single_target_has_one_axis(model_of_three_targets):
    model, X, y = model_of_three_targets
    single = ResidualKernelRegressor(**ONE_VIEW, penalty=PENALTIES).fit(X, y)
    assert_within(single.predict(X), model.predict(X)[:, 0], BAR)


def test_the_intercept_is_the_mean_target(model_of_three_targets):
    model, _, y = model_of_three_targets
    assert_within(model.intercept_[0], y.mean(), tolerances.ROUTES)


def test_intervals_of_several_targets_are_around_means(model_of_three_targets):
    model, X, _ = model_of_three_targets
    low, high = model.predict_interval(X, 0.9)
    mean = model.predict(X)
    assert (low <= mean).all() and (mean <= high).all()


@pytest.fixture(params=[900, 1022, -1000])
def at_the_ends(request, rng):
    """Models of targets and weights of order 1, and of these times a power of two; new signals.

    Targets of 5e307 overflow in a sum, and those of 1e-301 in squares.
    """
    (X, y), power = rising(rng, 30), request.param
    Y, weights = np.column_stack([y, 1 - y]) - 0.5, rng.uniform(0.5, 1.0, 30)
    usual, far = (
        ResidualKernelRegressor(**ONE_VIEW, random_state=0).fit(
            X, np.ldexp(Y, shift), sample_weight=np.ldexp(weights, shift)
        )
        for shift in (0, power)
    )
    return SimpleNamespace(usual=usual, far=far, Z=rising(rng, 9)[0], power=power)


METHODS_IN_UNITS = {
    "predict": {"return_std": True},
    "predict_interval": {"coverage": 0.5},
    "contributions": {},
}
"""Methods whose results are in the units of targets, and options."""


@pytest.mark.parametrize(("method", "options"), METHODS_IN_UNITS.items(), ids=METHODS_IN_UNITS)
def test_units_at_the_ends_of_float64_change_no_bit(method, options, at_the_ends):
    found, expected = (
        np.array(getattr(model, method)(at_the_ends.Z, **options))
        for model in (at_the_ends.far, at_the_ends.usual)
    )
    assert (found == np.ldexp(expected, at_the_ends.power)).all()


def test_the_least_intervals_are_in_units_at_the_ends_of_float64(at_the_ends):
    found, expected = (
        np.array(model.predict_interval(at_the_ends.Z, 1e-13))
        for model in (at_the_ends.far, at_the_ends.usual)
    )
    assert (found == np.ldexp(expected, at_the_ends.power)).all()


def test_scores_do_not_depend_on_units_at_the_ends_of_float64(at_the_ends):
    assert at_the_ends.far.left_out_score_ == at_the_ends.usual.left_out_score_


@ignores_scores  # of targets of noise
@pytest.mark.parametrize("n_landmarks", [None, 12])
@pytest.mark.filterwarnings("ignore:R² on signals left out is at most 0 of the columns")
def test_each_target_of_several_is_predicted_as_if_alone(n_landmarks, rng):
    """Its penalties, weights of views, deviations and intervals are its own."""
    X, y = rising(rng, 30)
    Y = np.column_stack([y, rng.standard_normal(30), 2 * X[:, 0, 3], rng.standard_normal(30)])
    options = FOUR_VIEWS | {"n_landmarks": n_landmarks, "random_state": 0}
    model, Z = ResidualKernelRegressor(**options).fit(X, Y), rising(rng, 9)[0]
    several = [*model.predict(Z, return_std=True), *model.predict_interval(Z, 0.8)]
    parts, penalties, tables = model.contributions(Z), set(), []
    for k, target in enumerate(Y.T):
        single = ResidualKernelRegressor(**options).fit(X, target)
        bar = tolerances.regression(30, min(fitted.penalties[0] for fitted in fitted_views(single)))
        alone = [*single.predict(Z, return_std=True), *single.predict_interval(Z, 0.8)]
        for found, expected in zip(several, alone, strict=True):
            assert_within(found[:, k], expected, bar)
        assert_within(parts[:, k], single.contributions(Z)[:, 0], bar)
        penalties |= {float(fitted.penalties[0]) for fitted in fitted_views(single)}
        tables.append(single.views_)
    assert len(penalties) > 1
    for column in ("error", "weight"):
        mean = np.mean([table[column] for table in tables], axis=0)
        assert_within(model.views_[column], mean, bar)


@ignores_scores  # of targets of noise
@pytest.mark.filterwarnings("ignore:R² on signals left out is at most 0 of the columns")
def test_the_novelty_for_several_targets_is_a_geometric_mean(rng):
    """Of novelties for each target by itself, which are above those of sizes."""
    X, y = rising(rng, 30)
    Y = np.column_stack([y, rng.standard_normal(30)])
    Z = rng.permuted(X[:6], axis=2)  # of the same sizes
    options = {"penalty": PENALTIES, **ONE_VIEW}
    found = ResidualKernelRegressor(**options).fit(X, Y).novelty(Z)
    singles = [ResidualKernelRegressor(**options).fit(X, target).novelty(Z) for target in Y.T]
    size_novelties = LevelsAndSizes.of(X, np.ones(30)).distances(Z).sizes ** 2
    assert (np.min(singles, axis=0) > size_novelties).all() and (singles[0] != singles[1]).all()
    assert_within(found, np.sqrt(singles[0] * singles[1]), BAR)


def test_equal_targets_have_intervals_of_no_width(rng):
    X = rng.standard_normal((8, 1, 20))
    with pytest.warns(UserWarning, match="^y has one value"):
        model = ResidualKernelRegressor(**ONE_VIEW).fit(X, np.full(8, 3.0))
    assert all((end == 3).all() for end in model.predict_interval(X, 0.5))


@pytest.mark.filterwarnings("ignore:y has one value")
def test_signals_of_equal_targets_have_novelties(rng):
    X = rng.standard_normal((8, 1, 20))
    assert np.isfinite(ResidualKernelRegressor(**ONE_VIEW).fit(X, np.full(8, 3.0)).novelty(X)).all()


def test_targets_of_noise_warn(rng):
    X, _ = rising(rng, 20)
    with pytest.warns(UserWarning, match="R² on signals left out, is .* these views do not find"):
        ResidualKernelRegressor(**ONE_VIEW, penalty=1e-3).fit(X, rng.standard_normal(20))


def test_one_target_of_noise_among_several_warns(rng):
    X, y = rising(rng, 20)
    y, model = np.stack([y, rng.standard_normal(20)], axis=1), ResidualKernelRegressor(**ONE_VIEW)
    with pytest.warns(UserWarning, match=r"at most 0 of the columns \[1\] of y"):
        model.set_params(penalty=1e-3).fit(X, y)


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (["a"] * 20, "^y has texts, such as 'a'"),
        ([{}] * 20, "^y has objects, expected numbers: "),
        ([1.0] * 5, "inconsistent numbers of samples"),
    ],
)
def test_what_is_no_set_of_targets_is_refused(targets, says, rng):
    with pytest.raises(ValueError, match=says):
        ResidualKernelRegressor(**ONE_VIEW).fit(rising(rng, 20)[0], targets)


def test_copies_of_one_signal_are_refused(rng):
    X, y = rising(rng, 1)
    with pytest.raises(ValueError, match="n_samples=1 up to copies"):
        ResidualKernelRegressor(**ONE_VIEW).fit(X[[0, 0]], y[[0, 0]])


def test_weights_are_inverse_noise(rng):
    X, y = rising(rng, 60)
    noisy = np.arange(60) % 2 == 0
    targets = y + noisy * rng.standard_normal(60)
    Z, truth = rising(rng, 60)
    plain = ResidualKernelRegressor(**FOUR_VIEWS, random_state=0).fit(X, targets)
    weighted = ResidualKernelRegressor(**FOUR_VIEWS, random_state=0).fit(
        X, targets, sample_weight=np.where(noisy, 1e-3, 1.0)
    )
    assert weighted.score(Z, truth) > plain.score(Z, truth) + 0.05


def test_equal_targets_have_no_score(rng):
    X = rng.standard_normal((8, 1, 20))
    with pytest.warns(UserWarning, match="^y has one value, which predictions then have"):
        model = ResidualKernelRegressor(**ONE_VIEW).fit(X, np.ones(len(X)))
    assert np.isnan(model.left_out_score_) and (model.predict(X) == 1.0).all()


@pytest.mark.slow
def test_lines_see_past_noisy_ends():
    """Of 21 spectra whose outer halves are noise: without the line of slopes R² is .944."""
    rng, x = np.random.default_rng(0), np.linspace(0.0, 1.0, 600)
    y = rng.uniform(1.0, 10.0, 21)
    band = 0.05 * np.exp(-(((x - 0.45) / 0.08) ** 2))
    base = rng.uniform(0.5, 1.5, (21, 1)) * (1.0 + 0.5 * x)
    noise = np.where((x < 0.25) | (x > 0.75), 0.6, 0.004) * rng.standard_normal((21, 600))
    X = y[:, None] * band + base + noise
    scores = [
        ResidualKernelRegressor(views, random_state=0).fit(X, y).left_out_score_
        for views in ("default", list(CLASSIFIER_VIEWS))
    ]
    assert scores[0] > 0.99 > 0.95 > scores[1]
