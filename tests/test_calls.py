"""Calls: results scaled and normalized piece by piece."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.kernels import call

KERNEL = rk.ResCNTK(depth=3, filter_size=5)
WHOLE = np.random.default_rng(1).integers(-4, 5, (5, 2, 9))
EXPECTED = KERNEL(WHOLE.astype(np.float64))


@pytest.mark.parametrize("piece", [1, 3, 7, 60])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_do_not_depend_on_pieces(piece, dtype, monkeypatch):
    def everything():
        options = {"dtype": dtype, "depths": (3, 1)}
        yield from rk.gram(KERNEL.network, WHOLE, **options)
        yield from rk.gram(KERNEL.network, WHOLE, WHOLE[:3], normalized=True, **options)
        yield rk.pixel_pairs(KERNEL.network, WHOLE, dtype=dtype)

    expected = list(everything())
    monkeypatch.setattr(call, "_PIECE", piece)
    for ours, theirs in zip(everything(), expected, strict=True):
        assert (ours == theirs).all()
