"""The command line, run as a user runs it."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk import datasets
from rescntk.theory import depth, families, multisphere


@pytest.fixture
def signals(tmp_path):
    X = multisphere.sample(6, 3, 8, rng=0)
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "X.npz", X=X, y=np.arange(6.0))
    return X


def test_the_main_job(tmp_path, capsys):
    """JapaneseVowels by default, all depths, a table, a CSV and a picture."""
    pytest.importorskip("aeon")
    out = tmp_path / "new" / "folder"
    assert cli.main(["compare", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("JapaneseVowels: 270 signals, 12 channels, 25 time steps")
    with open(out / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["depth"]) for row in rows] == list(cli.DEFAULT_DEPTHS)
    for row in rows:
        for name in ("cgpk", "rescgpk"):
            value, lower, upper = (float(row[name + end]) for end in ("", "_lower", "_upper"))
            assert 1 < lower <= value <= upper
        assert float(row["cgpk_lower"]) > float(row["rescgpk_lower"])
    assert len(printed.splitlines()) == len(rows) + 5
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "compare.png").stat().st_size > 20_000


def test_compare_options(signals, tmp_path, capsys):
    arguments = ["--depths", "1,4", "--filter-size", "5", "--alpha", "0.5", "--head", "gap"]
    command = ["compare", str(tmp_path / "X.npz"), "--array", "X", *arguments]
    assert cli.main([*command, "--out", str(tmp_path)]) == 0
    table = rk.theory.conditioning.compare(signals, (1, 4), 5, 0.5, "gap")
    assert str(table).splitlines()[-1] in capsys.readouterr().out
    with open(tmp_path / "compare.csv", newline="") as file:
        assert [float(row["ratio_limit"]) for row in csv.DictReader(file)] == [25.0, 25.0]
    # Without projection the same signals, doubled at one pixel, give another table.
    signals[:, :, 0] *= 2
    np.save(tmp_path / "X.npy", signals)
    assert cli.main(["compare", str(tmp_path / "X.npy"), *arguments, "--out", str(tmp_path)]) == 0
    assert str(table).splitlines()[-1] in capsys.readouterr().out
    raw = ["compare", str(tmp_path / "X.npy"), *arguments, "--raw", "--out", str(tmp_path)]
    assert cli.main(raw) == 0
    assert str(table).splitlines()[-1] not in capsys.readouterr().out


def test_limits(tmp_path, capsys):
    """A report on the screen, a CSV and a picture; drawn signals by default."""
    ladder = "8,16,32,64,128,256"
    command = ["limits", "--gamma", "1", "--depths", ladder, "--out", str(tmp_path / "new")]
    assert cli.main(command) == 0
    report = depth.check(families.resnet(1.0), depths=[2**k for k in range(3, 9)])
    printed = capsys.readouterr().out
    assert printed.startswith(str(report) + "\nwritten: ")
    assert "verdict: agrees" in printed
    with open(tmp_path / "new" / "limits.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["distance"]) for row in rows] == report.column("distance").tolist()
    assert (tmp_path / "new" / "limits.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "limits.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    ("options", "family", "settings"),
    [
        (["--family", "resnet", "--frozen-readout"], families.resnet(0.75, readout=False), {}),
        (
            ["--family", "resnet-fixed", "--alpha", "0.5", "--filter-size", "5", "--kind", "gpk"],
            families.resnet_fixed(0.5, 5),
            {"kind": "gpk"},
        ),
        (["--family", "cnn", "--head", "gap"], families.cnn(), {"head": "gap"}),
        (["--family", "huang-resnet", "--seed", "3"], families.huang_resnet(), {"rng": 3}),
        (["--family", "huang-ffnet"], families.huang_ffnet(), {}),
    ],
)
def test_limits_of_each_family(options, family, settings, tmp_path, capsys):
    ladder = [2**k for k in range(3, 9)]
    shown = ",".join(map(str, ladder))
    assert cli.main(["limits", *options, "--depths", shown, "--out", str(tmp_path)]) == 0
    assert str(depth.check(family, depths=ladder, **settings)) in capsys.readouterr().out


def test_limits_on_signals(signals, tmp_path, capsys):
    np.save(tmp_path / "X.npy", 3 * signals)
    command = ["limits", str(tmp_path / "X.npy"), "--depths", "8,16,32,64,128,256"]
    for options, X in (([], multisphere.project(signals)), (["--raw"], 3 * signals)):
        assert cli.main([*command, *options, "--out", str(tmp_path)]) == 0
        report = depth.check(families.resnet(0.75), X, depths=[2**k for k in range(3, 9)])
        assert str(report) in capsys.readouterr().out


def test_engines(capsys):
    assert cli.main(["engines"]) == 0
    printed = capsys.readouterr().out
    for name, state in rk.engines.available().items():
        assert f"{name:10s} {'ready' if state is True else state}" in printed


def damaged_files(folder, signals):
    """Write files of signals that were cut short or overwritten in the middle."""
    np.savez_compressed(folder / "damaged.npz", X=signals)
    content = (folder / "damaged.npz").read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])
    (folder / "damaged.npz").write_bytes(content[:60] + b"x" * 60 + content[120:])
    (folder / "cut.npy").write_bytes((folder / "X.npy").read_bytes()[:200])
    (folder / "empty.npy").write_bytes(b"")
    huge = np.lib.format.header_data_from_array_1_0(signals) | {"shape": (10**6, 10**6, 10**5)}
    with open(folder / "huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, huge)
    (folder / "broken.ts").write_text("@problemName broken\n@timestamps maybe\n@data\n1,x:2\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gram", "no.npy", "-o", "K.npy"], "no such file: no.npy"),
        (["gram", "X.csv", "-o", "K.npy"], "suffix of X.csv is '.csv', expected one of '.npy'"),
        (["gram", "X.npz", "-o", "K.npy"], "holds the arrays ['X', 'y']: say which one"),
        (["gram", "X.npz", "--array", "Z", "-o", "K.npy"], "array is 'Z', expected one of 'X'"),
        (["gram", "X.npz", "--array", "y", "-o", "K.npy"], "X.npz has shape (6,), expected ("),
        (["gram", "text.npy", "-o", "K.npy"], "text.npy is not a readable .npy file"),
        (["gram", "X.npy", "-o", "K.txt"], "expected a name that ends in .npy"),
        (["gram", "X.npy", "-o", "no/folder/K.npy"], "expected a folder that is there"),
        (["gram", "X.npy", "--array", "X", "-o", "K.npy"], "X.npy is no .npz file of named arrays"),
        (["gram", "bad.npz", "-o", "K.npy"], "bad.npz is not a readable .npz file"),
        (["compare", "X.npy", "--out", "X.csv"], "out is X.csv, which is a file"),
        (["compare", "X.npy", "--alpha", "1e-200"], "alpha is 1e-200"),
        (["compare", "--array", "X"], "--array is given without a file"),
        (["gram", "X.npy", "-o", "K.npy", "--depth", "0"], "depth is 0, expected an integer"),
        (["gram", "X.npy", "-o", "K.npy", "--depth", "2000"], "normalized=True"),
        (["gram", "X.npy", "-o", "K.npy", "--engine", "cuda"], "engine is 'cuda'"),
        (["compare", "X.npy", "--data", "GunPoint"], "both SIGNALS and --data are given"),
        (["compare", "X.npy", "--filter-size", "2"], "filter_size is 2, expected a positive odd"),
        (["compare", "one.npy"], "one channel"),
        (["compare", "X.npy", "--head", "mean"], "head is 'mean', expected one of"),
        (["limits", "--family", "mlp"], "family is 'mlp', expected one of 'resnet'"),
        (["limits", "--family", "cnn", "--gamma", "1"], "--gamma is not about the family cnn"),
        (["limits", "--frozen-readout", "--family", "huang-ffnet"], "--frozen-readout is not"),
        (["limits", "--alpha", "1"], "--alpha is not about the family resnet"),
        (["limits", "--gamma", "-1"], "gamma is -1.0, expected a finite number"),
        (["limits", "--depths", "1,2,4"], "expected at least 6"),
        (["limits", "--raw"], "--array and --raw are about SIGNALS"),
        (["limits", "X.npy", "--raw", "--out", "X.csv"], "out is X.csv, which is a file"),
        (["limits", "doubled.npy", "--raw", "--family", "cnn"], "is not on the multi-sphere"),
        (["limits", "one.npy"], "one channel"),
        (["gram", "cut.npz", "-o", "K.npy"], "cut.npz is not a readable .npz file: "),
        (["gram", "damaged.npz", "-o", "K.npy"], "damaged.npz is not a readable .npz file: "),
        (["gram", "cut.npy", "-o", "K.npy"], "cut.npy is not a readable .npy file: "),
        (["gram", "empty.npy", "-o", "K.npy"], "empty.npy is not a readable .npy file: "),
        (["gram", "huge.npy", "-o", "K.npy"], "huge.npy does not fit into memory: "),
        (["gram", "folder.npy", "-o", "K.npy"], "folder.npy is a folder, expected a .npy file"),
        (["gram", "broken.ts", "-o", "K.npy"], "broken.ts is not a readable .ts file: "),
        (["gram", "X.npy", "-o", "X.npy"], "output is X.npy, the file of signals, expected"),
        (["gram", "X.npy", "-o", "./folder.npy"], "which cannot be written: Is a directory"),
        (["gram", "X.npy", "-o", "link.npy"], "output is link.npy, the file of signals"),
        (["gram", "X.npy", "-o", "K" * 300 + ".npy"], "which cannot be written: File name too"),
        (["compare", "X.npy", "--out", "o" * 300], "cannot be written: File name too long"),
        (["compare", "X.npy", "--out", "X.csv/sub"], "cannot be written: "),
        (["compare", "X.npy", "--out", "taken"], "compare.csv, which cannot be written: Is a"),
        (["limits", "--out", "taken"], "limits.png, which cannot be written: Is a directory"),
        (["limits", "--depths", "8,16,32,64,128,99999999999"], "expected at most 100000000"),
        (["compare", "X.npy", "--depths", "99999999999"], "depth 99999999999 for signals of 8"),
        (["gram", "X.npy", "-o", "K.npy", "--depth", "99999999999"], "are free: give a smaller"),
    ],
)
def test_errors_are_one_line_and_exit_status_2(
    arguments, says, signals, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    np.save("one.npy", np.ones((3, 1, 5)))
    np.save("doubled.npy", 2 * signals)
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "X.csv").write_text("1,2")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip file")
    damaged_files(tmp_path, signals)
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "link.npy").symlink_to(tmp_path / "X.npy")
    for name in ("compare.csv", "limits.png"):
        (tmp_path / "taken" / name).mkdir(parents=True)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("rescntk: ")
    assert captured.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_outputs_are_checked_before_the_work(signals, tmp_path, monkeypatch, capsys):
    """Folders that are missing, or may not be written, are found before a kernel is computed."""
    monkeypatch.chdir(tmp_path)
    works = []
    monkeypatch.setattr("rescntk.kernels.gram", lambda *a, **k: works.append(a))
    monkeypatch.setattr(cli.conditioning, "compare", lambda *a, **k: works.append(a))

    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    before = (tmp_path / "X.npy").read_bytes()
    assert cli.main(["gram", "X.npy", "-o", "X.npy"]) == 2
    monkeypatch.setattr(cli.tempfile, "TemporaryFile", refuse)
    for arguments in (
        ["gram", "X.npy", "-o", "K.npy"],
        ["compare", "X.npy", "--out", "new/folder"],
        ["limits", "--out", "new"],
    ):
        assert cli.main(arguments) == 2
        assert "which cannot be written: Permission denied\n" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
    assert not works
    monkeypatch.undo()
    assert (tmp_path / "X.npy").read_bytes() == before


def test_identical_signals_are_drawn(signals, tmp_path, capsys):
    """All condition numbers are infinite, and so are the lower bounds."""
    for name, X in (("same", signals[[0, 0, 0]]), ("two", signals[[0, 0, 1, 2]])):
        np.save(tmp_path / f"{name}.npy", X)
        out = tmp_path / name
        command = ["compare", str(tmp_path / f"{name}.npy"), "--depths", "1,2,20"]
        assert cli.main([*command, "--out", str(out)]) == 0
        assert " inf " in capsys.readouterr().out
        assert (out / "compare.png").stat().st_size > 10_000


def test_as_a_module():
    run = [sys.executable, "-m", "rescntk"]
    version = subprocess.run([*run, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"rescntk {rk.__version__}"
    wrong = subprocess.run([*run, "compare", "--depths", "1,x"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "'1,x' is not a list of integers separated by commas" in wrong.stderr


def test_data_sets_of_equal_length(tmp_path):
    pytest.importorskip("aeon")
    names = datasets.bundled()
    assert {"JapaneseVowels", "BasicMotions", "GunPoint", "PickupGestureWiimoteZ"} <= set(names)
    assert datasets.load("JapaneseVowels").shape == (270, 12, 25)
    assert datasets.load("JapaneseVowels", "test").shape == (370, 12, 25)
    assert datasets.load("BasicMotions").shape == (40, 6, 100)
    assert datasets.load("PickupGestureWiimoteZ").ndim == 3
    with pytest.raises(ValueError, match="data is 'Vowels', expected one of"):
        datasets.load("Vowels")
    with pytest.raises(ValueError, match="split is 'all'"):
        datasets.load("GunPoint", "all")
    bundled = datasets._ts_file("BasicMotions", "train")
    assert (datasets.read(bundled) == datasets.load("BasicMotions")).all()
    unequal = bundled.parent.parent / "JapaneseVowels" / "JapaneseVowels_TRAIN.ts"
    signals = datasets.read(unequal)
    assert isinstance(signals, list) and len(signals) == 270
    assert {signal.shape[0] for signal in signals} == {12}
    assert (min(s.shape[1] for s in signals), max(s.shape[1] for s in signals)) == (7, 26)
    (tmp_path / "bad.ts").write_text("not a data set")
    with pytest.raises(ValueError, match=r"the array in bad\.ts has shape"):
        datasets.read(tmp_path / "bad.ts")


UNEQUAL = """@problemName Unequal
@timestamps false
@missing false
@univariate false
@dimension 2
@equalLength false
@classLabel true a b
@data
1,2,3:0.5,-1,2:a
2,-1,0.5,3,1:1,1,-2,0.5,1:b
-1,1,2,0.3:2,1,0.1,1:a
"""


def test_signals_of_different_lengths(tmp_path, monkeypatch, capsys):
    pytest.importorskip("aeon")
    monkeypatch.chdir(tmp_path)
    Path("X.ts").write_text(UNEQUAL)
    X = datasets.read("X.ts")
    assert [signal.shape for signal in X] == [(2, 3), (2, 5), (2, 4)]
    assert cli.main(["gram", "X.ts", "-o", "K.npy", "--depth", "2"]) == 0
    assert (np.load("K.npy") == rk.ResCNTK(2)(X)).all()
    assert json.loads(Path("K.json").read_text())["X"]["shape"] == [3, 2, [3, 5, 4]]
    stored = pytest.importorskip("rescntk.stored")
    assert cli.main(["gram", "X.ts", "-o", "K.zarr", "--depth", "2"]) == 0
    assert (stored.open("K.zarr").ntk[:] == rk.ResCNTK(2)(X, dtype="float32")).all()
    assert cli.main(["compare", "X.ts", "--head", "gap", "--depths", "1,2"]) == 0
    assert "X.ts: 3 signals, 2 channels, 3 to 5 time steps" in capsys.readouterr().out
    for arguments, message in (
        (
            ["compare", "X.ts", "--depths", "1"],
            "head is 'trace', which takes signals of one",
        ),
        (["gram", "X.ts", "-o", "J.npy", "--head", "equivariant"], "head is 'equivariant', which"),
        (["limits", "X.ts"], "X.ts has signals of 3 to 5 timepoints, expected signals of one"),
    ):
        assert cli.main(arguments) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("aeon.datasets", ["compare"], "datasets"),
        ("matplotlib.figure", ["compare", "X.npy"], "plot"),
    ],
)
def test_a_missing_extra_is_one_line(
    module, arguments, extra, signals, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert cli.main(arguments) == 2
    assert f"pip install 'rescntk[{extra}]'" in capsys.readouterr().err
