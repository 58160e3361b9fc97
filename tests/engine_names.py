"""The engines that tests run on: those of this machine, and the CUDA engine where it can serve."""

import pytest

import rescntk as rk

STATES = rk.engines.available()
CPU = [name for name in ("reference", "numba") if STATES[name] is True]
GPU = (
    pytest.mark.gpu,
    pytest.mark.skipif(STATES["cuda"] is not True, reason=str(STATES["cuda"])),
)
needs_numba = pytest.mark.skipif(STATES["numba"] is not True, reason=str(STATES["numba"]))
ENGINES = [*CPU, pytest.param("cuda", marks=GPU)]
GROUPS = [pytest.param(CPU, id="cpu"), pytest.param(["cuda"], id="cuda", marks=GPU)]
"""Engines in groups, for tests that compare all of a group with one slow oracle."""


def serves(engine: str, network: rk.Network) -> bool:
    """Return whether an engine takes a network: "numba" takes ReLU alone."""
    return engine != "numba" or network.activation == "relu"
