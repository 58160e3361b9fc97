"""The engines that tests run on, designs of parameters, and Python in a process of its own."""

import os
import subprocess
import sys
from itertools import product

import hypothesis
import pytest

import rescntk as rk
from rescntk import validation
from rescntk.activations import ACTIVATIONS

HEADS = (*validation.HEADS, 3)
"""Heads by name, and windows of three pixels: of many tests' signals, more than half."""

NOT_RELU = [name for name in ACTIVATIONS if name != "relu"]

STATES = rk.engines.available()
CPU = [name for name in ("reference", "cpu") if STATES[name] is True]
GPU = (pytest.mark.gpu, pytest.mark.skipif(STATES["cuda"] is not True, reason=str(STATES["cuda"])))
needs_cpu = pytest.mark.skipif(STATES["cpu"] is not True, reason=str(STATES["cpu"]))
ENGINES = [*CPU, pytest.param("cuda", marks=GPU)]
GROUPS = [pytest.param(CPU, id="cpu"), pytest.param(["cuda"], id="cuda", marks=GPU)]
"""Engines in groups, for tests that compare all of a group with one slow oracle."""


def takes(engine, network):
    """Return True if the engine takes the network: compiled engines take ReLU alone."""
    return engine == "reference" or network.activation == "relu"


def skip_unless_taken(engine, network):
    """Skip the test, or hypothesis' example, if the engine does not take the network."""
    if hypothesis.currently_in_test_context():
        hypothesis.assume(takes(engine, network))
    elif not takes(engine, network):
        pytest.skip(f"the engine {engine} does not take {network.activation}")


def rarely(*values):
    """Return values of a parameter for slow tests alone."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def pairs_meet(first, second, third):
    """Return triples in which any two values meet; `third` is no longer than the others."""
    of = product(enumerate(first), enumerate(second))
    return [(a, b, third[(i + j) % len(third)]) for (i, a), (j, b) in of]


def run(code, **environment):
    """Return the output of Python code in a process with some environment variables."""
    command, env = [sys.executable, "-c", code], os.environ | environment
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()
