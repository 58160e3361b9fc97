"""Views against plain formulas, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import rescntk as rk
from rescntk.learn import (
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    View,
    ViewTransformer,
)
from rescntk.learn.views.defaults import CLASSIFIER_VIEWS, FAST_VIEWS
from rescntk.learn.views.view import UnsuitableSignals
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import EVERY_STEP, waves
from tests.learn.refits import bordered

PLAIN = View(standardize="channel", length=100, filter_size=3)
PLAIN_SPECTRA = View(spectra=True, standardize="channel")


@pytest.fixture
def X(rng):
    return 3.0 + rng.standard_normal((6, 2, 25)) * [[1.0], [4.0]]


def seen_by(view, X):
    """Return what the network of a view sees of signals, to which it is fitted."""
    return ViewTransformer(view).fit_transform(X)


def standardized(X, axes):
    mean, deviation = (f(X, axis=axes, keepdims=True) for f in (np.mean, np.std))
    return (X - mean) / deviation


def rms(X, axes=(0, 2)):
    return np.sqrt(np.mean(X**2, axis=axes, keepdims=True))


def with_differences(X):
    """Return standardized channels, and their differences with the deviations of channels."""
    S = standardized(X, (0, 2))
    D = np.gradient(S, axis=2)
    return np.concatenate([S, D / D.std(axis=(0, 2), keepdims=True)], axis=1)


def test_differences_are_added_to_channels(X):
    seen = seen_by(View(differences=True, standardize="channel"), X)
    assert_within(seen[:, :4], with_differences(X), tolerances.SEEN)


def test_differences_alone_take_the_place_of_channels(X):
    seen = seen_by(View(differences="only", standardize="channel"), X)
    assert_within(seen[:, :2], with_differences(X)[:, 2:], tolerances.SEEN)


def test_a_constant_channel_has_the_root_mean_square_of_the_others(X):
    seen = seen_by(View(differences=True, standardize="channel"), X)
    assert_within(seen[:, 4], rms(with_differences(X), None).item(), tolerances.SEEN)


def test_channels_of_time_are_points_of_a_half_circle(X):
    """Its radius is `time` times the root of the sum of mean squares, here of four channels."""
    seen = seen_by(View(differences=True, time=0.5, standardize="channel"), X)
    angle, radius = np.pi * np.arange(25) / 25, 0.5 * rms(with_differences(X), None).item() * 2.0
    circle = radius * np.array([np.cos(angle), np.sin(angle)])
    assert_within(seen[:, 5:], np.tile(circle, (6, 1, 1)), tolerances.SEEN)


def parts_of(X, block):
    """Return the blocks of signals, of which the last one may be shorter."""
    return [X[:, :, k : k + block] for k in range(0, X.shape[2], block)]


IN_BLOCKS = pytest.mark.parametrize(("length", "block"), [(25, 4), (23, 3)])
"""Signals in eight blocks at most, of which the last one has one or two points."""


@IN_BLOCKS
def test_blocks_are_means_of_points(length, block, X):
    X = X[:, :, :length]
    means = np.stack([part.mean(axis=2) for part in parts_of(X, block)], axis=2)
    seen = seen_by(View(length=8, standardize="channel"), X)
    assert_within(seen[:, :2], standardized(means, (0, 2)), tolerances.SEEN)


@IN_BLOCKS
def test_statistics_are_means_deviations_minima_and_maxima_of_blocks(length, block, X):
    X, functions = X[:, :, :length], (np.mean, np.std, np.min, np.max)
    stack = [np.stack([f(part, axis=2) for part in parts_of(X, block)], axis=2) for f in functions]
    stack = np.concatenate(stack, axis=1)
    seen = seen_by(View(length=8, statistics=True, standardize="channel"), X)
    assert_within(seen[:, :8], stack / rms(stack), tolerances.SEEN)


def test_blocks_of_two_points_have_statistics(X):
    assert seen_by(View(length=13, statistics=True), X).shape == (6, 2 * 4 + 1, 13)


def test_blocks_of_two_points_have_spectra(X):
    assert seen_by(View(length=13, spectra=True), X).shape == (6, 2 * 3 + 1, 13)


def test_a_whole_spectrum_has_roots_of_magnitudes(X):
    magnitudes = np.abs(np.fft.rfft(standardized(X, 2), axis=2))[:, :, 1:]
    seen = seen_by(View(spectra="whole"), X)
    expected = standardized(np.sqrt(magnitudes), (0, 2))
    assert_within(seen[:, :2], expected, tolerances.SEEN)


def test_short_time_spectra_have_roots_of_magnitudes_in_hann_windows(X):
    """In blocks of four points, but for one unit of all channels."""
    seen, Y = seen_by(View(spectra=True, length=7), X), standardized(X, 2)
    window, n_frequencies = np.hanning(9)[:-1], 5
    spectra = seen[:, : 2 * n_frequencies].reshape(len(X), 2, n_frequencies, -1)
    for x, found in zip(Y[:, 1], spectra[:, 1], strict=True):
        padded = np.concatenate([np.zeros(2), x, np.zeros(20)])
        frames = np.array([padded[4 * k : 4 * k + 8] * window for k in range(7)])
        expected = np.sqrt(np.abs(np.fft.rfft(frames, axis=1))).T
        ratio = found / expected
        assert np.ptp(ratio) <= tolerances.FOURIER * ratio.mean()


def smoothed(X, deviation):
    """Return signals, reflected at their ends, after a Gaussian in the domain of frequencies."""
    spectrum = np.fft.rfft(np.concatenate([X, X[..., ::-1]], axis=2), axis=2)
    frequency = np.fft.rfftfreq(2 * X.shape[2])
    gains = np.exp(-2 * (np.pi * frequency * deviation) ** 2)
    return np.fft.irfft(spectrum * gains, 2 * X.shape[2], axis=2)[..., : X.shape[2]]


def bands_of(X):
    """Return three n_octaves: deviations of 0.7, 1.4 and 2.8 points, at most an eighth of 25."""
    levels = [X, *(smoothed(X, 0.7 * 2**j) for j in range(3))]
    return np.concatenate([levels[j] - levels[j + 1] for j in range(3)], axis=1)


def scaled_bands(X):
    mean, deviation = (f(X, axis=(0, 2), keepdims=True) for f in (np.mean, np.std))
    return (X - mean) / np.maximum(deviation, 0.1 * deviation.max())


def test_blocks_have_means_of_halves_magnitudes_and_signs_of_bands(X):
    """In blocks of four points."""
    B = bands_of(standardized(X, 2))
    unit = B.std(axis=2, keepdims=True)
    kinds = {
        "rectified": [np.maximum(B, 0), np.maximum(-B, 0)],
        "magnitudes": [np.abs(B)],
        "signs": [1.0 * (B > level * unit) for level in (-1, -0.3, 0.3, 1)],
    }
    for kind, parts in kinds.items():
        whole = np.concatenate(parts, axis=1)
        means = [part.mean(axis=2) for part in parts_of(whole, 4)]
        expected = scaled_bands(np.stack(means, axis=2))
        seen = seen_by(View(bands=kind, length=7), X)
        assert_within(seen[:, :-1], expected, tolerances.SEEN)


def test_weak_bands_are_not_magnified(X):
    """Of a smooth wave: the unit of a band is at least a tenth of the largest one."""
    Z = np.cos(np.pi * (np.arange(25) + 0.5) / 25) + 1e-6 * X
    B = np.abs(bands_of(standardized(Z, 2)))
    means = np.stack([part.mean(axis=2) for part in parts_of(B, 4)], axis=2)
    deviation = means.std(axis=(0, 2))
    assert (deviation < 0.09 * deviation.max()).any()
    seen = seen_by(View(bands="magnitudes", length=7), Z)
    unit = 1 / (0.1 * deviation.max())  # of errors of bands, which it magnifies
    assert_within(seen[:, :-1], scaled_bands(means), tolerances.FOURIER, unit)


@pytest.mark.parametrize("kind", ["rectified", "magnitudes"])
def test_energy_of_bands_in_their_units_divides_blocks(kind, X):
    """The unit is a band's root mean square, but at least a tenth of the largest one."""
    X[:, 0] = np.cos(np.pi * (np.arange(25) + 0.5) / 25) + 1e-3 * X[:, 0]
    B = bands_of(X[:1])[0]
    units = np.sqrt(np.mean(B**2, axis=1, keepdims=True))
    assert (units < 0.09 * units.max()).any() and (units > 0.11 * units.max()).sum() > 1
    energy = ((B / np.maximum(units, 0.1 * units.max())) ** 2).sum(axis=0)
    block = np.arange(25) // 4
    expected = np.where(np.arange(7)[:, None] == block, energy, 0.0)
    expected /= expected.sum(axis=1, keepdims=True)
    view = View(bands=kind, standardize="channel", length=7)
    fitted, seen = view.pipeline(X).fit_and_transform(X, np.ones(6))
    assert_within(fitted.to_time(np.eye(seen.shape[2]), X[0]), expected, tolerances.FOURIER)


def test_signs_of_rounding_errors_are_not_seen(rng):
    """A short signal has no coarse bands: what is left of them has one sign."""
    long, short = rng.standard_normal((1, 400)), rng.standard_normal((1, 5))
    long_bands, short_bands = (
        seen[len(seen) // 4 - 1 :: len(seen) // 4][:4]  # the coarsest band of each level
        for seen in seen_by(View(bands="signs", length="all"), [long, short])
    )
    assert (short_bands == long_bands.min(axis=1, keepdims=True)).all()  # above no level


def test_signs_of_a_constant_signal_are_not_seen(rng):
    """Its bands are rounding errors of two transforms."""
    X = rng.standard_normal((20, 1, 97))
    X[10:] = rng.uniform(0.1, 1.0, (10, 1, 1))
    seen = seen_by(View(bands="signs", standardize="channel", length="all"), X)[:, :-1]
    assert (seen[10:] == seen.min(axis=(0, 2))[:, None]).all()  # above no level


def test_spectra_of_noise_are_alike_at_any_length(rng):
    signals = [rng.standard_normal((1, length)) for length in (40, 4000)] * 5
    fitted = ViewTransformer(View(spectra="whole", standardize="channel", length="all")).fit(
        signals
    )
    short, long = (fitted.transform(signals[k : k + 1])[0][0].mean() for k in (0, 1))
    one_deviation = 1
    assert abs(short - long) < one_deviation  # of magnitudes, whose means would be ten apart


def test_weak_bands_of_statistics_are_not_magnified(X):
    """Of a smooth wave: the unit of a band is at least a tenth of the largest of its statistic."""
    Z = np.cos(np.pi * (np.arange(25) + 0.5) / 25) + 1e-6 * X
    B = np.abs(bands_of(standardized(Z, 2)))
    parts = parts_of(B, 4)
    expected, sizes = [], []
    for f in (np.mean, np.std, np.min, np.max):
        statistic = np.stack([f(part, axis=2) for part in parts], axis=2)
        sizes.append(rms(statistic))
        expected.append(statistic / np.maximum(sizes[-1], 0.1 * sizes[-1].max()))
    assert any((size < 0.09 * size.max()).any() for size in sizes)
    seen = seen_by(View(bands="magnitudes", statistics=True, length=7), Z)
    unit = 1 / min(0.1 * size.max() for size in sizes)  # of errors of bands, which it magnifies
    assert_within(seen[:, :-1], np.concatenate(expected, axis=1), tolerances.FOURIER, unit)


def test_local_scales_are_means_and_deviations_in_gaussian_windows(X):
    Y = standardized(X, 2)
    apart = Y - smoothed(Y, 25 / 16)
    local = standardized(apart / (np.sqrt(smoothed(apart**2, 25 / 16)) + 0.1), 2)
    seen = seen_by(View(standardize="local"), X)
    assert_within(seen[:, :2], standardized(local, (0, 2)), tolerances.SEEN)


def test_short_signals_have_fewer_octaves(X):
    assert seen_by(View(bands="magnitudes"), X[:, :, :5]).shape[1] == 2 * 1 + 1


def test_octaves_are_of_the_longest_signal(X):
    ragged = [X[0, :, :5], X[1], X[2, :, :1]]
    shapes = [seen.shape for seen in seen_by(View(bands="magnitudes"), ragged)]
    assert shapes == [(7, 5), (7, 25), (7, 1)]


def test_single_time_points_have_no_bands(X):
    """Rounding errors of their bands are not magnified."""
    *_, point = seen_by(View(bands="magnitudes"), [X[0, :, :5], X[1], X[2, :, :1]])
    large = 10  # deviations, far beyond those of signals
    assert np.abs(point[:-1] - point[:-1].mean()).max() < large


@pytest.mark.parametrize(
    ("n", "length", "points"),
    [
        (20, 500, 500),
        (20, 1200, 400),
        (60, 500, 250),
        (200, 500, 125),
        (300, 500, 63),
        (900, 500, 63),
    ],
)
def test_fine_views_see_more_points_of_fewer_signals(n, length, points, rng):
    """Up to 512, 256, 128 and 64 points, in blocks of equal length."""
    X = rng.standard_normal((n, 1, length))
    assert seen_by(View(length="fine"), X).shape[2] == points
    assert seen_by(View(length="all"), X).shape[2] == length


@pytest.mark.parametrize("view", EVERY_STEP)
def test_two_time_points_are_signals(view, X):
    """They have deviations, differences, bands and spectra."""
    seen = seen_by(view, X[:, :, :2])
    assert np.isfinite(seen).all() and seen.shape[2] in (1, 2)


def test_two_time_points_have_differences(X):
    assert seen_by(View(differences=True), X[:, :, :2]).shape == (6, 5, 2)


def test_short_signals_have_no_statistics(X):
    assert View(statistics=True).pipeline(X) == View().pipeline(X)


@pytest.mark.parametrize("name", ["filter_size", "input_filter_size"])
def test_filters_are_cut_to_the_number_of_points(name, X):
    for points, largest in ((25, 25), (24, 23)):
        long, cut = View(**{name: 31}), View(**{name: largest})
        assert long.pipeline(X[:, :, :points]) == cut.pipeline(X[:, :, :points])


def test_time_points_have_mean_0_and_deviation_1_over_signals(X):
    seen = seen_by(View(differences=True, standardize="point"), X)
    assert_within(seen[:, :4].mean(axis=0), 0, tolerances.SEEN, 1)
    assert_within(seen[:, :4].std(axis=0), 1, tolerances.SEEN)


def test_time_points_that_hardly_vary_stay_smaller(X):
    """Their unit is a tenth of the channel's deviation at least: noise is not magnified."""
    X[:, 0, 3], X[:, 1, 5] = 2.0, 1e-3 * X[:, 1, 5]
    S = standardized(X, (0, 2))
    deviation = S.std(axis=0, keepdims=True)
    unit = np.maximum(deviation, 0.1 * np.sqrt(np.mean(deviation**2, axis=2, keepdims=True)))
    seen = seen_by(View(standardize="point"), X)
    assert_within(seen[:, :2], (S - S.mean(axis=0)) / unit, tolerances.SEEN)


def test_lists_are_arrays_signal_by_signal(X):
    ragged = [x[:, : 25 - k] for k, x in enumerate(X)]
    for view in EVERY_STEP:
        if needs_one_length(view):
            continue
        seen = ViewTransformer(shorter(view, 10)).fit(ragged)
        for found, x in zip(seen.transform(ragged), ragged, strict=True):
            assert_within(found, seen.transform(x[None])[0], tolerances.SEEN)


@pytest.mark.parametrize("power", [-900, -520, 520, 900])
def test_units_of_any_size_are_seen_alike(power, X):
    for view in EVERY_STEP:
        if view.spectra:  # roots: another power changes last bits
            continue
        fitted = ViewTransformer(view).fit(np.ldexp(X, power))
        expected = seen_by(view, X)
        assert_within(fitted.transform(np.ldexp(X, power)), expected, tolerances.SEEN)


def test_values_above_float64_in_units_of_fit_are_refused(X):
    fitted = ViewTransformer(PLAIN).fit(np.ldexp(X, -900))
    with pytest.raises(ValueError, match="X has values above float64"):
        fitted.transform(np.ldexp(X, 900))


@pytest.fixture
def beside_a_constant(X):
    """Signals of a channel that varies and a constant one."""
    X[:, 1] = 7.3
    return X


@pytest.mark.parametrize("view", EVERY_STEP)
def test_constant_channels_are_seen_as_numbers(view, beside_a_constant):
    assert np.isfinite(seen_by(view, beside_a_constant)).all()


@pytest.mark.parametrize("view", [PLAIN, View()])
def test_constant_channels_are_seen_as_zero(view, beside_a_constant):
    assert_within(seen_by(view, beside_a_constant)[:, 1], 0, tolerances.SEEN, 1)


def test_linear_views_of_time_points_do_not_magnify_constant_channels(beside_a_constant):
    (view,) = (view for view in CLASSIFIER_VIEWS if view.linear and view.standardize == "point")
    assert np.abs(seen_by(view, beside_a_constant)).max() < 10


@pytest.mark.parametrize(
    "parameters",
    [{}, {"length": 9}, {"length": 9, "statistics": True}, {"spectra": "whole"}],
    ids=str,
)
def test_channels_of_any_size_are_seen_alike(parameters, X):
    """However small one of them is beside the other: each has a unit of its own."""
    view = View(standardize="channel", **parameters)
    expected = seen_by(view, X)
    seen = seen_by(view, X * [[1.0], [2.0**-50]])
    assert_within(seen, expected, tolerances.SEEN)


@pytest.mark.parametrize("standardize", ["signal", "local", "channel", "point"])
@pytest.mark.parametrize(("value", "length"), [(0.1, 7), (1 / 3, 23), (-1e6 / 7, 60)])
def test_rounding_errors_of_a_constant_channel_are_not_magnified(value, length, standardize, rng):
    """Sums of these constants are rounded, so that their deviation is not quite 0."""
    X = rng.standard_normal((6, 2, length))
    X[:, 1] = value
    seen = seen_by(View(standardize=standardize), X)
    assert_within(seen[:, 1], 0, tolerances.SEEN, max(1, abs(value)))


@pytest.mark.parametrize("standardize", ["signal", "local"])
@pytest.mark.parametrize("length", [7, 23, 60])
def test_constants_of_each_signal_are_seen_as_zero(length, standardize, rng):
    """Each is rounded in its own way."""
    X = rng.standard_normal((20, 2, length))
    X[:, 1] = rng.uniform(0.1, 1.0, (20, 1))
    seen = seen_by(View(standardize=standardize), X)
    assert_within(seen[:, 1], 0, tolerances.SEEN, 1)


def test_means_of_constant_blocks_are_not_magnified(rng):
    """Means of 8 and of 6 equal points are rounded differently."""
    X = rng.standard_normal((6, 21, 70))
    X[:, 1:] = rng.uniform(0.1, 1.0, (20, 1))
    seen = seen_by(View(standardize="channel", length=9), X)
    assert_within(seen[:, 1:-1], 0, tolerances.SEEN, 1)


def test_a_channel_that_was_constant_keeps_its_unit(X):
    X[:, 1] = 7.0
    fitted = ViewTransformer(View(standardize="channel")).fit(X)
    assert_within(fitted.transform(X + 3)[:, 1], 3, tolerances.SEEN)


def test_differences_that_no_training_signal_has_are_not_seen(X):
    """Signals are constant, at different levels: slopes have no unit."""
    fitted = ViewTransformer(View(differences=True, standardize="channel")).fit(0 * X + X[:, :, :1])
    assert (fitted.transform(X)[:, 2:4] == 0).all()


def test_of_signals_that_are_all_constant_the_constant_channel_is_seen(X):
    seen = seen_by(View(), 0 * X + 4)
    assert (seen[:, :2] == 0).all() and (seen[:, 2] > 0).all()


CHANNEL_VIEWS = [
    View(standardize="channel", differences=True),
    View(standardize="channel", statistics=True, length=8),
    View(standardize="point", length=8),
    View(standardize="local", bands="magnitudes", length=8),
    View(differences="only"),
]


@pytest.mark.parametrize("view", CHANNEL_VIEWS)
def test_the_unit_of_a_channel_does_not_matter(view, X):
    """However small it is beside another channel's: powers of two change no bit."""
    expected = seen_by(view, X)
    assert (seen_by(view, X * [[1.0], [2.0**-90]]) == expected).all()


@pytest.mark.parametrize("standardize", ["signal", "channel", "point"])
def test_small_changes_of_a_large_level_are_no_rounding_errors(standardize, rng):
    """A millionth of a millionth of the level, of which float64 has three digits."""
    X = 1000.0 + 1e-9 * rng.standard_normal((6, 2, 25))
    expected = standardized(X, {"signal": 2, "channel": (0, 2), "point": 0}[standardize])
    three_digits = 1e-3
    seen = seen_by(View(standardize=standardize), X)
    assert_within(seen[:, :2], expected, three_digits)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e6 / 7])
def test_deviations_of_constant_blocks_are_not_magnified(value, rng):
    """Of blocks of seven points, beside a channel that varies."""
    X = rng.standard_normal((6, 2, 70))
    X[:, 1] = value
    seen = seen_by(View(statistics=True, standardize="channel", length=10), X)
    means, deviations = seen[:, 1], seen[:, 3]
    assert_within(means, np.sign(value), tolerances.SEEN)
    assert_within(deviations, 0, tolerances.SEEN, max(1, abs(value)))


def test_differences_of_a_constant_channel_are_zero(rng):
    X = rng.standard_normal((6, 2, 23))
    X[:, 1] = 1 / 3
    seen = seen_by(View(differences=True, standardize="channel"), X)
    assert (seen[:, 3] == 0).all()


@pytest.mark.parametrize(("head", "pixels"), [("trace", 1), ("gap", 25)])
def test_a_head_and_the_pool_of_its_size_have_equal_pipelines(head, pixels, X):
    assert View(head=head).pipeline(X) == View(head=pixels).pipeline(X)


def test_a_network_of_the_same_parameters_takes_the_place_of_the_view_s_own(X):
    view = View(filter_size=5, input_filter_size=3, depth=3)
    with_network = View(network=rk.Network(3, 5, input_filter_size=3))
    assert view.pipeline(X) == with_network.pipeline(X)
    assert view != with_network


def test_filters_of_each_layer_are_cut_to_the_number_of_points(X):
    sizes = {"filter_size": (3, 9, 5), "outer_filter_size": (7, 3, 3), "input_filter_size": 9}
    view = View(network=rk.Network(3, **sizes, norm=True, alpha=(0.5, 1.0, 2.0)), length=6)
    cut = {"filter_size": (3, 5, 5), "outer_filter_size": (5, 3, 3), "input_filter_size": 5}
    expected = rk.Network(3, **cut, norm=True, alpha=(0.5, 1.0, 2.0))
    assert view.pipeline(X[:, :, :6]).kernel.network == expected


def test_a_model_has_the_kernel_of_its_view_s_network(rng):
    """Ridge regression on the mean of both normalized kernels, of a network with constants."""
    X, y = waves(rng, 24, 2)
    network = rk.Network(2, 3, activation="erf", bias=(0.1, 0.3), alpha=0.7)
    view = View(standardize="channel", network=network)
    model = ResidualKernelRegressor([view], penalty=1e-2, dtype="float64").fit(X[:16], 1.0 * y[:16])
    seen = ViewTransformer(view).fit(X[:16])
    kernels = [rk.Kernel(network, kind, "gap", normalized=True) for kind in ("gpk", "ntk")]
    K, k = (
        np.mean([kernel(seen.transform(Z), seen.transform(X[:16])) for kernel in kernels], axis=0)
        for Z in (X[:16], X[16:])
    )
    coefficients, intercept = bordered(K, y[:16, None], 1e-2)
    bar = tolerances.regression(16, 1e-2)
    assert_within(model.predict(X[16:]), (k @ coefficients + intercept)[:, 0], bar)


def pipeline_of(view):
    """Return ridge regression on what a network sees of signals."""
    flat = FunctionTransformer(lambda Z: Z.reshape(len(Z), -1))
    return make_pipeline(ViewTransformer(view), flat, Ridge())


VIEWS = [View(standardize="channel", length=length) for length in (5, 25)]


def test_searches_choose_views(X):
    search = GridSearchCV(pipeline_of(VIEWS[0]), {"viewtransformer__view": VIEWS}, cv=2)
    best = search.fit(X, np.arange(6)).best_estimator_["viewtransformer"]
    assert best.view_ in VIEWS and best.transform(X).shape == (6, 3, best.view_.length)


def test_a_fitted_pipeline_takes_another_view(X):
    pipeline, y = pipeline_of(VIEWS[0]), np.arange(6)
    changed = pipeline.fit(X, y).set_params(viewtransformer__view=VIEWS[1]).fit(X, y)
    assert changed[-1].n_features_in_ == 3 * 25


def test_the_table_of_a_model_has_its_views(rng):
    X, y = waves(rng, 20, 2)
    model = ResidualKernelClassifier("fast").fit(X, y)
    assert tuple(model.views_["view"]) == FAST_VIEWS


def test_a_transformer_refuses_what_is_no_view(X):
    with pytest.raises(ValueError, match="view is 'fast', expected a View or None"):
        ViewTransformer("fast").fit(X)


@pytest.mark.parametrize(
    ("view", "lengths", "says"),
    [
        (View(head=4), (25, 9), "signals of different lengths have the head"),
        (View(head="trace"), (25, 9), "signals of different lengths have the head"),
        (View(standardize="point"), (25, 9), "no time points in common"),
        (View(linear=True), (25, 9), "signals of different lengths have no inner product"),
        (View(bands="signs", standardize="channel"), (1, 1), "one time point has no bands"),
        (View(spectra="whole", standardize="channel"), (1, 1), "one time point has no spectrum"),
        (View(standardize="local"), (1, 1), "one time point has no deviation"),
        (View(), (1, 1), "one time point has no deviation"),
        (View(differences="only", standardize="channel"), (1, 1), "one point has no differences"),
        (View(differences="only", length=1), (25, 9), "one point has no differences"),
    ],
)
def test_signals_that_a_view_cannot_take_are_refused(view, lengths, says, X):
    with pytest.raises(ValueError, match=f"X cannot have View.*{says}"):
        ViewTransformer(view).fit([x[:1, :length] for x, length in zip(X, lengths, strict=False)])


def needs_points(view):
    """Return whether a view has steps that one time point lacks numbers for.

    A deviation of the signal itself, bands, covariances, a spectrum of the whole, or differences
    alone: other differences, short-time spectra and statistics are left out.
    """
    has_own_scale = view.standardize in ("signal", "local")
    return (
        has_own_scale
        or view.covariances
        or view.bands
        or view.spectra == "whole"
        or view.differences == "only"
    )


def needs_one_length(view):
    """Return whether a view compares time points of signals, or has a place for each."""
    return view.head != "gap" or view.linear or view.standardize == "point"


def assert_seen_unless(refused, view, signals):
    """Assert that a view gives numbers, or refuses the signals where it is to."""
    if refused:
        with pytest.raises(UnsuitableSignals):
            ViewTransformer(view).fit(signals)
    else:
        seen = seen_by(view, signals)
        assert all(np.isfinite(x).all() for x in seen)
        assert all(0 < y.shape[-1] <= x.shape[-1] for x, y in zip(signals, seen, strict=True))


@pytest.mark.parametrize("view", EVERY_STEP)
def test_single_time_points_are_seen_unless_a_view_needs_more(view, X):
    assert_seen_unless(needs_points(view), view, [x[:1, :1] for x in X[:2]])


@pytest.mark.parametrize("length", [9, 1])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_unequal_signals_are_seen_unless_a_view_needs_one_length(view, length, X):
    """A single time point beside a longer signal is taken as constant."""
    assert_seen_unless(needs_one_length(view), view, [X[0, :1], X[1, :1, :length]])


def test_views_of_tests_are_seen_and_refused():
    for needs in (needs_points, needs_one_length):
        assert {bool(needs(view)) for view in EVERY_STEP} == {True, False}


def test_signals_of_another_shape_are_refused(X):
    with pytest.raises(ValueError, match="of 1 channels × 25 time points, expected 2 channels"):
        ViewTransformer(PLAIN).fit(X).transform(X[:, :1])


def shorter(view, length):
    """Return the view of at most so many points; one of covariances has a single one anyway."""
    return view if view.covariances else replace(view, length=length)


def shares_of_points(view, X):
    """Return a fitted view, and the share of each of its points at each time point."""
    fitted, seen = shorter(view, 8).pipeline(X).fit_and_transform(X, np.ones(len(X)))
    return fitted, fitted.to_time(np.eye(seen.shape[2]), X[0])


@pytest.mark.parametrize("length", [40, 37, 3])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_shares_at_time_points_add_up(view, length, rng):
    parts = shares_of_points(view, rng.standard_normal((2, 1, length)))[1]
    assert_within(parts.sum(axis=1), 1, tolerances.SEEN)


@pytest.mark.parametrize("length", [40, 37, 3])
@pytest.mark.parametrize("view", [PLAIN, PLAIN_SPECTRA], ids=["blocks", "spectra"])
def test_shares_go_back_to_the_time_points_that_a_point_comes_from(view, length, rng):
    X = rng.standard_normal((2, 1, length))
    fitted, parts = shares_of_points(view, X)
    for j in range(length):
        changed = X.copy()
        changed[..., j] += 1
        differs = (fitted.transform(changed) != fitted.transform(X))[0].any(axis=0)
        assert (differs == (parts[:, j] > 0)).all()
