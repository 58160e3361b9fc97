"""Files of stored Grams: where they may be, and what is refused or made anew if it is damaged."""

import json
import os
import shutil
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import nightly
from tests.stored.grams import BLOCK, assert_same, compute, contents, lists, signals, stored

ADDRESSES = "s3://bucket/K", "file:///K", "gs:/bucket/K", Path("s3://bucket/K"), 3
OPEN_OR_COMPUTE = [stored.open, lambda path: compute(path, signals(3))]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_addresses_are_refused(address, call):
    with pytest.raises(ValueError, match="path is .*, expected a local folder"):
        call(address)


@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_places_that_hold_no_gram_are_refused(tmp_path, monkeypatch, call):
    """Files, and folders of others, are refused, and not changed."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    for text in ("note", "{", "[]", '{"attributes": {}}', '{"attributes": {"rescntk": {"X": 1}}}'):
        Path(text[-9:]).mkdir()
        Path(text[-9:], "note" if text == "note" else "zarr.json").write_text(text)
    before = sorted(tmp_path.rglob("*"))
    for place in sorted(tmp_path.iterdir()):
        with pytest.raises(ValueError, match="is not a Gram of rescntk.stored"):
            call(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_not_there_holds_no_gram(tmp_path):
    says = "none.zarr.json is not a Gram of rescntk.stored: FileNotFound"
    with pytest.raises(ValueError, match=says):
        stored.open(tmp_path / "none")


def test_a_folder_may_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    assert compute("a:b", signals(3)).complete


def refuse(*_, **__):
    raise PermissionError("not here")


def test_disks_without_links_are_written(path, monkeypatch):
    monkeypatch.setattr(os, "link", refuse)
    compute(path, signals(3))
    assert not list(path.glob("*.partial")) and stored.open(path).complete


def test_folders_without_rights_are_refused_by_the_system(path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(PermissionError, match="not here"):
        compute(path, signals(3))


DESCRIBED = [
    ({"block": 0}, "block is 0, expected an integer of at least 1"),
    ({"kinds": ["../other"]}, r"kinds is '../other', expected one of 'gpk', 'ntk'"),
    ({"kinds": []}, "kinds is"),
    ({"dtype": "<U9"}, "dtype is"),
    ({"depths": []}, "depths is empty"),
    ({"depths": 3}, "depths is 3, expected a sequence"),
    ({"X": {"shape": [-1, 2, 8]}}, "the length of X is -1, expected an integer of at least 1"),
    ({"X": {"shape": [10**12, 2, 8]}}, "the length of X is 10{12}, expected at most"),
    ({"Z": {"shape": ["9"]}}, "the length of Z is '9', expected an integer"),
    ({"Z": 1}, "Z is 1, expected an object of names and values"),
    ({"normalized": "yes"}, "normalized is 'yes', expected True or False"),
    ({"version": 3}, "version is 3, expected a text"),
    ({"engine": None}, "engine is None, expected a text"),
    ({"network": []}, r"network is \[\], expected an object of names and values"),
    ({"X": {"shape": "3"}}, "the shape of X is '3', expected a list"),
    ({"X": {"shape": [3, 2]}}, r"the shape of X is \[3, 2\], expected 3 or 4 integers"),
    ({"X": {"shape": [3, 2, [8, 8]]}}, "the shape of X is .*, expected 3 or 4 integers, or leng"),
    ({"X": {"shape": [3, 2, 0]}}, "the shape of X has a number that is 0, expected an integer"),
    ({"X": {"shape": [3, 2, [8, 0, 8]]}}, "the shape of X has a number that is 0, expected"),
    ({"X": {"shape": [3, 2, 8], "checksum": 7}}, "the checksum of X is 7, expected a text"),
    ({"X": {"shape": []}}, "the length of X is None, expected an integer of at least 1"),
    (
        {"X": {"shape": [2**31, 2, 8], "checksum": "0"}, "block": 1},
        "list of blocks of .* takes at least",
    ),
]


@pytest.mark.parametrize(("changes", "says"), DESCRIBED)
@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_descriptions_are_checked_like_arguments(path, changes, says, call):
    compute(path, signals(3))
    file = path / "zarr.json"
    group = json.loads(file.read_text())
    group["attributes"]["rescntk"] |= changes
    file.write_text(json.dumps(group))
    with pytest.raises((ValueError, MemoryError), match=says) as refusal:
        call(path)
    assert str(file) in str(refusal.value)


def places(value, place=()):
    """Yield the places of all values in what JSON holds, the whole at last."""
    if isinstance(value, dict | list):
        for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inside, (*place, name))
    yield place


GONE = object()
OTHERS = GONE, None, "x", True, -1, 7, 2.5, [], [3], {}, [None] * 200


def changed(value, place, other):
    """Return a copy of what JSON holds with another value in a place, or none."""
    if not place:
        return other
    value, (name, *inside) = value.copy(), place
    if inside or other is not GONE:
        value[name] = changed(value[name], inside, other)
    else:
        del value[name]
    return value


def refusal(call):
    """Return the message of the ValueError that a call ends with, or None."""
    try:
        call()
    except ValueError as error:
        return str(error)


def follow(remedy):
    """Delete the file or folder that a message says to delete."""
    assert len(remedy) <= 1000 and remedy.endswith("call stored.gram again")
    where, *_, what = remedy.split(": ")
    place = Path(where.split(" ")[0])
    if "delete it" in what:
        place.unlink()
    elif "delete this one" in what:
        shutil.rmtree(place.parent if place.name == "zarr.json" else place)


DAMAGED = ("", "null", "[]", "7", "{", '"x"', "\ud800", "[" * 5000, '{"a": 1', "\0")


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *nightly(1, 2, 3)])
@pytest.mark.parametrize("name", ["zarr.json", "ntk/zarr.json"])
def test_damaged_files_have_a_remedy(path, tmp_path, name, part):
    """Each value of each file, changed in each way: values are right, or there is a remedy."""
    X, options = lists(2), {"depths": (1, 2), "kinds": "ntk"}
    good = compute(path, X, **options).ntk[...]
    text = (path / name).read_text()
    content, damaged = json.loads(text), [each.encode("utf-8", "surrogatepass") for each in DAMAGED]
    for place, other in product(places(content), OTHERS):
        if place or other is not GONE:
            damaged.append(json.dumps(changed(content, place, other)).encode())
    damaged = [each for each in dict.fromkeys(damaged) if json.dumps(content).encode() != each]
    assert len(damaged) > 200
    copy = shutil.copytree(path, tmp_path / "copy")
    whole = contents(copy)
    for each in damaged[part::4]:
        if contents(copy) != whole:  # the remedy of the case before wrote other bytes
            shutil.rmtree(copy)
            shutil.copytree(path, copy)
        (copy / name).write_bytes(each)
        before, call = contents(copy), partial(compute, copy, X, **options)
        for read in (partial(stored.open, copy), call):
            says = refusal(lambda read=read: read().ntk)
            assert says or (read().ntk[...] == good).all(), each
            assert says is None or says.endswith("call stored.gram again"), each
            assert contents(copy) == before, each
        if says:  # of the call
            follow(says)
            assert_same(call(), X, **options)


@pytest.mark.parametrize("text", ["", "null", "{", None])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_arrays_are_described_again_where_all_values_are_there(path, kind, text, computed):
    compute(path, signals(BLOCK + 3))
    file, done = path / kind / "zarr.json", len(computed())
    file.unlink() if text is None else file.write_text(text)
    if text is not None:
        for call in (lambda: getattr(stored.open(path), kind), lambda: compute(path, signals(11))):
            with pytest.raises(ValueError, match=f"^{file} is damaged.*: delete it, and call stor"):
                call()
        file.unlink()
    with pytest.raises(ValueError, match=f"^{file} is not there: .*: call stored.gram again"):
        getattr(stored.open(path), kind)
    assert_same(compute(path, signals(BLOCK + 3)), signals(BLOCK + 3))
    assert len(computed()) == done


@pytest.mark.parametrize("left", [0, 3, -1])
def test_chunks_without_all_bytes_are_computed_again(path, computed, left):
    compute(path, signals(BLOCK + 3))
    for file in (path / "ntk/c/0/1", path / "gpk/c/1/1"):
        file.write_bytes(file.read_bytes()[:left])
    assert stored.open(path).missing == [(0, 1), (1, 1)]
    assert_same(compute(path, signals(BLOCK + 3)), signals(BLOCK + 3))
    assert sorted(computed())[1:3] == [(0, 1), (0, 1)] and len(computed()) == 5


@pytest.mark.parametrize("gone", ["0/1", "1/0"])
def test_a_chunk_or_mirror_image_that_vanished_is_computed_again(path, computed, gone):
    """A symmetric matrix stores block (0, 1) twice, and lacks it if one of both is gone."""
    X = signals(BLOCK + 3)
    compute(path, X)
    before = len(computed())
    (path / "ntk/c" / gone).unlink()
    assert stored.open(path).missing == [(0, 1)]
    assert_same(compute(path, X), X)
    assert computed()[before:] == [(0, 1)]


@pytest.mark.parametrize(
    "read", [lambda K: K.ntk[:], lambda K: K.ntk[-1, -1], lambda K: K @ np.ones(BLOCK + 3)]
)
def test_a_chunk_with_another_byte_is_named(path, read):
    K, file = compute(path, signals(BLOCK + 3), kinds="ntk"), path / "ntk/c/1/1"
    file.write_bytes(file.read_bytes()[:-5] + b"?" + file.read_bytes()[-4:])
    with pytest.raises(ValueError, match="ntk.c.1.1 is damaged, expected .*: delete it, and"):
        read(K)
    file.unlink()
    assert_same(compute(path, signals(BLOCK + 3), kinds="ntk"), signals(BLOCK + 3), kinds="ntk")


@pytest.mark.parametrize("vanishing", ["ntk", "ntk/c/1/1"])
def test_a_product_refuses_blocks_that_have_vanished(path, vanishing):
    """The operator was made while they were there; Zarr reads NaN where a chunk is not."""
    A = compute(path, signals(BLOCK + 3)).matrix("ntk")
    gone = path / vanishing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(ValueError, match=r"lacks the block \(., .\) now: resume it"):
        A @ np.ones(BLOCK + 3)
