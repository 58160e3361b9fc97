"""The command line on streams that are closed, full or in ASCII: files first, an honest status."""

import io
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import progress

X = np.random.default_rng(0).standard_normal((6, 2, 8))
GRAM = "gram X.npy -o K.npy --overwrite --depth 2 --engine reference"
# Such long filters are the reference engine's: each process starts without numba.
COMPARE = "compare X.npy --depths 1,2 --filter-size 2003 --overwrite --out out"
FILES = {GRAM: ["K.json", "K.npy"], COMPARE: ["out"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    return tmp_path


def run(command, redirections="", limits=":", **environment):
    """Return the exit status of a command in a shell, its output in bytes, and new files."""
    before = os.listdir()
    ended = subprocess.run(
        f'{{ ({limits}; "{sys.executable}" -m rescntk {command}); echo $? >&9; }} '
        f"9>status {redirections}",
        shell=True,
        env=os.environ | {"PYTHONUNBUFFERED": ""} | environment,
        capture_output=True,
    )
    status = int(Path("status").read_text())
    made = sorted(set(os.listdir()) - {*before, "status"})
    return status, ended.stdout, ended.stderr.decode(), made


@pytest.fixture
def model(folder):
    """A model whose labels ASCII does not have, and whose processes start without numba."""
    pytest.importorskip("sklearn")
    import joblib

    from rescntk.learn import ResidualKernelClassifier

    y = np.array(["é", "b"] * 3)
    np.save("y.npy", y)
    joblib.dump(ResidualKernelClassifier(effort="fast", engine="reference").fit(X, y), "M.joblib")
    return y


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.slow
def test_what_ascii_lacks_is_written_as_escapes(folder):
    status, out, _, made = run(GRAM, PYTHONIOENCODING="ascii")
    assert (status, out, made) == (0, b"written: K.npy, 6 \\xd7 6 float64\n", FILES[GRAM])
    assert (np.load("K.npy") == rk.ResCNTK(2)(X, engine="reference")).all()
    for environment in ASCII:
        status, out, *_ = run(COMPARE, **environment)
        assert status == 0 and len(out.splitlines()) == 9 and b"\\u03b5" in out
        assert sorted(os.listdir("out")) == ["compare.csv", "compare.png"]
    status, out, *_ = run("compare --help", PYTHONIOENCODING="ascii")
    assert status == 0 and b"[--depths L[,L\\u2026]]" in out


@pytest.mark.slow
def test_labels_that_ascii_lacks(model):
    """An escape on the screen would be another label; the file is UTF-8."""
    status, out, err, made = run("predict M.joblib X.npy", PYTHONIOENCODING="ascii")
    said = (
        r"rescntk: the model has the label '\xe9', expected labels in ascii, the encoding of the "
    )
    assert (status, out, err) == (2, b"", f"{said}screen: -o Y.csv writes utf-8\n")
    command = "predict M.joblib X.npy --labels y.npy -o Y.csv"
    status, out, err, made = run(command, PYTHONIOENCODING="ascii")
    said = b"written: Y.csv, label, probability and novelty of 6 signals\n"
    assert (status, out, err, made) == (0, said, "score 1.000 on 6 signals\n", ["Y.csv"])
    assert Path("Y.csv").read_text(encoding="utf-8").count("\né,") == 3


@pytest.mark.parametrize(
    ("command", "redirections", "unbuffered"),
    [
        (GRAM, ">/dev/full", ""),
        (COMPARE, ">/dev/full", "1"),
        (COMPARE, ">&-", ""),
        ("--version", ">/dev/full", "1"),
        ("--version", ">&-", ""),
    ],
)
def test_a_lost_stdout_is_an_error_after_the_files(command, redirections, unbuffered, folder):
    status, out, err, made = run(command, redirections, PYTHONUNBUFFERED=unbuffered)
    reason = "it is closed" if redirections == ">&-" else "No space left on device"
    says = f"rescntk: standard output cannot be written: {reason}; output files are complete\n"
    assert (status, out, err, made) == (2, b"", says, FILES.get(command, []))


@pytest.mark.slow
def test_a_lost_table_is_an_error(model):
    for redirections in (">&-", "| true"):
        status, out, err, _ = run("predict M.joblib X.npy", redirections)
        assert status == 2 and out == b""
        assert err.startswith("rescntk: standard output cannot be written: ")
    status, *_, err, made = run("predict M.joblib X.npy -o Y.csv --overwrite", ">&-")
    assert (status, made) == (2, ["Y.csv"]) and err.endswith("output files are complete\n")
    assert run(f"{COMPARE} --array X 2>&1", "| head -1")[:2] == (
        2,
        b"rescntk: array is 'X', " + REST,
    )


REST = b"expected None: X.npy is not a .npz file of named arrays\n"


@pytest.mark.parametrize("redirections", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_a_lost_stderr_changes_no_status(redirections, folder):
    status, out, _, made = run(GRAM, redirections)
    assert (status, out, made) == (0, "written: K.npy, 6 × 6 float64\n".encode(), FILES[GRAM])
    for wrong in ("gram no.npy -o N.npy", "gram X.npy -o K.npy", "gram --wrong"):
        assert run(wrong, redirections) == (2, b"", "", [])


def test_a_full_disk_leaves_old_files(folder):
    for command in (GRAM, COMPARE):
        assert run(command)[0] == 0
    old = {path: path.read_bytes() for path in folder.rglob("*.[cjnp]*") if path.is_file()}
    for command, name in ((GRAM, "K.npy"), (COMPARE, "out/compare.png")):
        status, out, err, made = run(command, limits="ulimit -f 0")
        assert (status, out, made) == (2, b"", [])
        assert err == f"rescntk: {folder}/{name} cannot be written: File too large\n"
        assert all(path.read_bytes() == old[path] for path in old)


@pytest.mark.parametrize("name", ["a$b_{$.npy", os.fsdecode(b"\xff.npy")])
def test_names_that_matplotlib_or_utf8_refuse(name, folder):
    """A formula that does not end, and a byte that is no text: `compare` lost its work."""
    from rescntk import __main__ as cli

    np.save(name, X)
    assert cli.main(["compare", name, "--depths", "1,2", "--out", "out"]) == 0
    assert sorted(os.listdir("out")) == ["compare.csv", "compare.png"]


@pytest.mark.slow
def test_interrupted_workers_print_nothing(folder):
    pytest.importorskip("zarr")
    pytest.importorskip("distributed")
    np.save("X.npy", np.random.default_rng(0).standard_normal((400, 2, 100)))
    command = "gram X.npy -o K.zarr --block 20 --depth 50 --engine reference --workers 2"
    job = subprocess.Popen(
        [sys.executable, "-m", "rescntk", *command.split()],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not Path("K.zarr").exists() and job.poll() is None:
        time.sleep(0.1)
    os.killpg(job.pid, signal.SIGINT)  # as a terminal does, to the workers too
    err = job.communicate(timeout=60)[1]  # ends when no worker holds stderr
    assert job.returncode == 130
    assert err == "rescntk: interrupted\n"


class Full(io.StringIO):
    encoding = "ascii"

    def isatty(self):
        return True

    def flush(self):
        raise OSError(28, "No space left on device")


def test_progress_outlives_its_stream(monkeypatch, capsys):
    """Hours of work are not lost for a line about them."""
    monkeypatch.setattr(progress, "_FIRST_PAUSE", 0.0)
    (closed := io.StringIO()).close()
    for broken in (None, Full(), closed):
        monkeypatch.setattr(sys, "stderr", broken)
        rk.ResCNTK(2)(X, progress=True, engine="reference")
        progress.say("2 ± 1")
    if find_spec("tqdm"):  # the bar on a full terminal left no lock to other threads
        from tqdm import tqdm

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(tqdm.get_lock().th_lock.acquire, timeout=5).result()
            pool.submit(tqdm.get_lock().th_lock.release).result()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "stdout", full := Full())
    progress.say("2 ± 1", stream="stdout")
    assert full.getvalue() == "2 \\xb1 1\n"
    with pytest.raises(OSError, match="standard output cannot be written: No space left on dev"):
        progress.show("2 ± 1")
