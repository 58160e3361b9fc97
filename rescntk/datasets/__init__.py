"""Read signals from files and from the installed data sets."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import numpy as np

from ..arrays import SignalList
from ..validation import check_batch, check_choice, check_signals, is_sequence
from . import fields, tables
from .fields import Dates
from .tables import Table
from .writing import check_output as check_output
from .writing import check_writable as check_writable
from .writing import replacing as replacing

__all__ = ["Table", "bundled", "load", "load_labelled", "load_table"]
__all__ += ["read", "read_labelled", "read_labels"]

SUFFIXES = (".npy", ".npz", ".ts", ".csv")
"""Kinds of files: one NumPy array, several named arrays, the time-series format of aeon, a table.
A table has a row for each time or for each signal."""

_TECATOR_TRAIN = 172
"""Training signals in Tecator's file, which come first; the split is that of sktime."""


def read(path: str | Path, array: str | None = None) -> np.ndarray | list[np.ndarray]:
    """Return the signals in a file, (n_cases, n_channels, n_timepoints) in float64.

    They are a list of arrays (n_channels, n_timepoints_i) where lengths differ. A ``.npy`` or
    ``.npz`` file may have images, (n_cases, n_channels, height, width). `load_table` describes
    ``.csv`` files.

    Parameters
    ----------
    path, array
        As for `read_labelled`.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.read("signals.npz", array="X_train").shape  # doctest: +SKIP
    (270, 12, 25)
    """
    return read_labelled(path, array)[0]


def read_labelled(
    path: str | Path, array: str | None = None, *, missing: bool = False
) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | None]:
    """Return the signals in a file as `read` does, and their labels, (n_cases,).

    Labels are classes or values in a ``.ts`` file, or labels in a ``.csv`` file, or else None.
    Classes of a ``.ts`` file are in small letters, as aeon reads them.

    Parameters
    ----------
    path : path
        In ``.npy``, ``.npz``, ``.ts`` or ``.csv``.
    array : str, optional
        Name of the array in a ``.npz`` file; not needed for a file with one array.
    missing : bool, default False
        Whether missing values are allowed, and become NaN: NaN in arrays, ? in ``.ts`` files, and
        fields of ``.csv`` files that are empty, NaN, NA or ?.

    Returns
    -------
    X : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
    y : ndarray, (n_cases,), or None

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.read_labelled("signals_TRAIN.ts")  # doctest: +SKIP
    """
    return read_file(Path(path), array, missing, {})[0][:2]


def load_table(
    path: str | Path,
    *,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    case: str | None = None,
    time: str | None = None,
    missing: bool = False,
) -> Table:
    """Return the signals in a ``.csv`` file, with their labels and cases.

    A wide table has a row for each signal. Its columns are time points, such as t0, t1, …, or time
    points of several channels, such as x_0, x_1, …, y_0, y_1, …. A long table has a row for each
    time of a case, and a column for each channel, or the columns channel and value. Channels are
    in the order of their names. Times are numbers, dates (ISO 8601 or day.month.year) or hours.

    Parameters
    ----------
    path : path
    label_column : str, optional
        Column of the labels; the default is label, where there is such a column.
    ignore : sequence of str, default ()
        Columns that are left out.
    case, time : str, optional
        Columns of cases and of times. The defaults are case and time, where there are such
        columns. A table with a column of times is long.
    missing : bool, default False
        As for `read_labelled`.

    Examples
    --------
    >>> from rescntk import datasets
    >>> table = datasets.load_table("watch.csv", case="id", time="t")  # doctest: +SKIP
    >>> table.X.shape, table.y, table.cases  # doctest: +SKIP
    """
    path = Path(path)
    check_choice(path.suffix, f"suffix of {path.name}", [".csv"])
    columns = named_columns(label_column, ignore, case, time)
    return read_file(path, None, missing, columns)[0]


def named_columns(
    label_column: str | None, ignore: Sequence[str], case: str | None, time: str | None
) -> dict[str, str]:
    """Return the columns that arguments of `load_table` name, each with its argument."""
    if not is_sequence(ignore):
        raise ValueError(f"ignore is {ignore!r}, expected a sequence of names of columns")
    arguments = [(label_column, "label_column"), (case, "case"), (time, "time")]
    arguments += [(name, "ignore") for name in ignore]
    columns = dict[str, str]()
    for name, argument in arguments:
        if name is not None and columns.setdefault(name, argument) != argument:
            raise ValueError(f"{argument} and {columns[name]} are {name!r}, expected two columns")
    return columns


def read_file(
    path: Path,
    array: str | None,
    missing: bool,
    columns: Mapping[str, str],
    usual: Mapping[str, str] | None = None,
) -> tuple[Table, Dates]:
    """Return the signals, labels and cases in a file of any kind; only tables have `columns`.

    And the first and last date of a table's times, or of a column that is left out. `usual` has
    columns of another table, which this table may lack.
    """
    suffixes = [".csv"] if columns else SUFFIXES
    check_choice(path.suffix, f"suffix of {path.name}", suffixes)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a {path.suffix} file")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, expected a file")
    _check_named(path, array)
    name, checked, dates = f"the signals in {path.name}", check_batch, None
    if path.suffix == ".ts":
        table = Table(*_read_ts(path), None, None)
    elif path.suffix == ".csv":
        with readable(path):
            table, dates = tables.read_table(path, missing, columns, usual or {})
    else:
        table, name = Table(_load(path, array), None, None, None), f"the array in {path.name}"
        checked = partial(check_signals, images=True)
    signals = table.X
    whole = not missing or (isinstance(signals, np.ndarray) and signals.ndim < 3)
    gaps = [] if whole else [np.isnan(x) for x in signals if x.dtype.kind == "f"]
    X = checked(_without(gaps, signals), name)
    X = list(X) if isinstance(X, SignalList) else X
    for x, gap in zip(X, gaps, strict=False):
        x[gap] = np.nan
    return table._replace(X=X), dates


def _without(gaps: list[np.ndarray], signals: Any) -> Any:
    """Return signals with 0 in their gaps, as copies if there are gaps."""
    if not any(gap.any() for gap in gaps):
        return signals
    filled = [np.where(gap, 0.0, x) for x, gap in zip(signals, gaps, strict=True)]
    return np.array(filled) if isinstance(signals, np.ndarray) else filled


def read_labels(path: str | Path, array: str | None = None) -> np.ndarray:
    """Return labels in a ``.npy`` file, in an array of a ``.npz`` file, or one a line of a text.

    A text may have a header: label, labels, class, target, y, value, group or groups, or a text
    before numbers. A ``.csv`` file may have further columns beside the column label.

    Parameters
    ----------
    path : path
    array : str, optional
        Name of the array in a ``.npz`` file.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.read_labels("y.npy")  # doctest: +SKIP
    """
    path = Path(path)
    _check_named(path, array)
    if path.suffix in (".npy", ".npz"):
        labels = _load(path, array)
        with readable(path):
            return np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels
    with readable(path):
        return tables.read_labels(path)


def _check_named(path: Path, array: str | None) -> None:
    if array is not None and path.suffix != ".npz":
        raise ValueError(
            f"array is {array!r}, expected None: {path.name} is not a .npz file of named arrays"
        )


def _load(path: Path, array: str | None) -> np.ndarray:
    """Return the array in a ``.npy`` file, or one of a ``.npz`` file."""
    with readable(path):
        content = np.load(path, allow_pickle=False)
    if isinstance(content, np.ndarray):
        return content
    with content:
        names = content.files
        if array is None and len(names) != 1:
            raise ValueError(
                f"array is None, and {path} holds the arrays {names}: name one of them "
                "(as --array NAME)"
            )
        name = check_choice(names[0] if array is None else array, "array", names)
        with readable(path):
            return content[name]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the many errors of reading a damaged file into a ValueError of one line."""
    try:
        yield
    except ImportError:
        raise
    except MemoryError as error:  # also of a damaged file that names an impossible shape
        raise MemoryError(f"{path} does not fit into memory: {error}") from None
    except Exception as error:  # of NumPy, zipfile, zlib or aeon
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a readable {path.suffix} file: {reason}") from None


def bundled() -> list[str]:
    """Return the names of Tecator and of aeon's data sets whose signals have equal length.

    Examples
    --------
    >>> from rescntk import datasets
    >>> "JapaneseVowels" in datasets.bundled()
    True
    """
    names = (folder.name for folder in (Path(_aeon_datasets().__path__[0]) / "data").iterdir())
    return sorted(["Tecator", *filter(_equal_length, names)])


def load(name: str, split: str = "train") -> np.ndarray:
    """Return the signals of a data set, (n_cases, n_channels, n_timepoints) in float64.

    Nothing is downloaded. Tecator is part of this package, all other sets are part of aeon.

    Parameters
    ----------
    name : str
        One of `bundled`. Signals of several lengths come in aeon's version of equal length.
    split : {"train", "test"}

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.load("JapaneseVowels").shape
    (270, 12, 25)
    """
    return load_labelled(name, split)[0]


def load_labelled(name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of a data set as `load` does, and the targets, (n_cases,).

    Class labels are strings, other targets float64. Tecator's spectra of minced meat come from a
    Tecator Infratec Food and Feed Analyzer; the target is the fat content in percent. The first
    lines of Tecator.csv.gz are Tecator's permission to redistribute it.

    Parameters
    ----------
    name, split
        As for `load`.

    Returns
    -------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    y : ndarray, (n_cases,)
        Labels as texts, or numbers for regression.

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.load_labelled("GunPoint")
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 1, 150), ['1', '2'])
    """
    check_choice(split, "split", ("train", "test"))
    if name == "Tecator":
        table = np.loadtxt(Path(__file__).with_name("Tecator.csv.gz"), delimiter=",")
        table = table[:_TECATOR_TRAIN] if split == "train" else table[_TECATOR_TRAIN:]
        return table[:, None, :-1], table[:, -1]
    check_choice(name, "data", bundled())
    return read_labelled(_ts_file(name, split))  # type: ignore[return-value]  # not unequal


def _ts_file(name: str, split: str) -> Path:
    """Return the file of a data set, preferably its version of equal length (suffix _eq)."""
    folder = Path(_aeon_datasets().__path__[0]) / "data" / name
    equal = folder / f"{name}_eq_{split.upper()}.ts"
    return equal if equal.is_file() else folder / f"{name}_{split.upper()}.ts"


def _equal_length(name: str) -> bool:
    """Return whether the header of the training file declares signals of equal length."""
    if not all(_ts_file(name, split).is_file() for split in ("train", "test")):
        return False
    with _text(_ts_file(name, "train")) as file:
        header = _header(file)
    labelled = not header.keys().isdisjoint(("@classlabel", "@targetlabel"))
    return labelled and header.get("@equallength", "true").strip() == "true"


def _text(path: Path) -> TextIO:
    return open(path, encoding="utf-8-sig", errors="replace")


def _header(lines: Iterable[str]) -> dict[str, str]:
    """Read the header of a ``.ts`` file; signals without a header before them are refused."""
    header: dict[str, str] = {}
    for line in lines:
        key, _, value = line.strip().lower().partition(" ")
        if key == "@data":
            return header
        if key and key[0] not in "@#%":
            break
        header[key] = value
    raise ValueError("no line @data before signals, expected it as the last line of the header")


def _read_ts(path: Path) -> tuple[Any, Any]:
    """Return the signals of a ``.ts`` file, and its labels or None."""
    load, classes = _aeon_datasets().load_from_ts_file, list[str]()
    with readable(path):
        with _text(path) as file:
            content = file.read()  # without a byte order mark, in which aeon loses a line
            lines = io.StringIO(content)
            declared = _header(lines).get("@classlabel", "").split()
            for line in lines:
                numbers, _, label = line.lower().rpartition(":")
                if declared[:1] != ["true"]:
                    numbers = line
                if "_" in numbers or not numbers.isascii():  # aeon takes them as `float` does
                    raise ValueError(
                        f"{fields.short([line.strip()])} has values that are not numbers, "
                        "expected numbers separated by commas, and : between channels"
                    )
                classes.append(label.strip())
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_text(content, "utf-8")
            signals, labels = load(str(copy))[:2]
        if declared[:1] != ["true"]:
            return signals, labels if len(labels) else None
        unknown = [label for label in classes if label not in declared[1:]]
        if unknown:
            raise ValueError(
                f"its header has the classes {fields.short(declared[1:])}, expected all of "
                f"its signals' classes: {unknown[0]!r} is none of them"
            )
    return signals, np.array(classes)  # aeon writes the class nan as NaN


def _aeon_datasets() -> ModuleType:
    try:
        import aeon.datasets
    except ModuleNotFoundError:
        raise ImportError(
            "data sets and .ts files need aeon: pip install 'rescntk[datasets]'"
        ) from None
    return aeon.datasets
