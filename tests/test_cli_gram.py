"""``rescntk gram``: parameters and labels are kept, nothing is overwritten, work is resumed."""

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk import datasets, plots
from rescntk.theory import conditioning

X = np.random.default_rng(0).standard_normal((6, 2, 8))
Z = np.random.default_rng(1).standard_normal((3, 2, 8))
NET = rk.Network(depth=2)
BASE = ["--depth", "2", "--engine", "reference"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.savez("Z.npz", Z=Z, other=X)
    return tmp_path


def run(*arguments):
    """Return the exit status of ``gram`` with arguments, separated by spaces too."""
    return cli.main(["gram", *BASE, *" ".join(arguments).split()])


def said(capsys):
    """Return the single line of an error."""
    text = capsys.readouterr().err
    assert text.startswith("rescntk: ") and text.count("\n") == 1
    return text


def test_two_files_and_the_parameters_beside(folder):
    command = ["X.npy", "Z.npz", "--others-array", "Z", "--normalized", "-o"]
    assert run(*command, "K.npy") == 0
    kernel = rk.ResCNTK(2, normalized=True)
    assert (np.load("K.npy") == kernel(X, Z, engine="reference")).all()
    kept = json.loads((folder / "K.json").read_text())
    assert rk.Network(**kept["network"]) == NET
    assert kept["kinds"] == ["ntk"] and kept["normalized"] and kept["dtype"] == "float64"
    assert kept["X"]["shape"] == [6, 2, 8] and kept["Z"]["shape"] == [3, 2, 8]
    assert kept["version"] == rk.__version__ and kept["engine"] == "reference"
    assert (folder / "K.npy").stat().st_mode == (folder / "X.npy").stat().st_mode
    assert run(*command, "K.npz", "--kind", "both", "--dtype", "float32") == 0
    with np.load("K.npz") as arrays:
        expected = rk.gram(NET, X, Z, normalized=True, dtype="float32", engine="reference")
        assert (arrays["gpk"] == expected.gpk).all() and (arrays["ntk"] == expected.ntk).all()
        assert json.loads(str(arrays["parameters"]))["dtype"] == "float32"
    assert not [name for name in os.listdir() if name.startswith(".")]
    more = ["--no-skip", "--filter-size", "5", "--input-filter-size", "3", "--head", "trace"]
    assert run("X.npy", "-o", "G.npy", "--kind", "gpk", *more) == 0
    kernel = rk.CGPK(2, 5, head="trace", input_filter_size=3)
    assert (np.load("G.npy") == kernel(X, engine="reference")).all()


def test_files_and_options_in_any_order():
    for arguments in (
        "X.npy -o K.npy Z.npz --others-array Z",
        "-o K.npy X.npy --others-array Z Z.npz",
    ):
        assert run(arguments, "--overwrite") == 0
        assert np.load("K.npy").shape == (6, 3)
    with pytest.raises(SystemExit):
        run("X.npy Z.npz third.npy -o K.npy")


def test_labels_of_ts_files_are_kept(folder):
    pytest.importorskip("aeon")
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("distributed")
    rows = ["@problemName small", "@timestamps false", "@univariate true", "@classLabel true a b"]
    cases = ["1.0,2.0,0.5:a", "0.0,1.0,3.0:b", "2.0,2.5,1.0:a"]
    (folder / "small.ts").write_text("\n".join([*rows, "@data", *cases]) + "\n")
    for name in ("K.npy", "K.npz", "K.zarr"):
        assert run("small.ts", "small.ts", "-o", name) == 0
    expected = {"X": ["a", "b", "a"], "Z": ["a", "b", "a"]}
    assert json.loads((folder / "K.json").read_text())["labels"] == expected
    with np.load("K.npz") as arrays:
        assert list(arrays["labels_X"]) == ["a", "b", "a"]
    assert zarr.open_group("K.zarr", mode="r").attrs["labels"] == expected
    from rescntk import stored

    K = stored.open("K.zarr")
    assert K.labels == expected
    K.label({"X": np.arange(3), "Z": list(np.arange(3.0))})
    assert stored.open("K.zarr").labels == {"X": [0, 1, 2], "Z": [0.0, 1.0, 2.0]}
    for wrong in (["a"], "aba"):
        with pytest.raises(ValueError, match=r"labels has shape \(1?,?\) for X, expected \(3,\)"):
            K.label({"X": wrong})
    with pytest.raises(ValueError, match="labels is 'Y'"):
        K.label({"Y": []})


def test_labels_that_cannot_be_kept_are_refused_before_the_work(folder, stored, capsys):
    rows = ["@problemName small", "@timestamps false", "@univariate true", "@targetlabel true"]
    (folder / "small.ts").write_text("\n".join([*rows, "@data", "1.0,2.0:0.5", "0.0,1.0:NaN"]))
    assert run("small.ts", "-o", "K.zarr") == 2
    assert "labels of X of shape (2,) contains NaN" in said(capsys)
    assert not (folder / "K.zarr").exists()


def test_nothing_is_overwritten_unasked(folder, monkeypatch, capsys):
    (folder / "K.json").write_text("mine")
    assert run("X.npy", "-o", "K.npy") == 2
    assert "output is K.json, which exists, expected a new name: --overwrite replaces it" in said(
        capsys
    )
    assert (folder / "K.json").read_text() == "mine" and not (folder / "K.npy").exists()
    assert run("X.npy", "-o", "K.npy", "--overwrite") == 0
    before = (folder / "K.npy").read_bytes()
    assert run("X.npy", "-o", "K.npy", "--kind", "gpk") == 2
    assert (folder / "K.npy").read_bytes() == before
    for option in ([], ["--overwrite"]):  # inputs never
        for target in ("X.npy", "Z.npz"):
            assert run("X.npy", "Z.npz", "--others-array", "Z", "-o", target, *option) == 2
            assert f"output is {target}, an input" in capsys.readouterr().err
    assert (np.load("X.npy") == X).all()

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for answer, status in (("n\n", 2), ("", 2), ("y\n", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer * 2))
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert run("X.npy", "-o", "K.npy", "--kind", "gpk") == status
        assert "K.npy exists: replace it? [y/N]" in sys.stderr.getvalue()
        assert ((folder / "K.npy").read_bytes() == before) is (status == 2)
    monkeypatch.undo()


def test_a_link_stays_a_link(folder):
    (folder / "K.npy").symlink_to(folder / "elsewhere.npy")
    assert run("X.npy", "-o", "K.npy") == 0
    assert (folder / "K.npy").is_symlink() and (folder / "elsewhere.npy").is_file()
    assert np.load("K.npy").shape == (6, 6)
    longest = f"{'K' * 250}.json"  # 255 bytes, as long as a name may be
    assert run("X.npy", "-o", longest.replace("json", "npy")) == 0 and (folder / longest).is_file()


def test_files_of_one_process_id_are_not_exchanged(folder, monkeypatch):
    """Two containers on one volume have the same process ids: each file gets its own content."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    with datasets.replacing(folder / "a.npy") as a, datasets.replacing(folder / "b.npy") as b:
        a.write(b"a")
        b.write(b"b")
    assert [(folder / name).read_bytes() for name in ("a.npy", "b.npy")] == [b"a", b"b"]


def test_a_planted_link_is_not_followed(folder, monkeypatch, capsys):
    """Neither a link at a name that can be guessed, nor one at the name that is drawn."""
    mine = folder / "mine"
    mine.write_text("mine")
    (folder / f".{os.getpid()}.npy").symlink_to(mine)
    assert run("X.npy -o K.npy") == 0 and np.load("K.npy").shape == (6, 6)
    monkeypatch.setattr("secrets.token_hex", lambda size: "drawn")
    planted = folder / ".drawn.npy"
    planted.symlink_to(mine)
    assert run("X.npy -o L.npy") == 2
    assert "L.npy cannot be written: File exists" in said(capsys)
    assert planted.is_symlink() and mine.read_text() == "mine"
    table = conditioning.compare(X, (1,), engine="reference")
    write, part = table.write_csv, folder / ".drawn.csv"

    def late(file):
        part.unlink()
        part.symlink_to(mine)
        write(file)

    object.__setattr__(table, "write_csv", late)
    cli._write(table, plots.figure(plots.SIZE), folder / "compare", "")
    assert mine.read_text() == "mine"


def test_a_failed_write_leaves_the_old_file(folder, monkeypatch, capsys):
    assert run("X.npy", "-o", "K.npy") == 0
    before = (folder / "K.npy").read_bytes()

    def full(file, matrix):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert run("X.npy", "-o", "K.npy", "--overwrite") == 2
    assert "No space left" in said(capsys)
    assert (folder / "K.npy").read_bytes() == before
    assert not [name for name in os.listdir() if name.startswith(".")]


@pytest.fixture
def stored():
    pytest.importorskip("zarr")
    pytest.importorskip("distributed")
    from rescntk import stored

    return stored


def test_stored_resumed_and_replaced(folder, stored, capsys, monkeypatch):
    monkeypatch.setattr("rescntk.progress._FIRST_PAUSE", 0.0)
    command = ["X.npy", "-o", "K.zarr", "--block", "4"]
    assert run(*command) == 0
    K = stored.open("K.zarr")
    expected = rk.gram(NET, X, dtype="float32", engine="reference", kinds="ntk").ntk
    assert (K.ntk[:] == expected).all() and K.description["block"] == 4
    assert "K.zarr: 3/3 blocks, 100 %" in capsys.readouterr().err
    same = stored.gram("K.zarr", NET, X, kinds="ntk", block=4, engine="reference", progress=False)
    assert same.complete
    assert run(*command) == 0 and "blocks" not in capsys.readouterr().err
    assert run(*command, "--kind", "both") == 2
    assert "kinds is ['ntk'] there, ['gpk', 'ntk'] here" in said(capsys)
    assert run(*command, "--kind", "both", "--overwrite") == 0
    assert stored.open("K.zarr").description["kinds"] == ["gpk", "ntk"]
    with stored.store.locked(folder / "K.zarr"):
        assert run(*command, "--overwrite") == 2
    for wrong in ("Z.npz --others-array no", "--head no", "--engine no", "--block 99999"):
        assert run(*command, wrong, "--overwrite") == 2
    assert stored.open("K.zarr").complete
    assert "is being computed by process" in capsys.readouterr().err
    (folder / "mine.zarr").mkdir()
    (folder / "mine.zarr" / "text").write_text("mine")
    assert run("X.npy", "-o", "mine.zarr", "--overwrite") == 2
    assert "is not a Gram of rescntk.stored" in said(capsys)
    assert (folder / "mine.zarr" / "text").exists()
    assert sorted(os.listdir()) == ["K.zarr", "X.npy", "Z.npz", "mine.zarr"]


def test_workers(stored):
    assert run("X.npy -o K.zarr --block 2 --workers 1") == 0
    expected = rk.gram(NET, X, dtype="float32", engine="reference", kinds="ntk").ntk
    assert (stored.open("K.zarr").ntk[:] == expected).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o K.npy --workers 2", "--workers is given with output K.npy, expected output in .zarr"),
        ("-o K.npy --kind both", "holds one kind: both go into .npz or .zarr"),
        ("-o K.npy --kind cntk", "kind is 'cntk', expected one of"),
        ("-o K.npy --dtype half", "dtype is 'half', expected one of 'float64'"),
        ("-o K.npy --others-array Z", "--others-array is given without OTHERS, expected OTHERS"),
        ("Z.npz -o K.npy", r"the arrays ['Z', 'other']: name one of them (as --array NAME)"),
        (
            "c.csv -o K.npy",
            "c.csv has the channels a, c, expected the channels of ab.csv: a, b, in",
        ),
        ("one.npy -o K.npy", "Z has shape (3, 1, 8), expected 2 channels"),
        ("-o no/K.zarr", "expected a folder that is there"),
        ("-o K.zarr --engine cuda", "engine='cuda' cannot compute"),
        ("-o L.zarr --workers 0", "workers is 0, expected an integer of at least 1"),
        ("-o L.zarr --workers 100000", "expected at most the cores of this host"),
        ("-o L.zarr --workers 1 --scheduler tcp://x:1", "both --workers and --scheduler"),
        ("-o L.zarr --scheduler nowhere", "rescntk: "),
        ("-o L.zarr --block 0", "block is 0"),
    ],
)
def test_messages(arguments, message, capsys):
    if ".zarr" in arguments:
        pytest.importorskip("zarr")
        pytest.importorskip("distributed")
    np.save("one.npy", Z[:, :1])
    for name, channel in (("ab.csv", "b"), ("c.csv", "c")):
        Path(name).write_text(f"a_0,a_1,{channel}_0,{channel}_1\n1,2,3,5\n")
    assert run("ab.csv" if "csv" in arguments else "X.npy", arguments) == 2
    assert message in said(capsys)
    assert sorted(os.listdir()) == ["X.npy", "Z.npz", "ab.csv", "c.csv", "one.npy"]


def test_without_the_extra_stored(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("rescntk.stored")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(rk, "stored", raising=False)
    monkeypatch.setitem(sys.modules, "zarr.codecs", None)
    assert run("X.npy", "-o", "K.zarr") == 2
    assert "pip install 'rescntk[stored]'" in said(capsys)
