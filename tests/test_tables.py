"""Signals and labels in tables of text."""

import os
import re
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from rescntk import datasets
from tests.test_cli import UNEQUAL

NO_NUMBERS = ["1_0.8", "１.5", "nan", "-inf", "1e400", "0x1p3", "1d3", "1.2.3", ""]
"""Texts that are no numbers in a table. Python's `float` takes the first two."""


def test_tables_are_read_strictly(tmp_path):
    for rows, says in (
        ("1,x,0,1,a\n1,x,0.0,2,a", "line 3 is 1, x, 0.0, 2, a, expected case, channel, time, "),
        ("1,x,nan,1,a", "line 2 is 1, x, nan, 1, a, expected"),
        (" ,x,0,1,a", "line 2 is , x, 0, 1, a, expected case, channel, time, value, label, with"),
        ("1,x,0,one,a", "line 2 is 1, x, 0, one, a, expected"),
        ("1,x,0,1,a,5", "line 2 is 1, x, 0, 1, a, 5, with 6 fields, expected 5"),
        ("1,x,0,1,a\n1,x,1,1", "line 3 is 1, x, 1, 1, with 4 fields, expected 5"),
        *((f"1,x,0,{text},a", f"line 2 is 1, x, 0, {text}, a, exp") for text in NO_NUMBERS),
        *((f"1,x,{text},1,a", f"line 2 is 1, x, {text}, 1, a, exp") for text in NO_NUMBERS),
        (f"1,x,0,{'1' * 10**5}x,a", f"line 2 is 1, x, 0, {'1' * 111}…, expected"),
        ('1,x,0,1,"a\n2,x,0,1,"a', 'line 2 is 1,x,0,1,"a: a quote is not closed'),
        ('1,x,0,1,a"', 'line 2 is 1,x,0,1,a": a quote is not closed'),
        ("1,x,0,1,a\0", "line 2 has a NUL character, expected text in UTF-8"),
        ("1,x,0,1,a\n1,x,1,1,b", "case 1 has the labels ['a', 'b'], expected one a case"),
        ("1,x,0,1,a\n2,x,0,1, ", "case 2 has the labels [], expected one a case"),
        ("1,x,0,1,a\n2,y,0,1,a", "case 1 has 1 values at 1 times, expected one at each time"),
        ("1,x,0,1,a\n1,y,1,1,a", "for each of the channels x, y"),
    ):
        (tmp_path / "X.csv").write_text(f"case,channel,time,value,label\n{rows}\n")
        with pytest.raises(ValueError, match=f"^[^\n]*{re.escape(says)}[^\n]{{,400}}$"):
            datasets.read(tmp_path / "X.csv")
    (tmp_path / "X.csv").write_text("case,time,value,label,label\n1,0,1,a,b\n")
    with pytest.raises(ValueError, match="it has the columns case, time, value, label, label"):
        datasets.read(tmp_path / "X.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match="is a pipe or a device, expected a file"):
        datasets.read(tmp_path / "pipe.csv")


def test_a_stray_quote_swallows_no_cases(tmp_path):
    """300 cases with a quote in the fifth were 5 cases: the quote had no end."""
    lines = [f"{i},{t},{i * t},{i}c" for i in range(300) for t in range(2)]
    for end in ("\n", "\r\n", "\r"):  # of files without a fault
        table = end.join(["case,time,value,label", *lines, "", " ", ""])
        (tmp_path / "X.csv").write_bytes(table.encode())
        X, y = datasets.read_labelled(tmp_path / "X.csv")
        assert X.shape == (300, 1, 2) and y.tolist() == [f"{i}c" for i in range(300)]
    for closed in (table.replace(",4c", ',"4c"'), table.replace(",4c", ', "4c"')):
        (tmp_path / "X.csv").write_text(closed)
        assert datasets.read_labelled(tmp_path / "X.csv")[1].tolist() == y.tolist()
    (tmp_path / "X.csv").write_text(table.replace(",4c", ',"4c', 1))
    command = [sys.executable, "-m", "rescntk", "gram", "X.csv", "-o", "K.npy"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = """X.csv is not a readable .csv file: line 10 is 4,0,0,"4c: a quote is not closed\n"""
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"rescntk: {said}")
    assert os.listdir(tmp_path) == ["X.csv"]


@pytest.mark.parametrize("text", NO_NUMBERS[:2])
def test_numbers_of_ts_files_are_decimal(text, tmp_path):
    pytest.importorskip("aeon")
    (tmp_path / "X.ts").write_text(UNEQUAL.replace("-1,2:a", f"-1,{text}:a"))
    with pytest.raises(ValueError, match=rf"1,2,3:0.5,-1,{text}:a has values that are not numbers"):
        datasets.read(tmp_path / "X.ts")
    (tmp_path / "X.ts").write_text(UNEQUAL.replace(":a", ": a_ä ").replace("true a", "true a_ä"))
    assert datasets.read_labelled(tmp_path / "X.ts")[1].tolist() == ["a_ä", "b", "a_ä"]


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("\ufeff@timestamps false\n", "", None),  # aeon loses the first line
        ("\ufeff@univariate false\n", "", None),
        ("", "2,-1,1:1,1,1:c\n", "has the classes a, b, expected all of .*: 'c' is none of them"),
        ("", "2,-1,1:1,1,1:\n", "has the classes a, b, expected all of its signals' classes: ''"),
    ],
)
def test_headers_of_ts_files(start, end, said, tmp_path):
    pytest.importorskip("aeon")
    known = start.removeprefix("\ufeff") or "nothing"
    text = start + UNEQUAL.replace(known, "") + end
    (tmp_path / "X.ts").write_text(text)
    if said is None:
        assert datasets.read_labelled(tmp_path / "X.ts")[1].tolist() == ["a", "b", "a"]
        return
    with pytest.raises(ValueError, match=said):
        datasets.read(tmp_path / "X.ts")


def test_the_class_nan(tmp_path):
    """The name of a class may be nan, which aeon writes as NaN."""
    pytest.importorskip("aeon")
    (tmp_path / "X.ts").write_text(UNEQUAL.replace(":a", ":nan").replace("true a", "true nan"))
    (tmp_path / "X.csv").write_text("t0,t1,label\n1,2,nan\n3,4,b\n5,6,nan\n")
    (tmp_path / "y.txt").write_text("nan\nb\nnan\n")
    for found in (
        datasets.read_labelled(tmp_path / "X.ts")[1],
        datasets.read_labelled(tmp_path / "X.csv")[1],
        datasets.read_labels(tmp_path / "y.txt"),
    ):
        assert found.tolist() == ["nan", "b", "nan"]


WIDE = {
    "names": ("t0,t1,t2", None),
    "numbers": ("0,1,2", None),
    "from one": ("1,2,3", None),
    "no header": (None, None),
    "pandas' index": (",0,1,2", "index"),
    "case and label": ("case,x 0.5,x 1.5,x 2,label", "both"),
}


@pytest.mark.parametrize("kind", WIDE)
def test_wide_tables(kind, tmp_path):
    """A row for each signal: the numbers of the file, in the file's order."""
    header, columns = WIDE[kind]
    X, y = np.array([[3.0, 1.0, 2.0], [5.0, -1e-3, 0.5], [0.0, 0.0, 0.0]]), ["b", "a", "b"]
    rows = [",".join(map(str, x)) for x in X]
    if columns:
        rows = [f"{k},{row}" for k, row in enumerate(rows)]
    if columns == "both":
        rows = [f'{row}, "{label}"' for row, label in zip(rows, y, strict=True)]
    (tmp_path / "X.csv").write_text("\n".join([*([header] if header else []), *rows, ""]))
    found, labels = datasets.read_labelled(tmp_path / "X.csv")
    assert found.shape == (3, 1, 3) and (found[:, 0] == X).all()
    assert labels is None if columns != "both" else labels.tolist() == y


SPREADSHEETS = {
    "semicolons": "label;t0;t1\né;1,5;2\nb;-3;4,25e1\n",
    "points": "label;t0;t1\né;1.5;2\nb;-3;4.25e1\n",
    "tabs": "label\tt0\tt1\né\t1,5\t2\nb\t-3\t42,5\n",
    "commas": 'label,t0,t1\n"é",1.5,2\nb,-3,42.5\n',
    "rows of values": "case;time;value;label\n1;0;1,5;é\n1;1;2;é\n2;0;-3;b\n2;1;42,5;b\n",
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("form", SPREADSHEETS)
def test_tables_of_spreadsheets(form, encoding, tmp_path):
    """Separators, decimal commas and encodings of a spreadsheet give the same signals."""
    (tmp_path / "X.csv").write_text(SPREADSHEETS[form], encoding)
    expected = pytest.warns(UserWarning, match="X.csv is not in UTF-8, and is read as Windows-1252")
    with expected if encoding == "cp1252" else nullcontext():
        X, y = datasets.read_labelled(tmp_path / "X.csv")
    assert (X == [[[1.5, 2.0]], [[-3.0, 42.5]]]).all() and y.tolist() == ["é", "b"]


def test_wide_tables_of_several_channels(tmp_path):
    rows = ["7,y,1,2,a", "8,x,3,4,b", "7,x,5,6,a", "8,y,7,8,b"]
    (tmp_path / "X.csv").write_text("\n".join(["case_id,dim_id,0,1,label", *rows]))
    X, y = datasets.read_labelled(tmp_path / "X.csv")
    assert (X == [[[5, 6], [1, 2]], [[3, 4], [7, 8]]]).all() and y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "signals"),
    [
        ("x_0,y_0,x_1,y_1,id\n1,5,2,6,a", [[1, 2], [5, 6]]),
        ("c10_0,c1_0,c10_1,c1_1,id\n5,1,6,2,a", [[1, 2], [5, 6]]),
        ("id,0 s (y),1 s (y),0 s (x),1 s (x)\na,5,6,1,2", [[1, 2], [5, 6]]),
        (",id,4000,3998\n0,a,1,2", [[1, 2]]),  # with the index of pandas
        ("id;5,5;6;\na;1;2;", [[1, 2]]),
        ("id,2026-03-01,2026-04-01\na,1,2", [[1, 2]]),
        ("id,t,y,x\na,1,6,2\na,0,5,1", [[1, 2], [5, 6]]),
        ("id,t,value,channel\na,1,6,y\na,1,2,x\na,0,1,x\na,0,5,y", [[1, 2], [5, 6]]),
        (",id,t,x\n0,a,2026-03-01T06:30:00.5Z,2\n1,a,2026-03-01 06:30,1", [[1, 2]]),
        ("id,t,x\na,1.4.2026,2\na,13.03.2026 12:30,1", [[1, 2]]),
        ("id,t,x\na,12:30,2\na,6:30:00.5,1", [[1, 2]]),
    ],
)
def test_columns_of_channels_and_times(table, signals, tmp_path):
    """Channels are in the order of their names; time points of long tables in rising order."""
    (tmp_path / "X.csv").write_text(table)
    time = "t" if ",t," in table else None
    X, y, cases, _ = datasets.load_table(tmp_path / "X.csv", case="id", time=time)
    assert (X == [signals]).all() and X.shape == (1, *np.shape(signals))
    assert y is None and cases.tolist() == ["a"]


def test_missing_values_in_files(tmp_path):
    """Missing values are NaN if asked for, and refused otherwise."""
    pytest.importorskip("aeon")
    X = np.array([[[1.0, np.nan, 3.0]], [[np.nan, 5.0, 6.0]]])
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    (tmp_path / "wide.csv").write_text("t0,t1,t2\n1,,3\nNaN,5,6\n")
    (tmp_path / "bare.csv").write_text("1,,3\n?,5,6\n")
    long = ["a,0,1", "a,1,NA", "a,2,3", "b,0,nan", "b,1,5", "b,2,6"]
    (tmp_path / "long.csv").write_text("\n".join(["case,time,value", *long]))
    head = "@problemname x\n@timestamps false\n@univariate true\n@equallength true\n"
    head += "@missing true\n@classlabel true a b\n@data\n"
    (tmp_path / "X.ts").write_text(head + "1,?,3:a\n?,5,6:b\n")
    for name in ("X.npy", "wide.csv", "bare.csv", "long.csv", "X.ts"):
        found, _ = datasets.read_labelled(tmp_path / name, missing=True)
        assert np.array_equal(found, X, equal_nan=True), name
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            datasets.read(tmp_path / name)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("0.0,0.1,0.2\n5,4,3", "line 1 rises evenly, 0.0, 0.1, 0.2, and may be a header"),
        ("4000,3998,3996\n5,4,3", "line 1 falls evenly, 4000, 3998, 3996, and may be a header"),
        ("t0,t2,t1\n5,4,3", "columns t0, t2, t1, expected a row for each time"),
        ("t0,t1,class\n5,4,0", "columns t0, t1, class, expected a row"),
        ("id,0,1\n5,4,0", "columns id, 0, 1, expected a row"),
        ("t0,x1\n5,4", "columns t0, x1, expected a row"),
        ("x_0,x_1,y_0\n5,4,3", "label_column, case, time and ignore may name 'y_0'"),
        ("case,time,x,x\na,0,1,2", "columns case, time, x, x, expected a row"),
        ("case,time,value,channel,x\na,0,1,u,2", "time, value, channel, x, expected a row"),
        ("case,time,x\na,01/02/2026,1", "line 2 is a, 01/02/2026, 1, expected case, time, x, with"),
        ("case,time,x\na,01.02.2026,1\na,now,1", "line 3 is a, now, 1, expected case, time, x"),
        ("channel,t0\n5,4", "columns channel, t0, expected a row"),
        ("label,label,t0\na,b,4", "columns label, label, t0, expected a row"),
        ("label\na", "columns label, expected a row"),
        ("t0,t1\n5,4\n5", "line 3 is 5, with 1 fields, expected 2"),
        ("t0,t1\n5,4,3", "line 2 is 5, 4, 3, with 3 fields, expected 2"),
        ("t0,t1\n5,high", "line 2 has 'high' in column t1, expected a finite number"),
        ("4,1_0\n5,4", "columns 4, 1_0, expected a row"),
        ("case,t0\na,1\na,2", "line 3 has case 'a' and channel '' again, expected a row for"),
        ("case,channel,t0\na,x,1\na,y,1\nb,x,1", "case b has the channels x, expected x, y"),
        ("t0;t1\n1,5;2.5", "numbers with commas and with points, 1,5, 2.5, expected one of them"),
        ("t0;t1\n1.234,5;2", "line 2 has '1.234,5' in column t0, expected a finite number"),
        ("t0;t1\n1,5", "line 2 is 1,5, with 1 fields, expected 2"),
        ("t0\n\t\n1", "line 2 has '' in column t0, expected a finite number"),
        ("label,t0\na,1\n,2", "case in line 3 has the labels [], expected one a case, or none"),
    ],
)
def test_wide_tables_are_read_strictly(rows, says, tmp_path):
    (tmp_path / "X.csv").write_text(rows)
    with pytest.raises(ValueError, match=f"^[^\n]*{re.escape(says)}[^\n]{{,400}}$"):
        datasets.read(tmp_path / "X.csv")


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        ("y.txt", "a\nb\na\n", ["a", "b", "a"]),
        ("y.txt", "Label\nb\na\n\n", ["b", "a"]),
        ("y.txt", "label\nb\nlabel", ["label", "b", "label"]),  # a class
        ("y.txt", "species\nb\na", ["species", "b", "a"]),
        ("y.txt", "fat content\n1.5\n2", ["1.5", "2"]),
        ("y.txt", "a, b\nc", ["a, b", "c"]),
        ("y.csv", "name,label\n5,a\n6,b\n", ["a", "b"]),
        ("y.csv", '"y"\n"a"\nb\n', ["a", "b"]),
    ],
)
def test_labels_in_texts(name, text, labels, tmp_path):
    (tmp_path / name).write_text(text)
    assert datasets.read_labels(tmp_path / name).tolist() == labels


def test_labels_in_tables_are_read_strictly(tmp_path):
    for text, says in (
        ("name,kind\n5,a", "columns name, kind, expected a label a line, or a column label"),
        ("name,label\n5,a\n6", "line 3 is 6, with 1 fields, expected 2"),
        ("name,label\n5,a\n6,", "line 3 has no label, expected a label in each line"),
        ('a\n\t\nb\n""', "line 2 has no label, expected a label in each line"),
    ):
        (tmp_path / "y.csv").write_text(text)
        with pytest.raises(ValueError, match=says):
            datasets.read_labels(tmp_path / "y.csv")
    np.save(tmp_path / "y.npy", np.array([b"\xff"]))
    with pytest.raises(ValueError, match="y.npy is not a readable .npy file: 'utf-8' codec can't"):
        datasets.read_labels(tmp_path / "y.npy")
