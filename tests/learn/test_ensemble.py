"""Views together: their weights, their average, and which ones a fit has."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from rescntk.learn.ensemble.levels import LevelsAndSizes
from rescntk.learn.ensemble.targets import Targets
from rescntk.learn.ensemble.weights import (
    residuals_of_folds,
    weights_at_signals,
    weights_of_one_regression,
)
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, OPTIONS, ignores_scores, waves
from tests.learn.estimators import fitted_views


def test_weights_of_views_minimize_the_error_of_the_average(rng):
    """The minimum of the squared error of the average, near weights ∝ e⁻⁴, by a general solver."""
    residuals = rng.standard_normal((5, 30, 2)) * np.array([1.0, 1.1, 1.3, 2.0, 9.0])[:, None, None]
    residuals[1] = 0.7 * residuals[0] + 0.8 * residuals[1]
    cases = rng.uniform(0.2, 2.0, 30)
    G = np.einsum("ano,bno,n->ab", residuals, residuals, cases / cases.sum()) / 2
    least, near = G.diagonal().min(), G.diagonal() ** -4.0
    near = near / near.sum()
    solution = minimize(
        lambda w: w @ G @ w / least + ((w - near) ** 2).sum(),
        near,
        method="SLSQP",
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    expected = np.where(solution.x < 0.02, 0.0, solution.x)
    assert_within(
        weights_of_one_regression(residuals, cases), expected / expected.sum(), tolerances.MINIMUM
    )


@pytest.mark.parametrize("size", np.geomspace(1.5, 9.0, 12))
def test_the_least_weights_become_zero_up_to_a_sum(size, rng):
    """Up to .02, as the docstring says: the weights beside each other are as they were."""
    residuals = (
        rng.standard_normal((4, 400, 1)) * np.array([1.0, 1.1, size, size + 0.3])[:, None, None]
    )
    found, sizes = (
        weights_of_one_regression(residuals, np.ones(400)),
        (residuals**2).mean(axis=(1, 2)),
    )
    near = sizes**-4.0 / (sizes**-4.0).sum()
    G = np.einsum("aik,bik->ab", residuals, residuals) / 400
    system = np.eye(4) + G / sizes.min()
    ones = np.ones(4)
    all_weights = np.linalg.solve(system, near)  # but for a multiple of what makes the sum 1
    along = np.linalg.solve(system, ones)
    all_weights += (1 - all_weights.sum()) / along.sum() * along
    if (all_weights < 0).any():
        pytest.skip("a view has no weight at all")
    rising = np.argsort(all_weights)
    dropped = rising[np.cumsum(all_weights[rising]) < 0.02]
    expected = np.where(np.isin(np.arange(4), dropped), 0.0, all_weights)
    assert_within(found, expected / expected.sum(), tolerances.MINIMUM)


def test_views_without_errors_have_equal_weights():
    assert_within(
        weights_of_one_regression(np.zeros((3, 4, 1)), np.ones(4)), 1 / 3, tolerances.ROUTES
    )


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-12])
def test_a_view_that_is_always_right_has_all_of_the_weight(size, rng):
    """Beside two that are not, however small its errors are."""
    residuals = rng.standard_normal((3, 20, 1))
    residuals[1] *= size
    assert_within(weights_of_one_regression(residuals, np.ones(20)), [0, 1, 0], tolerances.MINIMUM)


def test_a_view_counts_less_where_a_signal_is_novel_to_it():
    """By the third power of its novelty, 2."""
    novelties = np.array([[0.5, 2.0], [1.0, 1.0]])[:, :, None]  # one weight for all outputs
    at = weights_at_signals(np.full((2, 1), 0.5), novelties, np.array([0.3, 1.0]), [False, True])
    assert_within(at[:, :, 0], [[1 / 2, 1 / 9], [1 / 2, 8 / 9]], tolerances.ROUTES)


def test_a_view_that_depends_on_levels_counts_less_where_they_are_far():
    """By the eighth power of the distance, 2."""
    novelties = np.ones((2, 1, 1))
    at = weights_at_signals(np.full((2, 1), 0.5), novelties, np.array([2.0]), [False, True])
    assert_within(at[:, 0, 0], np.array([256, 1]) / 257, tolerances.ROUTES)


@pytest.mark.parametrize(("distance", "least"), [(1e3, 1e-25), (1e6, 1e-50), (np.inf, 0.0)])
def test_levels_may_be_as_far_as_numbers_go(distance, least):
    """Where all views depend on levels, their weights stay, as if levels were near."""
    novelties, given, far = np.ones((2, 1, 1)), np.array([[0.25], [0.75]]), np.array([distance])
    beside = weights_at_signals(given, novelties, far, [False, True])[:, 0, 0]
    assert least < beside[1] < 1e-20 and beside[0] == 1
    assert_within(
        weights_at_signals(given, novelties, far, [True, True])[:, 0], given, tolerances.ROUTES
    )


def test_weights_at_a_fold_come_from_the_other_folds(rng):
    """From the errors of their cases alone, and from novelties and levels of the fold's own."""
    residuals = rng.standard_normal((3, 40, 2)) * np.array([1.0, 1.2, 1.5])[:, None, None]
    error_weights, folds = rng.uniform(0.2, 2.0, 40), np.arange(40) % 10
    at_signals = rng.uniform(0.5, 2.0, (3, 40, 1)), rng.uniform(0.5, 2.0, 40)
    views = [False, True, True]
    targets = Targets(np.empty((40, 2)), error_weights)
    found = residuals_of_folds(residuals, targets, folds, *at_signals, views)
    for fold in range(10):
        at = folds == fold
        weights = weights_of_one_regression(residuals[:, ~at], error_weights[~at])[:, None]
        here = weights_at_signals(weights, at_signals[0][:, at], at_signals[1][at], views)
        expected = (here * residuals[:, at]).sum(axis=0)
        assert_within(found[at], expected, tolerances.MINIMUM)


@pytest.fixture
def drifting(rng):
    """A model of views of which one depends on levels, and signals whose levels drift."""
    X, y = waves(rng, 40, 2, channels=3)
    views = [View(standardize="channel"), View()]
    model = ResidualKernelClassifier(views, dtype="float64", random_state=0).fit(X, y)
    assert [view.pipeline.depends_on_levels for view in fitted_views(model)] == [True, False]
    return model, X + np.array([3.0, -3.0, 3.0])[:, None], y


def share_of_the_first(model, Z):
    """Return the weight of the first of two views at signals, by what it does to decisions."""
    first, second = (
        view.decisions_and_novelties(Z, OPTIONS)[0][:, 0] for view in fitted_views(model)
    )
    return (model.decision_function(Z) - second) / (first - second)


def test_views_that_depend_on_levels_step_back_where_levels_drift(drifting, rng):
    model, Z, _ = drifting
    usual, _ = waves(rng, 40, 2, channels=3)
    assert np.median(share_of_the_first(model, usual)) > 0.1
    assert share_of_the_first(model, Z).max() < 1e-3


def test_signals_whose_levels_drift_are_classified(drifting):
    model, Z, y = drifting
    assert model.score(Z, y) > 0.9


def test_weights_at_new_signals_come_from_their_levels(rng):
    """Not from their sizes."""
    X, y = waves(rng, 40, 2, channels=3)
    model = ResidualKernelClassifier(
        [View(standardize="channel"), View()], dtype="float64", random_state=0
    ).fit(X, y)
    Z = X[:5] + np.linspace(0.0, 3.0, 5)[:, None, None]
    decisions, novelties = map(
        np.array,
        zip(*(v.decisions_and_novelties(Z, OPTIONS) for v in fitted_views(model)), strict=True),
    )
    distances = LevelsAndSizes.of(X, np.ones(40)).distances(Z).levels
    assert distances.min() < 1 < distances.max()
    weights = weights_at_signals(
        model.views_["weight"][:, None], novelties, distances, [True, False]
    )
    expected = (weights * decisions).sum(axis=0)[:, 0]
    assert_within(model.decision_function(Z), expected, tolerances.ROUTES)


@pytest.fixture
def four_views(rng):
    """A model of four views, the models of each view by itself, and their signals."""
    X, y = waves(rng, 24, 2)
    with warnings.catch_warnings(action="ignore"):  # one of the views finds little
        singles = [
            ResidualKernelClassifier([v], dtype="float64").fit(X, y) for v in FOUR_VIEWS["views"]
        ]
    return ResidualKernelClassifier(**FOUR_VIEWS).fit(X, y), singles, X


def test_the_table_has_a_row_for_each_view(four_views):
    table = four_views[0].views_
    assert list(table) == ["view", "error", "weight", "note"]
    assert table["view"].tolist() == FOUR_VIEWS["views"] and (table["note"] == "").all()


def test_weights_of_the_table_add_up_to_one(four_views):
    assert_within(four_views[0].views_["weight"].sum(), 1, tolerances.ROUTES)


def test_errors_of_the_table_are_those_of_views_by_themselves(four_views):
    model, singles, _ = four_views
    errors = [single.views_["error"][0] for single in singles]
    assert_within(model.views_["error"], errors, tolerances.ROUTES)


def test_decisions_are_averages_of_those_of_views_by_themselves(four_views):
    """At signals with the levels of training signals, and with levels that are far away."""
    model, singles, X = four_views
    Z = X[:5] + np.linspace(0.0, 3.0, 5)[:, None, None]
    distances = LevelsAndSizes.of(X, np.ones(24)).distances(Z).levels
    assert distances.min() < 1 < distances.max()
    table_weights = model.views_["weight"]
    kept = [singles[k] for k in np.flatnonzero(table_weights)]
    decisions = np.array([single.decision_function(Z) for single in kept])
    views = [fitted_views(single)[0] for single in kept]
    novelties = np.array([view.decisions_and_novelties(Z, OPTIONS)[1] for view in views])
    depends_on_levels = [view.pipeline.depends_on_levels for view in views]
    overall = table_weights[table_weights > 0, None]
    weights = weights_at_signals(overall, novelties, distances, depends_on_levels)
    expected = (weights[:, :, 0] * decisions).sum(axis=0)
    assert_within(model.decision_function(Z), expected, tolerances.ROUTES)


@ignores_scores  # of one of the views alone
def test_novelties_of_views_are_averaged_by_inverse_errors(rng):
    """Their logarithms; novelties of views are those of models of one view."""
    X, y = waves(rng, 24, 2)
    Z = rng.standard_normal((5, 1, 24)) * X.std()
    model = ResidualKernelClassifier(**FOUR_VIEWS).fit(X, y)
    used = model.views_["weight"] > 0
    singles = [
        ResidualKernelClassifier([view], dtype="float64").fit(X, y)
        for view in model.views_["view"][used]
    ]
    novelties = np.array([single.novelty(Z) for single in singles])
    powers = 1 / model.views_["error"][used]
    expected = np.exp(powers / powers.sum() @ np.log(novelties))
    size_novelties = LevelsAndSizes.of(X, np.ones(24)).distances(Z).sizes ** 2
    assert used.sum() > 1 and (novelties > size_novelties).all()
    assert_within(model.novelty(Z), expected, tolerances.regression(24, 1e-6))


@ignores_scores
def test_weights_of_classes_weigh_the_errors_by_which_views_are_averaged(rng):
    """Levels tell class 0 from the others, and frequencies tell the others from each other."""
    X, y = waves(rng, 60, 2)
    y = np.where(np.arange(60) % 3 == 0, 0, 1 + y)
    X[y == 0] += 5
    views = [View(linear=True, standardize="channel", length=1), View(differences="only")]
    rare, common = (
        ResidualKernelClassifier(views, class_weight=weight, random_state=0)
        .fit(X, y)
        .views_["weight"]
        for weight in ({0: 1.0, 1: 1e-3, 2: 1e-3}, {0: 1e-3, 1: 1.0, 2: 1.0})
    )
    assert rare[0] > common[0] + 0.3


@pytest.mark.parametrize("method", ["decision_function", "novelty", "contributions"])
def test_results_of_batches_are_those_of_all_signals(method, rng, little_memory):
    """The sizes of batches are 64 and 66 here."""
    model = ResidualKernelClassifier(**ONE_VIEW).fit(*waves(rng, 12, 3))
    Z, _ = waves(rng, 130, 3)
    expected = getattr(model, method)(Z)
    little_memory()
    assert (getattr(model, method)(Z) == expected).all()


def notes_of(model):
    """Return the note of each view of a model."""
    return dict(zip(model.views_["view"], model.views_["note"], strict=True))


def test_views_that_lists_cannot_have_are_not_fitted(rng):
    X, y = waves(rng, 20, 2, length=80)
    ragged = [x[:, : 80 - k % 5] for k, x in enumerate(X)]
    for view, note in notes_of(ResidualKernelClassifier().fit(ragged, y)).items():
        refused = view.linear or view.head == "trace" or view.standardize == "point"
        start = "signals of different lengths have" if refused else ""
        assert note.startswith(start) and bool(note) == refused


def test_views_that_single_time_points_cannot_have_are_not_fitted(rng):
    X, y = waves(rng, 20, 2)
    points = ResidualKernelClassifier().fit(X[:, :, 5:6] + y[:, None, None], y)
    for view, note in notes_of(points).items():
        refused = view.standardize in ("signal", "local") or view.differences == "only"
        assert bool(re.match("one (time )?point has no", note)) == (refused or bool(view.bands))


def test_single_time_points_are_classified_by_views_that_depend_on_levels(rng):
    X, y = waves(rng, 20, 2)
    points = ResidualKernelClassifier().fit(X[:, :, 5:6] + y[:, None, None], y)
    depends_on_levels = [view.standardize == "channel" for view in points.views_["view"]]
    assert points.views_["weight"][depends_on_levels].sum() > 0


def test_signals_that_no_view_can_have_are_refused(rng):
    X, y = waves(rng, 20, 2)
    with pytest.raises(
        ValueError, match="views has no view that suits these signals: one time point"
    ):
        ResidualKernelClassifier([View()]).fit(X[:, :, :1], y)


def test_a_view_that_sees_the_same_as_another_is_not_fitted(rng):
    """Signals shorter than a block have no short-time spectra."""
    X, y = waves(rng, 20, 2)
    shape = View(filter_size=3, length=32)
    spectra = View(spectra=True, filter_size=3, length=32)
    notes = notes_of(ResidualKernelClassifier([View(), spectra, shape]).fit(X, y))
    assert notes == {View(): "", spectra: "", shape: "sees the same as view 1"}


@ignores_scores  # without branches a network sees little
@pytest.mark.parametrize("changes", [{"trained": ()}, {"trained": ("inner",), "alpha": 0.0}])
def test_networks_without_a_tangent_kernel_have_the_novelty_of_their_kernel(changes, rng):
    """New signals like the training signals are as novel as those, each left out."""
    network = rk.Network(2, 3, **changes)
    X, y = waves(rng, 60, 2)
    view = View(standardize="channel", network=network)
    model = ResidualKernelRegressor([view], dtype="float64", penalty=0.1).fit(X[:40], 1.0 * y[:40])
    ratio = np.median(model.novelty(X[40:])) / np.median(model.left_out_novelty_)
    assert 0.5 < ratio < 2


def test_networks_whose_kernels_are_0_are_refused(rng):
    view = View(network=rk.Network(2, 3, skip=False, c_v=0.0))
    with pytest.raises(ValueError, match="network of a view is Network.*, whose kernels are 0"):
        ResidualKernelClassifier([view]).fit(*waves(rng, 12, 2))


@pytest.mark.parametrize("factor", [1e10, 1e50, 1e120])
def test_views_of_very_novel_signals_are_averaged(factor, rng):
    """Powers of novelties of all views do not underflow together."""
    X, y = waves(rng, 30, 2)
    views = [View(linear=True, standardize="point"), View(linear=True, standardize="channel")]
    model = ResidualKernelRegressor(views).fit(X, y + 0.1 * X[:, 0, 3])
    assert np.isfinite(model.predict(factor * X)).all()


def test_linear_views_refuse_values_whose_squares_leave_float64(rng):
    X, y = waves(rng, 30, 2)
    model = ResidualKernelRegressor([View(linear=True, standardize="channel")])
    model.fit(X, y + 0.1 * X[:, 0, 3])
    with pytest.raises(ValueError, match="X has values above float64 in units of fit"):
        model.predict(1e160 * X)


def test_linear_views_of_signals_in_their_own_units_take_all_values(rng):
    X, y = waves(rng, 30, 2)
    model = ResidualKernelRegressor([View(linear=True)]).fit(X, y + 0.1 * X[:, 0, 3])
    assert np.isfinite(model.predict(1e160 * X)).all()


@pytest.mark.parametrize("n_landmarks", [None, 90])
def test_a_model_has_half_a_matrix_of_landmarks_for_each_view(n_landmarks, rng):
    """And the signals once, with a percent for all else: 41 MB for 1,000 signals and ten views."""
    X, y = waves(rng, 200, 2)
    options = {"n_landmarks": n_landmarks, "random_state": 0}
    model = ResidualKernelClassifier(**FOUR_VIEWS, **options).fit(X, y)
    file = pickle.dumps(model)
    m, n_views = n_landmarks or 200, len(fitted_views(model))
    assert len(file) <= 8 * n_views * m * (m + 1) / 2 + X.nbytes + 60_000


@pytest.mark.parametrize("n_landmarks", [None, 30])
def test_models_of_one_penalty_keep_their_predictions_in_files(n_landmarks, rng):
    X, y = waves(rng, 60, 2)
    model = ResidualKernelClassifier(**FOUR_VIEWS, n_landmarks=n_landmarks).fit(X, y)
    same = pickle.loads(pickle.dumps(model))
    assert (same.predict_proba(X) == model.predict_proba(X)).all()


def test_models_of_a_penalty_for_each_output_keep_their_predictions_in_files(rng):
    X, y = waves(rng, 40, 3)
    Y = np.stack([1.0 * y, X[:, 0, :3].sum(axis=1)], axis=1)
    model = ResidualKernelRegressor(**FOUR_VIEWS, penalty=(1e-3, 1.0)).fit(X, Y)
    same = pickle.loads(pickle.dumps(model))
    assert (same.predict(X) == model.predict(X)).all()
    assert (same.novelty(X) == model.novelty(X)).all()
