"""The command line, run as a user runs it."""

import csv
import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk.theory import conditioning, multisphere


@pytest.fixture
def signals(tmp_path, monkeypatch):
    """Signals in a file, for the command compare, which draws them."""
    for needed in ("matplotlib", "tqdm"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    X = multisphere.sample(6, 3, 8, rng=0)
    np.save("X.npy", X)
    return X


def run(command):
    """Return the exit status of a command without spaces in its arguments."""
    return cli.main(command.split())


def is_picture(path):
    content = Path(path).read_bytes()
    return content.startswith(b"\x89PNG") and len(content) > 10_000


@pytest.fixture(scope="module")
def main_job(tmp_path_factory):
    """The README's call: the folder of results, the rows of its table, and what was printed."""
    pytest.importorskip("aeon")
    out = tmp_path_factory.mktemp("main") / "new" / "folder"
    with redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["compare", "--out", str(out)]) == 0
    with open(out / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return SimpleNamespace(out=out, rows=rows, printed=printed.getvalue())


def test_the_main_job_has_a_row_for_each_depth(main_job):
    assert [int(row["depth"]) for row in main_job.rows] == list(cli.DEFAULT_DEPTHS)


def test_default_depths_are_as_the_help_says(capsys):
    """By steps of one, and then of a fifth, in whole numbers."""
    with pytest.raises(SystemExit):
        run("compare --help")
    depths = np.array(cli.DEFAULT_DEPTHS)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"(default: {len(depths)} from {depths[0]} to {depths[-1]})" in printed
    assert (np.diff(depths) >= 1).all() and (depths[:10] == np.arange(1, 11)).all()
    rounding = 1  # of a depth and of the one before, by half each
    assert np.abs(np.diff(depths[9:]) - depths[9:-1] / 5).max() <= rounding


@pytest.mark.parametrize("name", ["cnn", "resnet"])
def test_condition_numbers_of_the_main_job_are_between_their_bounds(name, main_job):
    for row in main_job.rows:
        numbers = ("condition_number", "lower", "upper")
        value, lower, upper = (float(row[f"{name}.{of}"]) for of in numbers)
        assert 1 < lower <= value <= upper


def test_lower_bounds_of_the_main_job_have_the_order_of_the_theorem(main_job):
    for row in main_job.rows:
        assert float(row["cnn.lower"]) > float(row["resnet.lower"])


def test_condition_numbers_of_the_main_job_have_this_order_from_depth_27_on(main_job):
    for row in main_job.rows:
        assert (float(row["ratio"]) > 1) is (int(row["depth"]) >= 27)


def test_the_main_job_prints_its_signals_rows_and_notes(main_job):
    printed = main_job.printed
    assert printed.startswith("JapaneseVowels: 270 signals, 12 channels, 25 time points")
    assert len(printed.splitlines()) == len(main_job.rows) + 7
    assert "inf" not in printed and "upper bounds that are vacuous at every depth" in printed


def test_the_main_job_draws_a_picture(main_job):
    assert is_picture(main_job.out / "compare.png")


def test_compare_options(signals, capsys):
    options = "--depths 1,4 --filter-size 5 --alpha 0.5 --head gap"
    network = rk.Network(1, 5, alpha=0.5)
    table = conditioning.compare(network, signals, (1, 4), kind="gpk", head="gap")
    # Without projection the same signals, doubled at one pixel, give another table.
    signals[:, :, 0] *= 2
    np.save("X.npy", signals)
    for raw in ("", "--raw --overwrite"):
        assert run(f"compare X.npy {options} --out new {raw}") == 0
        assert (str(table).splitlines()[-3] in capsys.readouterr().out) is (raw == "")
    with open("new/compare.csv", newline="") as file:
        assert [float(row["ratio_limit"]) for row in csv.DictReader(file)] == [25.0, 25.0]


def test_images_and_identical_signals(signals, capsys):
    """Condition numbers of identical signals are infinite, and so are the lower bounds."""
    X = np.random.default_rng(0).standard_normal((9, 2, 3, 4))
    np.save("images.npy", X)
    assert run("compare images.npy --depths 1,4 --filter-size 1 --out images") == 0
    printed = capsys.readouterr().out
    assert "images.npy: 9 images, 2 channels, 3 × 4 pixels" in printed
    lines = multisphere.project(X.reshape(9, 2, 12))  # filters of one tap see no neighbours
    options = {"kind": "gpk", "head": "trace"}
    assert str(conditioning.compare(rk.Network(1, 1), lines, (1, 4), **options)) in printed
    for row in conditioning.compare(rk.Network(1), X, (1, 4), **options):
        K = rk.ResCGPK(row.depth, head="trace", normalized=True)(X)
        assert row.resnet.condition_number == conditioning.condition_number(K)
    np.save("two.npy", signals[[0, 0, 1, 2]])
    assert run("compare two.npy --depths 1,2,20 --out two") == 0
    assert " inf " in capsys.readouterr().out and is_picture("two/compare.png")


def test_engines(capsys):
    assert cli.main(["engines"]) == 0
    printed = capsys.readouterr().out
    for name, state in rk.engines.available().items():
        assert f"{name:10s} {'ready' if state is True else state}" in printed


REFUSALS = {
    "compare no.npy": "No such file or directory: 'no.npy'",
    "compare cut.npy": "cut.npy is not a readable .npy file: ",
    "compare X.csv": "SIGNALS is X.csv, expected a .npy file of one array",
    "compare flat.npy": "SIGNALS has shape (6,), expected (",
    "compare X.npy --out taken": "which has compare.csv: --overwrite replaces its files",
    "compare X.npy --out table": "which has compare.csv: --overwrite replaces its files",
    "compare X.npy --out X.csv": "out is X.csv, and X.csv is a file, expected a folder",
    "compare X.npy --out X.csv/new/folder": "X.csv is a file, expected a folder",
    "compare X.npy --out locked/new": "locked is not writable, expected a writable folder",
    "compare text.npy": "text.npy is not a readable .npy file: it has objects, or is of another",
    "compare X.npy --data GunPoint": "both SIGNALS and --data are given",
}


def test_errors_are_one_line_and_exit_status_2(signals, tmp_path, capsys, monkeypatch):
    """And come before the computation."""
    np.save("flat.npy", np.ones(6))
    Path("text.npy").write_text("1,2,3\n")
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    monkeypatch.setattr(cli.conditioning, "compare", None)
    Path("X.csv").write_text("1,2")
    Path("cut.npy").write_bytes(Path("X.npy").read_bytes()[:200])
    for folder, file in (("taken", "compare.png"), ("table", "compare.csv")):
        Path(folder).mkdir()
        Path(folder, file).write_text("mine")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for command, says in REFUSALS.items():
        assert run(command) == 2
        error = capsys.readouterr().err
        assert says in error and error.startswith("rescntk: ") and error.count("\n") == 1
        assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [(KeyboardInterrupt(), 130, "interrupted"), (RuntimeError("two\n  lines"), 2, "two lines")],
)
@pytest.mark.filterwarnings("default:slow")
def test_warnings_and_ends_are_one_line_each(error, status, said, signals, monkeypatch, capsys):
    def compare(*_, **__):
        warnings.warn("slow", stacklevel=1)
        raise error

    monkeypatch.setattr(cli.conditioning, "compare", compare)
    assert run("compare X.npy") == status
    assert capsys.readouterr().err == f"rescntk: warning: slow\nrescntk: {said}\n"


def test_as_a_module(capsys):
    command = [sys.executable, "-m", "rescntk", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"rescntk {rk.__version__}"
    with pytest.raises(SystemExit, match="2"):
        run("compare --depths 1,x")
    assert "'1,x', expected integers and commas" in capsys.readouterr().err


COMPARE = "compare X.npy --depths 1,30 --alpha 0.5 --overwrite"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_outputs_of_any_encoding(encoding, signals, monkeypatch):
    """Characters that an encoding lacks are written in ASCII, and are an error nowhere."""
    network = rk.Network(1, alpha=0.5)
    table = conditioning.compare(network, signals, (1, 30), kind="gpk", head="trace")
    rows = str(table).splitlines()[:5]
    if encoding == "ascii":  # no number is an en dash
        rows = [row.replace("–", "-") for row in rows]
    for command, status, says in (
        (COMPARE, 0, "\n".join(rows)),
        (COMPARE, 0, "vacuous, " + ("ε ≥ 1 − b" if encoding == "utf-8" else "epsilon >= 1 - b")),
        ("compare --help", 0, "separated by commas"),
        ("engines", 0, "array"),
        ("compare β.npy --overwrite", 2, "β.npy" if encoding == "utf-8" else "?.npy"),
    ):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with suppress(SystemExit):  # of --help
            assert run(command) == status
        printed = b""
        for stream in streams:
            stream.flush()
            printed += stream.buffer.getvalue()
        assert says in printed.decode(encoding)


class Unwritable(io.StringIO):
    def write(self, text):
        raise OSError("Bad file descriptor")


@pytest.mark.parametrize("stream", [None, io.StringIO(), Unwritable()])
def test_without_stderr_as_under_cron(stream, signals, monkeypatch):
    """The work is done, its files are written, and errors have their status."""
    if type(stream) is io.StringIO:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert run(COMPARE) == 0 and is_picture("compare.png")
    assert run("compare no.npy") == 2


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("aeon.datasets", "compare", "datasets"),
        ("matplotlib.backends.backend_agg", "compare X.npy", "plot"),
    ],
)
def test_a_missing_extra_is_one_line(module, command, extra, signals, monkeypatch, capsys):
    pytest.importorskip(module)  # as a whole: a part of a package would stay behind
    monkeypatch.setitem(sys.modules, module, None)
    assert run(command) == 2
    assert f"pip install 'rescntk[{extra}]'" in capsys.readouterr().err
