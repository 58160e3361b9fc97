"""Signals as arrays and lists: what is read, remembered or refused, and where warnings point."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import (
    EarlyClassifier,
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    View,
    ViewTransformer,
)
from rescntk.learn.reading.tables import continued_row, overlapping_row
from tests.learn.cases import ONE_VIEW, classifier, ignores_scores, regressor, waves

FORMS = {
    "with channels": lambda X, pd: X[:, None],
    "lists": lambda X, pd: [list(map(float, x)) for x in X],
    "tuple of lists": lambda X, pd: tuple(list(map(float, x)) for x in X),
    "list of arrays": lambda X, pd: [x[None] for x in X],
    "Fortran": lambda X, pd: np.asfortranarray(X),
    "frame": lambda X, pd: pd.DataFrame(X, columns=[f"t{k}" for k in range(24)]),
    "Float64": lambda X, pd: pd.DataFrame(X).add_prefix("t").astype("Float64"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_forms_of_one_set_give_one_model(form, flat, pd):
    X, y = flat
    expected = classifier().fit(X, y).decision_function(X)
    before, given = np.array(X), form(X, pd)
    assert (classifier().fit(given, list(y)).decision_function(given) == expected).all()
    assert (before == X).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_whole_numbers_of_any_dtype_give_one_model(dtype, flat):
    X, y = np.round(10 * flat[0]), flat[1]
    expected = classifier().fit(X, y).decision_function(X)
    found = classifier().fit(X.astype(dtype), y).decision_function(X.astype(dtype))
    assert (found == expected).all()


def ragged(X):
    """Return signals of two lengths, of one channel each."""
    return [x[None, : 24 - k % 2] for k, x in enumerate(X)]


@pytest.mark.parametrize(("form", "shape"), [(lambda X: X, (1, 24)), (ragged, (1, None))])
def test_shapes_of_fits_are_remembered(form, shape, flat):
    X, y = flat
    model = ResidualKernelClassifier(**ONE_VIEW).fit(form(X), y)
    assert (model.n_channels_, model.n_timepoints_) == shape


def test_models_of_lists_predict_signals_of_any_length(flat):
    X, y = flat
    model = ResidualKernelClassifier(**ONE_VIEW).fit(ragged(X), y)
    assert model.predict(X[:, :10]).shape == (20,)


def test_models_of_lists_refuse_another_number_of_channels(flat):
    X, y = flat
    model = ResidualKernelClassifier(**ONE_VIEW).fit(ragged(X), y)
    with pytest.raises(ValueError, match="expected 1 channels × several time points as in fit"):
        model.predict(np.ones((3, 2, 24)))


def test_a_later_fit_forgets_the_columns_of_an_earlier_one(flat, pd):
    X, y = flat
    table = pd.DataFrame(np.hstack([X, X[:, :3]])).add_prefix("t")
    model = ResidualKernelClassifier(**ONE_VIEW).fit(table, y).fit(X[:, None], y)
    assert (model.predict(X) == model.predict(X[:, None])).all()
    assert not hasattr(model, "feature_names_in_")


def test_one_time_point_warns_at_any_size(rng):
    X, y = rng.standard_normal((12, 40, 1)), np.arange(12) % 2
    X[y == 1] += 2
    says = r"X of shape \(12, 40, 1\) looks transposed, expected .*X.swapaxes"
    with pytest.warns(UserWarning, match=says):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y)


@ignores_scores  # of noise
@pytest.mark.parametrize("shape", [(12, 1, 40), (12, 60, 9)])
def test_signals_of_usual_shapes_do_not_look_transposed(shape, rng):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "X of")
        ResidualKernelRegressor(**ONE_VIEW).fit(rng.standard_normal(shape), rng.standard_normal(12))


@pytest.mark.filterwarnings("error")
def test_signals_of_zeros_do_not_look_transposed():
    ViewTransformer(View(standardize="channel")).fit(np.zeros((12, 60, 9)))


LABELS = {
    "numbers": (np.arange(12) % 2 + 5.0, lambda y: y),
    "codes of texts": (np.array(["no", "yes"])[np.arange(12) % 2], lambda y: y == "yes"),
}


@ignores_scores
@pytest.mark.parametrize("name", LABELS)
def test_a_time_point_that_equals_the_labels_warns(name, rng):
    """Files of archives have the label in the first column."""
    (y, column), X = LABELS[name], rng.standard_normal((12, 24))
    X[:, 7] = column(y)
    with pytest.warns(UserWarning, match="^time point 7 of channel 0 of X equals y in all signals"):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y)


@ignores_scores
def test_a_column_that_equals_targets_warns_by_its_name(rng, pd):
    X = pd.DataFrame(rng.standard_normal((12, 24))).add_prefix("t")
    with pytest.warns(UserWarning, match="^column 't3' of X equals y in all signals"):
        ResidualKernelRegressor(**ONE_VIEW).fit(X, X["t3"].to_numpy())


@pytest.fixture
def recording(rng):
    """A walk of 300 steps, and labels of its windows of 30 steps, ten steps apart."""
    return rng.standard_normal((2, 300)).cumsum(axis=1), np.arange(28) // 14


def windows_of(recording, step):
    """Return windows of 30 time points, (n_cases, 2, 30)."""
    cut = np.lib.stride_tricks.sliding_window_view(recording, 30, axis=1)[:, ::step]
    return np.ascontiguousarray(cut.swapaxes(0, 1))


@ignores_scores
def test_windows_that_overlap_warn_without_groups(recording):
    walk, y = recording
    with pytest.warns(UserWarning, match="^signals 0 and 1 of X overlap, as windows of one rec"):
        ResidualKernelClassifier(**ONE_VIEW).fit(windows_of(walk, 10), y)


@pytest.mark.parametrize(("n_overlapping", "first"), [(20, 0), (19, None)])
def test_twenty_of_the_first_forty_signals_overlap_with_the_next_in_windows(
    n_overlapping, first, rng
):
    """Signals behind these are not compared."""
    X = rng.standard_normal((200, 2, 30))
    windows = windows_of(rng.standard_normal((2, 300)), 10)[: n_overlapping + 1]
    X[: len(windows)] = windows
    assert overlapping_row(X) == first


@ignores_scores
def test_windows_that_continue_each_other_warn_without_groups(recording):
    walk, _ = recording
    y = np.arange(10) // 5
    with pytest.warns(UserWarning, match="^signals 0 and 1 of X, and others, continue each other"):
        ResidualKernelClassifier(**ONE_VIEW).fit(windows_of(walk, 30), y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-1000, 900])
def test_windows_of_any_unit_continue_each_other(power, recording):
    """Also where squares leave float64."""
    windows = windows_of(recording[0], 30)
    assert continued_row(np.ldexp(windows, power)) == continued_row(windows) == 0


@pytest.mark.parametrize("what", ["shuffled", "sorted by class", "of one level", "flat"])
def test_signals_that_begin_where_others_end_by_chance_do_not_continue(what, rng):
    """Walks of their own, in any order and in that of classes; ends that are all equal."""
    X = rng.standard_normal((100, 2, 30)).cumsum(axis=2)
    if what == "sorted by class":
        X += 30.0 * (np.arange(100) // 20)[:, None, None]
    if what == "of one level":
        X[:, :, [0, -1]] = 1.0
    if what == "flat":
        X[:] = X[:, :, :1]
    assert continued_row(X) is None


def test_labels_of_one_boolean_beside_a_column_of_ones_are_one_class(rng):
    X = rng.standard_normal((12, 24))
    X[:, 3] = 1.0
    with pytest.raises(ValueError, match="y has one class"):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, np.ones(12, bool))


@ignores_scores
@pytest.mark.filterwarnings("ignore:only class")
@pytest.mark.parametrize("what", ["groups", "no overlap", "padded", "padded by levels"])
def test_windows_in_groups_or_without_overlap_do_not_warn(what, recording):
    walk, y = recording
    X, options = windows_of(walk, 10), {}
    if what == "groups":
        options = {"groups": np.arange(28) // 7}
    else:
        X, y = X[::3].copy(), y[::3]
    if what == "padded":  # zeros at the end of one signal and the beginning of the next one
        X[:, :, :5], X[:, :, -5:] = 0.0, 0.0
    if what == "padded by levels":  # of each channel
        X[:, :, :5] = X[:, :, -5:] = [[1.0], [2.0]]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "signals .* overlap")
        warnings.filterwarnings("ignore", "signals .* continue each other")
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y, **options)


@pytest.mark.parametrize(
    "kind", [ResidualKernelClassifier, ResidualKernelRegressor, EarlyClassifier]
)
def test_weights_and_groups_are_no_arguments_by_position(kind, rng):
    """The third one would be weights of one estimator, and groups of another."""
    with pytest.raises(TypeError, match="positional"):
        kind().fit(rng.standard_normal((12, 24)), np.arange(12) % 2, np.arange(12) // 2)


OTHER_THAN_IN_FIT = [
    (
        lambda X: X[:, :1],
        "X has signals of 1 channels × 24 time points, expected 2 channels × 24",
    ),
    (
        lambda X: X[:, :, :20],
        "X has signals of 2 channels × 20 time points, expected 2 channels × 24",
    ),
    (lambda X: X.swapaxes(1, 2), r"X.swapaxes\(1, 2\) has these axes"),
    (
        lambda X: [x[:, : 20 + k % 2] for k, x in enumerate(X)],
        "X has signals of 2 channels × several time points",
    ),
    (lambda X: X[0, 0], "1D array|a single signal is X"),
]


@pytest.mark.parametrize(("other", "says"), OTHER_THAN_IN_FIT)
def test_other_shapes_than_in_fit_are_refused(other, says, rng):
    X, y = waves(rng, 12, 2, channels=2)
    fitted = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    with pytest.raises(ValueError, match=says):
        fitted.predict(other(X))


def padded(X):
    """Return signals of which every third ends earlier, with NaN at the points that it lacks."""
    ends = 24 - np.arange(len(X)) % 3 * 4
    return np.where(np.arange(24) < ends[:, None, None], X, np.nan)


NO_SIGNALS = [
    (lambda X: X[:, None], r"X has shape \(12, 1, 2, 24\), expected \(n_cases, n_channels"),
    (lambda X: X[0, 0], "1D array|a single signal is X"),
    (lambda X: np.where(X > 0.9, np.nan, X), "X of shape .* contains NaN or infinity"),
    (
        lambda X: np.where(X[:, 0] > 0.9, np.inf, X[:, 0]),
        "X contains infinity in row 0, column [0-9]+, expected numbers$",
    ),
    (
        lambda X: [[[1.0, 2.0], [3.0]]] * 12,
        r"X\[0\] is not a rectangular array, expected numbers",
    ),
    (lambda X: [], r"X has shape \(0,\)"),
    (lambda X: padded(X), "X has NaN at the ends of signals, .* expected a list of signals"),
    (lambda X: padded(X)[:, 0], "X has NaN at the ends of signals, .* expected a list of signals"),
    (
        lambda X: np.where(np.arange(24) == 23, np.nan, padded(X))[:, :1, ::-1],
        "contains NaN or inf",
    ),
]


@pytest.mark.parametrize(("broken", "says"), NO_SIGNALS)
def test_what_is_no_set_of_signals_is_refused(broken, says, rng):
    X, y = waves(rng, 12, 2, channels=2)
    with pytest.raises((ValueError, TypeError), match=says):
        ResidualKernelClassifier(**ONE_VIEW).fit(broken(X), y)


def with_a_text(X):
    """Return signals as objects, of which one is a text of digits."""
    mixed = X.astype(object)
    mixed[3, ..., 4] = "1.5"
    return mixed


def as_durations(X):
    return (1e9 * X).astype("timedelta64[ns]")


ONLY_SEEMING = {
    "durations": (as_durations, r"durations, such as .*: give X / np.timedelta64\(1, 's'\)"),
    "dates": (
        lambda X: np.datetime64("2024-01-01", "ns") + as_durations(X),
        r"dates, .* the first are \(",
    ),
    "texts": (
        lambda X: X.astype(str),
        "texts, such as '.*texts of digits become numbers by astype",
    ),
    "a text": (with_a_text, "texts, such as '1.5'"),
    "complex": (lambda X: X.astype(complex), "dtype complex128 .*imaginary parts as two channels"),
    "records": (lambda X: X.astype([("a", float)]), r"dtype \[\('a', '<f8'\)\]"),
}
"""What NumPy reads as numbers, or nearly so, and what a refusal says that X has."""


@pytest.mark.parametrize(("broken", "says"), ONLY_SEEMING.values(), ids=ONLY_SEEMING)
@pytest.mark.parametrize("axes", [2, 3])
def test_arrays_that_only_seem_to_be_numbers_are_refused(axes, broken, says, flat):
    """The same sentence for two axes, which scikit-learn reads, and for three."""
    X, y = flat
    with pytest.raises(ValueError, match=f"^X has {says}"):
        classifier().fit(broken(X if axes == 2 else X[:, None]), y)


@pytest.mark.parametrize("axes", [2, 3])
def test_numbers_that_are_objects_are_numbers(axes, flat):
    X, y = flat if axes == 2 else (flat[0][:, None], flat[1])
    expected = classifier().fit(X, y).predict(X)
    assert (classifier().fit(X.astype(object), y).predict(X) == expected).all()


@pytest.mark.parametrize("axes", [2, 3])
def test_numbers_of_bfloat16_are_refused_with_a_remedy(axes, flat):
    short = pytest.importorskip("ml_dtypes").bfloat16
    X = flat[0].astype(short) if axes == 2 else flat[0][:, None].astype(short)
    with pytest.raises(ValueError, match=r"^X has dtype bfloat16, .*give X.astype\(np.float64\)"):
        classifier().fit(X, flat[1])


def test_ragged_arrays_of_awkward_tell_what_is_taken(flat):
    ak, (X, y) = pytest.importorskip("awkward"), flat
    ragged = ak.Array([x[: 24 - k % 2].tolist() for k, x in enumerate(X)])
    with pytest.raises(ValueError, match=r"^X is not a rectangular array, .*give X.to_list\(\)"):
        ResidualKernelClassifier(**ONE_VIEW).fit(ragged, y)
    assert ResidualKernelClassifier(**ONE_VIEW).fit(ragged.to_list(), y).n_timepoints_ is None


TAKING_SIGNALS = {
    "classifier": lambda bad, X, y: classifier().fit(bad, y),
    "regressor": lambda bad, X, y: regressor().fit(bad, y),
    "fitted": lambda bad, X, y: classifier().fit(X, y).predict(bad),
    "view": lambda bad, X, y: ViewTransformer(View()).fit(bad),
    "fitted view": lambda bad, X, y: ViewTransformer(View()).fit(X).transform(bad),
    "matrix": lambda bad, X, y: KernelMatrix().fit(bad),
    "kernel": lambda bad, X, y: SignalKernel(depth=1, n_channels=1)(bad),
}
"""Calls of signals, after signals that they take."""


@pytest.mark.parametrize("call", TAKING_SIGNALS.values(), ids=TAKING_SIGNALS)
@pytest.mark.parametrize("axes", [2, 3])
def test_masks_of_signals_are_never_lost(axes, call, flat):
    """Nothing is masked in the second array: its type is refused, not its values."""
    X, y = flat if axes == 2 else (flat[0][:, None], flat[1])
    for bad in (np.ma.masked_array(X, X > 0.9), np.ma.masked_array(X)):
        with pytest.raises(ValueError, match="X is a masked array, expected real numbers"):
            call(bad, X, y)


def test_masks_of_groups_are_never_lost(flat):
    X, y = flat
    with pytest.raises(ValueError, match="^groups is a masked array"):
        classifier().fit(X, y, groups=np.ma.masked_array(np.arange(20), y > 0))


def lines_of_warnings(call):
    """Return the files that the warnings of a call name."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return {warning.filename for warning in found}


def test_warnings_name_the_line_of_the_caller(rng):
    """Whichever call it was, of this package or through scikit-learn."""
    X, y = rng.standard_normal((12, 40, 1)).cumsum(axis=1), np.arange(12) % 2
    one = {"views": [View(standardize="channel", filter_size=1, depth=1)]}
    labelled, kernel = ResidualKernelClassifier(**one), rk.ResCNTK(1, normalized=True)
    numbers = ResidualKernelRegressor(**one)
    process = GaussianProcessRegressor(SignalKernel(depth=1, alpha_bounds="fixed"), alpha=0.1)
    old = pickle.dumps(KernelMatrix()).replace(b"_rescntk_version", b"_another_version")
    calls = [
        lambda: labelled.fit(X, y),
        lambda: labelled.fit(X, y[:, None]),
        lambda: labelled.predict_set(X, 0.99),
        lambda: numbers.fit(X, y),
        lambda: numbers.predict_interval(X, 0.99),
        lambda: ViewTransformer(View(standardize="channel")).fit(X),
        lambda: ViewTransformer(View(standardize="channel")).fit_transform(X),
        lambda: KernelMatrix(kernel).fit(X),
        lambda: KernelMatrix(kernel).fit_transform(X),
        lambda: make_pipeline(KernelMatrix(kernel), SVC(kernel="precomputed")).fit(X, y),
        lambda: cross_val_score(labelled, X, y, cv=2),
        lambda: process.fit(X[:, :, 0], 1.0 * y),
        lambda: SignalKernel(depth=1)(X[:, :, 0]),
        lambda: rk.regression.pivoted_cholesky(kernel, np.ones((3, 1, 4)), 3),
        lambda: pickle.loads(old),
        lambda: joblib.load(io.BytesIO(old)),
    ]
    assert [lines_of_warnings(call) for call in calls] == [{__file__}] * len(calls)
