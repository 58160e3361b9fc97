"""Files as programs write them: what is read gives the model of the array, or is refused."""

import json
import re
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.lib.recfunctions import structured_to_unstructured

from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    View,
    ViewTransformer,
)
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import ONE_VIEW, classifier, waves

NAMES = [f"t{k}" for k in range(24)]


@pytest.fixture
def signals(rng):
    """Twenty signals with three decimals, as files have them, and labels."""
    X, y = waves(rng, 20, 2)
    return X[:, 0].round(3), y


def lines(rows, separator=",", comma=False):
    """Return the text of a file."""
    texts = [separator.join(map(str, row)) for row in rows]
    return "\n".join(text.replace(".", ",") if comma else text for text in texts) + "\n"


def thousands(value):
    """Return a number without decimals, with a comma after thousands."""
    return f'"{1e7 * value:,.0f}"'


# Rows of a file from signals (20, 24), the separator, and whether commas stand for points.
WRITTEN = {
    "plain": lambda X: lines([NAMES, *X]),
    "German": lambda X: lines([NAMES, *X], ";", comma=True),
    "tabs": lambda X: lines([NAMES, *X], "\t"),
    "thousands": lambda X: lines([NAMES, *([thousands(v) for v in x] for x in X)]),
    "of pandas, with index": lambda X: lines([["", *NAMES], *([k, *x] for k, x in enumerate(X))]),
    "of R, with names of rows": lambda X: lines(
        [['""', *NAMES], *([f'"{k + 1}"', *x] for k, x in enumerate(X))]
    ),
    "index as a column": lambda X: lines([["index", *NAMES], *([k, *x] for k, x in enumerate(X))]),
    "units below names": lambda X: lines([NAMES, ["mV"] * 24, *X]),
    "below the limit": lambda X: lines(
        [NAMES, *([*x[:5], "<0.1", *x[6:]] if k == 3 else x for k, x in enumerate(X))]
    ),
    "gaps": lambda X: lines(
        [NAMES, *([*x[:5], "", *x[6:]] if k == 3 else x for k, x in enumerate(X))]
    ),
    "a signal in each column": lambda X: lines(
        [["nm", *(f"sample {k}" for k in range(20))], *([k, *x] for k, x in enumerate(X.T))]
    ),
    "a date in each row": lambda X: lines(
        [["day", *NAMES], *([f"2024-01-{k + 1:02}", *x] for k, x in enumerate(X))]
    ),
    "without names": lambda X: lines(X),
}

# The file, how it is read, and what the refusal says; None for the model of the array.
READ = [
    ("plain", {}, None),
    ("plain", {"dtype_backend": "numpy_nullable"}, None),
    ("plain", {"dtype": str}, r"'t0' of dtype .*: texts of digits become numbers by astype\(float"),
    ("German", {"sep": ";", "decimal": ","}, None),
    ("German", {"sep": ";"}, "'t0' of dtype .*: '-?[01],[0-9]+' has a comma, read .* decimal=','"),
    ("German", {}, "^X has the one column 't0;t1;.*read the file with sep=';'"),
    ("tabs", {"sep": "\t"}, None),
    ("tabs", {}, r"^X has the one column .*read the file with sep='\\t'"),
    ("thousands", {}, "'-?[0-9]+,[0-9,]+' has a comma, .* or thousands=','"),
    ("of pandas, with index", {}, "^X has the column 'Unnamed: 0', a saved index.*index_col=0"),
    ("of pandas, with index", {"index_col": 0}, None),
    ("of R, with names of rows", {}, "^X has the column 'Unnamed: 0', a saved index"),
    ("of R, with names of rows", {"index_col": 0}, None),
    ("index as a column", {}, "^X has the column 'index', a saved index"),
    ("units below names", {}, "'t0' of dtype .*: where 'mV' is a gap, read the file with na_val"),
    ("units below names", {"skiprows": [1]}, None),
    (
        "below the limit",
        {},
        "'t5' of dtype .*: where '<0.1' is a gap, read the file with na_val",
    ),
    ("below the limit", {"na_values": ["<0.1"]}, "^X contains NaN in row 3, column 't5'"),
    ("gaps", {}, "^X contains NaN in row 3, column 't5', .* as X.interpolate"),
    ("gaps", {"dtype_backend": "numpy_nullable"}, "^X contains NaN in row 3, column 't5'"),
    ("a signal in each column", {"index_col": 0}, r"^X has 24 rows and 20 columns, .*X.transpose"),
    ("a date in each row", {}, "'day' of dtype .*: leave texts out"),
    ("a date in each row", {"parse_dates": ["day"]}, "'day' of dtype datetime64"),
    ("a date in each row", {"index_col": "day"}, None),
    ("without names", {"header": None}, None),
]


def assert_is_read_or_refused(table, X, y, says):
    """Assert that a table is fitted as its signals are, or refused with a message."""
    if says is None:
        expected = classifier().fit(X, y).decision_function(X)
        assert (classifier().fit(table, y).decision_function(table) == expected).all()
    else:
        with pytest.raises(ValueError, match=says):
            classifier().fit(table, y)


@pytest.mark.parametrize(("file", "options", "says"), READ)
def test_files_read_by_pandas_are_fitted_or_refused_with_a_remedy(
    file, options, says, signals, pd, tmp_path
):
    X, y = signals
    path = tmp_path / "signals.csv"
    path.write_text(WRITTEN[file](X), encoding="utf-8")
    table = pd.read_csv(path, **options)
    assert_is_read_or_refused(table, X, y, says)


@pytest.mark.parametrize(
    "numbers", [range(20), range(39, 19, -1), [*range(1, 20, 2), *range(0, 20, 2)]]
)
@pytest.mark.parametrize("place", [0, 24])
def test_numbers_of_signals_are_warned_of(numbers, place, signals, pd):
    """Rising, falling, and in any order."""
    X, y = signals
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(place, "patient", numbers)
    with pytest.warns(UserWarning, match="^column 'patient' of X has a different whole number"):
        classifier().fit(table, y)


@pytest.mark.parametrize("numbers", [range(20), range(39, 19, -1)])
def test_numbers_in_order_are_warned_of_beside_time_points_of_whole_numbers(numbers, signals, pd):
    table = pd.DataFrame(np.round(10 * signals[0]), columns=NAMES)
    table.insert(0, "patient", numbers)
    with pytest.warns(UserWarning, match="^column 'patient' of X has a different whole number"):
        classifier().fit(table, signals[1])


@pytest.mark.parametrize(
    ("n", "correlation", "looks_so"),
    [(40, 0.55, True), (40, 0.25, False), (40, 0.0, False), (10, 0.9, True), (6, 0.9, False)],
)
def test_signals_look_transposed_where_points_are_alike(n, correlation, looks_so, rng):
    """More than channels are; fewer than a thousand numbers do not tell."""
    steps, X = rng.standard_normal((40, n, 3)), np.zeros((n, 40, 3))
    for k in range(40):
        before = X[:, k - 1] if k else steps[0]
        X[:, k] = correlation * before + np.sqrt(1 - correlation**2) * steps[k]
    says = "X of shape .* looks transposed"
    with pytest.warns(UserWarning, match=says) if looks_so else nullcontext():
        ViewTransformer(View(standardize="channel")).fit(X)


def test_numbers_of_new_signals_are_time_points(signals):
    """That a column of some new signals has different whole numbers tells nothing."""
    X, _ = signals
    view, new = ViewTransformer(View(standardize="channel")).fit(X), X.copy()
    new[:, 5] = np.arange(20)
    assert view.transform(new).shape == (20, 2, 24)


@pytest.mark.parametrize(
    ("n_cases", "n_columns", "before", "is_told"),
    [
        (10, 3, 0, True),
        (9, 3, 0, False),  # may be so by chance
        (10, 2, 0, False),  # the other column would be a signal of one point
        (20, 24, 9, True),
        (20, 24, 20, False),  # a file numbers its signals in one of its first columns
    ],
)
def test_numbers_of_ten_signals_are_told_in_one_of_the_first_columns(
    n_cases, n_columns, before, is_told, rng
):
    """Whole numbers in order, behind some time points of whole numbers in no order."""
    X = rng.standard_normal((n_cases, n_columns))
    X[:, :before] = rng.integers(0, 9, (n_cases, before))
    X[:, before] = np.arange(n_cases)
    says = f"^column {before} of X has a different whole number"
    with pytest.warns(UserWarning, match=says) if is_told else nullcontext():
        ViewTransformer(View(standardize="channel")).fit(X)


def test_whole_numbers_are_time_points(signals):
    """Signals of whole numbers, and a point that is the same for several signals."""
    X, y = signals
    one_point = X.copy()
    one_point[:, 3] = np.arange(20) // 2
    with warnings.catch_warnings(action="error"):
        classifier().fit(np.round(100 * X), y)
        classifier().fit(one_point, y)


READ_BY_POLARS = [
    ("plain", {}, None),
    ("German", {"separator": ";", "decimal_comma": True}, None),
    ("German", {"separator": ";"}, "'t0' of dtype String, .* has a comma, read the file with dec"),
    ("of pandas, with index", {}, "^X has the column '', a saved index"),
    ("gaps", {}, "^X contains NaN in row 3, column 't5'.* of pandas does"),
]


@pytest.mark.parametrize(("file", "options", "says"), READ_BY_POLARS)
def test_files_read_by_polars_are_fitted_or_refused_with_a_remedy(
    file, options, says, signals, pl, tmp_path
):
    X, y = signals
    path = tmp_path / "signals.csv"
    path.write_text(WRITTEN[file](X), encoding="utf-8")
    assert_is_read_or_refused(pl.read_csv(path, **options), X, y, says)


def test_tables_that_are_not_in_memory_are_refused_by_each_call(signals, pl):
    X, y = signals
    lazy = pl.DataFrame(X).lazy()
    for call in (classifier().fit(X, y).predict, ViewTransformer(View()).fit, KernelMatrix().fit):
        with pytest.raises(ValueError, match=r"^X is a polars.LazyFrame, expected .*X.collect\(\)"):
            call(lazy)


@pytest.fixture
def written(signals, tmp_path):
    """Return a function that writes signals to a file as `WRITTEN` says, and returns its path."""

    def write(file):
        path = tmp_path / "signals.csv"
        path.write_text(WRITTEN[file](signals[0]), encoding="utf-8")
        return path

    return write


def test_transposed_tables_are_read(written, signals, pd):
    table = pd.read_csv(written("a signal in each column"), index_col=0)
    assert_is_read_or_refused(table.transpose(), *signals, says=None)


def test_texts_of_digits_are_read_as_numbers(written, signals, pd):
    texts = pd.read_csv(written("plain"), dtype=str)
    assert_is_read_or_refused(texts.astype(float), *signals, says=None)


def test_commas_after_thousands_are_read(written, signals, pd):
    table = pd.read_csv(written("thousands"), thousands=",")
    assert (table.to_numpy() == np.round(1e7 * signals[0])).all()


def records_by_name(path):
    return np.genfromtxt(path, delimiter=",", names=True)


def test_records_of_numpy_are_refused(written, signals):
    with pytest.raises(ValueError, match="give numpy.lib.recfunctions.structured_to_unstructured"):
        classifier().fit(records_by_name(written("plain")), signals[1])


def test_records_of_numpy_are_read_as_arrays(written, signals):
    array = structured_to_unstructured(records_by_name(written("plain")))
    assert_is_read_or_refused(array, *signals, says=None)


@pytest.fixture
def filled(written, pd):
    """Return a table with a gap in row 3, column 5, filled as the message says."""
    return pd.read_csv(written("gaps")).interpolate(axis=1, limit_direction="both")


def test_gaps_are_filled_with_means_of_their_neighbours(filled, signals):
    X, _ = signals
    assert_within(filled.to_numpy()[3, 5], (X[3, 4] + X[3, 6]) / 2, tolerances.ROUTES)


def test_tables_whose_gaps_are_filled_are_read(filled, signals):
    classifier().fit(filled, signals[1])


@pytest.fixture
def archived(signals, pd, tmp_path):
    """A table of a file .tsv of the archive, which has no names, and labels in its first column."""
    X, y = signals
    path = tmp_path / "set_TRAIN.tsv"
    path.write_text(lines(([label + 1, *x] for label, x in zip(y, X, strict=True)), "\t"))
    return pd.read_csv(path, sep="\t", header=None)


def test_files_of_the_archive_are_read_without_their_labels(archived, signals):
    X, y = signals
    expected = classifier().fit(X, y + 1).predict(X)
    assert (classifier().fit(archived.drop(columns=0), archived[0]).predict(X) == expected).all()


def test_labels_left_in_files_of_the_archive_are_refused(archived):
    with pytest.raises(ValueError, match="^X has the column 0, which is y, expected time points"):
        classifier().fit(archived, archived[0])


@pytest.fixture
def records(signals, pd, tmp_path):
    """A table of lines of JSON, which has a signal in each cell of a column."""
    path = tmp_path / "signals.jsonl"
    rows = [{"signal": x.tolist(), "season": int(label)} for x, label in zip(*signals, strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return pd.read_json(path, lines=True, precise_float=True)


def test_tables_with_signals_in_cells_are_refused(records):
    says = r"^X has the column 'signal' .*np.stack\(row\) for row in"
    with pytest.raises(ValueError, match=says):
        classifier().fit(records[["signal"]], records["season"])


def test_series_with_signals_in_cells_are_refused(records):
    says = r"^X has shape \(20,\) and a signal in each .*list\(X\)"
    with pytest.raises(ValueError, match=says):
        classifier().fit(records["signal"], records["season"])


def test_signals_in_cells_are_read_as_the_messages_say(records, signals):
    X, y = signals
    expected = classifier().fit(X, y).decision_function(X)
    stacked = [np.stack(row) for row in records[["signal"]].to_numpy()]
    for given in (stacked, list(records["signal"])):
        assert (classifier().fit(given, records["season"]).decision_function(X) == expected).all()


def test_tables_of_arrow_are_refused_with_a_remedy(signals, tmp_path):
    csv = pytest.importorskip("pyarrow.csv")
    X, y = signals
    path = tmp_path / "signals.csv"
    path.write_text(WRITTEN["plain"](X))
    with pytest.raises(ValueError, match=r"^X is a pyarrow.Table, .*X.to_pandas\(\)"):
        classifier().fit(csv.read_csv(path), y)


@pytest.fixture
def long(signals, pd, tmp_path):
    """A table of a file with a row for each number, in any order of times."""
    X, _ = signals
    rows = [(k, t, X[k, t]) for k in range(20) for t in range(24)]
    order = np.random.default_rng(0).permutation(len(rows))
    path = tmp_path / "long.csv"
    path.write_text(lines([["id", "time", "value"], *(rows[k] for k in order)]))
    return pd.read_csv(path)


def test_series_of_a_long_file_are_refused_in_different_orders_of_times(long, signals):
    """Series of groups keep the file's order: they are not scrambled."""
    series = [part.set_index("time")["value"] for _, part in long.groupby("id")]
    with pytest.raises(ValueError, match=r"^X\[1\] has the index of X\[0\] in another order"):
        classifier().fit(series, signals[1])


def test_a_long_file_is_read_as_a_wide_table(long, signals):
    wide = long.pivot(index="id", columns="time", values="value")
    assert_is_read_or_refused(wide, *signals, says=None)


def test_an_array_file_with_time_before_channels_warns(rng, tmp_path):
    """As Keras has it, (n_cases, n_timepoints, n_channels)."""
    smooth = np.repeat(rng.standard_normal((20, 1, 4)), 80, axis=1).cumsum(axis=1)
    np.save(tmp_path / "signals.npy", smooth)
    X = np.load(tmp_path / "signals.npy")
    with pytest.warns(UserWarning, match=r"X of shape \(20, 80, 4\) looks transposed") as found:
        ResidualKernelRegressor(**ONE_VIEW).fit(X, X[:, 0, 0] + 1.0)
    assert re.search(r"X.swapaxes\(1, 2\)", str(found[0].message))


@pytest.fixture
def wavelengths(flat, pd):
    """A table whose columns have numbers as names."""
    return pd.DataFrame(flat[0], columns=[1100 + 2 * k for k in range(24)])


def test_names_that_are_numbers_in_fit_and_texts_in_predict_are_refused(wavelengths, flat):
    model = ResidualKernelClassifier(**ONE_VIEW).fit(wavelengths, flat[1])
    says = "X has the column '1100', expected 1100 as in fit"
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=says):
        model.predict(wavelengths.rename(columns=str))


def test_names_of_two_kinds_in_one_table_are_refused(wavelengths, flat):
    mixed = wavelengths.rename(columns={1100: "1100"})
    with pytest.raises(ValueError, match="X has the columns 1102 and '1100', expected names"):
        ResidualKernelClassifier(**ONE_VIEW).fit(mixed, flat[1])
