"""SignalScaler: each channel standardized over cases and time points."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import SignalScaler


def test_scaler(rng):
    X = np.array([1.0, -5.0])[:, None] + np.array([3.0, 0.01])[:, None] * rng.standard_normal(
        (7, 2, 9)
    )
    scaler = SignalScaler()
    Z = scaler.fit_transform(X)
    np.testing.assert_allclose(Z.mean(axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=(0, 2)), 1)
    np.testing.assert_allclose(scaler.inverse_transform(Z), X)
    assert SignalScaler().fit_transform(X[:, 0]).shape == (7, 9)
    flat = np.full((4, 2, 5), 0.1)
    assert (np.abs(SignalScaler().fit_transform(flat)) < 1e-15).all()
    assert (SignalScaler(with_mean=False, with_std=False).fit_transform(X) == X).all()
