"""Data sets that are installed, and folders with a file for each signal. Nothing is downloaded.

Installed are Tecator, and the sets that come with aeon. The guide's page "Signals" has the few
lines of pandas for tables with all signals.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .checks.messages import shown
from .checks.values import check_choice

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Recordings", "bundled", "load", "load_labelled", "read_folder", "write_pump"]

_TECATOR_TRAIN = 172
"""Training signals in Tecator's file, which come first. The split is the usual one."""


def bundled() -> list[str]:
    """Return the names of Tecator and of aeon's data sets whose signals have equal length.

    Returns
    -------
    list of str

    Raises
    ------
    ImportError
        Without aeon.

    Examples
    --------
    >>> from rescntk import datasets
    >>> "JapaneseVowels" in datasets.bundled()
    True
    """
    names = (folder.name for folder in _aeon_folder().iterdir())
    return sorted(["Tecator", *filter(_has_equal_lengths, names)])


def load(name: str, split: str = "train") -> np.ndarray:
    """Return the signals of a data set.

    Parameters
    ----------
    name : str
        One of `bundled`. Signals of several lengths come in aeon's version of equal length.
    split : {"train", "test"}, default "train"

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)
        In float64.

    Raises
    ------
    ValueError
        If the name or the split is another one.
    ImportError
        Without aeon, for every set but Tecator.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.load("JapaneseVowels").shape
    (270, 12, 25)
    """
    return load_labelled(name, split)[0]


def load_labelled(name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of a data set as `load` does, and their targets.

    Class labels are strings, other targets float64. Tecator's spectra of minced meat come from a
    Tecator Infratec Food and Feed Analyzer; the target is the fat content in percent. The first
    lines of tecator.csv.gz are Tecator's permission to redistribute it.

    Parameters
    ----------
    name, split
        As for `load`.

    Returns
    -------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    y : ndarray, (n_cases,)

    Raises
    ------
    ValueError
        If the name or the split is another one.
    ImportError
        Without aeon, for every set but Tecator.

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.load_labelled("GunPoint")
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 1, 150), ['1', '2'])
    """
    check_choice(split, "split", ("train", "test"))
    if name == "Tecator":
        table = np.loadtxt(Path(__file__).with_name("tecator.csv.gz"), delimiter=",")
        table = table[:_TECATOR_TRAIN] if split == "train" else table[_TECATOR_TRAIN:]
        return table[:, None, :-1], table[:, -1]
    check_choice(name, "name", bundled())
    from aeon.datasets import load_from_ts_file

    X, y = load_from_ts_file(str(_file(name, split)))[:2]
    return X, y


class Recordings(NamedTuple):
    """The signals of a folder, as estimators and kernels take them."""

    signals: np.ndarray | list[np.ndarray]
    """(n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i) if the files
    have different numbers of rows; in float64"""
    files: list[str]
    """The name of each signal's file, in the order of the signals."""
    channels: list[str]
    """The name of each channel."""


def read_folder(folder: str | Path, pattern: str = "*.csv", **options: Any) -> Recordings:
    """Read a folder with a table for each signal: a row for each time, a column for each sensor.

    Parameters
    ----------
    folder : str or Path
        Files in its subfolders are not read.
    pattern : str, optional
        Which files are read, in the order of their names. By default all that end with .csv.
    **options
        Of pandas' function read_csv: index_col="time" for a column of times, which is no channel;
        sep=";" and decimal="," for the files of many spreadsheets; usecols for some columns.

    Returns
    -------
    Recordings
        ``signals``: an array (n_cases, n_channels, n_timepoints), or a list of arrays (n_channels,
        n_timepoints_i) if the files have different numbers of rows; ``files``: their names in the
        order of the signals, by which labels are looked up; ``channels``: the names of channels,
        in the order of the first file.

    Raises
    ------
    ValueError
        If there is no such folder or no such file, and for files that pandas cannot read, without
        rows, with other columns than the first one, with texts or with missing values.
    ImportError
        Without pandas.

    Warns
    -----
    UserWarning
        If a column rises from row to row in all files, as times do.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from rescntk import datasets
    >>> with TemporaryDirectory() as folder:
    ...     datasets.write_pump(folder)
    ...     recordings = datasets.read_folder(folder, "pump_*.csv", index_col="time")
    >>> recordings.signals.shape, recordings.files[0], recordings.channels[:3]
    ((120, 6, 200), 'pump_000.csv', ['inlet', 'outlet', 'flow'])
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise ImportError("read_folder needs pandas: pip install 'rescntk[learn]'") from None
    if not Path(folder).is_dir():
        raise ValueError(f"folder is {str(folder)!r}, expected a folder that exists")
    paths = sorted(path for path in Path(folder).glob(pattern) if path.is_file())
    if not paths:
        raise ValueError(
            f"folder is {str(folder)!r}, which has no files {pattern!r}, expected some"
        )
    signals, channels = list[np.ndarray](), list[str]()
    for path in paths:
        try:
            table = pandas.read_csv(path, **options)
        except ValueError as error:
            raise ValueError(
                f"folder has the file {path.name!r}, which pandas cannot read: {error}; pattern "
                f"says which files are signals"
            ) from error
        channels = channels or [*map(str, table.columns)]
        signals.append(_signal_of_table(table.rename(columns=str), channels, path.name))
    for name, *rows in zip(channels, *signals, strict=True):
        if all(len(row) > 2 and (np.diff(row) > 0).all() for row in rows):
            warnings.warn(
                f"column {name!r} rises from row to row in all files of folder {str(folder)!r}: if "
                f"it has times, give index_col={name!r}",
                stacklevel=2,
            )
    has_one_length = len({signal.shape for signal in signals}) == 1
    return Recordings(
        np.array(signals) if has_one_length else signals, [path.name for path in paths], channels
    )


def _signal_of_table(table: DataFrame, channels: list[str], file: str) -> np.ndarray:
    """Return the signal, (n_channels, n_timepoints), of a file's table."""
    if sorted(table.columns) != sorted(channels):
        raise ValueError(
            f"folder has the file {file!r} with the columns {shown([*table.columns])}, expected "
            f"those of the first file, {shown(channels)}"
        )
    if not len(table):
        raise ValueError(f"folder has the file {file!r} without rows, expected some")
    for name in channels:
        if table[name].dtype.kind not in "biuf":
            raise ValueError(
                f"folder has the file {file!r}, whose column {name!r} has {table[name].dtype} "
                f"values, expected numbers; index_col names a column of times, sep and decimal say "
                f"how a file is written"
            )
        if table[name].isna().any():
            row = int(table[name].isna().to_numpy().argmax())
            raise ValueError(
                f"folder has the file {file!r}, whose column {name!r} has no value in row {row}, "
                f"expected one: fill it, or cut the signal"
            )
    return np.ascontiguousarray(table[channels].to_numpy(np.float64).T)


_SENSORS = ("inlet", "outlet", "flow", "current", "vibration", "temperature")
"""Columns of the files that `write_pump` writes, behind the time."""

_STATES = ("good", "worn", "leak")
"""Classes of these recordings."""


def write_pump(folder: str | Path) -> None:
    """Write 120 simulated recordings of a pump's start, as an example of a folder of files.

    Each of the files pump_000.csv to pump_119.csv has 200 rows: the time in seconds, and six
    sensors. The file states.csv has the state of each, "good", "worn" or "leak". Worn bearings add
    a vibration at the pump's turns; a leak takes a tenth of the flow and some of the pressure at
    the outlet.

    Parameters
    ----------
    folder : str or Path
        It is made if there is none.

    Raises
    ------
    FileExistsError
        If a file of one of these names has another content. Then none is written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from rescntk import datasets
    >>> with TemporaryDirectory() as folder:
    ...     datasets.write_pump(folder)
    """
    folder = Path(folder)
    rng = np.random.default_rng(0)
    states = rng.permutation(np.arange(120) % 3)
    files, lines = dict[str, str](), ["file,state"]
    for k, state in enumerate(states):
        rows = np.column_stack([np.arange(200) / 20, _pump_start(rng, state)])
        text = [",".join(f"{value:.4g}" for value in row) for row in rows]
        files[f"pump_{k:03}.csv"] = "\n".join([",".join(["time", *_SENSORS]), *text, ""])
        lines.append(f"pump_{k:03}.csv,{_STATES[state]}")
    files["states.csv"] = "\n".join([*lines, ""])
    for name, content in files.items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") != content:
            raise FileExistsError(f"{path} exists, expected a folder without it")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def _pump_start(rng: np.random.Generator, state: int) -> np.ndarray:
    """Return a recording of a pump that starts, (200, 6), in a state of `_STATES`."""
    time = np.arange(200) / 20
    since = np.maximum(time - rng.uniform(0.5, 1.5), 0.0)
    rise = 1.0 - np.exp(-since / rng.uniform(0.8, 1.2))
    load = rng.uniform(0.9, 1.1)
    turning = np.sin(2 * np.pi * 3.1 * since + rng.uniform(0, 2 * np.pi)) * rise
    noise = rng.standard_normal((6, 200))
    worn, leak = state == 1, state == 2
    inlet = 1.0 - 0.2 * load * rise
    outlet = 1.0 + 2.0 * load * rise * (0.97 if leak else 1.0)
    flow = 10.0 * load * rise * (0.9 if leak else 1.0)
    current = 8.0 * load * (rise + np.exp(-since) * (since > 0)) + 0.1 * turning
    vibration = rise * (0.5 * noise[4] + (0.4 if worn else 0.0) * turning)
    temperature = 20.0 + 3.0 * load * (1.0 - np.exp(-since / 8.0)) + rng.uniform(-2, 2)
    rows = np.stack([inlet, outlet, flow, current, vibration, temperature])
    scale = np.array([0.02, 0.05, 0.3, 0.3, 0.05, 0.1])
    return (rows + scale[:, None] * rng.standard_normal((6, 200))).T


def _aeon_folder() -> Path:
    """Return the folder of aeon's data sets."""
    try:
        import aeon.datasets
    except ModuleNotFoundError:
        raise ImportError("data sets need aeon: pip install 'rescntk[datasets]'") from None
    return Path(aeon.datasets.__path__[0]) / "data"


def _file(name: str, split: str) -> Path:
    """Return the file of a data set, preferably its version of equal length (suffix _eq)."""
    folder = _aeon_folder() / name
    equal = folder / f"{name}_eq_{split.upper()}.ts"
    return equal if equal.is_file() else folder / f"{name}_{split.upper()}.ts"


def _has_equal_lengths(name: str) -> bool:
    """Return whether both files exist, and do not declare signals of different lengths."""
    paths = [_file(name, split) for split in ("train", "test")]
    if not all(path.is_file() for path in paths):
        return False
    head = paths[0].read_text("utf-8", "replace").lower().partition("@data")[0]
    return "@equallength false" not in " ".join(head.split())
