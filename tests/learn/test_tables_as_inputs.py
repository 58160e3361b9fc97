"""Tables of pandas, polars and Arrow: what is read as numbers, and what is refused with advice."""

import re
import warnings

import numpy as np
import pytest

from rescntk.learn import (
    EarlyClassifier,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
)
from tests.learn.cases import ONE_VIEW, TRACE_VIEW, classifier, ignores_scores, regressor

NAMES = {
    "texts": [f"t{k}" for k in range(24)],
    "integers": list(range(24)),
    "floats": [0.5 * k for k in range(24)],
}


@pytest.fixture(params=NAMES.values(), ids=NAMES)
def named(request, flat, pd):
    """A classifier of a table, and the table."""
    frame = pd.DataFrame(flat[0], columns=request.param)
    return ResidualKernelClassifier(**TRACE_VIEW).fit(frame, flat[1]), frame


def test_columns_in_another_order_are_refused(named):
    model, frame = named
    with pytest.raises(ValueError, match="same order as they were in fit|in another order"):
        model.predict(frame[frame.columns[::-1]])


def test_fewer_columns_than_in_fit_are_refused(named):
    model, frame = named
    with pytest.raises(ValueError, match="feature|expected|columns"):
        model.predict(frame[frame.columns[:-1]])


@pytest.fixture
def early(flat, pd):
    """An early classifier of signals with named columns, and the signals."""
    X, y = flat
    frame = pd.DataFrame(X).add_prefix("t")
    return EarlyClassifier(classifier(), n_prefixes=2, random_state=0).fit(frame, y), frame


def test_the_first_columns_are_a_beginning(early):
    model, frame = early
    labels, _ = model.decide(frame.iloc[:, :12])
    assert (labels == model.decide(frame.to_numpy()[:, :12])[0]).all()


@pytest.mark.parametrize("columns", [slice(11, None, -1), slice(12, None)])
def test_a_beginning_of_other_columns_is_refused(columns, early):
    model, frame = early
    for method in (model.decide, model.staged_predict_proba):
        with pytest.raises(ValueError, match="^X has the columns .* the first of those in fit"):
            method(frame.iloc[:, columns])


def test_columns_without_names_are_as_an_array(flat, pd):
    X, y = flat
    frame = pd.DataFrame(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier().fit(frame, y)
        assert (model.predict(X) == model.predict(frame)).all()


@pytest.fixture
def indexed(flat, pd):
    """X as a frame with named rows, and y, groups and weights as series of the same index."""
    X, y = flat
    frame = pd.DataFrame(X, index=[f"case {k}" for k in range(20)])
    columns = {"y": y, "groups": range(20), "sample_weight": 1.0}
    return frame, {name: pd.Series(of, index=frame.index) for name, of in columns.items()}


@pytest.mark.parametrize("model", [classifier(), regressor()], ids=["classifier", "regressor"])
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
        classifier().fit(frame.to_numpy(), columns["y"], groups=columns["groups"][::-1])


def test_another_index_counts_by_place(indexed):
    frame, columns = indexed
    expected = classifier().fit(frame, **columns).predict(frame)
    assert (expected == columns["y"]).mean() > 0.9
    y = columns["y"].reset_index(drop=True)
    assert (classifier().fit(frame, y).predict(frame) == expected).all()


def two_levels(frame, pd):
    """Return a table of two channels, the second less the first."""
    columns = pd.MultiIndex.from_product([["a", "b"], range(24)])
    return pd.DataFrame(np.hstack([frame, -frame]), columns=columns)


NO_NUMBERS = [
    (
        two_levels,
        r"columns of two levels.*X.sort_index\(axis=1\).to_numpy\(\).reshape\(len\(X\), n_channels",
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
    (
        lambda frame, pd: frame.rename(columns={"t3": "t5"}),
        r"X has the column 't5' 2 times, expected different names: give X.to_numpy\(\)",
    ),
    (
        lambda frame, pd: frame.astype(pd.SparseDtype(float)),
        r"X has the sparse column 't0', expected dense ones: give X.sparse.to_dense\(\)",
    ),
    (
        lambda frame, pd: dict(enumerate(frame.to_numpy())),
        r"X is a dict, expected an array, a list or a table: give list\(X.values\(\)\)",
    ),
    (
        lambda frame, pd: iter(frame.to_numpy()),
        r"X is a .*, expected an array, a list or a table: give list\(X\)",
    ),
]


@pytest.mark.parametrize(("broken", "says"), NO_NUMBERS)
def test_tables_that_are_no_rows_of_numbers_are_refused(broken, says, flat, pd):
    frame = pd.DataFrame(flat[0]).add_prefix("t")
    with pytest.raises(ValueError, match=says):
        classifier().fit(broken(frame, pd), flat[1])


def test_columns_that_a_file_left_without_names_are_signals(flat, pd):
    frame = pd.DataFrame(flat[0]).set_axis([f"Unnamed: {k}" for k in range(24)], axis=1)
    assert classifier().fit(frame, flat[1]).n_timepoints_ == 24


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
    "labels": (lambda X, y, gaps: classifier().fit(X, gaps), "y"),
    "groups": (lambda X, y, gaps: classifier().fit(X, y, groups=gaps), "groups"),
    "targets": (lambda X, y, gaps: regressor().fit(X, gaps), "y"),
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
        ResidualKernelRegressor(**ONE_VIEW).fit(flat[0], labels)


def test_texts_among_signals_are_refused(flat, texts):
    mixed = flat[0].astype(object)
    mixed[:, 3] = texts
    with pytest.raises(ValueError, match=f"has texts, .*'{texts[0]}'.*file with decimal=','"):
        classifier().fit(mixed, flat[1])


def test_targets_of_texts_are_refused(flat, texts):
    with pytest.raises(ValueError, match=f"has texts, .*'{texts[0]}'.*file with decimal=','"):
        regressor().fit(flat[0], texts)


@pytest.fixture
def polars_frame(flat, pl):
    return pl.DataFrame(flat[0], schema=[f"t{k}" for k in range(24)])


def test_tables_of_polars_are_fitted(polars_frame, flat, pl):
    model = classifier().fit(polars_frame, pl.Series(flat[1]))
    assert model.score(polars_frame, flat[1]) > 0.9


def test_columns_of_polars_in_another_order_are_refused(polars_frame, flat):
    model = classifier().fit(polars_frame, flat[1])
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(polars_frame.select(polars_frame.columns[::-1]))


NO_NUMBERS_OF_POLARS = [
    (
        lambda frame, pl: frame.with_columns(name=pl.lit("x")),
        "X has the column 'name' of dtype String",
    ),
    (
        lambda frame, pl: [pl.DataFrame(x) for x in frame.to_numpy()],
        "X is a list of tables, expected arrays",
    ),
    (
        lambda frame, pl: pl.DataFrame(
            {"signal": pl.Series(frame.to_numpy(), dtype=pl.Array(pl.Float64, 24))}
        ),
        "X has the column 'signal' .*signals in cells are",
    ),
]


@pytest.mark.parametrize(("broken", "says"), NO_NUMBERS_OF_POLARS)
def test_tables_of_polars_that_are_no_rows_of_numbers(broken, says, polars_frame, flat, pl):
    with pytest.raises(ValueError, match=says):
        classifier().fit(broken(polars_frame, pl), flat[1])


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
        classifier().fit(broken(pa, X), y)


def test_lists_of_arrow_are_read_as_the_message_says(flat):
    pa, (X, y) = pytest.importorskip("pyarrow"), flat
    expected = classifier().fit(X, y).decision_function(X)
    found = classifier().fit(pa.array(X.tolist()).to_pylist(), pa.array(y)).decision_function(X)
    assert (found == expected).all()


SECONDS = np.arange(20.0)
TIMES = {
    "durations": (1000 * np.arange(20)).astype("timedelta64[ms]"),
    "dates": np.datetime64("2024-01-01") + (1000 * np.arange(20)).astype("timedelta64[ms]"),
}
"""A second after the other, as durations and as dates."""


def forms_of_times(kind, pd, pl):
    """Yield durations or dates as arrays, series, lists and tables."""
    times = TIMES[kind]
    yield from (times, pd.Series(times), pl.Series(times), times.tolist())
    if kind == "dates":
        yield from (pd.Series(times).dt.tz_localize("UTC"), pd.DataFrame({"a": times}))


@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_durations_are_no_targets(kind, flat, pd, pl):
    for y in forms_of_times(kind, pd, pl):
        with pytest.raises(ValueError, match=rf"^y has {kind}, such as .*timedelta64\(1, 's'"):
            regressor().fit(flat[0], y)


@ignores_scores  # of targets that the signals do not tell
@pytest.mark.parametrize(
    "seconds",
    [
        TIMES["durations"] / np.timedelta64(1, "s"),
        (TIMES["dates"] - TIMES["dates"].min()) / np.timedelta64(1, "s"),
    ],
    ids=TIMES,
)
def test_times_are_targets_as_the_messages_say(seconds, flat):
    expected = regressor().fit(flat[0], SECONDS).predict(flat[0])
    assert (regressor().fit(flat[0], seconds).predict(flat[0]) == expected).all()


LEFT_IN = {
    "y": lambda frame, of: classifier().fit(frame, of),
    "groups": lambda frame, of: classifier().fit(frame, np.arange(20) // 5 % 2, groups=of),
    "sample_weight": lambda frame, of: regressor().fit(frame, np.arange(20.0), sample_weight=of),
}


@ignores_scores  # of labels and targets without a meaning
@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(("name", "fit"), LEFT_IN.items(), ids=LEFT_IN.keys())
def test_a_column_left_in_the_table_is_refused_by_name(name, fit, kind, flat):
    library = pytest.importorskip(kind)
    frame = library.DataFrame({f"t{k}": x for k, x in enumerate(flat[0].T)} | {"of": flat[1] + 1})
    with pytest.raises(ValueError, match=f"^X has the column 'of', which is {name}, .*drop it"):
        fit(frame, frame["of"])
    rest = frame.drop(columns="of") if kind == "pandas" else frame.drop("of")
    fit(rest, frame["of"])


@pytest.fixture
def numbered(flat, pd):
    """A table without names of columns, whose first one has the labels."""
    return pd.DataFrame(np.column_stack([flat[1], flat[0]]))


@pytest.mark.parametrize("columns", [0, [0, 5]], ids=["one", "several"])
def test_targets_left_in_a_table_without_names_are_refused(columns, numbered):
    with pytest.raises(ValueError, match="^X has the column 0, which is y"):
        regressor().fit(numbered, numbered[columns])


def test_numbers_of_columns_may_be_alike_where_values_are_not(numbered):
    signals = numbered.drop(columns=0).set_axis(range(24), axis=1)
    assert classifier().fit(signals, numbered[0]).score(signals, numbered[0]) > 0.9


@pytest.fixture
def gaps(flat, pd):
    """A table that lacks a fifth of its numbers."""
    frame = pd.DataFrame(flat[0]).add_prefix("t")
    return frame.mask(np.random.default_rng(0).uniform(size=frame.shape) < 0.2)


def test_a_gap_is_named_by_its_row_and_column(gaps, flat):
    with pytest.raises(ValueError, match="NaN in row") as refusal:
        classifier().fit(gaps, flat[1])
    row, name = re.search("row ([0-9]+), column '(t[0-9]+)'", str(refusal.value)).groups()
    assert np.isnan(gaps.loc[int(row), name])


def test_gaps_are_filled_as_the_message_says(gaps, flat):
    classifier().fit(gaps.interpolate(axis=1, limit_direction="both"), flat[1])


def test_gaps_of_polars_are_named_with_the_remedy_of_pandas(flat, pl):
    table = pl.DataFrame({"t0": [1.0] * 20, "t1": [np.nan] * 20})
    with pytest.raises(ValueError, match="NaN in row 0, column 't1'.* of pandas does"):
        classifier().fit(table, flat[1])
