"""Input as scikit-learn's users give it: what is right, and what is refused with a remedy."""

import io
import pickle
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import polars as pl
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import (
    KernelMatrix,
    LandmarkFeatures,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    View,
)
from tests.learn.cases import ONE, waves

FLAT = {"views": [View(head="trace", standardize="point")], "dtype": "float64"}
CLASSIFIER, REGRESSOR = ResidualKernelClassifier(**FLAT), ResidualKernelRegressor(**FLAT)


@pytest.fixture
def flat(rng):
    X, y = waves(rng, 20, 2)
    return X[:, 0], y


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


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
    expected = CLASSIFIER.fit(X, y).decision_function(X)
    before, given = np.array(X), form(X, pd)
    assert (CLASSIFIER.fit(given, list(y)).decision_function(given) == expected).all()
    assert (before == X).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_whole_numbers_of_any_dtype_give_one_model(dtype, flat):
    X, y = np.round(10 * flat[0]), flat[1]
    expected = CLASSIFIER.fit(X, y).decision_function(X)
    found = CLASSIFIER.fit(X.astype(dtype), y).decision_function(X.astype(dtype))
    assert (found == expected).all()


def test_shapes_that_are_remembered(flat):
    X, y = flat
    model = CLASSIFIER.fit(X, y)
    assert (model.n_channels_, model.n_timepoints_) == (1, 24)
    model = ResidualKernelClassifier(**ONE).fit([x[None, : 24 - k % 2] for k, x in enumerate(X)], y)
    assert (model.n_channels_, model.n_timepoints_) == (1, None)
    assert model.predict(X[:, :10]).shape == (20,)  # a fit on a list predicts any length
    with pytest.raises(ValueError, match="expected 1 channels × several time points as in fit"):
        model.predict(np.ones((3, 2, 24)))


def test_one_time_point_warns_at_any_size(rng):
    X, y = rng.standard_normal((12, 40, 1)), np.arange(12) % 2
    X[y == 1] += 2
    says = r"X of shape \(12, 40, 1\) looks transposed, expected .*X.swapaxes"
    with pytest.warns(UserWarning, match=says):
        ResidualKernelClassifier(**ONE).fit(X, y)


@pytest.mark.filterwarnings("ignore:left_out_score_")  # of noise
@pytest.mark.parametrize("shape", [(12, 1, 40), (12, 60, 9)])
def test_other_signals_do_not_warn(shape, rng):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "X of")
        ResidualKernelRegressor(**ONE).fit(rng.standard_normal(shape), rng.standard_normal(12))


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
    fitted = ResidualKernelClassifier(**ONE).fit(X, y)
    with pytest.raises(ValueError, match=says):
        fitted.predict(other(X))


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
]


@pytest.mark.parametrize(("broken", "says"), NO_SIGNALS)
def test_what_is_no_set_of_signals_is_refused(broken, says, rng):
    X, y = waves(rng, 12, 2, channels=2)
    with pytest.raises((ValueError, TypeError), match=says):
        ResidualKernelClassifier(**ONE).fit(broken(X), y)


NAMES = {
    "texts": [f"t{k}" for k in range(24)],
    "integers": list(range(24)),
    "floats": [0.5 * k for k in range(24)],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
def test_columns_in_another_order_are_refused(names, flat, pd):
    X, y = flat
    frame = pd.DataFrame(X, columns=names)
    model = CLASSIFIER.fit(frame, y)
    assert (model.predict(frame) == model.predict(frame[names])).all()
    with pytest.raises(ValueError, match="same order as they were in fit|in another order"):
        model.predict(frame[names[::-1]])
    with pytest.raises(ValueError, match="feature|expected|columns"):
        model.predict(frame[names[:-1]])


def test_columns_without_names_are_as_an_array(flat, pd):
    X, y = flat
    frame = pd.DataFrame(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (CLASSIFIER.fit(frame, y).predict(X) == CLASSIFIER.predict(frame)).all()


@pytest.fixture
def indexed(flat, pd):
    """X as a frame with named rows, and y, groups and weights as series of the same index."""
    X, y = flat
    frame = pd.DataFrame(X, index=[f"case {k}" for k in range(20)])
    columns = {"y": y, "groups": range(20), "sample_weight": 1.0}
    return frame, {name: pd.Series(of, index=frame.index) for name, of in columns.items()}


@pytest.mark.parametrize("model", [CLASSIFIER, REGRESSOR], ids=["classifier", "regressor"])
@pytest.mark.parametrize("name", ["y", "sample_weight", "groups"])
def test_index_in_another_order_is_refused(name, model, indexed):
    """y, groups and weights are never scrambled against the rows of X."""
    frame, columns = indexed
    given = columns | {name: columns[name][::-1]}
    with pytest.raises(ValueError, match=rf"^{name} has the index of X in another order"):
        model.fit(frame, **given)


def test_index_of_groups_in_another_order_than_of_labels_is_refused(indexed):
    frame, columns = indexed
    with pytest.raises(ValueError, match="^groups has the index of y in another order"):
        CLASSIFIER.fit(frame.to_numpy(), columns["y"], groups=columns["groups"][::-1])


def test_another_index_counts_by_place(indexed):
    frame, columns = indexed
    expected = CLASSIFIER.fit(frame, **columns).predict(frame)
    assert (expected == columns["y"]).mean() > 0.9
    y = columns["y"].reset_index(drop=True)
    assert (CLASSIFIER.fit(frame, y).predict(frame) == expected).all()


def two_levels(frame, pd):
    """Return a table of two channels, the second less the first."""
    columns = pd.MultiIndex.from_product([["a", "b"], range(24)])
    return pd.DataFrame(np.hstack([frame, -frame]), columns=columns)


NO_NUMBERS = [
    (
        two_levels,
        r"columns of two levels.*X.to_numpy\(\).reshape\(len\(X\), n_channels, -1\)",
    ),
    (
        lambda frame, pd: frame.assign(name="x"),
        "X has the column 'name' of dtype .*, expected numbers",
    ),
    (
        lambda frame, pd: frame.assign(day=pd.date_range("2024-01-01", periods=20)),
        "X has the column 'day' of dtype datetime64",
    ),
    (
        lambda frame, pd: frame.assign(t3=np.where(np.arange(20) == 5, np.nan, 1.0)),
        r"^X contains NaN in row 5, column 't3', .* as X.interpolate\(axis=1, limit_direction='bot",
    ),
    (
        lambda frame, pd: frame.assign(t3=pd.array([1, None] * 10, dtype="Int64")),
        r"^X contains NaN in row 1, column 't3', .* as X.interpolate\(axis=1",
    ),
    (
        lambda frame, pd: frame.assign(t3=1j),
        "column 't3' of dtype complex128, expected numbers: give real and imaginary parts as two",
    ),
    (lambda frame, pd: frame[[]], "^X has no columns, expected one for each time point"),
    (
        lambda frame, pd: frame.assign(t3=np.timedelta64(3, "s")),
        r"column 't3' of dtype timedelta64.*, expected numbers: give X\['t3'\] / np.timedelta64",
    ),
    (
        lambda frame, pd: frame.assign(t3="1.5"),
        r"column 't3' of dtype .*: texts of digits become numbers by astype\(float\)",
    ),
    (
        lambda frame, pd: frame.assign(kind=np.arange(20) % 3).astype({"kind": "category"}),
        "column 'kind' of dtype category, expected numbers: drop it, or give its categories as",
    ),
    (
        lambda frame, pd: [
            row.sample(frac=1, random_state=k) for k, (_, row) in enumerate(frame.iterrows())
        ],
        r"X\[1\] has the index of X\[0\] in another order: give X\[1\].loc\[X\[0\].index\]",
    ),
    (
        lambda frame, pd: [
            frame.loc[0, :"t9"],
            frame.loc[1],
            *(frame.loc[k, ::-1] for k in range(2, 20)),
        ],
        r"X\[2\] has the index of X\[1\] in another order",
    ),
    (
        lambda frame, pd: [[frame.loc[k], frame.loc[k][::-1]] for k in range(20)],
        r"X\[0\]\[1\] has the index of X\[0\]\[0\] in another order",
    ),
    (
        lambda frame, pd: frame["t1"].map(lambda value: np.ones(24)),
        r"X has shape \(20,\) and a signal in each.*list\(X\)",
    ),
    (
        lambda frame, pd: frame[["t1"]].map(lambda value: np.ones(24)),
        r"signals in cells are \[np.stack\(row\) for row in",
    ),
    (
        lambda frame, pd: [pd.DataFrame(x) for x in frame.to_numpy()],
        "X is a list of tables, expected arrays",
    ),
]


@pytest.mark.parametrize(("broken", "says"), NO_NUMBERS)
def test_tables_that_are_no_rows_of_numbers_are_refused(broken, says, flat, pd):
    frame = pd.DataFrame(flat[0]).add_prefix("t")
    with pytest.raises(ValueError, match=says):
        CLASSIFIER.fit(broken(frame, pd), flat[1])


def test_columns_that_a_file_left_without_names_are_signals(flat, pd):
    frame = pd.DataFrame(flat[0]).set_axis([f"Unnamed: {k}" for k in range(24)], axis=1)
    assert CLASSIFIER.fit(frame, flat[1]).n_timepoints_ == 24


def test_the_remedy_for_two_levels_has_the_channels(flat, pd):
    two = two_levels(pd.DataFrame(flat[0]), pd)
    channels = two.to_numpy().reshape(len(two), 2, -1)
    assert (channels[:, 0] == flat[0]).all() and (channels[:, 1] == -flat[0]).all()


def missing(kind, values, at):
    """Return values in a container, without the value at a place."""
    pd = pytest.importorskip("pandas")
    gap = {"none": None, "nan": np.nan, "NaT": pd.NaT}.get(kind, pd.NA)
    values = [gap if k == at else value for k, value in enumerate(values)]
    return pd.Series(values, dtype=kind) if kind in ("string", "Int64", "category") else values


WITH_GAPS = {
    "labels": (lambda X, y, gaps: CLASSIFIER.fit(X, gaps), "y"),
    "groups": (lambda X, y, gaps: CLASSIFIER.fit(X, y, groups=gaps), "groups"),
    "targets": (lambda X, y, gaps: REGRESSOR.fit(X, gaps), "y"),
}


@pytest.mark.parametrize("kind", ["none", "nan", "NA", "NaT", "string", "Int64", "category"])
@pytest.mark.parametrize(("fit", "name"), WITH_GAPS.values(), ids=WITH_GAPS.keys())
def test_missing_labels_groups_and_targets_are_named(fit, name, kind, flat):
    X, y = flat
    texts = y.tolist() if kind == "Int64" else np.array(["a", "b"])[y].tolist()
    says = rf"^{name}\[3\] is missing \(.*\), expected a value for each case: leave out"
    with pytest.raises(ValueError, match=says):
        fit(X, y, missing(kind, texts, 3))


@pytest.fixture
def texts(flat):
    """Numbers with decimal commas."""
    return np.array([f"{value:.3f}".replace(".", ",") for value in flat[0][:, 3]])


def test_labels_are_for_the_classifier(flat):
    labels = np.where(np.arange(len(flat[0])) % 2, "worn", "good")
    with pytest.raises(
        ValueError, match="^y has texts, .*'good', .*: ResidualKernelClassifier predicts"
    ):
        ResidualKernelRegressor(**ONE).fit(flat[0], labels)


def test_texts_among_signals_are_refused(flat, texts):
    mixed = flat[0].astype(object)
    mixed[:, 3] = texts
    with pytest.raises(ValueError, match=f"has texts, .*'{texts[0]}'.*file with decimal=','"):
        CLASSIFIER.fit(mixed, flat[1])


def test_targets_of_texts_are_refused(flat, texts):
    with pytest.raises(ValueError, match=f"has texts, .*'{texts[0]}'.*file with decimal=','"):
        REGRESSOR.fit(flat[0], texts)


@pytest.fixture
def polars_frame(flat):
    return pl.DataFrame(flat[0], schema=[f"t{k}" for k in range(24)])


def test_polars(polars_frame, flat):
    model = CLASSIFIER.fit(polars_frame, pl.Series(flat[1]))
    assert model.score(polars_frame, flat[1]) > 0.9
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(polars_frame.select(polars_frame.columns[::-1]))


NO_NUMBERS_OF_POLARS = [
    (
        lambda frame: frame.with_columns(name=pl.lit("x")),
        "X has the column 'name' of dtype String",
    ),
    (
        lambda frame: [pl.DataFrame(x) for x in frame.to_numpy()],
        "X is a list of tables, expected arrays",
    ),
]


@pytest.mark.parametrize(("broken", "says"), NO_NUMBERS_OF_POLARS)
def test_tables_of_polars_that_are_no_rows_of_numbers(broken, says, polars_frame, flat):
    with pytest.raises(ValueError, match=says):
        CLASSIFIER.fit(broken(polars_frame), flat[1])


NO_NUMBERS_OF_ARROW = [
    (
        lambda pa, X: pa.table(dict(zip("abc", X.T, strict=False))),
        r"pyarrow.Table, .*X.to_pandas\(\)",
    ),
    (lambda pa, X: pa.array(X.tolist()), r"a signal in each entry, .*give X.to_pylist\(\)"),
]


@pytest.mark.parametrize(("broken", "says"), NO_NUMBERS_OF_ARROW)
def test_containers_of_arrow_tell_what_is_taken(broken, says, flat):
    pa, (X, y) = pytest.importorskip("pyarrow"), flat
    with pytest.raises(ValueError, match=says):
        CLASSIFIER.fit(broken(pa, X), y)
    expected = CLASSIFIER.fit(X, y).decision_function(X)
    found = CLASSIFIER.fit(pa.array(X.tolist()).to_pylist(), pa.array(y)).decision_function(X)
    assert (found == expected).all()


@pytest.mark.parametrize("axes", [2, 3])
def test_arrays_that_only_seem_to_be_numbers_are_refused(axes, flat):
    """The same sentence for two axes, which scikit-learn reads, and for three."""
    X, y = flat
    X = X if axes == 2 else X[:, None]
    times = (1e9 * X).astype("timedelta64[ns]")
    mixed = X.astype(object)
    mixed[3, ..., 4] = "1.5"
    for broken, says in (
        (
            times,
            r"X has durations, such as .*: give X / np.timedelta64\(1, 's'\)",
        ),
        (
            np.datetime64("2024-01-01", "ns") + times,
            r"X has dates, .* the first are \(",
        ),
        (X.astype(str), r"X has texts, such as '.*texts of digits become numbers by astype"),
        (mixed, "X has texts, such as '1.5'"),
        (X.astype(complex), "X has dtype complex128 .*imaginary parts as two channels"),
        (X.astype([("a", float)]), r"X has dtype \[\('a', '<f8'\)\]"),
    ):
        with pytest.raises(ValueError, match=f"^{says}"):
            CLASSIFIER.fit(broken, y)
    assert (CLASSIFIER.fit(X.astype(object), y).predict(X) == CLASSIFIER.fit(X, y).predict(X)).all()


@pytest.mark.parametrize("axes", [2, 3])
def test_bfloat16_tells_what_is_taken(axes, flat):
    short = pytest.importorskip("ml_dtypes").bfloat16
    X = flat[0].astype(short) if axes == 2 else flat[0][:, None].astype(short)
    with pytest.raises(ValueError, match=r"^X has dtype bfloat16, .*give X.astype\(np.float64\)"):
        CLASSIFIER.fit(X, flat[1])


def test_ragged_arrays_of_awkward_tell_what_is_taken(flat):
    ak, (X, y) = pytest.importorskip("awkward"), flat
    ragged = ak.Array([x[: 24 - k % 2].tolist() for k, x in enumerate(X)])
    with pytest.raises(ValueError, match=r"^X is not a rectangular array, .*give X.to_list\(\)"):
        ResidualKernelClassifier(**ONE).fit(ragged, y)
    assert ResidualKernelClassifier(**ONE).fit(ragged.to_list(), y).n_timepoints_ is None


@pytest.mark.parametrize("axes", [2, 3])
def test_masks_are_never_lost(axes, flat):
    """Nothing is masked in the second array: its type is refused, not its values."""
    X, y = flat if axes == 2 else (flat[0][:, None], flat[1])
    masked = np.ma.masked_array(X, X > 0.9)
    for bad in (masked, np.ma.masked_array(X)):
        for call in (
            lambda bad=bad: CLASSIFIER.fit(bad, y),
            lambda bad=bad: REGRESSOR.fit(bad, y),
            lambda bad=bad: CLASSIFIER.fit(X, y).predict(bad),
            lambda bad=bad: View().fit(bad),
            lambda bad=bad: View().fit(X).transform(bad),
            lambda bad=bad: KernelMatrix().fit(bad),
            lambda bad=bad: SignalKernel(depth=1, n_channels=1)(bad),
        ):
            with pytest.raises(ValueError, match="X is a masked array, expected real numbers"):
                call()
    with pytest.raises(ValueError, match="^groups is a masked array"):
        CLASSIFIER.fit(X, y, groups=np.ma.masked_array(np.arange(20), y > 0))


@pytest.mark.filterwarnings("ignore:left_out_score_")  # of targets that the signals do not tell
def test_dates_and_durations_are_no_targets(flat, pd):
    X, _ = flat
    times = (1000 * np.arange(20)).astype("timedelta64[ms]")
    dates, seconds = np.datetime64("2024-01-01") + times, np.arange(20.0)
    zone = pd.Series(dates).dt.tz_localize("UTC")
    for kind, forms in (
        ("durations", (times, pd.Series(times), pl.Series(times), times.tolist())),
        ("dates", (dates, pd.Series(dates), pl.Series(dates), zone, pd.DataFrame({"a": dates}))),
    ):
        for y in forms:
            with pytest.raises(ValueError, match=rf"^y has {kind}, such as .*timedelta64\(1, 's'"):
                REGRESSOR.fit(X, y)
    expected = REGRESSOR.fit(X, seconds).predict(X)  # what the messages say
    assert (REGRESSOR.fit(X, times / np.timedelta64(1, "s")).predict(X) == expected).all()
    since = (dates - dates.min()) / np.timedelta64(1, "s")
    assert (REGRESSOR.fit(X, since).predict(X) == expected).all()


LEFT_IN = {
    "y": lambda frame, of: CLASSIFIER.fit(frame, of),
    "groups": lambda frame, of: CLASSIFIER.fit(frame, np.arange(20) // 5 % 2, groups=of),
    "sample_weight": lambda frame, of: REGRESSOR.fit(frame, np.arange(20.0), sample_weight=of),
}


@pytest.mark.filterwarnings("ignore:left_out_score_")  # of labels and targets without a meaning
@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(("name", "fit"), LEFT_IN.items(), ids=LEFT_IN.keys())
def test_a_column_left_in_the_table_is_refused_by_name(name, fit, kind, flat, pd):
    library = pd if kind == "pandas" else pl
    frame = library.DataFrame({f"t{k}": x for k, x in enumerate(flat[0].T)} | {"of": flat[1] + 1})
    with pytest.raises(ValueError, match=f"^X has the column 'of', which is {name}, .*drop it"):
        fit(frame, frame["of"])
    rest = frame.drop(columns="of") if kind == "pandas" else frame.drop("of")
    fit(rest, frame["of"])


def test_numbers_of_columns_may_be_alike(flat, pd):
    """Tables without names count their columns: a column is refused where its values are there."""
    frame = pd.DataFrame(np.column_stack([flat[1], flat[0]]))
    with pytest.raises(ValueError, match="^X has the column 0, which is y"):
        CLASSIFIER.fit(frame, frame[0])
    with pytest.raises(ValueError, match="^X has the column 0, which is y"):
        REGRESSOR.fit(frame, frame[[0, 5]])
    assert CLASSIFIER.fit(frame.drop(columns=0).set_axis(range(24), axis=1), frame[0]).score


def test_gaps_of_a_table_are_filled_as_the_message_says(flat, pd):
    frame = pd.DataFrame(flat[0]).add_prefix("t")
    gaps = frame.mask(np.random.default_rng(0).uniform(size=frame.shape) < 0.2)
    with pytest.raises(ValueError, match="NaN in row") as refusal:
        CLASSIFIER.fit(gaps, flat[1])
    row, name = re.search("row ([0-9]+), column '(t[0-9]+)'", str(refusal.value)).groups()
    assert np.isnan(gaps.loc[int(row), name])
    CLASSIFIER.fit(gaps.interpolate(axis=1, limit_direction="both"), flat[1])
    of_polars = pl.DataFrame({"t0": [1.0] * 20, "t1": [np.nan] * 20})
    with pytest.raises(ValueError, match="NaN in row 0, column 't1'.* of pandas does"):
        CLASSIFIER.fit(of_polars, flat[1])


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
    classifier, kernel = ResidualKernelClassifier(**one), rk.ResCNTK(1, normalized=True)
    regressor = ResidualKernelRegressor(**one)
    process = GaussianProcessRegressor(SignalKernel(depth=1, alpha_bounds="fixed"), alpha=0.1)
    old = pickle.dumps(KernelMatrix()).replace(b"_rescntk_version", b"_another_version")
    calls = [
        lambda: classifier.fit(X, y),
        lambda: classifier.fit(X, y[:, None]),
        lambda: classifier.predict_set(X, 0.99),
        lambda: regressor.fit(X, y),
        lambda: regressor.predict_interval(X, 0.99),
        lambda: View(standardize="channel").fit(X),
        lambda: View(standardize="channel").fit_transform(X),
        lambda: KernelMatrix(kernel).fit(X),
        lambda: KernelMatrix(kernel).fit_transform(X),
        lambda: make_pipeline(KernelMatrix(kernel), SVC(kernel="precomputed")).fit(X, y),
        lambda: cross_val_score(classifier, X, y, cv=2),
        lambda: process.fit(X[:, :, 0], 1.0 * y),
        lambda: SignalKernel(depth=1)(X[:, :, 0]),
        lambda: rk.regression.pivoted_cholesky(kernel, np.ones((3, 1, 4)), 3),
        lambda: pickle.loads(old),
        lambda: joblib.load(io.BytesIO(old)),
    ]
    assert [lines_of_warnings(call) for call in calls] == [{__file__}] * len(calls)


@pytest.fixture
def lists(rng, tmp_path):
    """Signals of three lengths, what is fitted to them, and a folder."""
    X, y = waves(rng, 16, 2, channels=2)
    X, kernel = [x[:, : 20 + k % 3] for k, x in enumerate(X)], rk.ResCNTK(2, normalized=True)
    return SimpleNamespace(
        X=X, y=y, kernel=kernel, folder=tmp_path / "gram",
        classifier=ResidualKernelClassifier(**ONE).fit(X, y),
        regressor=ResidualKernelRegressor(**ONE).fit(X, 1.0 * y),
        machine=make_pipeline(KernelMatrix(kernel), SVC(kernel="precomputed")),
        process=GaussianProcessRegressor(SignalKernel(n_channels=2)),
    )  # fmt: skip


REFUSING = View(head="trace"), View(head="equivariant"), View(standardize="point")


def stored_gram(s):
    pytest.importorskip("zarr")
    return rk.stored.gram(s.folder, s.kernel.network, s.X, progress=False).ntk[:]


def jax_gram(s):
    pytest.importorskip("jax")
    return rk.jax.gram(s.kernel.network, s.X)


def searched(s):
    search = GridSearchCV(s.classifier, {"penalty": [0.1, 1]}, cv=2)
    return search.fit(s.X, s.y).predict(s.X)


ROWS_OF_LISTS = {
    "kernels with the head": [
        lambda s: s.kernel(s.X),
        lambda s: s.kernel.prepare(s.X)(s.X),
        lambda s: s.kernel.paired(s.X, s.X),
        lambda s: s.kernel.diag(s.X),
    ],
    "kernels with other heads": [
        lambda s: s.kernel.replace(head="trace")(s.X),
        lambda s: s.kernel.replace(head="equivariant")(s.X),
    ],
    "`gram`": [
        lambda s: rk.gram(s.kernel.network, s.X).ntk,
        lambda s: rk.pixel_shares(s.kernel.network, s.X, s.X),
        stored_gram,
    ],
    "`pixel_pairs`": [lambda s: rk.pixel_pairs(s.kernel.network, s.X), jax_gram],
    "views with the head": [
        lambda s: View(standardize="signal").fit_transform(s.X),
        lambda s: View(standardize="channel").fit_transform(s.X),
    ],
    "views with other heads": [lambda s, v=v: v.fit(s.X) for v in REFUSING],
    "predictions": [
        lambda s: s.classifier.predict(s.X),
        lambda s: s.classifier.predict_proba(s.X),
        lambda s: s.classifier.predict_set(s.X),
        lambda s: s.classifier.novelty(s.X),
        lambda s: s.regressor.predict(s.X, return_std=True)[1],
        lambda s: s.regressor.predict_interval(s.X, 0.8)[0],
    ],
    "contributions": [
        lambda s: s.classifier.contributions(s.X),
        lambda s: s.regressor.contributions(s.X),
    ],
    "usual contributions": [
        lambda s: s.classifier.usual_contributions(),
        lambda s: s.regressor.usual_contributions(),
    ],
    "`KernelMatrix`": [
        lambda s: KernelMatrix(s.kernel).fit_transform(s.X),
        lambda s: LandmarkFeatures(s.kernel).fit_transform(s.X),
    ],
    "scikit-learn's splits": [
        lambda s: s.machine.fit(s.X, s.y).predict(s.X),
        lambda s: cross_val_score(s.classifier, s.X, s.y, cv=2),
        searched,
    ],
    "scikit-learn's Gaussian": [lambda s: s.process.fit(s.X, 1.0 * s.y)],
    "images": [lambda s: s.kernel([x[:, :, None] for x in s.X])],
}
"""Calls by the first words of a row of the page's table."""


def rows_of_lists():
    """Return the rows of the page's table: what, and whether it takes lists."""
    page = (Path(__file__).parents[2] / "docs/guide/signals.md").read_text("utf-8")
    (table,) = re.findall(r"\| what \|.*\n\|.*\n((?:\|.*\n)+)", page)
    cells = (line.strip("| ").split(" | ") for line in table.splitlines())
    return {what: answer.startswith("yes") for what, answer in cells}


def test_the_page_has_a_row_for_each_kind_of_call():
    for what, words in zip(rows_of_lists(), ROWS_OF_LISTS, strict=True):
        assert what.startswith(words)


@pytest.mark.filterwarnings("ignore:left_out_score_ is")  # of eight signals
@pytest.mark.parametrize(
    ("place", "call"),
    [
        pytest.param(place, call, id=f"{words}-{k}")
        for place, (words, calls) in enumerate(ROWS_OF_LISTS.items())
        for k, call in enumerate(calls)
    ],
)
def test_lists_are_taken_where_the_page_says(place, call, lists):
    """Calls that take no lists refuse them, or return None."""
    takes = list(rows_of_lists().values())[place]
    try:
        found = call(lists)
    except ValueError:
        found = None
    assert (found is not None) == takes
    assert not takes or all(np.isfinite(part).all() for part in found)


@pytest.mark.filterwarnings("ignore:left_out_score_ is")  # of eight signals
def test_estimators_leave_out_views_that_refuse_lists(lists):
    model = ResidualKernelClassifier([*REFUSING, View()], dtype="float64").fit(lists.X, lists.y)
    notes = model.views_["note"]
    assert all("different lengths" in note for note in notes[:3]) and not notes[3]
