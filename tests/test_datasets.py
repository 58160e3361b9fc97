"""Data sets that are installed."""

import sys
import zlib

import numpy as np
import pytest

from rescntk import datasets


def test_bundled_sets_are_arrays_with_targets():
    pytest.importorskip("aeon")
    names = datasets.bundled()
    assert {"JapaneseVowels", "BasicMotions", "GunPoint", "Tecator"} <= set(names)
    for name in names:
        X, y = datasets.load_labelled(name, "test")
        assert isinstance(X, np.ndarray) and X.ndim == 3 and y.shape == (len(X),)


def test_a_set_of_several_lengths_comes_in_its_version_of_equal_length():
    pytest.importorskip("aeon")
    assert datasets.load("JapaneseVowels", "test").shape == (370, 12, 25)


def test_lines_of_a_header_may_be_empty(tmp_path, monkeypatch):
    """Also "# " and a field without a value; only the fields of lengths and targets count."""
    monkeypatch.setattr(datasets, "_aeon_folder", lambda: tmp_path)
    for name, length in (("Good", "true"), ("Uneven", "false")):
        (tmp_path / name).mkdir()
        header = f"# \n \n@missing \n#\n@equalLength  {length} \n@classLabel true a b\n@data\n1:a\n"
        for split in ("TRAIN", "TEST"):
            (tmp_path / name / f"{name}_{split}.ts").write_text(header)
    (tmp_path / "Half").mkdir()  # without signals for tests
    header = (tmp_path / "Good" / "Good_TRAIN.ts").read_text()
    (tmp_path / "Half" / "Half_TRAIN.ts").write_text(header)
    assert datasets.bundled() == ["Good", "Tecator"]


def test_targets_that_are_no_classes_are_numbers():
    pytest.importorskip("aeon")
    assert datasets.load_labelled("Covid3Month")[1].dtype == np.float64


@pytest.mark.parametrize(
    ("wrong", "says"), [(["Vowels"], "name is 'Vowels'"), (["GunPoint", "all"], "split is 'all'")]
)
def test_refusals(wrong, says):
    pytest.importorskip("aeon")
    with pytest.raises(ValueError, match=f"{says}, expected one of"):
        datasets.load(*wrong)


def test_tecator_needs_no_other_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    arrays = [*datasets.load_labelled("Tecator"), *datasets.load_labelled("Tecator", "test")]
    assert [a.shape for a in arrays] == [(172, 1, 100), (172,), (43, 1, 100), (43,)]
    assert zlib.crc32(b"".join(a.tobytes() for a in arrays)) == 1601897762


@pytest.fixture
def write(tmp_path):
    """Return a function that writes texts to files of a folder, and the folder's reader."""
    pytest.importorskip("pandas")

    def read(*texts, **options):
        for k, text in enumerate(texts):
            (tmp_path / f"{k}.csv").write_text(text)
        return datasets.read_folder(tmp_path, **options)

    return read


def test_files_of_one_length_are_an_array_in_the_order_of_names(write, tmp_path):
    (tmp_path / "notes.txt").write_text("no signal")
    found = write("a,b\n1,2\n3,4\n5,6\n", "a,b\n-1,-2\n-3,-4\n-5,-6\n")
    assert found.signals.tolist() == [[[1, 3, 5], [2, 4, 6]], [[-1, -3, -5], [-2, -4, -6]]]
    assert found.files == ["0.csv", "1.csv"] and found.channels == ["a", "b"]


def test_files_of_several_lengths_are_a_list(write):
    found = write("a\n1\n3\n", "a\n1\n")
    assert [signal.tolist() for signal in found.signals] == [[[1, 3]], [[1]]]


def test_columns_are_in_the_order_of_the_first_file(write):
    assert write("a,b\n1,2\n", "b,a\n3,4\n").signals.tolist() == [[[1], [2]], [[4], [3]]]


def test_options_of_pandas_say_how_files_are_written(write):
    found = write("t;a\n0;1,5\n1;2,5\n", sep=";", decimal=",", index_col="t")
    assert found.signals.tolist() == [[[1.5, 2.5]]] and found.channels == ["a"]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("a,c\n1,2\n", "'1.csv' with the columns .'a', 'c'., expected .*'a', 'b'"),
        ("a\n1\n", "'1.csv' with the columns"),
        ("a,b\n", "'1.csv' without rows, expected some"),
        ("a,b\n1,x\n", "'1.csv', whose column 'b' has .* values, expected numbers"),
        ("a,b\n1,2\n3,\n", "'1.csv', whose column 'b' has no value in row 1, expected one"),
    ],
)
def test_files_that_are_no_signals_are_refused(second, says, write):
    with pytest.raises(ValueError, match=f"^folder has the file {says}"):
        write("a,b\n1,2\n", second)


def test_a_folder_without_files_is_refused(write):
    with pytest.raises(ValueError, match=r"^folder is .*, which has no files '\*.csv', expected"):
        write()


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"^folder is .*none', expected a folder that exists"):
        datasets.read_folder(tmp_path / "none")


def test_a_file_that_pandas_cannot_read_is_named(write):
    with pytest.raises(ValueError, match="^folder has the file '1.csv', which pandas cannot read"):
        write("t,a\n0,1\n", "file,label\n0,good\n", index_col="t")


def test_a_column_of_times_is_told(write):
    """It rises in all files; what rises in one alone may be a signal."""
    with pytest.warns(UserWarning, match="^column 't' rises from row to row in all files"):
        write("t,a\n0,5\n1,6\n2,7\n", "t,a\n0,5\n1,4\n2,3\n")


def test_a_folder_needs_pandas(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="^read_folder needs pandas: pip install"):
        datasets.read_folder(tmp_path)


def test_the_pump_overwrites_no_file(tmp_path):
    (tmp_path / "states.csv").write_text("mine")
    with pytest.raises(FileExistsError, match="states.csv exists, expected a folder without it"):
        datasets.write_pump(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["states.csv"]
    assert (tmp_path / "states.csv").read_text() == "mine"


def test_states_of_the_pump_are_found(tmp_path):
    learn = pytest.importorskip("rescntk.learn")
    pandas = pytest.importorskip("pandas")
    for _ in range(2):  # the second time nothing changes
        datasets.write_pump(tmp_path / "new")
    found = datasets.read_folder(tmp_path / "new", "pump_*.csv", index_col="time")
    states = pandas.read_csv(tmp_path / "new" / "states.csv", index_col="file")["state"]
    assert states.value_counts().to_dict() == {"good": 40, "worn": 40, "leak": 40}
    X, y = found.signals, states.loc[found.files]
    assert X.shape == (120, 6, 200) and np.isfinite(X).all()
    model = learn.ResidualKernelClassifier("fast", random_state=0).fit(X[:90], y[:90])
    assert model.score(X[90:], y[90:]) > 0.8
