"""Labels and groups of any kind: which are told apart, which keep their kind, which are refused."""

import re
import warnings
from enum import Enum, IntEnum, StrEnum
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_score

from rescntk.learn import ResidualKernelClassifier
from tests.learn.cases import ONE_VIEW, ignores_scores, waves


class Colour(Enum):
    RED, BLUE = "r", 7


class Word(StrEnum):
    A, B = "a", "b"


class Number(IntEnum):
    ONE_VIEW, TWO = 1, 2


def objects(values):
    """Return an array of objects."""
    return np.array(values, dtype=object)


def forms_of_texts(texts):
    """Yield texts as arrays and series of the libraries that are installed."""
    yield texts.astype(object)
    if hasattr(np.dtypes, "StringDType"):
        yield texts.astype(np.dtypes.StringDType())
    if find_spec("pandas"):
        import pandas as pd

        yield from (pd.Series(texts, dtype=dtype) for dtype in ("string", "category"))
    if find_spec("polars"):
        import polars as pl

        yield from (pl.Series(texts), pl.Series(texts, dtype=pl.Enum(["no", "yes"])))


def test_texts_of_any_type_are_labels(rng):
    X, y = waves(rng, 16, 2)
    texts = np.array(["no", "yes"])[y]
    for form in forms_of_texts(texts):
        assert (ResidualKernelClassifier(**ONE_VIEW).fit(X, form).predict(X) == texts).all()


LARGE = [2**53, 2**53 + 1, 2**53 + 3]
KINDS_OF_LABELS = {
    "integers": (LARGE, "i", ["Int64", "int64[pyarrow]", "category"]),
    "unsigned": ([2**63, 2**63 + 1, 2**64 - 1], "u", ["UInt64", "uint64[pyarrow]"]),
    "booleans": ([False, True, True], "b", ["boolean", "bool[pyarrow]"]),
    "floats": ([0.0, 1.0, 2.0], "f", ["Float64", "double[pyarrow]"]),
    "texts": (["a", "b", "c"], "UO", ["string", "string[pyarrow]", "category", "str"]),
}


def forms_of_labels(values, dtypes):
    """Yield labels as lists, arrays, series and tables of the libraries that are installed."""
    yield from (values, tuple(values), np.array(values))
    if find_spec("polars"):
        import polars as pl

        yield pl.Series(values)
    if find_spec("pandas"):
        import pandas as pd

        for dtype in (d for d in dtypes if "pyarrow" not in d or find_spec("pyarrow")):
            yield pd.Series(values, dtype=dtype)
        yield pd.DataFrame({"label": pd.Series(values, dtype=dtypes[0])})
    if find_spec("pyarrow"):
        import pyarrow as pa

        arrow = pa.array(np.array(values))
        yield from (arrow, pa.chunked_array([arrow[:9], arrow[9:]]))


EACH_KIND = pytest.mark.parametrize(
    ("values", "kind", "dtypes"), KINDS_OF_LABELS.values(), ids=KINDS_OF_LABELS
)


@ignores_scores  # of labels that the signals do not tell
@EACH_KIND
def test_labels_keep_their_kind(values, kind, dtypes, rng):
    """2^53 and 2^53 + 1 are one number in float64, and two labels."""
    X, places = waves(rng, 24, 3)
    labels = [values[k] for k in places]
    for form in forms_of_labels(labels, dtypes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataConversionWarning)
            model = ResidualKernelClassifier(**ONE_VIEW).fit(X, form)
        predicted, classes = model.predict(X), model.classes_
        assert classes.dtype.kind in kind and predicted.dtype.kind in kind
        assert classes.tolist() == np.unique(np.array(values)).tolist()
        assert (predicted == np.array(labels)).all()


@ignores_scores
@EACH_KIND
def test_groups_of_each_kind_are_told_apart(values, kind, dtypes, rng):
    X, places = waves(rng, 24, 3)
    groups = [values[k] for k in places]
    says = f"but {len(set(values))} training signals or groups"
    for form in forms_of_labels(groups, dtypes):
        if not hasattr(form, "columns"):
            model = ResidualKernelClassifier(**ONE_VIEW).fit(X, np.arange(24) % 2, groups=form)
            with pytest.warns(UserWarning, match=says):
                model.predict_set(X, 0.99)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([2**53, 2**53 + 1, 1.0], r"\[1\] is 9007199254740993, and is 9007199254740992.0 beside"),
        ([1, 2**63, 2], r"\[0\] is 1, and is 1.0 beside the other labels: expected labels of one"),
        ([1, "a", "b"], r"\[0\] is 1, and is '1' beside the other labels"),
    ],
)
@pytest.mark.parametrize("argument", ["y", "groups"])
def test_labels_that_would_change_are_refused(argument, labels, says, rng):
    X, places = waves(rng, 24, 3)
    given = {"y": places, argument: [labels[k] for k in places]}
    with pytest.raises(ValueError, match=f"^{argument}{says}"):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, **given)


@pytest.mark.parametrize("form", [list, objects])
def test_objects_that_scores_refuse_are_refused_at_once(form, rng):
    X, y = waves(rng, 16, 2)
    members = [[*Colour][k] for k in y]
    for labels, name, remedy in (
        (form(members), "Colour", "[label.name for label in y]"),
        (objects(y.tolist()), "int", "y.astype(int)"),
        (objects((y > 0).tolist()), "bool", "y.astype(int)"),
        (np.array([b"a", b"b"])[y], "bytes_", "[label.decode() for label in y]"),
        (objects([[b"a", b"b"][k] for k in y]), "bytes", "[label.decode() for label in y]"),
    ):
        says = f"y has objects of kinds {name}, .* numbers or texts: give {re.escape(remedy)}"
        with pytest.raises(ValueError, match=says):
            ResidualKernelClassifier(**ONE_VIEW).fit(X, labels)


@pytest.mark.parametrize("form", [list, objects])
def test_texts_of_an_enumeration_are_labels(form, rng):
    X, y = waves(rng, 16, 2)
    labels = form([[*Word][k] for k in y])
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, labels)
    assert model.score(X, labels) == 1 and cross_val_score(model, X, labels, cv=2).mean() > 0.5


def test_integers_of_an_enumeration_are_labels(rng):
    X, y = waves(rng, 16, 2)
    labels = [[*Number][k] for k in y]
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, labels)
    assert model.score(X, labels) == 1 and cross_val_score(model, X, labels, cv=2).mean() > 0.5
