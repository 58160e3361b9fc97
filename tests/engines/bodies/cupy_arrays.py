"""CuPy in, CuPy out: the same results as for NumPy's arrays, on a device or its stand-in."""

import numpy as np

import rescntk as rk
from tests import tolerances


def to_numpy(cupy, array):
    assert isinstance(array, cupy.ndarray)
    return array._array if hasattr(array, "_array") else cupy.asnumpy(array)


RELU = rk.Network(4, 3)
ERF = rk.Network(3, 9, input_filter_size=3, activation="erf", trained=("input", "readout"))
NETWORKS = (
    RELU,
    rk.Network(3, 5, skip=False, outer_filter_size=1, trained=("inner",)),
    ERF,
    rk.Network(40, 3, alpha=1.3),
)


def same_values_dtypes_and_shapes(place, network, head, dtype, rng):
    cupy, engine = place
    X, Z = rng.standard_normal((5, 2, 6)), rng.standard_normal((3, 2, 6))
    X[1] = X[0]
    X[2, :, 3:] = 0
    X1, Z1 = cupy.asarray(X), cupy.asarray(Z)
    bar = tolerances.KERNEL[dtype]
    for normalized in (False, True):
        options = {"head": head, "normalized": normalized, "dtype": dtype}
        for arguments, own in (((X1, Z1), (X, Z)), ((X1,), (X,))):
            depths = (1, network.depth)
            computed = rk.gram(network, *arguments, depths=depths, engine=engine, **options)
            expected = rk.gram(network, *own, depths=depths, **options)
            for A, B in zip(computed, expected, strict=True):
                A = to_numpy(cupy, A)
                assert A.dtype == B.dtype and A.shape == B.shape
                assert np.abs(A - B).max() <= bar * np.abs(B).max()
        kernel = rk.Kernel(network, "ntk", head, normalized)
        diagonal = to_numpy(cupy, kernel.diag(X1, dtype=dtype, engine=engine))
        assert np.abs(diagonal - kernel.diag(X, dtype=dtype)).max() <= bar * diagonal.max()


def pixel_pairs(place, rng):
    cupy, engine = place
    X = rng.standard_normal((3, 2, 5))
    P = to_numpy(cupy, rk.pixel_pairs(RELU, cupy.asarray(X), engine=engine))
    expected = rk.pixel_pairs(RELU, X)
    assert np.abs(P - expected).max() <= tolerances.KERNEL["float64"] * expected.max()
