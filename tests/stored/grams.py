"""Stored Grams that the tests of this folder share, which need zarr and distributed."""

import numpy as np
import pytest

import rescntk as rk

pytest.importorskip("zarr")
distributed = pytest.importorskip("distributed")
from rescntk import stored  # noqa: E402
from rescntk.stored import description, matrix  # noqa: E402, F401

NET = rk.Network(depth=2, filter_size=3)
BLOCK = 8


def signals(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2, 8))


def lists(n):
    """Signals of 4, 5 and 6 time points."""
    return [x[:, : 4 + k % 3] for k, x in enumerate(signals(n))]


def compute(path, X, Z=None, **options):
    return stored.gram(path, NET, X, Z, **{"block": BLOCK, "progress": False, **options})


def assert_same(K, X, Z=None, **options):
    """Every value of every kind has the bits of a call in memory."""
    assert K.complete and K.missing == []
    for kind, values in rk.gram(NET, X, Z, dtype="float32", **options)._asdict().items():
        found = getattr(K, kind)[...]
        assert found.dtype == values.dtype and found.shape == values.shape == K.shape
        assert found.tobytes() == values.tobytes()


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
