"""The engines that tests run on, designs of parameters, and Python in a process of its own."""

import inspect
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product

import hypothesis
import numpy as np
import pytest

import rescntk as rk
from rescntk.checks import values as validation
from rescntk.network.activations import ACTIVATIONS
from rescntk.network.parameters import parameter

HEADS = (*validation.HEADS, 3)
"""Heads by name, and pools of three pixels: of many tests' signals, more than half."""

NOT_HOMOGENEOUS = [name for name, kind in ACTIVATIONS.items() if not kind.homogeneous]
"""Activations whose kernels depend on the sizes of signals."""
LINEAR_AT_0 = [name for name, kind in ACTIVATIONS.items() if kind.linear_below is not None]

STATES = rk.engines.available()
CPU = [name for name in ("array", "cpu") if STATES[name] is True]
GPU = (pytest.mark.gpu, pytest.mark.skipif(STATES["cuda"] is not True, reason=str(STATES["cuda"])))
needs_cpu = pytest.mark.skipif(STATES["cpu"] is not True, reason=str(STATES["cpu"]))
ENGINES = [*CPU, pytest.param("cuda", marks=GPU)]
GROUPS = [pytest.param(CPU, id="cpu"), pytest.param(["cuda"], id="cuda", marks=GPU)]
"""Engines in groups, for tests that compare all of a group with one slow oracle."""

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
SUBJECTS = [*ENGINES, pytest.param("jax", marks=needs_jax)]
"""All that computes kernels: the engines, and the functions of `rescntk.jax` (`gram_of`)."""


@dataclass(frozen=True)
class Wider(rk.Network):
    """A network with one more number of each layer."""

    made_up: float | tuple[float, ...] = parameter(
        validation.check_nonnegative, 0.0, per_layer=True
    )


def gram_of(engine, network, X, Z=None, **options):
    """Return `rk.gram` of an engine, or of "jax" what `rk.jax.gram` returns, in float64."""
    if engine != "jax":
        return rk.gram(network, X, Z, engine=engine, **options)
    import jax

    with jax.enable_x64(True):
        kernels = rk.jax.gram(network, X, Z, **options)
        return type(kernels)(*map(np.asarray, kernels))


def kernel_of(engine, kernel, X, Z=None):
    """Return the matrix of a `Kernel` as `gram_of` has it."""
    options = {"head": kernel.head, "kinds": kernel.kind, "normalized": kernel.normalized}
    return gram_of(engine, kernel.network, X, Z, **options)[0]


def takes(engine, network):
    """Return True if the engine takes the network: JAX and compiled engines take ReLU alone."""
    return engine == "array" or network.activation == "relu"


def skip_unless_taken(engine, network):
    """Skip the test, or hypothesis' example, if the engine does not take the network."""
    if hypothesis.currently_in_test_context():
        hypothesis.assume(takes(engine, network))
    elif not takes(engine, network):
        pytest.skip(f"the engine {engine} does not take {network.activation}")


def rarely(*values):
    """Return values of a parameter for slow tests alone."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def nightly(*values):
    """Return values of a parameter for the tests of each night, which `make test` leaves out."""
    return [pytest.param(value, marks=[pytest.mark.slow, pytest.mark.nightly]) for value in values]


def pairs_meet(first, second, third):
    """Return triples in which any two values meet; `third` is no longer than the others."""
    of = product(enumerate(first), enumerate(second))
    return [(a, b, third[(i + j) % len(third)]) for (i, a), (j, b) in of]


def assert_within(found, expected, tolerance, unit=None):
    """Assert that arrays of one shape differ by `tolerance` at most, in a unit: the largest number.

    One number stands for all of an array's shape. NaN differs.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape or not expected.shape
    error = np.max(np.abs(found - expected) / (np.abs(expected).max() if unit is None else unit))
    assert error <= tolerance, f"an error of {error:.3g}, expected at most {tolerance:.3g}"


def run(code, **environment):
    """Return the output of Python code in a process with some environment variables."""
    command, env = [sys.executable, "-c", code], os.environ | environment
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


def parameters_of(value):
    """Return the parameters of a call by name; warnings take what they are given, and have none."""
    is_warning = isinstance(value, type) and issubclass(value, Warning)
    return {} if is_warning else dict(inspect.signature(value).parameters)
