"""The engines that tests run on: the CPU engines, and "cuda" where it can serve."""

import functools

import hypothesis
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.network import unknown_field

STATES = rk.engines.available()
CPU = [name for name in ("reference", "numba") if STATES[name] is True]
GPU = (pytest.mark.gpu, pytest.mark.skipif(STATES["cuda"] is not True, reason=str(STATES["cuda"])))
needs_numba = pytest.mark.skipif(STATES["numba"] is not True, reason=str(STATES["numba"]))
ENGINES = [*CPU, pytest.param("cuda", marks=GPU)]
GROUPS = [pytest.param(CPU, id="cpu"), pytest.param(["cuda"], id="cuda", marks=GPU)]
"""Engines in groups, for tests that compare all of a group with one slow oracle."""


def takes(engine, network):
    """Return True if the engine knows the network's fields; the compiled ones take ReLU."""
    if unknown_field(network, engines.ENGINES[engine].knows):
        return False
    return engine == "reference" or network.activation == "relu"


def skip_unless_taken(engine, network):
    """Skip the test, or hypothesis' example, if the engine does not take the network."""
    if hypothesis.currently_in_test_context():
        hypothesis.assume(takes(engine, network))
    elif not takes(engine, network):
        pytest.skip(f"{engine} does not take {network}")


def where_resolved(test):
    """Leave out examples that the library refuses: erf's terms, of both signs, may cancel in GAP.

    `test_cancelled_means_are_refused` in test_deep_erf.py tests the refusals.
    """

    @functools.wraps(test)
    def resolved(*arguments, **named):
        try:
            test(*arguments, **named)
        except ValueError as error:
            hypothesis.assume("the terms of this signal cancel" not in str(error))
            raise

    return resolved
