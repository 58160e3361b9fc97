"""The command line, run as a user runs it; test_cli_gram.py has what is written by ``gram``."""

import csv
import json
import os
import re
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk import datasets, parsers
from rescntk.theory import depth, multisphere
from tests import families

LADDER = [2**k for k in range(3, 9)]


@pytest.fixture
def signals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rescntk.progress._FIRST_PAUSE", 1e9)  # a slow machine reports progress
    X = multisphere.sample(6, 3, 8, rng=0)
    np.save("X.npy", X)
    np.savez("X.npz", X=X, y=np.arange(6.0))
    return X


def run(command):
    """Return the exit status of a command without spaces in its arguments."""
    return cli.main(command.split())


def is_picture(path):
    content = Path(path).read_bytes()
    return content.startswith(b"\x89PNG") and len(content) > 10_000


def test_the_main_job(tmp_path, capsys):
    """JapaneseVowels by default, all depths, a table, a CSV and a picture.

    README: lower bounds in the theorem's order at every depth, condition numbers from 27 on.
    """
    pytest.importorskip("aeon")
    out = tmp_path / "new" / "folder"
    assert cli.main(["compare", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("JapaneseVowels: 270 signals, 12 channels, 25 time steps")
    with open(out / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["depth"]) for row in rows] == list(parsers.DEFAULT_DEPTHS)
    for row in rows:
        for name in ("cgpk", "rescgpk"):
            value, lower, upper = (float(row[name + end]) for end in ("", "_lower", "_upper"))
            assert 1 < lower <= value <= upper
        assert float(row["cgpk_lower"]) > float(row["rescgpk_lower"])
        assert (float(row["ratio"]) > 1) is (int(row["depth"]) >= 27)
    assert len(printed.splitlines()) == len(rows) + 6
    assert "inf" not in printed and "upper bounds that are vacuous at every depth" in printed
    assert is_picture(out / "compare.png")


def test_compare_options(signals, capsys):
    options = "--depths 1,4 --filter-size 5 --alpha 0.5 --head gap"
    assert run(f"compare X.npz --array X {options} --out new") == 0
    table = rk.theory.conditioning.compare(signals, (1, 4), 5, 0.5, "gap")
    assert str(table).splitlines()[-2] in capsys.readouterr().out
    with open("new/compare.csv", newline="") as file:
        assert [float(row["ratio_limit"]) for row in csv.DictReader(file)] == [25.0, 25.0]
    # Without projection the same signals, doubled at one pixel, give another table.
    signals[:, :, 0] *= 2
    np.save("X.npy", signals)
    for raw in ("", "--raw --overwrite"):
        assert run(f"compare X.npy {options} {raw}") == 0
        assert (str(table).splitlines()[-2] in capsys.readouterr().out) is (raw == "")
    assert run(f"compare X.npy {options}") == 2
    assert "compare.csv, which exists, expected a new name: --over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "family", "settings"),
    [
        ("--gamma 1", families.resnet(1.0), {}),
        ("--family resnet --frozen-readout", families.resnet(0.75, readout=False), {}),
        (
            "--family resnet-fixed --alpha 0.5 --filter-size 5 --kind gpk",
            families.resnet_fixed(0.5, 5),
            {"kind": "gpk"},
        ),
        ("--family cnn --head gap", families.cnn(), {"head": "gap"}),
        ("--family huang-resnet --seed 3", families.huang_resnet(), {"rng": 3}),
        ("--family huang-ffnet", families.huang_ffnet(), {}),
    ],
)
def test_limits(options, family, settings, tmp_path, monkeypatch, capsys):
    """A report on the screen, a CSV and a picture; drawn signals by default."""
    monkeypatch.chdir(tmp_path)
    assert run(f"limits {options} --depths {','.join(map(str, LADDER))} --out new") == 0
    report = depth.check(family, depths=LADDER, **settings)
    assert capsys.readouterr().out.startswith(f"{report}\nwritten: ")
    with open("new/limits.csv", newline="") as file:
        found = [float(row["distance"]) for row in csv.DictReader(file)]
    assert found == report.column("distance").tolist()
    assert is_picture("new/limits.png")


def test_limits_on_signals(signals, capsys):
    np.save("X.npy", 3 * signals)
    for raw, X in (("", multisphere.project(signals)), ("--raw --overwrite", 3 * signals)):
        assert run(f"limits X.npy --depths 8,16,32,64,128,256 {raw}") == 0
        report = depth.check(families.resnet(0.75), X, depths=LADDER)
        assert str(report) in capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.__name__)
def test_help_has_examples_that_are_read(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command.__name__, "--help"])
    shown = capsys.readouterr().out
    examples = re.findall(r"^  rescntk (.+)$", shown.split("examples:")[1], re.MULTILINE)
    assert end.value.code == 0 and examples
    for example in examples:
        assert parsers.parse(example.split(), cli.COMMANDS).run == command


def test_engines(capsys):
    assert cli.main(["engines"]) == 0
    printed = capsys.readouterr().out
    for name, state in rk.engines.available().items():
        assert f"{name:10s} {'ready' if state is True else state}" in printed


def damaged_files(folder, signals):
    """Write files of signals that are damaged or too large."""
    np.savez_compressed(folder / "damaged.npz", X=signals)
    content = (folder / "damaged.npz").read_bytes()
    (folder / "damaged.npz").write_bytes(content[:60] + b"x" * 60 + content[120:])
    (folder / "cut.npy").write_bytes((folder / "X.npy").read_bytes()[:200])
    huge = np.lib.format.header_data_from_array_1_0(signals) | {"shape": (10**6, 10**6, 10**5)}
    with open(folder / "huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, huge)
    (folder / "broken.ts").write_text("@problemName broken\n@timestamps maybe\n@data\n1,x:2\n")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("gram no.npy -o K.npy", "no such file: no.npy"),
        ("gram X.npz -o K.npy", "array is None, and X.npz holds the arrays ['X', 'y']: name one o"),
        ("gram X.npz --array Z -o K.npy", "array is 'Z', expected one of 'X'"),
        ("gram X.npz --array y -o K.npy", "X.npz has shape (6,), expected ("),
        ("gram X.npy --array X -o K.npy", "X.npy is not a .npz file of named arrays"),
        ("gram text.npy -o K.npy", "text.npy is not a readable .npy file"),
        ("gram X.npy -o K.txt", "expected a name that ends in .npy"),
        ("compare X.npy --out X.csv", "out is X.csv, which is a file"),
        ("compare --array X", "--array is 'X' without SIGNALS, expected a .npz file"),
        ("gram X.npy -o K.npy --depth 1100 --engine reference", "normalized=True"),
        ("gram X.npy -o K.npy --engine cuda", "engine='cuda' cannot compute this call"),
        ("compare X.npy --data GunPoint", "both SIGNALS and --data are given"),
        ("compare one.npy", "one channel"),
        ("limits --family mlp", "family is 'mlp', expected one of 'resnet'"),
        ("limits --family cnn --gamma 1", "--gamma is not a parameter of the family cnn, expected"),
        (
            "limits --frozen-readout --family huang-ffnet",
            "--frozen-readout is not a parameter of the family huang-ffnet",
        ),
        ("limits --alpha 1", "--alpha is not a parameter of the family resnet"),
        ("limits --seed -1", "seed is -1, expected an integer of at least 0"),
        ("limits --raw", "--array or --raw is given without SIGNALS, expected SIGNALS"),
        ("gram damaged.npz -o K.npy", "damaged.npz is not a readable .npz file: "),
        ("gram cut.npy -o K.npy", "cut.npy is not a readable .npy file: "),
        ("gram huge.npy -o K.npy", "huge.npy does not fit into memory: "),
        ("gram folder.npy -o K.npy", "folder.npy is a folder, expected a .npy file"),
        ("gram broken.ts -o K.npy", "broken.ts is not a readable .ts file: "),
        ("gram X.npy -o ./folder.npy", "which cannot be written: Is a directory"),
        ("gram X.npy -o pipe.npy --overwrite", "pipe.npy, a pipe or a device, expected a file"),
        ("gram X.npy -o link.npy", "output is link.npy, an input, expected another"),
        ("compare X.npy --out taken", "compare.csv, which cannot be written: Is a"),
        ("limits --depths 8,16,32,64,128,99999999999", "expected at most 100000000"),
        ("gram X.npy -o K.npy --depth 99999999999", "are free: give a smaller"),
        (f"gram X.npy -o {'K' * 300}.npy", "which cannot be written: File name too"),
    ],
)
def test_errors_are_one_line_and_exit_status_2(command, says, signals, tmp_path, capsys):
    np.save("one.npy", np.ones((3, 1, 5)))
    np.save("doubled.npy", 2 * signals)
    Path("X.csv").write_text("1,2")
    Path("text.npy").write_text("hello")
    damaged_files(tmp_path, signals)
    Path("folder.npy").mkdir()
    Path("link.npy").symlink_to("X.npy")
    os.mkfifo("pipe.npy")
    Path("taken/compare.csv").mkdir(parents=True)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run(command) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("rescntk: ")
    assert captured.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [(KeyboardInterrupt(), 130, "interrupted"), (RuntimeError("two\n  lines"), 2, "two lines")],
)
def test_warnings_and_ends_are_one_line_each(error, status, said, signals, monkeypatch, capsys):
    def gram(*_, **__):
        warnings.warn("slow", stacklevel=1)
        raise error

    monkeypatch.setattr("rescntk.kernels.gram", gram)
    assert run("gram X.npy -o K.npy") == status
    assert capsys.readouterr().err == f"rescntk: warning: slow\nrescntk: {said}\n"


def test_outputs_are_checked_before_the_work(signals, tmp_path, monkeypatch, capsys):
    """Folders that are missing, or may not be written, are found before a kernel is computed."""
    works = []
    monkeypatch.setattr("rescntk.kernels.gram", lambda *a, **k: works.append(a))
    monkeypatch.setattr(cli.conditioning, "compare", lambda *a, **k: works.append(a))

    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(datasets.tempfile, "TemporaryFile", refuse)
    for command in ("gram X.npy -o K.npy", "compare X.npy --out new/folder", "limits --out new"):
        assert run(command) == 2
        assert "which cannot be written: Permission denied\n" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
    assert not works


def test_identical_signals_are_drawn(signals, capsys):
    """All condition numbers are infinite, and so are the lower bounds."""
    for name, X in (("same", signals[[0, 0, 0]]), ("two", signals[[0, 0, 1, 2]])):
        np.save(f"{name}.npy", X)
        assert run(f"compare {name}.npy --depths 1,2,20 --out {name}") == 0
        assert " inf " in capsys.readouterr().out
        assert is_picture(f"{name}/compare.png")


def test_as_a_module():
    run = [sys.executable, "-m", "rescntk"]
    version = subprocess.run([*run, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"rescntk {rk.__version__}"
    wrong = subprocess.run([*run, "compare", "--depths", "1,x"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "'1,x' is not a list of integers separated by commas" in wrong.stderr


def test_data_sets_of_equal_length(tmp_path):
    pytest.importorskip("aeon")
    assert {"JapaneseVowels", "BasicMotions", "GunPoint", "Tecator"} <= set(datasets.bundled())
    assert datasets.load("JapaneseVowels").shape == (270, 12, 25)
    assert datasets.load("JapaneseVowels", "test").shape == (370, 12, 25)
    assert datasets.load_labelled("Covid3Month")[1].dtype == np.float64
    assert datasets.load("PickupGestureWiimoteZ").ndim == 3
    with pytest.raises(ValueError, match="data is 'Vowels', expected one of"):
        datasets.load("Vowels")
    with pytest.raises(ValueError, match="split is 'all', expected one of"):
        datasets.load("GunPoint", "all")
    bad, header = tmp_path / "bad.ts", "@problemName bad\n@classLabel false\n"
    for text in ("", "1,2,3:a\n4,5,6:b\n", f"{header}1,2,3\n@data\n4,5,6\n"):
        bad.write_text(text)
        with pytest.raises(ValueError, match=r"bad\.ts .*: no line @data before signals, expected"):
            datasets.read(bad)
    bad.write_text(f"{header}@data\n1,2,3\n4,5,6\n")
    X, y = datasets.read_labelled(bad)
    assert X.shape == (2, 1, 3) and y is None


def test_tecator_needs_no_other_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    arrays = [*datasets.load_labelled("Tecator"), *datasets.load_labelled("Tecator", "test")]
    assert [a.shape for a in arrays] == [(172, 1, 100), (172,), (43, 1, 100), (43,)]
    assert zlib.crc32(b"".join(a.tobytes() for a in arrays)) == 1601897762


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
    assert run("gram X.ts -o K.npy --depth 2") == 0
    assert (np.load("K.npy") == rk.ResCNTK(2)(X)).all()
    assert json.loads(Path("K.json").read_text())["X"]["shape"] == [3, 2, [3, 5, 4]]
    stored = pytest.importorskip("rescntk.stored")
    assert run("gram X.ts -o K.zarr --depth 2") == 0
    assert (stored.open("K.zarr").ntk[:] == rk.ResCNTK(2)(X, dtype="float32")).all()
    assert run("compare X.ts --head gap --depths 1,2") == 0
    assert "X.ts: 3 signals, 2 channels, 3 to 5 time steps" in capsys.readouterr().out
    assert run("limits X.ts") == 2
    assert "X.ts has signals of 3 to 5 timepoints, expected" in capsys.readouterr().err
    assert run("compare X.ts --depths 1 --overwrite") == 2
    assert "head is 'trace', which takes signals of one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("aeon.datasets", "compare", "datasets"),
        ("pandas", "gram X.csv -o K.npy", "datasets"),
        ("matplotlib.backends.backend_agg", "compare X.npy", "plot"),
    ],
)
def test_a_missing_extra_is_one_line(module, command, extra, signals, monkeypatch, capsys):
    Path("X.csv").write_text("1,2\n3,5\n")
    monkeypatch.setitem(sys.modules, module, None)
    assert run(command) == 2
    assert f"pip install 'rescntk[{extra}]'" in capsys.readouterr().err
