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


@pytest.mark.parametrize("axes", [2, 3])
def test_missing_values(axes, model, X):
    good = X if axes == 3 else X[:, 0]
    model.fit(good, y)
    for bad in (np.nan, np.inf, None):
        broken = good.astype(float if bad else object)
        broken[5, ..., 7] = bad
        for attempt in (lambda: model.fit(broken, y), lambda: use(model, broken)):
            with pytest.raises(ValueError, match=rf"\(first in case 5\).*{FILLED}"):
                attempt()
    if axes == 3:
        with pytest.raises(ValueError, match=rf"first in case 5\).*{FILLED}"):
            model.fit(broken.tolist(), y)


@pytest.mark.parametrize("axes", [2, 3])
def test_masked_arrays_are_refused(axes, model, X):
    good = X if axes == 3 else X[:, 0]
    masked = np.ma.masked_array(good, good > 1)
    held = np.empty(8, dtype=object)
    held[:] = list(masked)
    model.fit(good, y)
    for case in (masked, np.ma.masked_array(good), list(masked), held):
        for attempt in (lambda case=case: model.fit(case, y), lambda case=case: use(model, case)):
            with pytest.raises(ValueError, match=rf"^X is a masked array, .*{FILLED}"):
                attempt()
    if hasattr(model, "predict"):
        with pytest.raises(ValueError, match=r"^y is a masked array, .*y\.filled"):
            model.fit(good, np.ma.masked_array(y, y == 1))


def test_tables_of_whole_signals(model, X):
    pd = pytest.importorskip("pandas")
    nested = pd.DataFrame({f"c{c}": [pd.Series(case[c]) for case in X] for c in range(2)})
    model.fit(X, y)
    for attempt in (lambda: model.fit(nested, y), lambda: use(model, nested)):
        with pytest.raises(ValueError, match=r"^X is a nested table, .*sktime\.datatypes.*np\.arr"):
            attempt()
    told = np.array([list(row) for row in nested.values])  # as the message says
    assert (use(model, told) == use(model, X)).all()


def test_other_lengths_than_in_fit(model, X):
    model.fit(X[:, 0], y)
    with pytest.raises(ValueError, match=rf"10 features, but .* expecting 12 .*{RESIZED}"):
        use(model, X[:, 0, :10])
    model.fit(X, y)
    with pytest.raises(ValueError, match=rf"2 channels × 10 .* 2 channels × 12 .*{RESIZED}"):
        use(model, X[:, :, :10])
    with pytest.raises(ValueError, match=rf"1 channel × 12 .* 2 channels × 12 .*{RESIZED}"):
        use(model, X[:, :1])


def test_other_lengths_than_one_fitted_length(model, X):
    model.fit(X, y)
    cases = [X[0, :, :9], *X[1:]]
    held = np.empty(8, dtype=object)
    held[:] = cases
    channels = np.empty((8, 2), dtype=object)
    for i, case in enumerate(cases):
        channels[i] = list(case)
    for other in (cases, [case.tolist() for case in cases], held, channels):
        with pytest.raises(ValueError, match=rf"9 to 12 time points.*{RESIZED}"):
            use(model, other)


def test_channels_of_unequal_length(model, X):
    cases = [[channel.tolist() for channel in case] for case in X]
    cases[3][1].pop()
    with pytest.raises(ValueError, match=rf"unequal length \(first in case 3\).*{RESIZED}"):
        model.fit(cases, y)
    held = np.empty((8, 2), dtype=object)
    for i, case in enumerate(cases):
        held[i] = [np.array(channel) for channel in case]
    with pytest.raises(ValueError, match=rf"unequal length \(first in case 3\).*{RESIZED}"):
        model.fit(held, y)


def test_other_shapes(model, X):
    shapes = r"expected \(n_cases, n_channels, n_timepoints\) or \(n_cases, n_timepoints\)"
    with pytest.raises(ValueError, match=rf"X has shape \(8, 2, 12, 1\), {shapes}"):
        model.fit(X[..., None], y)
    with pytest.raises(ValueError, match=rf"X has shape \(8, 2, 12, 1\), {shapes}"):
        model.fit(X[..., None].tolist(), y)
    with pytest.raises(ValueError, match=rf"cases of shapes \[\(2, 12\), \(12,\)\], {shapes}"):
        model.fit([X[0, 0], *X[1:]], y)
    with pytest.raises(ValueError, match=r"\[1, 2\] channels, expected one number"):
        model.fit([X[0, :1], *X[1:]], y)


def test_arrays_of_other_libraries(model, X):
    expected = use(model.fit(X, y), X)
    objects = X.astype(object)
    held = np.empty(8, dtype=object)
    held[:] = list(X)
    for same in (Tensor(X), [Tensor(case) for case in X], X.tolist(), objects, held):
        assert (use(model.fit(same, y), same) == expected).all()
    with pytest.raises(ValueError, match=r"Tensor that cannot .* \(needs grad\).*numpy\(\)"):
        model.fit(Tensor(X, RuntimeError("needs grad")), y)
    for odd, said in (("high", "X has dtype <U"), ({}, "cannot be read as an array of numbers")):
        objects[1, 0, 0] = odd
        with pytest.raises(ValueError, match=said):
            model.fit(objects, y)
