"""The wheel, built from the sdist, holds all files, and runs the README's examples by itself."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import rescntk as rk
from tests.project.pages import ROOT, blocks

pytestmark = pytest.mark.slow

pytest.importorskip("build.__main__")

FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")


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
    for name in FILES:
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
    return {path.relative_to(ROOT).as_posix() for path in paths if not is_cached(path)}


def is_cached(path):
    """Return whether Python or numba has written a file."""
    return Path(path).parent.name == "__pycache__"


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
    code = "".join(block.code for block in blocks(text) if block.reason is None)
    (tmp_path / "readme.py").write_text(code.replace('effort="fast"', "effort=0.1"))
    quick = {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1"}
    run(python, "readme.py", folder=tmp_path, **quick)
