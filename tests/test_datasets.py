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
