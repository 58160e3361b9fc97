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
def test_engines_refuse_with_a_reason():
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
    with pytest.raises(ValueError, match="signals of one length, and these have different lengths"):
        rk.gram(NETWORK, [X[0], X[0, :, :2]], engine="cuda")


@pytest.fixture(autouse=True)
def forgotten():
    """Which library there is, is asked anew."""
    library.library.cache_clear()
    yield
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


def test_libraries_that_do_not_serve(tmp_path, monkeypatch):
    """None, a damaged one, and one of other sources."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "HERE", tmp_path)
        assert "never compiled; to compile: python -m rescntk.engines.cpu.build" in refused()
        (tmp_path / "missing.txt").write_text("no C++ compiler was found\n")
        library.library.cache_clear()
        assert "there are no compiled loops: no C++ compiler was found; to compile" in refused()
        (tmp_path / "loops-2.so").write_bytes(b"no library")
        library.library.cache_clear()
        assert refused().startswith("the compiled loops do not load: ")
    if engines.available()["cpu"] is True:
        library.library.cache_clear()
        monkeypatch.setattr(library.build, "digest", lambda: "other")
        assert "the compiled loops are not of loops.cpp beside them" in refused()


@needs_cpu
@pytest.mark.parametrize(
    ("level", "says"), [("7", "there is no level 7, which RESCNTK_ISA asks for"), ("x", "level x")]
)
def test_levels_that_there_are_not(level, says, monkeypatch):
    monkeypatch.setenv("RESCNTK_ISA", level)
    assert says in refused()
