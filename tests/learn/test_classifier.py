"""The classifier: sets, class weights, scores, refusals, and its place in scikit-learn."""

import io
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier, View
from rescntk.learn.ensemble.calibration import columns_of_classes
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import ONE_VIEW, ignores_scores, waves
from tests.learn.estimators import fitted_views
from tests.learn.refits import mean_kernel, refits

VIEW = View(standardize="channel", filter_size=3)


def uneven(rng, rare=8, common=40):
    """Return two classes that overlap, one of them rare."""
    y = np.repeat([0, 1], [common, rare])
    X = rng.standard_normal((len(y), 1, 20)) + 0.5 * y[:, None, None]
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sets_cover_signals_drawn_with_the_weights_of_classes(class_weight, rng):
    """Three standard errors: of new signals, and of those left out."""
    (X, y), (Z, truth) = uneven(rng, rare=40, common=160), uneven(rng, rare=200, common=800)
    model = ResidualKernelClassifier(**ONE_VIEW, class_weight=class_weight).fit(X, y)
    for coverage in (0.8, 0.9, 0.95):
        found = model.predict_set(Z, coverage)[np.arange(len(Z)), truth]
        shares = [found[truth == k].mean() for k in (0, 1)]
        inside = np.mean(shares if class_weight else found)
        n, m = (40, 200) if class_weight else (200, 1000)
        assert abs(inside - coverage) < 3 * np.sqrt(coverage * (1 - coverage) * (1 / n + 1 / m))


def test_scores_for_sets_count_with_the_weights_of_classes(rng):
    """A rare class, in part like the common one, has half of the weight and so a lower limit."""
    X, looks = waves(rng, 200, 2)
    X = np.concatenate([X[looks == 0][:88], X[looks == 1][:12]])
    y, weights = np.repeat([0, 1], [80, 20]), np.repeat([1.0, 4.0], [80, 20])
    model = ResidualKernelClassifier(
        **ONE_VIEW, class_weight="balanced", penalty=0.1, random_state=0
    )
    model.fit(X, y)
    signs = 2.0 * y[:, None] - 1.0
    errors = refits(mean_kernel(X, X), signs, np.full(100, 0.1), np.arange(100))
    columns = columns_of_classes(signs - errors + model.offsets_)
    scores = softmax(model.inverse_temperature_ * columns, axis=1)[np.arange(100), y]
    level = 0.88 * 101 / 100
    limit, equal_limit = (
        -np.quantile(-scores, level, weights=w, method="inverted_cdf") for w in (weights, 0 * y + 1)
    )
    assert limit < 0.4 and equal_limit > 0.5 and model.left_out_novelty_.max() < 4
    Z = X[::2] + 0.3 * rng.standard_normal((50, 1, 24))
    proba = model.predict_proba(Z)
    least = np.minimum(limit, proba.max(axis=1, keepdims=True))
    assert (model.predict_set(Z, 0.88) == (proba >= least)).all()


def test_a_coverage_of_one_is_refused(rng):
    X, y = waves(rng, 16, 2)
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    with pytest.raises(ValueError, match="coverage is 1.0, expected a number between 0 and 1"):
        model.predict_set(X, 1.0)


def test_gains_are_novel_either_way():
    """Half of the size is as novel as twice the size, and a millionth is novel, too."""
    pytest.importorskip("aeon")
    X, y = load_labelled("GunPoint")
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    usual, half, twice, tiny = (np.median(model.novelty(gain * X)) for gain in (1, 0.5, 2, 1e-6))
    assert usual < 1 < 5 < half and 1 / 5 < half / twice < 5 and tiny > twice


def test_novelties_do_not_depend_on_the_unit_of_signals():
    pytest.importorskip("aeon")
    X, y = load_labelled("GunPoint")
    large, small = (
        ResidualKernelClassifier(**ONE_VIEW).fit(unit * X, y).novelty(unit * X)
        for unit in (2.0**10, 2.0**-30)
    )
    # log2 of sizes, near −30 and 10, and its means are rounded to 16 and 8 eps. Their unit is 0.2
    # at least, and squares double the errors.
    rounding = 2 * (16 + 16 + 8 + 8) / 0.2 * tolerances.EPS["float64"]
    assert_within(small, large, rounding)


@pytest.fixture(scope="module")
def uneven_models():
    """Return models of two uneven classes: without weights, balanced, and with these weights."""
    X, y = uneven(np.random.default_rng(0))
    # 48 / 2 / 40 and 48 / 2 / 8 are 0.6 and 3.
    weights = {"plain": None, "balanced": "balanced", "the same": {0: 0.6, 1: 3.0}}
    return {
        name: ResidualKernelClassifier(**ONE_VIEW, penalty=1.0, class_weight=weight).fit(X, y)
        for name, weight in weights.items()
    }


def test_class_weights_find_rare_classes(uneven_models, rng):
    Z, truth = uneven(rng, 50, 50)
    rates = {name: np.mean(m.predict(Z[truth == 1]) == 1) for name, m in uneven_models.items()}
    assert rates["balanced"] > rates["plain"] + 0.2


def test_offsets_are_of_class_weights(uneven_models):
    assert (uneven_models["plain"].offsets_ == 0).all()
    assert uneven_models["balanced"].offsets_[0] > 0


def test_balanced_classes_have_weights_inverse_to_their_numbers(uneven_models):
    expected = uneven_models["balanced"].offsets_
    assert_within(uneven_models["the same"].offsets_, expected, tolerances.ROUTES)


def test_balanced_classes_have_weights_inverse_to_the_weights_of_their_signals(rng):
    """Signals of weight 3 count as three."""
    X, y = uneven(rng)
    weights, options = 1.0 + 2.0 * (y == 1), {"penalty": 1.0, **ONE_VIEW}
    balanced = ResidualKernelClassifier(**options, class_weight="balanced").fit(
        X, y, sample_weight=weights
    )
    class_weights = {0: 1 / weights[y == 0].sum(), 1: 1 / weights[y == 1].sum()}
    the_same = ResidualKernelClassifier(**options, class_weight=class_weights).fit(
        X, y, sample_weight=weights
    )
    assert_within(balanced.offsets_, the_same.offsets_, 100 * tolerances.MINIMUM)
    found = balanced.predict_set(X, 0.5)
    assert (found == the_same.predict_set(X, 0.5)).all()


def test_classes_of_weight_0_are_left_out(rng):
    X, y = uneven(rng)
    X, y = np.concatenate([X, X[:3] + 1]), np.append(y, [2, 2, 2])
    model = ResidualKernelClassifier(**ONE_VIEW, class_weight={2: 0}).fit(X, y)
    assert model.classes_.tolist() == [0, 1]


def test_a_class_that_is_not_named_has_the_weight_1(flat):
    X, y = flat
    named, both = (
        ResidualKernelClassifier(**ONE_VIEW, class_weight=given, random_state=0).fit(X, y).offsets_
        for given in ({1: 3.0}, {0: 1.0, 1: 3.0})
    )
    assert named == both != 0


@pytest.mark.parametrize(
    ("given", "weights", "lost"),
    [
        ({0: 1, 1: 2, 2: 3}, np.ones(48), r"\[2\]"),  # a fold that lacks a class
        ({0: 1, 1: 2, "1": 2}, np.ones(48), r"\['1'\]"),
        ({0: 1, 1: 2, 3: 0.5}, np.arange(48) % 3, r"\[3\]"),
        ({0: 1, 1: 2, 2: 0.0, 3: 0}, np.ones(48), None),  # left out, and told to be
        ("balanced", np.ones(48), None),
    ],
)
def test_class_weights_that_find_no_signal_warn(given, weights, lost, rng):
    X, y = waves(rng, 48, 2)
    y = np.where(np.arange(48) % 6 == 3, 3, y) if isinstance(given, dict) and 3 in given else y
    says = f"^class_weight has keys {lost}, which no signal of positive weight has"
    with pytest.warns(UserWarning, match=says) if lost else nullcontext():
        ResidualKernelClassifier(**ONE_VIEW, class_weight=given).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("power", [1000, 1023, -1040])
def test_the_unit_of_weights_does_not_matter(power, rng):
    """Powers of two, up to the ends of float64: not a bit changes."""
    X, y = waves(rng, 24, 2)
    weights, unit = rng.uniform(0.5, 1.0, 24).astype(np.float16).astype(float), np.ldexp(1.0, power)
    class_weights = {0: 0.75, 1: 1.0}
    expected = ResidualKernelClassifier(**ONE_VIEW, class_weight=class_weights).fit(
        X, y, sample_weight=weights
    )
    scaled = {label: weight * unit for label, weight in class_weights.items()}
    model = ResidualKernelClassifier(**ONE_VIEW, class_weight=scaled)
    model.fit(X, y, sample_weight=weights * unit)
    assert (model.predict_proba(X) == expected.predict_proba(X)).all()
    assert (model.predict_set(X, 0.9) == expected.predict_set(X, 0.9)).all()
    assert model.left_out_score_error_ == expected.left_out_score_error_


def test_class_weights_may_differ_by_all_of_float64(rng):
    X, y = waves(rng, 24, 2)
    model = ResidualKernelClassifier(**ONE_VIEW, class_weight={0: 1e-308, 1: 1e308}).fit(X, y)
    assert (model.predict(X) == 1).all() and np.isfinite(model.predict_proba(X)).all()


def test_sets_of_a_tiny_coverage_have_the_most_probable_class_alone(rng):
    """One case is inside."""
    X, y = waves(rng, 24, 2)
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    for coverage in (1e-13, 5e-324):
        assert (model.predict_set(X, coverage).sum(axis=1) == 1).all()


def test_noise_is_told_with_a_remedy(rng):
    X, y = rng.standard_normal((30, 1, 20)), np.arange(30) % 2
    with pytest.warns(UserWarning, match=r"these views do not find .* or try views such as View"):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y)


def test_answers_that_are_always_the_most_common_class_are_told(rng):
    X, y = uneven(rng)
    with pytest.warns(UserWarning, match="left_out_score_ is 0.833, and the most common class has"):
        ResidualKernelClassifier(**ONE_VIEW, penalty=1e6).fit(X, y)


def test_the_most_common_class_is_that_of_the_greatest_weight(rng):
    """Both have one weight here, although one has five times as many signals."""
    X, y = uneven(rng)
    X, weights = X - 0.1 * y[:, None, None], np.where(y == 1, 5.0, 1.0)
    model = ResidualKernelClassifier(**ONE_VIEW, penalty=1.0).fit(X, y, sample_weight=weights)
    assert 1 / 2 < model.left_out_score_ < 40 / 48  # and this is no reason to warn


def test_the_only_signal_of_a_class_does_not_count(rng):
    X, y = waves(rng, 21, 2)
    y[-1] = 5
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    assert model.left_out_score_ > 0.9 and 0 < model.left_out_score_error_ < 0.1


@pytest.mark.parametrize("groups", [None, np.arange(40) // 3], ids=["signals", "groups"])
def test_the_error_of_a_score_counts_two_right_and_two_wrong_answers_more(groups, rng):
    """Agresti and Coull 1998. Answers about one group err together."""
    X, y = waves(rng, 40, 2)
    X, weights = X + 0.7 * rng.standard_normal(X.shape), rng.uniform(0.5, 2.0, 40)
    model = ResidualKernelClassifier(**ONE_VIEW, penalty=0.1, random_state=0)
    model.fit(X, y, sample_weight=weights, groups=groups)
    right = model.left_out_proba_.argmax(axis=1) == y
    answers = np.append(right, [1, 1, 0, 0])
    weights = np.append(weights / weights.mean(), np.ones(4))
    members = np.append(np.arange(40) if groups is None else groups, np.arange(100, 104))
    errors = np.bincount(members, weights * (answers - np.average(answers, weights=weights)))
    assert 0 < model.left_out_score_ < 1
    assert_within(
        model.left_out_score_error_, np.linalg.norm(errors) / weights.sum(), tolerances.ROUTES
    )


def test_without_two_signals_of_a_class_there_is_no_score(rng):
    X, _ = waves(rng, 21, 2)
    with pytest.warns(UserWarning, match="no class has two signals"):
        alone = ResidualKernelClassifier(**ONE_VIEW).fit(X[:3], [0, 1, 2])
    assert np.isnan(alone.left_out_score_) and np.isfinite(alone.predict_proba(X)).all()


def test_one_class_of_two_signals_is_told_once(rng):
    X, _ = waves(rng, 21, 2)
    says = "^only class 'a' has two signals, or groups: accuracy and probabilities are about it"
    with pytest.warns(UserWarning, match=says) as told:
        ResidualKernelClassifier(**ONE_VIEW).fit(X, np.where(np.arange(21) == 4, "b", "a"))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"views": "all"}, "views is 'all', expected 'fast', 'default' or a list of View"),
        ({"views": [View(), "x"]}, "expected 'fast'"),
        ({"penalty": 0.0}, "penalty is 0.0, expected positive numbers"),
        ({"penalty": []}, r"penalty is \[\], expected real numbers"),
        ({"n_landmarks": "all"}, "n_landmarks is 'all', expected an integer"),
        ({"n_landmarks": 1}, "n_landmarks is 1"),
        ({"engine": "fast"}, "engine is 'fast'"),
        ({"n_jobs": 0}, "n_jobs == 0"),
        ({"n_jobs": "2"}, "n_jobs is '2', expected an integer"),
        ({"random_state": "x"}, "'x' cannot be used to seed"),
        ({"class_weight": "even"}, "class_weight is 'even', expected None, 'balanced' or a"),
        ({"class_weight": {"a": 2}}, r"class_weight has keys \['a'\], expected some of"),
        ({"class_weight": {0: -1}}, "class_weight of 0 is -1"),
        ({"class_weight": {0: 1, 1: 1, 2: "x"}}, "class_weight of 2 is 'x', expected a finite num"),
        ({"class_weight": {0: 1, 1: np.inf}}, "class_weight of 1 is inf"),
        ({"penalty": True}, "penalty is True, expected real numbers"),
        ({"penalty": [0.1, True]}, r"penalty is \[0.1, True\], expected real numbers"),
        ({"penalty": np.array([True])}, r"penalty is array\(\[ ?True\]\), expected real numbers"),
        ({"class_weight": {0: 0}}, "y has one class"),
        ({"class_weight": {0: 0, 1: 0}}, "class_weight is zero for all"),
        ({"class_weight": np.array([1.0, 2.0])}, r"class_weight is array\(\[1., 2.\]\)"),
    ],
)
def test_wrong_parameters_are_refused(changes, says, rng):
    X, y = waves(rng, 16, 2)
    with pytest.raises(ValueError, match=says):
        ResidualKernelClassifier(**(ONE_VIEW | changes)).fit(X, y)


LABELS = np.arange(16) % 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"y": np.zeros(16)}, r"y has one class, \[0.0\]"),
        ({"y": LABELS + np.linspace(0, 0.5, 16)}, "Unknown label type"),
        (
            {"y": np.array([1, "a"] * 8, dtype=object)},
            "y has objects of kinds int, str, .*expected numbers or texts",
        ),
        ({"y": LABELS[:9]}, r"inconsistent numbers of samples: \[16, 9\]"),
        ({"y": np.ma.masked_array(LABELS, LABELS == 1)}, "y is a masked array"),
        ({"sample_weight": np.ones(5)}, r"sample_weight has shape \(5,\), expected \(16,\)"),
        ({"sample_weight": -np.ones(16)}, "sample_weight has -1, expected numbers of"),
        ({"sample_weight": np.zeros(16)}, "class_weight is zero for all"),
        ({"groups": np.ones(16)}, "groups has one label, expected two"),
        ({"groups": LABELS[:5]}, r"groups has shape \(5,\)"),
        ({"groups": [np.nan] * 16}, r"groups\[0\] is missing \(nan\), expected a value for each"),
    ],
)
def test_wrong_labels_weights_and_groups_are_refused(given, says, rng):
    X, y = waves(rng, 16, 2)
    with pytest.raises(ValueError, match=says):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, **({"y": y} | given))


@ignores_scores  # of the penalty 1e3
def test_searches_set_views_penalties_and_dtypes(rng):
    X, y = waves(rng, 36, 2)
    model = ResidualKernelClassifier([VIEW], penalty=0.5, n_jobs=1)
    grid = {"views": [[VIEW], [View(depth=3)]], "penalty": [1e-3, 1e3], "dtype": ["float64"]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["penalty"] == 1e-3 and search.best_score_ > 0.9


def test_one_of_several_penalties_is_chosen(rng):
    X, y = waves(rng, 36, 2)
    (fitted,) = fitted_views(ResidualKernelClassifier([VIEW], penalty=(1e-3, 1e3)).fit(X, y))
    assert fitted.penalties == 1e-3


def predicted(model, X):
    return model.predict_proba(X)


FAST = ResidualKernelClassifier("fast", random_state=0, n_jobs=1)


@pytest.fixture(scope="module", params=["array", "list"])
def waves_model(request):
    """A model of an array or of a list of signals; the signals, and what it predicts of them."""
    X, y = waves(np.random.default_rng(0), 24, 2, length=40)
    if request.param == "list":
        X = [x[:, : 40 - k % 3] for k, x in enumerate(X)]
    model = clone(FAST).fit(X, y)
    return SimpleNamespace(model=model, X=X, y=y, proba=model.predict_proba(X))


@pytest.mark.slow
def test_a_model_from_a_file_has_the_same_bits(waves_model):
    file = io.BytesIO()
    joblib.dump(waves_model.model, file, compress=3)
    file.seek(0)
    again = joblib.load(file)
    assert (again.predict_proba(waves_model.X) == waves_model.proba).all()
    assert (again.novelty(waves_model.X) == waves_model.model.novelty(waves_model.X)).all()


@pytest.mark.slow
def test_the_number_of_jobs_changes_no_bit(waves_model):
    model = clone(FAST).set_params(n_jobs=None).fit(waves_model.X, waves_model.y)
    assert (model.predict_proba(waves_model.X) == waves_model.proba).all()


@pytest.mark.slow
def test_threads_may_share_a_model(waves_model):
    again = pickle.loads(pickle.dumps(waves_model.model))  # landmarks are not prepared yet
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(again.predict_proba, [waves_model.X] * 8):
            assert (found == waves_model.proba).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_predict_the_same_bits(method, waves_model):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(predicted, (waves_model.model, waves_model.X))
    assert (found == waves_model.proba).all()


@pytest.mark.slow
def test_kernels_in_float64_have_nearly_the_probabilities_of_float32(waves_model):
    double = clone(FAST).set_params(dtype="float64").fit(waves_model.X, waves_model.y)
    assert_within(double.predict_proba(waves_model.X), waves_model.proba, tolerances.SINGLE, 1)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_equal_class_weights_are_none(weight, flat):
    X, y = flat
    X, y = X[:15], y[:15]
    class_weights = dict.fromkeys(np.unique(y).tolist(), weight)
    options = {**ONE_VIEW, "random_state": 0}
    models = [
        ResidualKernelClassifier(**options, class_weight=given).fit(X, y)
        for given in (None, class_weights)
    ]
    expected, found = ([m.predict_proba(X), m.left_out_proba_, m.offsets_] for m in models)
    for a, b in zip(expected, found, strict=True):
        assert (a == b).all()


def test_a_search_passes_groups_to_fit_with_metadata_routing(flat):
    """Without it scikit-learn gives groups to the folds alone."""
    X, y = flat
    groups = np.arange(len(y)) // 4
    given = ResidualKernelClassifier(**ONE_VIEW, random_state=0)
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(given, {"penalty": [1e-2]}, cv=GroupKFold(2))
        best = search.fit(X, y, groups=groups).best_estimator_
    alone = clone(given).set_params(penalty=1e-2).fit(X, y, groups=groups)
    assert (best.left_out_proba_ == alone.left_out_proba_).all()
