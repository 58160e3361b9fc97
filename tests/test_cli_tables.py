"""Tables as newcomers have them: each is classified by two commands, fit and predict."""

import csv
import re
import warnings
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from rescntk import __main__ as cli
from rescntk import datasets

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

N_TIMES = 8
Y = np.array(["müde, slow", "wach"])[np.arange(20) % 2]
CASES = [f"{k:03}-{'ab'[k % 2]}" for k in range(20)]


def signals(n_channels):
    """Return 20 signals of two classes; their numbers have three digits after the point."""
    waves = np.sin(np.arange(N_TIMES) * np.where(Y == "wach", 0.4, 1.2)[:, None, None])
    return (waves + 0.2 * np.random.default_rng(0).standard_normal((20, n_channels, 1))).round(3)


def text(rows, separator=",", decimal="."):
    """Return a table's text, with quotes around fields that have the separator."""
    lines = []
    for row in rows:
        fields = [f"{x:.3f}".replace(".", decimal) if isinstance(x, float) else x for x in row]
        lines.append(separator.join(f'"{x}"' if separator in x else x for x in fields))
    return "\n".join(lines)


def wide(header, columns, **settings):
    """Return the text of a table with a row for each signal, of texts and numbers in columns."""
    rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True)
    return text([header, *rows], **settings)


def plant(X):
    """An export of a plant: dates, text, decimal commas, a separator at the end of each line."""
    dates = [f"{k + 1:02}.03.2026 06:30" for k in range(20)]
    header = ["Datum", "Charge", "Linie", *(f"Temp [C] {t}" for t in range(N_TIMES)), "Zustand", ""]
    columns = [dates, CASES, ["Süd 1.5"] * 20, *X[:, 0].T, Y, [""] * 20]
    return wide(header, columns, separator=";", decimal=",")


def lab(X):
    """A lab's numbers with decimal commas, also in the names of columns."""
    header = ["Probe", "label", *(f"{0.5 * t:.1f}".replace(".", ",") for t in range(N_TIMES))]
    return wide(header, [CASES, Y, *X[:, 0].T], separator="\t", decimal=",")


def watch(X):
    """A watch's table with a row for each time, in any order, with the index of pandas."""
    start, rows = datetime(2026, 3, 1, 6, 30), []
    for (k, t), left in np.ndenumerate(X[:, 0]):
        stamp = str(start + k * timedelta(days=1) + t * timedelta(seconds=0.25))
        rows.append([str(len(rows)), CASES[k], stamp, float(left), float(X[k, 1, t]), Y[k]])
    first, order = np.arange(20) * N_TIMES, np.random.default_rng(1).permutation(len(rows))
    order = [*first, *(k for k in order if k not in first)]  # cases stay in their order
    return text([["", "id", "t", "acc x", "acc y", "activity"], *(rows[k] for k in order)])


def spectra(X):
    """Spectra with falling wave numbers as columns."""
    header = ["variety", "day", *(str(4000 - 2 * t) for t in range(N_TIMES))]
    return wide(header, [Y, [str(k) for k in range(20)], *X[:, 0].T])


def eeg(X):
    """A wide table of several channels."""
    header = ["case", *(f"{name}_{t}" for name in ("C3", "C4") for t in range(N_TIMES)), "label"]
    return wide(header, [CASES, *X.reshape(20, -1).T, Y])


def spreadsheet(X):
    """A spreadsheet's columns, which are times of the day."""
    header = ["Klasse", *(f"{6 + t:02}:30" for t in range(N_TIMES))]
    return wide(header, [Y, *X[:, 0].T], separator=";", decimal=",")


TABLES = {
    plant: ("--label-column Zustand --ignore Datum,Linie --case Charge", "latin-1", 1, CASES),
    lab: ("--case Probe", "utf-8", 1, CASES),
    watch: ("--case id --time t --label-column activity", "utf-8", 2, CASES),
    spectra: ("--label-column variety --ignore day", "utf-8", 1, None),
    eeg: ("", "utf-8", 2, CASES),
    spreadsheet: ("--label-column Klasse", "utf-8-sig", 1, None),
}


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_newcomers_classify_their_table_in_two_commands(make, tmp_path, monkeypatch, capsys):
    options, encoding, n_channels, cases = TABLES[make]
    monkeypatch.chdir(tmp_path)
    X = signals(n_channels)
    Path("data.csv").write_text(make(X), encoding)
    names = options.replace("--", "").replace("-", "_").split()
    named = dict(zip(names[::2], names[1::2], strict=True))
    if "ignore" in named:
        named["ignore"] = named["ignore"].split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if encoding == "latin-1" else "error")
        table = datasets.load_table("data.csv", **named)
    assert (table.X == X).all() and table.y.tolist() == Y.tolist()
    assert table.channels == {watch: ["acc x", "acc y"], eeg: ["C3", "C4"]}.get(make)
    assert table.cases is None if cases is None else table.cases.tolist() == cases
    assert cli.main(f"fit data.csv -o M.joblib --effort 0.01 {options}".split()) == 0
    assert (
        cli.main(["predict", "M.joblib", "data.csv", "-o", "Y.csv"]) == 0
    )  # the model has the columns
    assert "score 1.000 on 20 signals" in capsys.readouterr().err
    with open("Y.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == Y.tolist()
    assert [row.get("case") for row in rows] == (cases or [None] * 20)
    if table.channels:
        swapped = make(X).replace("C3", "Cz").replace("acc x", "acc z")
        Path("data.csv").write_text(swapped, encoding)
        assert cli.main(["predict", "M.joblib", "data.csv"]) == 2
        assert f"expected the channels of fit: {', '.join(table.channels)}" in (
            capsys.readouterr().err
        )


def test_a_model_describes_its_table_and_reads_tables_that_lack_columns(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    options, encoding, *_ = TABLES[plant]
    content = plant(signals(1)).replace("Temp [C]", "Temperature (°C) of the press at")
    gap = re.sub(r"(Süd 1\.5);[^;]*;", r"\1;;", content, count=1)
    Path("data.csv").write_text(gap, encoding)
    fit = f"fit data.csv -o M.joblib --effort 0.01 --missing interpolate {options}"
    assert cli.main(fit.split()) == 0
    assert cli.main(["report", "M.joblib", "data.csv", "-o", "R.html"]) == 0
    page = Path("R.html").read_text("utf-8")
    assert "<td>dates</td><td>2026-03-01 to 2026-03-20</td>" in re.sub(r">\s+<", "><", page)
    assert "1 filled in along time" in page
    bare = [";".join(line.split(";")[3:-2]) for line in content.splitlines()]
    Path("new.csv").write_text("\n".join(bare), encoding)  # without date, case, text and label
    Path("named.csv").write_text(content.replace("Charge", "Los").replace("Linie", "Ort"), encoding)
    named = "named.csv --case Los --ignore Ort"
    for signals_of in ("data.csv", "new.csv", named):
        assert cli.main(f"predict M.joblib {signals_of} -o Y.csv --overwrite".split()) == 0
        with open("Y.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["label"] for row in rows] == Y.tolist()
        assert ("case" in rows[0]) == (signals_of != "new.csv")
    Path("whole.csv").write_text(content, encoding)
    assert cli.main(f"gram whole.csv -o K.npz --depth 1 {options}".split()) == 0
    with np.load("K.npz") as written:
        assert written["ntk"].shape == (20, 20) and written["labels_X"].tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--label-column saison", "label_column is 'saison', expected one of the columns id, day,"),
        ("--label-column season --ignore tag", "ignore is 'tag', expected one of the columns id, "),
        ("--label-column season", ": label_column, case, time and ignore may name 'id', 'day'"),
        ("--label-column season --time day", "columns id, day, season, t0, t1, expected "),
        (
            "--label-column season --labels y.txt --ignore id,day",
            "--label-column is given with --labels, expected",
        ),
        ("--label-column season --case season", "case and label_column are 'season', expected two"),
        ("--case id --ignore id", "ignore and case are 'id', expected two columns"),
        ("--label-column day", "label_column, case, time and ignore may name 'id', 'season'"),
        ("--label-column season --array X", "data.csv is not a .npz file of named arrays"),
    ],
)
def test_columns_that_a_table_lacks(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("id,day,season,t0,t1\na,1,cold,1,2\nb,2,warm,2,1\n")
    assert cli.main(["fit", "data.csv", "-o", "M.joblib", *options.split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    np.save("X.npy", np.ones((2, 1, 3)))
    assert cli.main(["fit", "X.npy", "-o", "M.joblib", "--ignore", "day"]) == 2
    assert "suffix of X.npy is '.npy', expected one of '.csv'" in capsys.readouterr().err
