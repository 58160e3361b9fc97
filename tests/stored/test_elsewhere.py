"""Grams that came from elsewhere: nothing outside them is touched, and no edit ends badly.

Every place of a Gram is planted with links, pipes and sockets. Each call then refuses, at once,
and changes neither the Gram nor what is outside.
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
    new = ["ntk/c/0/7", "ntk/c/7", "a", "lock.other", "X/c/0/7", "note.txt", "ntk/zarr.x.partial"]
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
            assert f"{here} is a link, or no file" in str(error.value), (name, place)
            assert contents(tmp_path) == before, (name, place)
        here.unlink()
        if place in places:
            target.rename(here)
        else:
            shutil.rmtree(target)
    assert_same(compute(path, X), in_memory(X))


def test_hard_links(tmp_path):
    """A copy of hard links shares the lock, a file that is written in place."""
    path, outside = tmp_path / "K.zarr", tmp_path / "outside"
    K = compute(path, X)
    outside.hardlink_to(path / "lock")
    with pytest.raises(ValueError, match="lock has 2 names"):
        K.append(signals(1), progress=False)
    assert outside.read_bytes() == b""


def test_other_files_are_harmless(tmp_path):
    path = tmp_path / "K.zarr"
    K = compute(path, X)
    for other in ("note.txt", ".DS_Store", "ntk/c/.DS_Store", "ntk/.DS_Store"):
        (path / other).write_text("mine")
    K.append(signals(1), progress=False)
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
def test_edits_of_the_description(tmp_path, lists):
    """There are no bare errors, and no other network is read than the description has."""
    path = tmp_path / "K.zarr"
    cases = [x[:, : 5 + k % 3] for k, x in enumerate(X)] if lists else X
    K = compute(path, cases, depths=None if lists else (1, 2))
    original = K.description
    refused = 0
    for place, value in edits(original):
        found = edited(original, place, value)
        write(path, found)
        opened, message = attempt(path)
        if opened is None:
            assert "K.zarr is not a Gram of" in message
            refused += 1
        else:
            assert opened.network == Network(**found["network"]) and opened.shape == K.shape
    assert refused > 300
    write(path, original)
    assert K.resume(progress=False).complete


def attempt(path):
    """Return what `open` returns, or None, and its error or ""."""
    try:
        return stored.open(path), ""
    except ValueError as error:
        return None, str(error)


def test_networks_of_before_read_as_the_default(tmp_path):
    """A field that later networks have is not in the description."""
    path = tmp_path / "K.zarr"
    found = compute(path, X[:-2]).description
    del found["network"]["negative_slope"], found["network"]["bias"]
    write(path, found)
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
        write(path, edited(found, ("X", "shape", 0), claimed))
        with pytest.raises(ValueError, match="has shape .*11, 11.*expected|block is 8, which cuts"):
            stored.open(path)


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

    def fails_both_ways(one, other):
        if ".new." in str(one) or ".old." in str(one):
            raise OSError(5, "Input/output error")
        rename(one, other)

    monkeypatch.setattr(os, "rename", fails_both_ways)
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
    """The second has a RuntimeError; nothing is lost."""
    path, first, rename = tmp_path / "K.zarr", signals(4, seed=1), os.rename

    def after(*arguments):
        if ".new." in str(arguments[0]):
            patch.undo()
            compute(path, first)
        return rename(*arguments)

    compute(path, X)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", after)
        with pytest.raises(RuntimeError, match=r"K.zarr was not replaced, and is now .*\.old\."):
            compute(path, X[:3], overwrite=True)
    assert_same(stored.open(path), in_memory(first))
    (old,) = tmp_path.glob(".*")
    assert_same(stored.open(old), in_memory(X))
