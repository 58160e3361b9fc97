"""Refusals of signals by estimators and transformers: each says what to do."""

import numpy as np
import pytest

from rescntk.learn import KernelMatrix, ResidualKernelClassifier, SignalKernel, SignalScaler
from tests.learn.cases import ONE

MODELS = [ResidualKernelClassifier(**ONE), KernelMatrix(SignalKernel(1)), SignalScaler()]
RESIZED = r"scipy\.signal\.resample.*aeon's .*Resizer.*sktime's TSInterpolator"
FILLED = r"numpy\.interp.*aeon's .*SimpleImputer.*sktime's Imputer"


@pytest.fixture(params=MODELS, ids=lambda m: type(m).__name__)
def model(request):
    return request.param


@pytest.fixture
def X(rng):
    return rng.standard_normal((8, 2, 12))


y = np.arange(8) % 2


class Tensor:
    """An array of another library, such as a tensor of torch."""

    def __init__(self, values, refusal=None):
        self.values, self.refusal = np.asarray(values), refusal
        self.ndim, self.shape, self.dtype = values.ndim, values.shape, values.dtype

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        if self.refusal:
            raise self.refusal
        return self.values if dtype is None else self.values.astype(dtype)


def use(model, X):
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


def refuse(model, X, message, fitting=True, using=True):
    """Check that a fit, and a fitted model, refuse signals."""
    for attempt in [lambda: model.fit(X, y)] * fitting + [lambda: use(model, X)] * using:
        with pytest.raises(ValueError, match=message):
            attempt()


def held(cases):
    """Return an array of arrays."""
    array = np.empty(len(cases), dtype=object)
    array[:] = list(cases)
    return array


@pytest.mark.parametrize("axes", [2, 3])
def test_missing_values(axes, model, X):
    good = X if axes == 3 else X[:, 0]
    model.fit(good, y)
    for bad in (np.nan, np.inf, None):
        broken = good.astype(float if bad else object)
        broken[5, ..., 7] = bad
        refuse(model, broken, rf"\(first in case 5\).*{FILLED}")
    if axes == 3:
        refuse(model, broken.tolist(), rf"first in case 5\).*{FILLED}")


@pytest.mark.parametrize("axes", [2, 3])
def test_masked_arrays_are_refused(axes, model, X):
    good = X if axes == 3 else X[:, 0]
    masked = np.ma.masked_array(good, good > 1)
    model.fit(good, y)
    for case in (masked, np.ma.masked_array(good), list(masked), held(masked)):
        refuse(model, case, rf"^X is a masked array, .*{FILLED}")
    if hasattr(model, "predict"):
        with pytest.raises(ValueError, match=r"^y is a masked array, .*y\.filled"):
            model.fit(good, np.ma.masked_array(y, y == 1))


def test_tables_of_whole_signals(model, X):
    pd = pytest.importorskip("pandas")
    nested = pd.DataFrame({f"c{c}": [pd.Series(case[c]) for case in X] for c in range(2)})
    model.fit(X, y)
    refuse(model, nested, r"^X is a nested table, .*sktime\.datatypes.*np\.arr")
    told = np.array([list(row) for row in nested.values])  # as the message says
    assert (use(model, told) == use(model, X)).all()


def test_other_shapes_than_in_fit(model, X):
    model.fit(X[:, 0], y)
    message = rf"10 features, but .* expecting 12 .*{RESIZED}"
    refuse(model, X[:, 0, :10], message, fitting=False)
    model.fit(X, y)
    for other, said in ((X[:, :, :10], "2 channels × 10"), (X[:, :1], "1 channel × 12")):
        refuse(model, other, rf"{said} .* 2 channels × 12 .*{RESIZED}", fitting=False)
    cases = [X[0, :, :9], *X[1:]]
    channels = np.stack([held(case) for case in cases])
    for other in (cases, [case.tolist() for case in cases], held(cases), channels):
        refuse(model, other, rf"9 to 12 time points.*{RESIZED}", fitting=False)


def test_other_shapes(model, X):
    shapes = r"expected \(n_cases, n_channels, n_timepoints\) or \(n_cases, n_timepoints\)"
    ragged = [[channel.tolist() for channel in case] for case in X]
    ragged[3][1].pop()
    channels = np.stack([held([np.array(channel) for channel in case]) for case in ragged])
    for bad, message in (
        (X[..., None, None].tolist(), rf"X has shape \(8, 2, 12, 1, 1\), {shapes}"),
        ([X[0, 0], *X[1:]], rf"cases of shapes \[\(2, 12\), \(12,\)\], {shapes}"),
        ([X[0, :1], *X[1:]], r"\[1, 2\] channels, expected one number"),
        ([*X[:, None], X[:1, :, :9]], r"images of shapes \(1, 2, 9\) to \(1, 2, 12\), expec"),
        (ragged, rf"unequal length \(first in case 3\).*{RESIZED}"),
        (channels, rf"unequal length \(first in case 3\).*{RESIZED}"),
    ):
        refuse(model, bad, message, using=False)


def test_arrays_of_other_libraries(model, X):
    expected = use(model.fit(X, y), X)
    objects = X.astype(object)
    for same in (Tensor(X), [Tensor(case) for case in X], X.tolist(), objects, held(X)):
        assert (use(model.fit(same, y), same) == expected).all()
    with pytest.raises(ValueError, match=r"Tensor that cannot .* \(needs grad\).*numpy\(\)"):
        model.fit(Tensor(X, RuntimeError("needs grad")), y)
    for odd, said in (("high", "X has dtype <U"), ({}, "cannot be read as an array of numbers")):
        objects[1, 0, 0] = odd
        with pytest.raises(ValueError, match=said):
            model.fit(objects, y)
