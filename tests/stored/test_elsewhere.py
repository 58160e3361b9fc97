"""Grams that came from elsewhere: nothing outside them is touched, no edit goes unseen.

Every place of a Gram is planted with links, pipes and sockets, every key of its description is
edited. Each call then refuses, at once, and changes neither the Gram nor what is outside.
"""

import copy
import json
import os
import shutil
import signal
import socket

import numpy as np
import pytest

from rescntk import Network, stored, validation
from rescntk.kernels.description import HASH, sealed
from rescntk.stored import store
from rescntk.stored.folder import Folder
from tests.stored.cases import BLOCK, NET, assert_same, compute, in_memory, signals

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="links, pipes")]

X = signals(BLOCK + 3)
CALLS = {
    "open": lambda path, K: stored.open(path),
    "gram": lambda path, K: compute(path, X),
    "overwrite": lambda path, K: compute(path, X, overwrite=True),
    "remove": lambda path, K: stored.remove(path),
    "append": lambda path, K: K.append(signals(1), progress=False),
    "resume": lambda path, K: K.resume(progress=False),
    "label": lambda path, K: K.label({"X": list(range(len(X)))}),
}


def contents(folder):
    """Return what a folder has: kinds, targets of links, bytes of files."""
    found = {}
    for place in sorted(folder.rglob("*")):
        content = os.readlink(place) if place.is_symlink() else place.lstat().st_mode
        found[place] = place.read_bytes() if place.is_file() and not place.is_symlink() else content
    return found


def links(place, target):
    place.symlink_to(target)


def pipes(place, target):
    os.mkfifo(place)


def sockets(place, target):
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(place.parent)  # addresses are short
        try:
            made.bind(place.name)
        finally:
            os.chdir(here)


@pytest.fixture
def alarm():
    """A call that waits for a pipe ends with an error."""

    def stop(*unused):
        raise AssertionError("the call hangs")

    before = signal.signal(signal.SIGALRM, stop)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("plant", [links, pipes, sockets])
def test_nothing_outside_is_touched(tmp_path, alarm, plant):
    """Planted files stand in for each file and folder of a Gram, and in places of its own."""
    path, outside = tmp_path / "inside" / "K.zarr", tmp_path / "outside"
    K = compute(path, X)
    outside.mkdir()
    places = [place.relative_to(path) for place in path.rglob("*")]
    new = ["ntk/c/0/7", "ntk/c/7", "a", "record/other", "X/c/0/7", "note.txt", "ntk/zarr.x.partial"]
    for place in [*places, *map(type(path), new)]:
        here, target = path / place, outside / "target"
        if place in places:
            here.rename(target)
        else:
            target.mkdir()
            (target / "c").mkdir()
            (target / "c" / f"0.{'0' * 32}.partial").write_bytes(b"outside")
        plant(here, target)
        before = contents(tmp_path)
        for name, call in CALLS.items():
            alarm(5)
            with pytest.raises(ValueError, match="K.zarr") as error:
                call(path, K)
            alarm(0)
            assert f"{here} is a" in str(error.value), (name, place)
            assert contents(tmp_path) == before, (name, place)
        here.unlink()
        if place in places:
            target.rename(here)
        else:
            shutil.rmtree(target)
    assert_same(compute(path, X), in_memory(X))


def test_hard_links(tmp_path):
    """A copy of hard links shares its files: what is written in place must not change the copy."""
    path, outside = tmp_path / "K.zarr", tmp_path / "outside"
    K = compute(path, X)
    for name in ("lock", "blocks.txt"):
        outside.hardlink_to(path / "record" / name)
        before = outside.read_bytes()
        with pytest.raises(ValueError, match=f"{name} has 2 names"):
            K.append(signals(1), progress=False)
        assert outside.read_bytes() == before
        outside.unlink()


def test_a_file_in_the_place_of_a_folder(tmp_path):
    path = tmp_path / "K.zarr"
    K = compute(path, X)
    for name in ("ntk", "ntk/c", "gpk/c/1", "X/c/0", "X", "ntk/c/0/0", "X/zarr.json"):
        here, kept = path / name, path / "kept"
        is_folder = here.is_dir()
        here.rename(kept)
        here.write_text("x") if is_folder else here.mkdir()
        before = contents(path)
        for call in ("open", "gram", "append", "resume", "label"):
            with pytest.raises(ValueError, match=f"K.zarr/{name} is a (file|folder), expected a"):
                CALLS[call](path, K)
        assert contents(path) == before
        here.unlink() if is_folder else here.rmdir()
        kept.rename(here)
    for other in ("note.txt", ".DS_Store", "ntk/c/.DS_Store", "ntk/.DS_Store"):  # harmless
        (path / other).write_text("mine")
    (path / "a" / "c").mkdir(parents=True)
    (path / "a" / "c" / "mine.partial").write_text("mine")
    K.append(signals(1), progress=False)
    assert (path / "a" / "c" / "mine.partial").exists()
    assert stored.open(path).complete


def edits(value, place=()):
    """Yield the place, and the new value, of every edit of every part of a description."""
    for other in (None, True, False, 0, 1, -1, 2, 5.0, 1e400, 10**9, "", "x", [], [""], [1], {}):
        if type(other) is not type(value) or other != value:
            yield place, other
    if isinstance(value, dict):
        for key in value:
            yield (*place, key), KeyError  # deleted
            yield from edits(value[key], (*place, key))
        yield (*place, "more"), 1
    elif isinstance(value, list):
        for k in range(len(value)):
            yield (*place, k), KeyError
            yield from edits(value[k], (*place, k))


def edited(description, place, value):
    """Return a description with one part changed, or deleted for KeyError."""
    if not place:
        return value
    found = copy.deepcopy(description)
    part = found
    for key in place[:-1]:
        part = part[key]
    if value is KeyError:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    return found


def write(path, description):
    file = path / "zarr.json"
    whole = json.loads(file.read_text())
    whole["attributes"]["rescntk"] = description
    file.write_text(json.dumps(whole))


@pytest.mark.parametrize("lists", [False, True])
def test_every_edit_of_the_description_is_refused(tmp_path, lists):
    path = tmp_path / "K.zarr"
    cases = [x[:, : 5 + k % 3] for k, x in enumerate(X)] if lists else X
    depths = None if lists else (1, 2)
    K = compute(path, cases, depths=depths)
    calls = (
        K.resume,
        lambda: K.append(cases[:1]),
        lambda: stored.open(path),
        lambda: compute(path, cases, depths=depths),
    )
    original = K.description
    before = contents(path)
    count = 0
    for place, value in edits(original):
        found = edited(original, place, value)
        if found == original:
            continue
        write(path, found)
        for call in calls:
            with pytest.raises(ValueError, match="K.zarr is not a Gram of .* in format 1"):
                call()
        count += 1
        if isinstance(found, dict):
            # With a new hash, too, there are no bare errors, and no other network is read.
            write(path, sealed(found))
            opened, message = attempt(path)
            assert "KeyError" not in message
            if opened is not None:
                assert opened.network == Network(**found["network"]) and opened.shape == K.shape
    assert count > 300
    write(path, original)
    assert contents(path).keys() == before.keys()
    assert K.resume(progress=False).complete


def attempt(path):
    """Return what `open` returns, or None, and its error or ""."""
    try:
        return stored.open(path), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("name", ["ntk", "X"])
def test_every_edit_of_an_array_is_refused(tmp_path, name):
    """A folder that `gram` did not make is not read; the signals are repaired."""
    path, expected = tmp_path / "K.zarr", in_memory(X)
    K = compute(path, X)
    file = path / name / "zarr.json"
    original, refused = json.loads(file.read_text()), 0
    for place, value in edits(original):
        file.write_text(json.dumps(edited(original, place, value)))
        opened, message = attempt(path)
        if opened is None:
            assert f"K.zarr/{name}/zarr.json: " in message
        elif name == "ntk":
            assert_same(opened, expected)
        elif not Folder(path).holds("X"):
            with pytest.raises(ValueError, match="K.zarr/X is damaged: stored.gram repairs it"):
                K.append(signals(1), progress=False)
            opened = None
        refused += opened is None
    assert refused > 100
    assert_same(compute(path, X) if name == "X" else K, expected)


def test_grams_of_before(tmp_path):
    """A Gram before recursion 6 has no hash: it can be read, and is not continued."""
    path, Z = tmp_path / "K.zarr", signals(3, seed=1)
    K = compute(path, X[:-2], Z)
    found = {**K.description, "recursion": 5}
    del found[HASH]
    write(path, found)
    before = contents(path)
    assert_same(stored.open(path), in_memory(X[:-2], Z))
    calls = [
        lambda: K.append(X[-2:], progress=False),
        lambda: K.resume(progress=False),
        lambda: compute(path, X[:-2], Z),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="recursion is 5 there|expected .*'recursion': 5"):
            call()
    assert contents(path) == before


def test_networks_of_before_read_as_the_default(tmp_path):
    """A field that later networks have is not in the description, and its hash holds."""
    path = tmp_path / "K.zarr"
    found = compute(path, X[:-2]).description
    del found["network"]["negative_slope"], found["network"]["bias"]
    write(path, sealed(found))
    K = stored.open(path)
    assert K.network == NET and K.description["network"]["negative_slope"] == 0.0
    assert K.description["network"]["bias"] == 0.0
    assert_same(K.append(X[-2:], progress=False), in_memory(X))
    assert_same(compute(path, X), in_memory(X))


def test_more_signals_than_there_are(tmp_path):
    """A description that claims more has neither its signals nor n² memory."""
    path = tmp_path / "K.zarr"
    found = compute(path, X).description
    for claimed in (len(X) + 1, 10**6, 10**9, len(X) - 1):
        write(path, sealed(edited(found, ("X", "shape", 0), claimed)))
        with pytest.raises(ValueError, match="shape is .*11, 11.*expected|block is 8, which cuts"):
            stored.open(path)


def exchange(one, other):
    kept = one.with_name("kept")
    one.rename(kept)
    other.rename(one)
    kept.rename(other)


def test_exchanged_chunks_are_not_multiplied(tmp_path):
    K = compute(tmp_path / "K.zarr", signals(3 * BLOCK))
    chunks, v = K.path / "ntk" / "c", np.ones(3 * BLOCK)
    before = K.matrix("ntk") @ v
    for one, other in (("0/0", "1/1"), ("0/1", "1/2"), ("0/0", "2/2")):
        exchange(chunks / one, chunks / other)
        with pytest.raises(ValueError, match=r"block .* is lost: resume it"):
            stored.open(K.path).matrix("ntk") @ v
        exchange(chunks / one, chunks / other)
        opened = stored.open(K.path)
        assert (opened.matrix("ntk") @ v).tobytes() == before.tobytes()
    (chunks / "0" / "1").unlink()
    with pytest.raises(ValueError, match=r"block \(0, 1\) .* is lost: resume it"):
        opened.matrix("ntk") @ v


def test_large_blocks(tmp_path, monkeypatch):
    """Chunks have their full size: chunks of few signals, or beyond memory, are refused."""
    path, Z = tmp_path / "K.zarr", signals(3, seed=1)
    for block in (1025, 60000):
        with pytest.raises(ValueError, match=f"block is {block} for 11 signals, expected .* 1024"):
            compute(path, X, block=block)
    assert not path.exists()
    assert compute(path, X, Z).ntk.chunks == (BLOCK, 3)
    assert_same(
        stored.open(path).append(signals(1), progress=False), in_memory([*X, *signals(1)], Z)
    )
    with pytest.raises(ValueError, match="block is 1, which cuts 2049 × 2049 values into"):
        compute(tmp_path / "many.zarr", np.ones((2049, 1, 1)), block=1)
    monkeypatch.setattr(validation, "_ALWAYS_FREE", 0)
    monkeypatch.setattr(validation, "free_bytes", lambda: 8 * BLOCK * BLOCK - 1)
    K = compute(tmp_path / "narrow.zarr", X, Z)  # a third of the memory
    with pytest.raises(MemoryError, match="a block of 8 rows and columns takes at least"):
        compute(tmp_path / "square.zarr", X)
    assert not (tmp_path / "square.zarr").exists()
    monkeypatch.setattr(validation, "free_bytes", lambda: 0)
    for call in (lambda: K.matrix("ntk"), lambda: K.resume(progress=False)):
        with pytest.raises(MemoryError):
            call()


def test_a_replacement_that_fails(tmp_path, monkeypatch):
    """The old Gram is back, or the message names its folder, and the next call, too."""
    path, rename = tmp_path / "K.zarr", os.rename
    compute(path, X)
    before = contents(path)

    for error in (KeyboardInterrupt(), OSError(5, "Input/output error")):

        def fails(one, other, error=error):
            if ".new." in str(one):
                raise error
            rename(one, other)

        monkeypatch.setattr(os, "rename", fails)
        with pytest.raises(type(error)):
            compute(path, X[:3], overwrite=True)
        assert contents(path) == before and list(tmp_path.iterdir()) == [path]
    with monkeypatch.context() as patch:
        back = type(path).rename
        patch.setattr(
            type(path), "rename", lambda s, to: fails(".new.", to) if to == path else back(s, to)
        )
        with pytest.raises(RuntimeError, match=r"K.zarr was not replaced, and is now .*\.old\."):
            compute(path, X[:3], overwrite=True)
    monkeypatch.undo()
    (old,) = tmp_path.iterdir()
    assert_same(stored.open(old), in_memory(X))
    with pytest.warns(UserWarning, match=f"{old}: left by a call that was interrupted"):
        compute(path, X)
    stored.remove(old)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore:.* left by a call that was interrupted")
def test_two_jobs_that_replace_one_gram(tmp_path, monkeypatch):
    """The second has a RuntimeError, wherever the first comes between its steps."""
    path, first = tmp_path / "K.zarr", signals(4, seed=1)
    original = {"rename": os.rename, "open": store.open}

    def after(function, **options):
        def patched(*arguments):
            if function == "open" or ".new." in str(arguments[0]):
                patch.undo()
                compute(path, first, **options)
            return original[function](*arguments)

        return patched

    for place, function, options, message in (
        (os, "rename", {}, r"K.zarr was not replaced, and is now .*\.old\."),
        (store, "open", {"overwrite": True}, "K.zarr was replaced by another job at the same time"),
    ):
        compute(path, X)
        with monkeypatch.context() as patch:
            patch.setattr(place, function, after(function, **options))
            with pytest.raises(RuntimeError, match=message):
                compute(path, X[:3], overwrite=True)
        assert_same(stored.open(path), in_memory(first))
        for kept in tmp_path.glob(".*"):
            assert_same(stored.open(kept), in_memory(X))
            stored.remove(kept)
        stored.remove(path)
    assert not list(tmp_path.iterdir())
