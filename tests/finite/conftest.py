"""Finite networks of the tests are tiny: compiling them costs more than running them."""

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def compile_quickly():
    """Switch most of XLA's optimizations off, which halves the time of the tests."""
    if find_spec("jax") is None:
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
