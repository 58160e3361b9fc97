"""Refusals of signals by estimators and transformers: each says what to do."""

import numpy as np
import pytest
from sklearn.base import clone

from rescntk import datasets
from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
)
from rescntk.learn.containers import looks_transposed
from rescntk.learn.missing import complete
from tests import tolerances
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
def test_missing_values_are_refused(axes, model, X):
    good = X if axes == 3 else X[:, 0]
    model.fit(good, y)
    for bad in (np.nan, None):
        broken = good.astype(float if bad else object)
        broken[5, ..., 7], broken[6, ..., 1] = bad, bad
        count = 2 * (axes - 1)
        where = r"NaN \(first in case 5, channel 0, time point 7\)"
        said = rf"^X has {count} missing values, {where}.*missing='interpolate'.*{FILLED}"
        refuse(model, broken, said)
    if axes == 3:
        refuse(model, broken.tolist(), said)
    broken = good.copy()
    broken[5, ..., 7] = np.inf
    refuse(model, broken, r"^X contains infinity \(first in case 5, channel 0, time point 7\)")


def broken_copies(X, rng):
    """Return signals with gaps at both ends and inside, and the signals without the gaps."""
    gaps, filled = X.copy(), X.copy()
    times = np.arange(X.shape[2])
    for case, channel in np.ndindex(X.shape[:2]):
        gone = rng.random(len(times)) < 0.3
        gone[:2], gone[-1], gone[4] = True, True, False
        kept = times[~gone]
        for time in times[gone]:  # by the definition: the nearest values on both sides
            before, after = kept[kept < time], kept[kept > time]
            low, high = before.max(initial=-1), after.min(initial=len(times))
            ends = [x for x, inside in ((low, len(before)), (high, len(after))) if inside]
            weights = [1.0] if len(ends) == 1 else [(high - time), (time - low)]
            filled[case, channel, time] = np.average(X[case, channel, ends], weights=weights)
        gaps[case, channel, gone] = np.nan
    return gaps, filled


@pytest.mark.parametrize("form", ["array", "flat", "list"])
def test_missing_values_are_interpolated(form, model, X, rng):
    gaps, filled = broken_copies(X, rng)
    made = {
        "array": lambda Z: Z,
        "flat": lambda Z: Z[:, 0],
        "list": lambda Z: [z[:, : 9 + i % 3] for i, z in enumerate(Z)],
    }[form]
    model = clone(model).set_params(missing="interpolate")
    given = made(gaps)
    before = [np.array(x) for x in given]
    if form == "list":  # the last value of a shorter signal is extended, not interpolated
        expected = [complete(z[None], "X", "interpolate")[0] for z in given]
    else:
        expected = made(filled)
    assert_close(use(model.fit(given, y), given), use(model.fit(expected, y), expected))
    assert all(np.array_equal(x, z, equal_nan=True) for x, z in zip(given, before, strict=True))
    assert_close(use(model, given), use(model, expected))
    if form != "flat":
        gaps[:, 1] = np.nan
        with pytest.raises(ValueError, match="^X has no value in channel 1 of any case, expected"):
            model.fit(made(gaps), y)
        assert np.isfinite(np.concatenate(use(model, made(gaps)), axis=None)).all()  # levels of fit
    assert model.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="missing is 'drop', expected one of 'refuse', 'inter"):
        model.set_params(missing="drop").fit(X, y)


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerances.ROUTES)


def test_the_level_of_a_dead_channel_follows_weights(X):
    """The same to the last bit: a signal of weight 3 or three times, of weight 0 or not at all."""
    X, times = X * np.arange(1, 9)[:, None, None], np.array([1, 3, 1, 2, 0, 1, 0, 1])
    X[3, 1] = np.nan
    model, many = ResidualKernelClassifier(missing="interpolate", **ONE), np.repeat(range(8), times)
    repeated = clone(model).fit(X[many], y[many])
    model.fit(X, y, sample_weight=times)
    assert (model.channel_levels_ == repeated.channel_levels_).all()
    assert (model.decision_function(X) == repeated.decision_function(X)).all()


@pytest.mark.parametrize("power", [-1040, 0, 1023])
def test_interpolation_of_any_size(power):
    x = np.ldexp([[np.nan, 1.0, np.nan, -1.5, np.nan]], power)
    expected = np.ldexp([[1.0, 1.0, -0.25, -1.5, -1.5]], power)
    assert (complete(x[None], "X", "interpolate")[0] == expected).all()


def test_missing_pixels_are_refused(rng):
    images = rng.standard_normal((8, 1, 5, 5))
    images[2, 0, 3, 4] = np.nan
    model = ResidualKernelClassifier(missing="interpolate")
    said = r"1 missing value, NaN \(first in case 2, channel 0, pixel \(3, 4\)\), expected finite"
    with pytest.raises(ValueError, match=rf"{said} numbers: fill them in first"):
        model.fit(images, y)


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


def test_tables_of_pandas(model, X):
    """Rows of two indices, whole signals in cells, a list of tables: as sktime gives them."""
    pd = pytest.importorskip("pandas")
    expected = use(model.fit(X, y), X)
    nested = pd.DataFrame({f"c{c}": [pd.Series(case[c]) for case in X] for c in range(2)})
    frames = [pd.DataFrame(case.T, columns=["a", "b"]) for case in X]
    names = [f"case {9 - i}" for i in range(8)]  # not in the order of the alphabet
    rows = pd.concat(frames, keys=names)
    backwards = rows.iloc[::-1].loc[names]  # times fall, cases are in order
    assert backwards.index[0] == ("case 9", 11)
    fall = [frame[::-1] for frame in frames]
    for table in (nested, rows, backwards, rows.astype("Float64"), frames, tuple(fall)):
        assert (use(model.fit(table, y), table) == expected).all()
    short = rows.drop(index=[("case 9", 11)])
    lists = [X[0, :, :11], *X[1:]]
    for one, other in zip(use(model.fit(short, y), short), use(model, lists), strict=True):
        assert (one == other).all()
    twice, deep = pd.concat([rows, rows[:1]]), pd.concat([rows], keys=["all"])
    mixed = [frames[0], frames[1][["b", "a"]], *frames[2:]]
    refuse(model, mixed, r"^X\[1\] has the channels b, a, expected the channels of X\[0\]: a, b,")
    refuse(model, twice, r"^X has the row \(case 9, 0\) twice, expected one for a case and time")
    refuse(model, deep, "^X has rows of 3 indices, expected two: case and time")
    texts = rows.astype(object)
    texts.iloc[0, 0] = "high"
    refuse(model, texts, "could not convert string to float: 'high'")
    regressor = ResidualKernelRegressor(**ONE).fit(rows, X[:, 0].sum(axis=1))
    assert regressor.score(rows, y) == regressor.score(X, y)


def test_other_shapes_than_in_fit(model, X):
    model.fit(X[:, 0], y)
    message = rf"10 features, but .* expecting 12 .*{RESIZED}"
    refuse(model, X[:, 0, :10], message, fitting=False)
    model.fit(X, y)
    refuse(model, X[:, :, :10], rf"2 channels × 10 .* 2 channels × 12 .*{RESIZED}", fitting=False)
    refuse(model, X[:, :1], r"1 channel × 12 .* 2 channels × 12 time points$", fitting=False)
    swapped = r"12 channels × 2 .*12 time points; X looks transposed, X\.swapaxes\(1, 2\)"
    refuse(model, X.swapaxes(1, 2), swapped, fitting=False)
    single = r"expected.*a single signal is X\[:1\], not X\[0\]$"
    refuse(model, X[0], single, fitting=False)
    refuse(model, X[0, 0], single)
    cases = [X[0, :, :9], *X[1:]]
    channels = np.stack([held(case) for case in cases])
    for other in (cases, [case.tolist() for case in cases], held(cases), channels):
        said = rf"2 channels × 9 to 12 time points.* a fit on a list .*{RESIZED}"
        refuse(model, other, said, fitting=False)
    model.fit(cases, y)
    refuse(model, X[0], single, fitting=False)
    refuse(model, X[:, :1], "any number of time points$", fitting=False)


def test_transposed_signals(model, rng):
    """A warning for (n_cases, n_timepoints, n_channels), and none for unchanged sets."""
    X = np.cumsum(rng.standard_normal((8, 3, 130)), axis=2)
    expected = r"130 channels × 3 time points and looks transposed.*X\.swapaxes\(1, 2\)"
    with pytest.warns(UserWarning, match=expected) as seen:
        model.fit(X.swapaxes(1, 2), y)
    assert isinstance(model, SignalScaler) or seen[0].filename == __file__
    assert looks_transposed(X[:, :1].swapaxes(1, 2))
    lengths = [X[0].T, X[1, :, :9].T]
    with pytest.raises(ValueError, match=r"\[9, 130\] channels.*\[x\.T for x in X\]"):
        model.fit(lengths, y[:2])
    noise = rng.standard_normal((60, 20, 5))
    assert not any(map(looks_transposed, (X, noise, noise[:, :, :1])))


def test_no_shipped_set_looks_transposed():
    pytest.importorskip("aeon")
    for name in datasets.bundled():
        X = datasets.load(name)
        parts = [X[:, :, :length] for length in (*range(1, 20), None)]
        assert not any(map(looks_transposed, parts)), name
        if X.size > 1000 and name not in ("ACSF1", "CardanoSentiment"):  # these are rough
            assert looks_transposed(X.swapaxes(1, 2)), name


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


def test_nothing_and_texts(model, X):
    refuse(model, [], "X is empty, expected")
    for nothing in (None, 3.0, {"a": X}, np.float64(1.0)):
        refuse(
            model,
            nothing,
            r"X is .*, expected \(n_cases, n_channels, n_timepoints\) or",
            using=False,
        )
    words = r"X has texts \(could not convert string .*'a'\)?\), expected numbers \(n_cases"
    refuse(model, [["a", "b"]] * 8, words, using=False)


def test_targets_and_groups_of_another_kind(X):
    classifier = ResidualKernelClassifier(**ONE)
    for dtype in (object, {}, "float16"):
        with pytest.raises(ValueError, match="^dtype is .*, expected one of 'float64', 'float32'"):
            ResidualKernelClassifier(dtype=dtype).fit(X, y)
    with pytest.raises(ValueError, match="y has labels of kinds int, str, expected one kind"):
        classifier.fit(X, np.array(["a", 1] * 4, object))
    with pytest.raises(ValueError, match="groups has labels of kinds NoneType, str, expected one"):
        classifier.fit(X, y, groups=[None, "a"] * 4)
