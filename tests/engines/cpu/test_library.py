"""The compiled library that is loaded, and the reasons that users read if there is none."""

import subprocess

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.checks.values import KINDS
from rescntk.engines.cpu import build, library
from rescntk.engines.request import Request
from tests.helpers import needs_cpu

REQUEST = Request(rk.Network(2), "gap", KINDS, (2,))
X = np.ones((2, 1, 3))


@pytest.fixture(autouse=True)
def forgotten():
    """Look for the compiled library anew, for each test."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()
    if engines.available()["cpu"] is True:
        engines.warn_of_missing.cache_clear()


def reason():
    """Return why there are no compiled loops; "auto" has not warned of it yet."""
    engines.warn_of_missing.cache_clear()
    return engines.available()["cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder in which libraries are looked for."""
    monkeypatch.setattr(library, "HERE", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_auto_warns_at_its_first_call_without_loops():
    why = reason()
    with pytest.warns(UserWarning, match="computed by NumPy, several times slower") as told:
        assert engines.choose("auto", REQUEST, X).name == "array"
    assert str(told[0].message).endswith(why)
    assert rk.ResCGPK(2)(X).shape == (2, 2)


@pytest.mark.usefixtures("folder")
def test_the_engine_array_does_not_warn_of_missing_loops():
    reason()
    assert rk.ResCGPK(2)(X, engine="array").shape == (2, 2)


@pytest.mark.usefixtures("folder")
def test_a_call_that_names_the_engine_is_refused_without_loops():
    why = reason()
    with pytest.raises(ValueError, match="^engine='cpu' cannot") as refusal:
        rk.ResCGPK(2)(X, engine="cpu")
    assert f": {why}; engines that can: 'array'" in str(refusal.value)


@pytest.mark.usefixtures("folder")
def test_loops_that_were_never_compiled_are_told():
    assert "never compiled; to compile: python -m rescntk.engines.cpu.build" in reason()


def test_the_reason_of_a_build_without_a_compiler_is_told(folder):
    (folder / "missing.txt").write_text("no C++ compiler was found\n")
    assert "there are no compiled loops: no C++ compiler was found; to compile" in reason()


def test_a_damaged_library_is_told_in_one_line(folder):
    (folder / "loops-2.so").write_bytes(b"no library")
    assert reason().startswith("the compiled loops do not load: ")
    assert "\n" not in reason()


@needs_cpu
def test_a_library_of_other_sources_is_told(monkeypatch):
    library.library.cache_clear()
    monkeypatch.setattr(build, "digest", lambda: "other")
    assert "the compiled loops are not of loops.cpp beside them" in reason()


LEVEL = "int rescntk_level() { return 2; } "
SOURCES = 'char *rescntk_sources() { return "0"; } '


@needs_cpu
@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("", "rescntk_level"),
        (LEVEL, "rescntk_sources"),
        (LEVEL + SOURCES, "rescntk_vector_bytes"),
        (LEVEL + SOURCES + "int rescntk_vector_bytes() { return 16; }", "rescntk_run_float64"),
    ],
)
def test_a_library_without_a_function_is_told(text, lacks, folder):
    """Another program wrote it, or another version of the sources."""
    (folder / "other.c").write_text(text)
    command = [*build.compiler(), "-xc", "-shared", "-fPIC", folder / "other.c", "-o"]
    subprocess.run([*command, folder / "loops-2.so"], check=True)
    assert f"loops-2.so has no function {lacks}; to compile: python -m" in reason()


@needs_cpu
def test_libraries_of_another_command_are_loaded(monkeypatch):
    """A machine without a compiler loads them too, because only the sources are compared."""
    library.library.cache_clear()
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv("CXXFLAGS", "-DOTHER")
    assert engines.available()["cpu"] is True


@needs_cpu
@pytest.mark.parametrize("level", ["7", "x"])
def test_levels_that_do_not_exist_are_told(level, monkeypatch):
    monkeypatch.setenv("RESCNTK_ISA", level)
    assert f"level {level}" in reason()
