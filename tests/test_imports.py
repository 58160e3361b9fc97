"""Each part of the library is imported when it is used, or says what to install; progress bars."""

import io
import json
import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import rescntk as rk
from conftest import OPTIONAL
from rescntk.kernels.progress import progress_bar
from tests.helpers import run
from tests.project.pages import ROOT

KERNEL = rk.ResCNTK(depth=2)
X = np.random.default_rng(1).standard_normal((5, 2, 9))


def test_nothing_is_imported_or_compiled_before_it_is_used():
    """Parts of the theory neither; they are attributes all the same."""
    code = (
        "import json, sys, rescntk as rk; rk.ResCNTK(2)([[[1.0]]])\n"
        "heavy = 'cupy', 'matplotlib', 'aeon', 'sklearn', 'tqdm', 'jax', 'dask'\n"
        "rooms = [m for m in sys.modules if m in heavy or m.startswith('rescntk.theory.')]\n"
        "parts = all(getattr(rk.theory, name) for name in rk.theory.__all__)\n"
        "try: rk.theory.nothing\n"
        "except AttributeError as error: print(json.dumps([rooms, parts, str(error)]))"
    )
    assert json.loads(run(code)) == [[], True, "module 'rescntk.theory' has no attribute 'nothing'"]


@pytest.mark.parametrize(
    ("room", "missing", "says"),
    [
        ("stored", "zarr", "pip install 'rescntk[stored]'"),
        ("learn", "sklearn", "pip install 'rescntk[learn]'"),
        ("finite", "jax", "pip install 'rescntk[finite]'"),
        ("jax", "jax", "pip install 'rescntk[jax]'"),
        ("nothing", "numpy.nothing", "module 'rescntk' has no attribute"),
    ],
)
def test_a_room_whose_extra_is_missing_names_it(room, missing, says, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(f"rescntk.{room}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    page = (ROOT / "docs/guide/install.md").read_text("utf-8")
    for error, call in (
        (AttributeError, lambda: rk.__getattr__(room)),
        (ImportError, lambda: import_module(f"rescntk.{room}")),
    ):
        with pytest.raises(error) as refusal:
            call()
        assert says in str(refusal.value) or (room == "nothing" and error is ImportError)
        assert f"`{error.__name__}`" in page  # which says when each is raised


@pytest.mark.slow
def test_tests_are_collected_without_optional_packages():
    """Modules and tests that need them are left out, or skip themselves."""
    missing = [name for name in OPTIONAL if name != "sphinx"]  # SciPy looks for it by itself
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); import pytest\n"
        f"sys.exit(pytest.main(['-q', '--collect-only', '-p', 'no:cacheprovider']))"
    )
    command, plugins = [sys.executable, "-c", code], {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = os.environ | plugins  # some import JAX
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_a_bar_counts_every_pair(capsys):
    pytest.importorskip("tqdm")
    for call, counted in (
        (lambda: KERNEL(X, progress=True), "15.0/15.0"),  # half of the pairs
        (lambda: KERNEL(X, X[:2], progress=True), "10.0/10.0"),
        (lambda: KERNEL.diag(X, progress=True), "5.00/5.00"),
        (lambda: KERNEL.paired(X, X[::-1], progress=True), "5.00/5.00"),
        (lambda: KERNEL([*X, X[0, :, :4]], progress=True), "21.0/21.0"),
    ):
        call()
        assert counted in capsys.readouterr().err.splitlines()[-1]
    with progress_bar(True, 10) as tick:  # units that are done twice
        tick(7), tick(7)
    assert "10.0/10.0" in capsys.readouterr().err.splitlines()[-1]
    KERNEL(X)
    assert capsys.readouterr().err == ""


class Unwritable(io.StringIO):
    def write(self, text):
        raise OSError("Bad file descriptor")


@pytest.mark.parametrize("change", [None, "close", Unwritable()])
def test_without_stderr_there_is_no_bar(change, monkeypatch):
    """As under cron, in services and in programs of Windows without a console."""
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", io.StringIO() if change == "close" else change)
    if change == "close":
        sys.stderr.close()
    assert KERNEL(X, progress=True).shape == (5, 5)


def test_without_tqdm_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="progress=True needs tqdm: pip install tqdm"):
        KERNEL(X, progress=True)
