"""The Makefile's targets run the commands that they promise."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import conftest as root_conftest
import rescntk as rk

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make")


def dry_run(*arguments):
    """Return the commands that make would run."""
    make = ["make", "--no-print-directory", "--dry-run", *arguments]
    run = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def commands(*arguments):
    """Return the commands that `make target` would run in an environment that is up to date."""
    return dry_run("-o", ".venv/test.stamp", *arguments)


LINT = [".venv/bin/ruff check", ".venv/bin/ruff format --check", ".venv/bin/mypy"]
PYTEST = ".venv/bin/python -m pytest -n auto --dist worksteal --durations=15"


def test_check_is_linters_types_and_fast_tests():
    assert commands("check") == [*LINT, f"{PYTEST} -m 'not slow'"]


def test_test_is_everything():
    """The loops of "numba" are compiled beside the linters."""
    beside, *first, last = commands("test")
    assert re.fullmatch(r"\S*make .*--jobs 3 lint compile-float32 compile-float64", beside)
    assert [*first[:3], last] == [*LINT, f"{PYTEST} --complete"]
    assert [re.search(r'dtype="(\w+)"', line)[1] for line in first[3:]] == ["float32", "float64"]


def test_a_flag_that_xla_lacks_is_not_given():
    """XLA would end each process that computes with JAX."""
    pytest.importorskip("jax")
    assert root_conftest.xla_takes("")
    assert not root_conftest.xla_takes("--xla_flag_of_another_version=1")


@pytest.mark.parametrize(
    ("stamp", "installed"),
    [
        ("demo", ["plot,datasets"]),
        ("test", ["all"]),
        ("look", ["all", "look"]),
        ("cuda13", ["all", "cuda13"]),
        ("jax-cuda13", ["all", "cuda13", "jax-cuda13"]),
    ],
)
def test_environments_have_the_extras_of_their_targets(stamp, installed):
    """As in a fresh clone: pyproject.toml counts as newer than what is installed."""
    run = "\n".join(dry_run("-W", "pyproject.toml", f".venv/{stamp}.stamp"))
    assert re.findall(r"--editable '(.*)'", run) == [f".[{extras}]" for extras in installed]
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["optional-dependencies"].keys() >= set(",".join(installed).split(","))


def test_gpu_tests_without_a_gpu_fail_in_one_line():
    """Skipping all of them would look like success."""
    state = rk.engines.available()["cuda"]
    if state is True:
        pytest.skip("there is a GPU")
    python = Path(sys.executable).parent
    # Neither the environment's stamp nor anything on its account is to be made.
    command = ["make", "--no-print-directory", "-o", ".venv/cuda13.stamp", "test-gpu"]
    run = subprocess.run(
        [*command, f"BIN={python}"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert run.returncode != 0 and run.stdout == ""
    # make itself says that it failed, as "make" or, within another one, as "make[1]".
    said = [line for line in run.stderr.splitlines() if "***" not in line]
    assert said == [f"make test-gpu: {state}"]


def test_gpu_targets_install_nothing_where_a_python_is_given():
    for target in ("test-gpu", "benchmark-gpu"):
        lines = commands(target, "BIN=/given")
        assert lines and all(line.startswith("/given/python ") for line in lines)
        assert not any("pip" in line for line in lines)


def test_gpu_tests_are_where_make_looks_for_them():
    *_, pytest_gpu = commands("test-gpu", "BIN=/given")
    places = tuple(word for word in pytest_gpu.split() if word.startswith("tests/"))
    marked = re.compile(r"mark\.gpu|engine_names import .*(ENGINES|GROUPS)")
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if marked.search(path.read_text())
    ]
    names = [path.relative_to(ROOT).as_posix() for path in files if path != Path(__file__)]
    assert len(names) > 5 and all(name.startswith(places) for name in names)
