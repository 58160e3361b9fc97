"""A small computation that tests of stored Grams share, and its values in memory."""

import numpy as np

import rescntk as rk
from rescntk import stored

NET = rk.Network(depth=2, filter_size=3)
BLOCK = 8
OPTIONS = {"block": BLOCK, "engine": "reference", "progress": False}


def signals(n, seed=0, d=8):
    return np.random.default_rng(seed).standard_normal((n, 2, d))


def compute(path, X, Z=None, **changes):
    return stored.gram(path, NET, X, Z, **{**OPTIONS, **changes})


def in_memory(X, Z=None, **options):
    options = {"dtype": "float32", "engine": "reference", **options}
    return rk.gram(NET, X, Z, **options)


def assert_same(K, expected):
    """Every value of every kind is there, bit for bit."""
    assert K.complete and K.missing == []
    for kind, values in expected._asdict().items():
        found = getattr(K, kind)[...]
        assert found.dtype == values.dtype and found.shape == values.shape
        assert found.tobytes() == values.tobytes()
