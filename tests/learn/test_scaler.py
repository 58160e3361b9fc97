"""SignalScaler: each channel standardized over cases and time points."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import KernelMatrix, SignalScaler


def test_scaler(rng):
    X = np.array([1.0, -5.0])[:, None] + np.array([3.0, 0.01])[:, None] * rng.standard_normal(
        (7, 2, 9)
    )
    for signals in (X, [x[:, : 9 - i] for i, x in enumerate(X)]):
        scaler = SignalScaler()
        Z = scaler.fit_transform(signals)
        points = np.concatenate(list(Z), axis=1)
        np.testing.assert_allclose(points.mean(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(points.std(axis=1), 1)
        for back, signal in zip(scaler.inverse_transform(Z), signals, strict=True):
            np.testing.assert_allclose(back, signal)
    assert SignalScaler().fit_transform(X[:, 0]).shape == (7, 9)
    flat = np.full((4, 2, 5), 0.1)
    assert (np.abs(SignalScaler().fit_transform(flat)) < 1e-15).all()
    assert (SignalScaler(with_mean=False, with_std=False).fit_transform(X) == X).all()


@pytest.mark.parametrize("power", [-1000, 1020])
def test_numbers_near_the_ends_of_float64(power, rng):
    X = 3 + rng.standard_normal((6, 2, 9))
    X[:, 1] = 2.0
    expected = SignalScaler().fit(X)
    found = SignalScaler().fit(np.ldexp(X, power))
    assert (found.mean_ == np.ldexp(expected.mean_, power)).all()
    assert found.scale_[0] == np.ldexp(expected.scale_[0], power) and found.scale_[1] == 1


def test_columns_have_names(rng):
    pd = pytest.importorskip("pandas")
    X, index = rng.standard_normal((8, 2, 12)), [f"case {i}" for i in range(8)]
    table = pd.DataFrame(X[:, 0], index=index, columns=[f"t{j}" for j in range(12)])
    scaled = SignalScaler().set_output(transform="pandas").fit_transform(table)
    assert list(scaled.columns) == list(table.columns) and list(scaled.index) == index
    np.testing.assert_allclose(scaled, SignalScaler().fit_transform(X[:, 0]), atol=1e-14)
    matrix = KernelMatrix().set_output(transform="pandas")
    K = matrix.fit_transform(table)
    assert list(K.columns) == [f"kernelmatrix{i}" for i in range(8)] and list(K.index) == index
    assert list(matrix.transform(table[:3]).columns) == list(matrix.get_feature_names_out())
    with pytest.raises(ValueError, match="three axes have no columns"):
        SignalScaler().fit(X).get_feature_names_out()
