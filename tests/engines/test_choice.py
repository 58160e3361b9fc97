"""The choice of an engine: "auto", engines that cannot serve, and the reasons they give."""

from dataclasses import replace

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.arrays import SignalList
from rescntk.engines.cpu import library
from rescntk.engines.protocol import Request
from rescntk.validation import KINDS
from tests.engine_names import needs_cpu

NETWORK = rk.Network(2)
REQUEST = Request(NETWORK, "gap", KINDS, (2,))
X = np.ones((2, 1, 3))
ERF = NETWORK.replace(activation="erf")


@needs_cpu
@pytest.mark.parametrize("signals", [X, SignalList([X[0], X[0, :, :2]])])
def test_auto_takes_the_fastest_engine_that_can_serve(signals):
    assert engines.choose("auto", REQUEST, signals).name == "cpu"
    erf = replace(REQUEST, network=ERF)
    assert engines.choose("auto", erf, signals).name == "reference"


@needs_cpu
def test_cpu_refuses_erf_with_a_reason():
    for call in (
        lambda: rk.gram(ERF, X, engine="cpu"),
        lambda: rk.Kernel(ERF, "ntk", "gap").diag(X, engine="cpu"),
        lambda: rk.pixel_pairs(ERF, X, engine="cpu"),
    ):
        with pytest.raises(ValueError, match=r"^engine='cpu' cannot compute this call") as refusal:
            call()
        reason, serving = str(refusal.value).split("; engines that can: ")
        assert reason.endswith("it supports only activation='relu' (got 'erf')")
        assert "'reference'" in serving and "'cpu'" not in serving


def test_cuda_refuses_lists_with_a_reason():
    with pytest.raises(ValueError, match="signals of one length, and these have different lengths"):
        rk.gram(NETWORK, [X[0], X[0, :, :2]], engine="cuda")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder, where compiled loops are looked for."""
    monkeypatch.setattr(library, "HERE", tmp_path)
    library.library.cache_clear()
    yield tmp_path
    library.library.cache_clear()


def refused():
    """Return why there are no compiled loops, after asking in all ways; "auto" serves."""
    reason = engines.available()["cpu"]
    assert engines.choose("auto", REQUEST, X).name == "reference"
    with pytest.raises(ValueError, match="^engine='cpu' cannot") as refusal:
        rk.ResCGPK(2)(X, engine="cpu")
    assert f": {reason}; engines that can: 'reference'" in str(refusal.value)
    assert rk.ResCGPK(2)(X).shape == (2, 2)
    assert reason.count("\n") == 0
    return reason


def test_without_a_library(folder):
    assert "they were never compiled; to compile: python -m rescntk.engines.cpu.build" in refused()
    (folder / "missing.txt").write_text("no C++ compiler was found\n")
    library.library.cache_clear()
    assert "there are no compiled loops: no C++ compiler was found; to compile" in refused()


def test_a_damaged_library(folder):
    (folder / "loops-2.so").write_bytes(b"no library")
    assert refused().startswith("the compiled loops do not load: ")


@needs_cpu
def test_a_library_of_other_sources(monkeypatch):
    library.library.cache_clear()
    monkeypatch.setattr(library.build, "digest", lambda: "other")
    try:
        assert "the compiled loops are not of loops.cpp beside them" in refused()
    finally:
        library.library.cache_clear()


@needs_cpu
@pytest.mark.parametrize(
    ("level", "says"), [("7", "there is no level 7, which RESCNTK_ISA asks for"), ("x", "level x")]
)
def test_levels_that_there_are_not(level, says, monkeypatch):
    library.library.cache_clear()
    monkeypatch.setenv("RESCNTK_ISA", level)
    try:
        assert says in refused()
    finally:
        library.library.cache_clear()
