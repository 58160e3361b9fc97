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
"""Heads by name, and pools of three pixels, which are more than half of many tests' signals."""

NOT_HOMOGENEOUS = [name for name, kind in ACTIVATIONS.items() if not kind.homogeneous]
"""Activations whose kernels depend on the sizes of signals."""
LINEAR_AT_0 = [name for name, kind in ACTIVATIONS.items() if kind.linear_below is not None]

STATES = rk.engines.available()
CPU = [name for name in ("array", "cpu") if STATES[name] is True]
GPU = (pytest.mark.gpu, pytest.mark.skipif(STATES["cuda"] is not True, reason=str(STATES["cuda"])))
needs_cpu = pytest.mark.skipif(STATES["cpu"] is not True, reason=str(STATES["cpu"]))
ENGINES = [*CPU, pytest.param("cuda", marks=GPU)]
GROUPS = [pytest.param(CPU, id="cpu"), pytest.param(["cuda"], id="cuda", marks=GPU)]
"""Groups of engines, for tests that compare all engines of a group with one slow oracle."""

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
IMPLEMENTATIONS = [*ENGINES, pytest.param("jax", marks=needs_jax)]
"""All implementations of kernels: the engines, and the functions of `rescntk.jax` (`gram_of`)."""


@dataclass(frozen=True)
class Wider(rk.Network):
    """A network with one more field, which may differ between layers."""

    made_up: float | tuple[float, ...] = parameter(
        validation.check_nonnegative, 0.0, per_layer=True
    )


def gram_of(engine, network, X, Z=None, **options):
    """Return what `rk.gram` returns for an engine, or `rk.jax.gram` for "jax", in float64."""
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


def supports(engine, network):
    """Return whether an engine supports a network: JAX and compiled engines support only ReLU."""
    return engine == "array" or network.activation == "relu"


def skip_unless_supported(engine, network):
    """Skip the test, or hypothesis' example, if the engine does not support the network."""
    if hypothesis.currently_in_test_context():
        hypothesis.assume(supports(engine, network))
    elif not supports(engine, network):
        pytest.skip(f"the engine {engine} does not support {network.activation}")


def rarely(*values):
    """Return values of a parameter that only slow tests have."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def nightly(*values):
    """Return values of a parameter for the tests of each night, which `make test` leaves out."""
    return [pytest.param(value, marks=[pytest.mark.slow, pytest.mark.nightly]) for value in values]


def pairs_meet(first, second, third):
    """Return triples in which any two values meet; `third` is no longer than the others."""
    pairs = product(enumerate(first), enumerate(second))
    return [(a, b, third[(i + j) % len(third)]) for (i, a), (j, b) in pairs]


def assert_within(found, expected, tolerance, unit=None):
    """Assert that arrays of one shape differ by at most `tolerance`, in a unit.

    By default the unit is the largest number. An expected number stands for an array of it. NaN
    differs.
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
