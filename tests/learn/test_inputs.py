"""Input as scikit-learn's users give it: what is right, and what is refused with a remedy."""

import re
import warnings
from pathlib import Path

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


def test_forms_of_one_set_give_one_model(flat, pd):
    X, y = flat
    expected = CLASSIFIER.fit(X, y).decision_function(X)
    lists = [list(map(float, x)) for x in X]
    frame = pd.DataFrame(X, columns=[f"t{k}" for k in range(24)])
    forms = [X[:, None], lists, [x[None] for x in X], frame, np.asfortranarray(X), tuple(lists)]
    for form in [*forms, frame.astype("Float64")]:
        before = np.array(X)
        assert (CLASSIFIER.fit(form, list(y)).decision_function(form) == expected).all()
        assert (before == X).all()
    whole = np.round(10 * X)
    expected = CLASSIFIER.fit(whole, y).decision_function(whole)
    for dtype in (np.float32, np.int64):
        found = CLASSIFIER.fit(whole.astype(dtype), y).decision_function(whole.astype(dtype))
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
    smooth = np.repeat(rng.standard_normal((20, 1, 4)), 80, axis=1).cumsum(axis=1)
    with pytest.warns(UserWarning, match=r"X of shape \(20, 80, 4\) looks transposed"):
        ResidualKernelRegressor(**ONE).fit(smooth, smooth[:, 0, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "X of")
        ResidualKernelRegressor(**ONE).fit(X.swapaxes(1, 2), X[:, 0, 0])
        ResidualKernelRegressor(**ONE).fit(rng.standard_normal((12, 60, 9)), X[:, 0, 0])


def test_other_shapes_are_refused(rng):
    X, y = waves(rng, 12, 2, channels=2)
    fitted = ResidualKernelClassifier(**ONE).fit(X, y)
    ragged = [x[:, : 20 + k % 2] for k, x in enumerate(X)]
    for signals, says in (
        (X[:, :1], "X has signals of 1 channels × 24 time points, expected 2 channels × 24"),
        (X[:, :, :20], "X has signals of 2 channels × 20 time points, expected 2 channels × 24"),
        (X.swapaxes(1, 2), r"X.swapaxes\(1, 2\) has these axes"),
        (ragged, "X has signals of 2 channels × several time points"),
        (X[0, 0], "1D array|a single signal is X"),
    ):
        with pytest.raises(ValueError, match=says):
            fitted.predict(signals)
    for signals, says in (
        (X[:, None], r"X has shape \(12, 1, 2, 24\), expected \(n_cases, n_channels"),
        (X[0, 0], "1D array|a single signal is X"),
        (np.where(X > 0.9, np.nan, X), "X of shape .* contains NaN or infinity"),
        (np.where(X[:, 0] > 0.9, np.inf, X[:, 0]), "Input X contains infinity"),
        ([[[1.0, 2.0], [3.0]]] * 12, r"X\[0\] is not a rectangular array, expected numbers"),
        ([], r"X has shape \(0,\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            ResidualKernelClassifier(**ONE).fit(signals, y)


def test_columns_in_another_order_are_refused(flat, pd):
    X, y = flat
    for names in ([f"t{k}" for k in range(24)], list(range(24)), [0.5 * k for k in range(24)]):
        frame = pd.DataFrame(X, columns=names)
        model = CLASSIFIER.fit(frame, y)
        with pytest.raises(ValueError, match="same order as they were in fit|in another order"):
            model.predict(frame[names[::-1]])
        assert (model.predict(frame) == model.predict(frame[names])).all()
        with pytest.raises(ValueError, match="feature|expected|columns"):
            model.predict(frame[names[:-1]])
    unnamed = pd.DataFrame(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (CLASSIFIER.fit(unnamed, y).predict(X) == CLASSIFIER.predict(unnamed)).all()


def test_index_in_another_order_is_refused(flat, pd):
    """y, groups and weights are never scrambled against the rows of X."""
    X, y = flat
    frame = pd.DataFrame(X, index=[f"case {k}" for k in range(20)])
    series = pd.Series(y, index=frame.index)
    shuffled = series.sample(frac=1, random_state=0)
    weights, groups = pd.Series(1.0, index=frame.index), pd.Series(range(20), index=frame.index)
    model = CLASSIFIER.fit(frame, series, sample_weight=weights, groups=groups)
    assert model.score(frame, series) > 0.9
    other = frame.index[::-1]
    for arguments, name in (
        ({"y": shuffled}, "y"),
        ({"y": series, "sample_weight": weights[other]}, "sample_weight"),
        ({"y": series, "groups": groups[other]}, "groups"),
    ):
        for kind in (CLASSIFIER, REGRESSOR):
            with pytest.raises(ValueError, match=rf"^{name} has the index of X in another order"):
                kind.fit(frame, **arguments)
    with pytest.raises(ValueError, match="^groups has the index of y in another order"):
        CLASSIFIER.fit(X[:, None], series, groups=groups[other])
    by_place = series.reset_index(drop=True)  # other labels: by place, as everywhere
    assert (CLASSIFIER.fit(frame, by_place).predict(frame) == model.predict(frame)).all()


def test_tables_that_are_no_rows_of_numbers(flat, pd):
    X, y = flat
    frame = pd.DataFrame(X, columns=[f"t{k}" for k in range(24)])
    two = pd.DataFrame(
        np.hstack([X, -X]), columns=pd.MultiIndex.from_product([["a", "b"], range(24)])
    )
    day = frame.assign(day=pd.date_range("2024-01-01", periods=20))
    for table, says in (
        (two, r"columns of two levels.*X.to_numpy\(\).reshape\(len\(X\), n_channels, -1\)"),
        (frame.assign(name="x"), "X has the column 'name' of dtype .*, expected numbers"),
        (day, "X has the column 'day' of dtype datetime64"),
        (frame.assign(t3=np.nan), "X contains NaN"),
        (frame.rename(columns={"t0": "Unnamed: 0"}), "'Unnamed: 0', a saved index.*index_col=0"),
        (frame.reset_index(), "X has the column 'index', a saved index"),
        (
            frame["t1"].map(lambda value: X[0]),
            r"X has shape \(20,\) and a signal in each.*list\(X\)",
        ),
        (
            frame[["t1"]].map(lambda value: X[0]),
            r"signals in cells are \[np.stack\(row\) for row in",
        ),
        ([pd.DataFrame(x) for x in X], "X is a list of tables, expected arrays"),
    ):
        with pytest.raises(ValueError, match=says):
            CLASSIFIER.fit(table, y)
    nameless = frame.set_axis([f"Unnamed: {k}" for k in range(24)], axis=1)
    assert CLASSIFIER.fit(nameless, y).n_timepoints_ == 24
    channels = two.to_numpy().reshape(len(two), 2, -1)  # what the message says
    assert (channels[:, 0] == X).all() and (channels[:, 1] == -X).all()


def missing(kind, values, at):
    """Return values in a container, without the value at a place."""
    pd = pytest.importorskip("pandas")
    gap = {"none": None, "nan": np.nan, "NaT": pd.NaT}.get(kind, pd.NA)
    values = [gap if k == at else value for k, value in enumerate(values)]
    return pd.Series(values, dtype=kind) if kind in ("string", "Int64", "category") else values


@pytest.mark.parametrize("kind", ["none", "nan", "NA", "NaT", "string", "Int64", "category"])
def test_missing_labels_groups_and_targets_are_named(kind, flat):
    X, y = flat
    texts = y.tolist() if kind == "Int64" else np.array(["a", "b"])[y].tolist()
    gaps = missing(kind, texts, 3)
    for fit, name in (
        (lambda: CLASSIFIER.fit(X, gaps), "y"),
        (lambda: CLASSIFIER.fit(X, y, groups=gaps), "groups"),
        (lambda: REGRESSOR.fit(X, gaps), "y"),
    ):
        says = rf"^{name}\[3\] is missing \(.*\), expected a value for each case: leave out"
        with pytest.raises(ValueError, match=says):
            fit()


def test_texts_of_numbers(flat, pd):
    X, y = flat
    texts = np.array([f"{value:.3f}".replace(".", ",") for value in X[:, 3]])
    frame = pd.DataFrame(X).add_prefix("t").assign(t3=texts)
    says = f"column 't3' of dtype .*, expected numbers: '{texts[0]}' has a decimal comma, read the"
    with pytest.raises(ValueError, match=says):
        CLASSIFIER.fit(frame, y)
    for fit in (lambda: CLASSIFIER.fit(frame.to_numpy(), y), lambda: REGRESSOR.fit(X, texts)):
        with pytest.raises(ValueError, match=f"has texts, .*'{texts[0]}'.*file with decimal=','"):
            fit()


def test_polars(flat):
    X, y = flat
    frame = pl.DataFrame(X, schema=[f"t{k}" for k in range(24)])
    model = CLASSIFIER.fit(frame, pl.Series(y))
    assert model.score(frame, y) > 0.9
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(frame.select(frame.columns[::-1]))
    with pytest.raises(ValueError, match="X has the column 'name' of dtype String"):
        CLASSIFIER.fit(frame.with_columns(name=pl.lit("x")), y)
    with pytest.raises(ValueError, match="X is a list of tables, expected arrays"):
        CLASSIFIER.fit([pl.DataFrame(x) for x in X], y)


@pytest.mark.filterwarnings("ignore:best_score_ is")  # of eight signals
def test_the_page_tells_what_lists_can(rng, tmp_path):
    """Each row of the table: what takes a list does, and what does not refuses it or is None."""
    pytest.importorskip("zarr")
    pytest.importorskip("jax")
    from rescntk import jax, stored

    X, y = waves(rng, 16, 2, channels=2)
    X, kernel = [x[:, : 20 + k % 3] for k, x in enumerate(X)], rk.ResCNTK(2, normalized=True)
    classifier = ResidualKernelClassifier(**ONE).fit(X, y)
    regressor = ResidualKernelRegressor(**ONE).fit(X, 1.0 * y)
    machine = make_pipeline(KernelMatrix(kernel), SVC(kernel="precomputed"))
    process, path = GaussianProcessRegressor(SignalKernel(n_channels=2)), tmp_path / "gram"
    other = View(head="trace"), View(head="equivariant"), View(standardize="point")
    calls = [
        [
            lambda: kernel(X),
            lambda: kernel.prepare(X)(X),
            lambda: kernel.paired(X, X),
            lambda: kernel.diag(X),
        ],
        [lambda h=h: kernel.replace(head=h)(X) for h in ("trace", "equivariant")],
        [
            lambda: rk.gram(kernel.network, X).ntk,
            lambda: rk.pixel_shares(kernel.network, X, X),
            lambda: stored.gram(path, kernel.network, X, progress=False).ntk[:],
        ],
        [lambda: rk.pixel_pairs(kernel.network, X), lambda: jax.gram(kernel.network, X)],
        [lambda v=v: View(standardize=v).fit_transform(X) for v in ("signal", "channel")],
        [lambda v=v: v.fit(X) for v in other],
        [
            lambda: classifier.predict(X),
            lambda: classifier.predict_proba(X),
            lambda: classifier.predict_set(X),
            lambda: classifier.novelty(X),
            lambda: regressor.predict(X, return_std=True)[1],
            lambda: regressor.predict_interval(X, 0.8)[0],
        ],
        [lambda: classifier.contributions(X), lambda: regressor.contributions(X)],
        [lambda: classifier.usual_contributions(), lambda: regressor.usual_contributions()],
        [lambda k=k: k(kernel).fit_transform(X) for k in (KernelMatrix, LandmarkFeatures)],
        [
            lambda: machine.fit(X, y).predict(X),
            lambda: cross_val_score(classifier, X, y, cv=2),
            lambda: GridSearchCV(classifier, {"penalty": [0.1, 1]}, cv=2).fit(X, y).predict(X),
        ],
        [lambda: process.fit(X, 1.0 * y)],
        [lambda: kernel([x[:, :, None] for x in X])],
    ]
    page = (Path(__file__).parents[2] / "docs/guide/signals.md").read_text("utf-8")
    (table,) = re.findall(r"\| what \|.*\n\|.*\n((?:\|.*\n)+)", page)
    answers = [line.split(" | ")[1].startswith("yes") for line in table.splitlines()]
    for takes, row in zip(answers, calls, strict=True):
        for call in row:
            try:
                found = call()
            except ValueError:
                found = None
            assert (found is not None) == takes
            assert not takes or all(np.isfinite(part).all() for part in found)
    seen = classifier.set_params(views=[*other, View()]).fit(X, y).views_["note"]
    assert all("different lengths" in note for note in seen[:3]) and not seen[3]
