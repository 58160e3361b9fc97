"""The package builds, installs and works by itself."""

import json
import os
import re
import runpy
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
from packaging.requirements import Requirement
from packaging.version import Version

import rescntk as rk
from tests.project.pages import ROOT, links

pytestmark = pytest.mark.slow

pytest.importorskip("build.__main__")
yaml = pytest.importorskip("yaml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command, folder):
    """Run a command in a folder without this process's paths, and return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept["CXX"] = "/nowhere/c++"  # the package installs without a compiler, and runs on NumPy
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The sdist, and the wheel built from it, without network and without a compiler."""
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "rescntk", source / "rescntk", ignore=ignore)
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    run(*build, folder=source)
    (sdist,), (wheel,) = (source / "dist").glob("*.tar.gz"), (source / "dist").glob("*.whl")
    return sdist, wheel


def test_wheel_and_sdist_hold_every_file_of_the_package(distributions):
    paths = [path for path in (ROOT / "rescntk").rglob("*") if path.is_file()]
    kept = [path for path in paths if path.parent.name != "__pycache__" and path.suffix != ".so"]
    files = {path.relative_to(ROOT).as_posix() for path in kept if path.name != "missing.txt"}
    sdist, wheel = distributions
    assert wheel.name.endswith("-py3-none-any.whl")
    reason = "rescntk/engines/cpu/missing.txt"
    with zipfile.ZipFile(wheel) as archive:
        assert files | {reason} == {n for n in archive.namelist() if ".dist-info/" not in n}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= files | {"README.md", "LICENSE", "pyproject.toml"}
    assert not any(name.startswith("tests") for name in names), "with a part of the tests"


def test_links_of_the_description_lead_out_of_the_package(distributions):
    """Without the repository's address they are words; with an address all are absolute."""
    text = (ROOT / "README.md").read_text("utf-8")
    description = runpy.run_path(str(ROOT / "setup.py"))["description"]
    for address in (None, "https://example.org/rescntk"):
        found = description(text, address)
        assert all(re.match("https?:|#", target) for target in links(found))
        assert (f"]({address}/raw/main/docs/figures/" in found) is (address is not None)
    with zipfile.ZipFile(distributions[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        head, _, body = archive.read(name).decode("utf-8").partition("\n\n")
    assert body.strip() == description(text, PROJECT.get("urls", {}).get("Repository")).strip()
    assert "\nDescription-Content-Type: text/markdown\n" in head


def test_the_wheel_works_by_itself(distributions, tmp_path):
    """The package and the command are the wheel's. test_pages.py runs the README's examples."""
    venv.create(tmp_path, with_pip=False, symlinks=True)
    python = tmp_path / "bin/python"
    install = ["install", "--quiet", "--no-deps", "--no-index", distributions[1]]
    run(sys.executable, "-m", "pip", "--python", python, *install, folder=tmp_path)
    # Other packages are this environment's: a folder named in a .pth file is searched, but its own
    # .pth files are not read, and an editable rescntk stays out.
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import rescntk; K = rescntk.ResCNTK(2)([[[1, 2, 5]], [[2, 1, 0]]]);"
    code += "print(rescntk.__file__); print(K.shape, rescntk.engines.available()['cpu'])"
    place, printed = run(python, "-c", code, folder=tmp_path).splitlines()
    assert Path(place).is_relative_to(tmp_path) and printed.startswith("(2, 2) ")
    assert "there are no compiled loops: the compiler CXX=/nowhere/c++ was not found" in printed
    assert "compare" in run(python.with_name("rescntk"), "--help", folder=tmp_path)


@pytest.mark.parametrize(
    ("tag", "machine", "expected"),
    [
        ("macosx_10_13_universal2", "aarch64", "macosx_10_13_arm64"),
        ("macosx_10_13_universal2", "x86_64", "macosx_10_13_x86_64"),
        ("linux_aarch64", "aarch64", "linux_aarch64"),
        ("win_amd64", "x86_64", "win_amd64"),
    ],
)
def test_a_wheel_is_of_the_platform_of_its_libraries(tag, machine, expected):
    """Python for macOS is for two processors, and the compiler for one."""
    assert runpy.run_path(str(ROOT / "setup.py"))["platform"](tag, machine) == expected


def constraints(name, python):
    """Return the versions in a file of constraints for a version of Python, by package."""
    lines = (ROOT / "tests/constraints" / f"{name}.txt").read_text().splitlines()
    found = map(Requirement, (line for line in lines if not line.startswith("#")))
    kept = [r for r in found if r.marker is None or r.marker.evaluate({"python_version": python})]
    assert len({r.name for r in kept}) == len(kept)
    return {r.name: Version(str(r.specifier).removeprefix("==")) for r in kept}


def test_supported_versions_are_tested():
    """Lower bounds are the oldest versions of `make test-versions`, classifiers its Pythons."""
    makefile = (ROOT / "Makefile").read_text()
    pythons = re.search(r"^PYTHONS \?= (.*)", makefile, re.M)[1].split()
    installed = re.search(r"constraint.*\n\s*--editable '\.\[(.*)\]'", makefile)[1].split(",")
    extras = PROJECT["optional-dependencies"]
    lists = [PROJECT["dependencies"], *(extras[name] for name in ("cubin", "unit", *installed))]
    required = [Requirement(text) for one in lists for text in one]
    bounds = {r.name: Version(str(r.specifier)[2:]) for r in required if r.name != "rescntk"}
    oldest = constraints("oldest", pythons[0])
    assert bounds == oldest
    for python in pythons:
        newest = constraints("newest", python)
        assert newest.keys() == oldest.keys() and all(newest[n] >= oldest[n] for n in oldest)
    words = "Programming Language :: Python :: "
    listed = [c.removeprefix(words) for c in PROJECT["classifiers"] if c.startswith(f"{words}3.")]
    assert listed == pythons and PROJECT["requires-python"] == f">={pythons[0]}"
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    assert f"python: [{', '.join(map(repr, pythons))}]".replace("'", '"') in workflow


def test_the_formatter_has_one_version():
    """`make lint`, pre-commit and both files of constraints break lines at the same places."""
    (pinned,) = (text for text in PROJECT["optional-dependencies"]["test"] if "ruff" in text)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    (revision,) = (hook["rev"] for hook in hooks if hook["repo"].endswith("/ruff-pre-commit"))
    versions = {constraints(name, "3.11")["ruff"] for name in ("oldest", "newest")}
    assert versions == {Version(revision)} and pinned == f"ruff=={revision.removeprefix('v')}"


def test_what_is_cited_is_this_version():
    """Title and keywords are said in three files, the day of a release in two."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == rk.__version__
    changelog = (ROOT / "docs/project/changelog.md").read_text("utf-8")
    versions = re.findall(r"^## (\d\S*)", changelog, re.M)  # above them, what is unreleased
    assert versions[0] == rk.__version__
    assert str(cited.get("date-released", "not released yet")) in changelog
    deposited = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    assert deposited["title"] == cited["title"]
    assert deposited["keywords"] == cited["keywords"] == PROJECT["keywords"]
    assert deposited["license"] == cited["license"] == PROJECT["license"]


@pytest.mark.parametrize("page", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_reports_are_sent_to_an_address_only_if_there_is_one(page):
    text = " ".join((ROOT / page).read_text("utf-8").split())
    has_address = any("email" in author for author in PROJECT["authors"])
    assert ("The project has no address for reports yet" in text) is not has_address


def test_the_list_of_what_version_1_freezes_is_that_of_the_package():
    """Whoever changes a public name, a parameter or a default sees it there."""
    check = [sys.executable, ROOT / "tools/surface.py", "--check"]
    subprocess.run(check, check=True)
