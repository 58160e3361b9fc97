"""The package builds, installs by itself, and runs the README's examples; so does make demo."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import rescntk as rk
from tests.project.pages import ROOT, blocks

pytestmark = pytest.mark.slow

pytest.importorskip("build.__main__")


def run(*command, folder, **environment):
    """Run a command in a folder without this process's paths, and return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The sdist, and the wheel built from it, without network."""
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rescntk", source / "rescntk", ignore=ignore)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    run(*build, folder=source)
    (sdist,), (wheel,) = (source / "dist").glob("*.tar.gz"), (source / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def python(distributions, tmp_path_factory):
    """The Python of an environment with the wheel; other packages are this environment's."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", distributions[1]]
    run(sys.executable, "-m", "pip", "--python", python, *install, folder=folder)
    # A folder named in a .pth file is searched. Its own .pth files are not read: an editable
    # rescntk stays out.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def package_files():
    """Return the files that belong into the package, by their names in the repository."""
    paths = [path for path in (ROOT / "rescntk").rglob("*") if path.is_file()]
    written = {path for path in paths if path.parent.name != "__pycache__"}
    return {path.relative_to(ROOT).as_posix() for path in written}


def test_wheel_and_sdist_hold_every_file_of_the_package(distributions):
    sdist, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == package_files()
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert package_files() <= names
    assert {"README.md", "LICENSE", "pyproject.toml"} <= names
    assert not any(name.startswith("tests") for name in names), "with a part of the tests"


def test_the_wheel_is_what_is_imported(python):
    place = run(python, "-c", "import rescntk; print(rescntk.__file__)", folder=python.parent)
    assert Path(place.strip()).is_relative_to(python.parents[1])


def test_the_citation_names_the_version():
    assert f"\nversion: {rk.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_command_is_installed(python, tmp_path):
    assert "gram" in run(python.with_name("rescntk"), "--help", folder=tmp_path)


def test_readme_runs(python, tmp_path):
    """The classifier makes one pass. It runs without numba, which would compile anew."""
    for package in ("aeon", "sklearn", "zarr", "distributed"):
        pytest.importorskip(package)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = "".join(block.code for block in blocks(text) if block.runs)
    (tmp_path / "readme.py").write_text(code.replace('effort="fast"', "effort=0.1"))
    quick = {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1"}
    run(python, "readme.py", folder=tmp_path, **quick)


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
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
def test_make_installs_the_extras_of_its_targets(stamp, installed):
    """As in a fresh clone: pyproject.toml counts as newer than what is installed."""
    make = ["make", "--dry-run", "-W", "pyproject.toml", f".venv/{stamp}.stamp"]
    commands = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"--editable '(.*)'", commands) == [f".[{extras}]" for extras in installed]
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["optional-dependencies"].keys() >= set(",".join(installed).split(","))
