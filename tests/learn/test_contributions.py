"""Contributions of time points: they add up to decisions, and find what decides."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from tests import tolerances
from tests.helpers import assert_within, nightly
from tests.learn.cases import COVARIANCES, FOUR_VIEWS, ONE_VIEW, OPTIONS, waves
from tests.learn.estimators import assert_add_up, fitted_views

OF_CHANNELS = 2e-3
"""Three nodes of Gauss and Legendre on kernels whose integrand has a root at the end, 1e-3 of the
largest contribution, and as much for signals that are nearly those of training."""


@pytest.fixture(params=["float64", "float32"])
def options(request):
    return FOUR_VIEWS | {"dtype": request.param, "random_state": 0}


@pytest.mark.parametrize("n_landmarks", [None, 9])
def test_contributions_add_up_to_decisions(options, n_landmarks, rng):
    """Also of signals that are novel, and so have other weights of views."""
    X, y = waves(rng, 16, 3, channels=2)
    options = options | {"n_landmarks": n_landmarks}
    model = ResidualKernelClassifier(**options, class_weight="balanced").fit(X, y)
    Z = np.concatenate([X[:3], 5 * rng.standard_normal((2, 2, 24))])
    assert_add_up(model.contributions(Z), model, Z)


def test_contributions_are_of_each_class_and_time_point(rng):
    X, y = waves(rng, 16, 3, channels=2)
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    assert model.contributions(X[:5]).shape == (5, 3, 24) and model.intercept_.shape == (3,)


def test_contributions_of_one_signal_at_a_time_are_those_of_all(options, rng, little_memory):
    X, y = waves(rng, 16, 3, channels=2)
    model = ResidualKernelClassifier(**options).fit(X, y)
    parts = model.contributions(X[:5])
    little_memory()
    assert_within(model.contributions(X[:5]), parts, tolerances.ROUTES)


def with_lists(options, rng, targets_of, **more):
    """Return a regressor of signals of different lengths, and the signals."""
    X, y = waves(rng, 16, 3, channels=2)
    ragged = [x[:, : 24 - i % 3] for i, x in enumerate(X)]
    views = [View(filter_size=3), View(spectra=True, length=6), View(spectra="whole")]
    options = options | more | {"views": views}
    return ResidualKernelRegressor(**options).fit(ragged, targets_of(y)), ragged


@pytest.mark.parametrize(
    ("n_landmarks", "targets_of"),
    [(None, lambda y: np.stack([y, -7.0 * y**2], axis=1)), (9, lambda y: 1e9 * y)],
    ids=["two targets", "landmarks and a large target"],
)
def test_contributions_of_lists_add_up_to_predictions(n_landmarks, targets_of, options, rng):
    model, ragged = with_lists(options, rng, targets_of, n_landmarks=n_landmarks)
    assert_add_up(model.contributions(ragged[:4]), model, ragged[:4])


def test_contributions_of_lists_have_the_lengths_of_signals(options, rng):
    model, ragged = with_lists(options, rng, lambda y: np.stack([y, y**2], axis=1))
    shapes = [part.shape for part in model.contributions(ragged[:4])]
    assert shapes == [(2, x.shape[1]) for x in ragged[:4]]


def test_lists_have_no_median_contributions(options, rng):
    model, _ = with_lists(options, rng, lambda y: 1.0 * y)
    assert model.median_contributions() is None


def mean_of_medians(parts, classes):
    """Return the mean over classes of the median contributions to signals of a class."""
    return np.mean([np.median(parts[classes == k], axis=0) for k in np.unique(classes)], axis=0)


def with_contributions(kind, n, rng):
    """Return a fitted model, its contributions to the training signals, and their classes."""
    X, y = waves(rng, n, 3)
    model = kind(**ONE_VIEW, random_state=0).fit(X, 1e9 * y)
    classes = model.predict(X) if hasattr(model, "classes_") else np.zeros(n)
    return model, model.contributions(X), classes


def size_of_terms(model):
    """Return the sum of the magnitudes of coefficients, in the units of the targets."""
    return np.abs(fitted_views(model)[-1].coefficients).sum() * model._target_scale.max()


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_median_contributions_are_those_of_training_signals(kind, rng):
    model, parts, classes = with_contributions(kind, 40, rng)
    size = size_of_terms(model)
    expected = mean_of_medians(parts, classes)
    assert_within(model.median_contributions(), expected, tolerances.KERNEL["float64"], size)


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_median_contributions_are_of_40_signals_at_most(kind, rng):
    """Of 41 training signals one is left out, and it is not known which."""
    model, parts, classes = with_contributions(kind, 41, rng)
    size = size_of_terms(model)
    found = model.median_contributions()
    errors = [
        np.abs(found - mean_of_medians(np.delete(parts, k, axis=0), np.delete(classes, k))).max()
        for k in range(41)
    ]
    bar = tolerances.KERNEL["float64"] * size
    assert min(errors) <= bar < np.abs(found - mean_of_medians(parts, classes)).max()


def test_median_contributions_are_of_signals_of_all_classes(rng):
    """Signals of one class have one first number, by which their contents are sorted."""
    X, y = waves(rng, 120, 2)
    X = np.round(10 * X)
    X[:, 0, 0] = 8 * y
    model = ResidualKernelClassifier(**ONE_VIEW, random_state=0).fit(X, y)
    parts, found = model.contributions(X), model.median_contributions()
    mean_of_classes = mean_of_medians(parts, y)
    class_medians = [np.median(parts[y == k], axis=0) for k in (0, 1)]
    near = min(np.linalg.norm(found - median) for median in class_medians) / 2
    assert np.linalg.norm(found - mean_of_classes) < near


def test_median_contributions_are_of_the_classes_that_weights_predict(rng):
    """Weights of classes shift decisions: here the classes without the shift are others."""
    X, y = waves(rng, 40, 3)
    X = X + 2.0 * rng.standard_normal(X.shape)
    model = ResidualKernelClassifier(**ONE_VIEW, class_weight={0: 1, 1: 5, 2: 1}, random_state=0)
    parts, classes = model.fit(X, y).contributions(X), model.predict(X)
    unshifted = (model.decision_function(X) - model.offsets_).argmax(axis=1)
    assert (model.classes_[unshifted] != classes).any()
    expected = mean_of_medians(parts, classes)
    assert_within(model.median_contributions(), expected, tolerances.ROUTES)


def test_one_view_contributes_the_shares_of_its_kernel(rng):
    X, y = waves(rng, 20, 2)
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    (fitted,) = fitted_views(model)
    shares = [
        rk.pixel_shares(
            rk.Network(2),
            fitted.pipeline.transform(X[:3]),
            fitted.pipeline.transform(fitted.landmarks),
            kind=kind,
            normalized=True,
        )
        for kind in ("gpk", "ntk")
    ]
    expected = np.einsum("nmd,mk->nkd", np.mean(shares, axis=0), fitted.coefficients)
    # An intercept's difference from the mean target is divided evenly.
    expected += (fitted.intercepts - (2 * y - 1).mean())[None, :, None] / 24
    bar = tolerances.KERNEL["float64"] * np.abs(fitted.coefficients).sum()
    assert np.abs(model.contributions(X[:3]) - expected).max() <= bar


def low_passed(rng, y):
    spectrum = np.fft.rfft(rng.standard_normal((len(y), 64)), axis=1)
    spectrum[:, 12:] = 0
    return np.fft.irfft(spectrum, 64, axis=1) + y[:, None] * np.sin(np.arange(64) * np.pi / 8)


def periodic(rng, y):
    turns = np.arange(64) * (3 + 2 * y[:, None]) / 64
    return np.sin(2 * np.pi * turns + rng.uniform(0, 6, (len(y), 1)))


def resampled(rng, y):
    rough = low_passed(rng, y)[:, ::8]
    return np.array([np.interp(np.arange(64) / 8, np.arange(8), x) for x in rough])


@pytest.mark.slow
@pytest.mark.parametrize("signals", [low_passed, periodic, resampled])
@pytest.mark.parametrize("views", ["default", [View(spectra="whole", head="trace", filter_size=3)]])
def test_bands_without_energy_contribute_no_more_than_the_decision(signals, views, rng):
    """At any time point, although sums are right to rounding errors of contributions."""
    y = np.arange(40) % 2
    X = np.stack([signals(rng, y), 1e-9 * rng.standard_normal((40, 64))], axis=1)
    model = ResidualKernelClassifier(views, random_state=0).fit(X, y)
    parts = model.contributions(X)
    assert_add_up(parts, model, X)
    assert np.abs(parts).max() < np.abs(model.decision_function(X)).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ArrowHead", "OSULeaf"])
def test_time_points_of_smooth_signals_have_small_parts(name):
    """Their high frequencies are weak, and are not magnified; sums are those of decisions."""
    pytest.importorskip("aeon")
    X, y = load_labelled(name)
    model = ResidualKernelClassifier("fast", random_state=0).fit(X[::2], y[::2])
    parts = model.contributions(X[1::4])
    assert_add_up(parts, model, X[1::4])
    assert np.abs(parts).max() <= 0.1 * np.abs(model.decision_function(X[1::4])).max()


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_energy_of_bands_is_where_the_band_is(unit, rng):
    """Two bursts at different times and frequencies, in two channels of different units."""
    time, X = np.arange(128), 1e-3 * rng.standard_normal((1, 2, 128))
    for channel, (place, frequency) in enumerate(((30, 20), (90, 45))):
        bell = np.exp(-(((time - place) / 6) ** 2))
        X[0, channel] += bell * np.sin(2 * np.pi * frequency * time / 128)
    X[:, 1] *= unit
    view, seen = View(spectra="whole", filter_size=3).pipeline(X).fit_and_transform(X, np.ones(1))
    parts = view.to_time(np.eye(seen.shape[2]), X[0])
    assert (parts >= 0).all()
    deviation = 3  # of energy over time, exp(−2 ((t − place)/6)²)
    for place, frequency in ((30, 20), (90, 45)):
        assert abs(parts[frequency - 1] @ time - place) < deviation


def marked(name, rng):
    """Return real signals with a slow or a fast wave, labels, places and width of the waves."""
    X = np.concatenate([load_labelled(name, split)[0] for split in ("train", "test")])[:140]
    X, d = X / X.std(axis=2, keepdims=True), X.shape[2]
    y, width = np.arange(len(X)) % 2, d // 6
    places = rng.integers(0, d - width, len(X))
    for signal, label, place in zip(X, y, places, strict=True):
        wave = np.sin(np.arange(width) * (label + 1) * 4 * np.pi / width)
        signal[0, place : place + width] += 1.5 * np.hanning(width) * wave
    return X, y, places, width


@cache
def model_of_marked(name):
    """Return a model of marked signals, new ones, their places and width, and contributions."""
    X, y, places, width = marked(name, np.random.default_rng(0))
    model = ResidualKernelClassifier(random_state=0).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) >= 0.95
    return model, X[80:], places[80:], width, model.contributions(X[80:])


MARKED = pytest.mark.parametrize("name", ["GunPoint", *nightly("OSULeaf", "PickupGestureWiimoteZ")])


@pytest.mark.slow
@MARKED
def test_waves_that_were_added_are_found_as_often_as_the_guide_says(name):
    model, _, places, width, parts = model_of_marked(name)
    from_start = np.abs(parts - model.median_contributions())[:, 0].argmax(axis=1) - places
    on_wave = np.mean((from_start >= -1) & (from_start <= width))
    guide = Path(__file__).parents[2] / "docs/guide/explanation.md"
    assert f"| {name} | {100 * on_wave:.0f} % |" in guide.read_text(encoding="utf-8")


@pytest.mark.slow
@MARKED
def test_no_contribution_to_real_signals_is_large_beside_the_decisions(name):
    model, Z, _, _, parts = model_of_marked(name)
    assert_add_up(parts, model, Z)
    assert np.abs(parts).max() < np.abs(model.decision_function(Z)).max() / 7


@pytest.mark.parametrize("n", [1, 2, 5, 30, 90])
@pytest.mark.parametrize("views", ["fast", "default"])
def test_contributions_of_lists_of_any_length_add_up(n, views, rng):
    """Also where all signals are shorter than in `fit`, and where one has one point."""
    X, y = waves(rng, 20, 2, length=50)
    ragged = [x[:, : 50 - k % 7] for k, x in enumerate(X)] + [X[0, :, :1]]
    model = ResidualKernelClassifier(views, random_state=0).fit(ragged, [*y, 0])
    Z = [rng.standard_normal((1, n)), rng.standard_normal((1, max(1, n - 1)))]
    assert_add_up(model.contributions(Z), model, Z)


def test_what_decides_is_found(rng):
    """A bump at a random place, on noise: the largest contribution is on the bump."""
    y, places = np.arange(60) % 2, rng.integers(5, 75, 60)
    X = 0.3 * rng.standard_normal((60, 1, 90))
    for x, place, label in zip(X, places, y, strict=True):
        x[0, place : place + 9] += np.hanning(9) * (3 if label else -3)
    view = View(standardize="channel", filter_size=3, length=90)
    model = ResidualKernelClassifier([view]).fit(X[:40], y[:40])
    parts = (model.contributions(X[40:]) - model.median_contributions())[:, 0]
    assert model.score(X[40:], y[40:]) > 0.9
    found = np.abs(parts).argmax(axis=1) - places[40:]
    assert np.mean((found >= -2) & (found <= 10)) > 0.8


@pytest.mark.parametrize("n_landmarks", [None, 9])
def test_contributions_of_channels_add_up_to_decisions(options, n_landmarks, rng):
    X, y = waves(rng, 16, 3, channels=3)
    options = options | {"n_landmarks": n_landmarks, "views": [*options["views"], COVARIANCES]}
    model = ResidualKernelClassifier(**options, class_weight="balanced").fit(X, y)
    Z = np.concatenate([X[:3], 5 * rng.standard_normal((2, 3, 24))])
    parts = model.contributions(Z, of="channels")
    assert parts.shape == (5, 3, 3)
    assert_add_up(parts, model, Z)


def test_contributions_of_channels_of_lists_add_up_to_predictions(options, rng):
    X, y = waves(rng, 16, 3, channels=2)
    ragged = [x[:, : 24 - i % 3] for i, x in enumerate(X)]
    views = [View(filter_size=3), View(spectra="whole")]
    model = ResidualKernelRegressor(**options | {"views": views}).fit(ragged, 1e9 * y)
    parts = model.contributions(ragged[:4], of="channels")
    assert parts.shape == (4, 1, 2) and model.median_contributions(of="channels").shape == (1, 2)
    assert_add_up(parts, model, ragged[:4])


def unit_vectors_of_product(rho):
    """Return two signals of one point and two channels, of size 1 and inner product rho."""
    return np.array([[[1.0], [0.0]]]), np.array([[[rho], [np.sqrt(1 - rho**2)]]])


def test_a_channel_of_one_point_contributes_its_product_times_a_secant(rng):
    """A kernel K(ρ) of unit vectors: the integral of x z K′(t ρ) is x z (K(ρ) − K(0))/ρ."""
    kernel = View(standardize="channel").pipeline(np.ones((1, 5, 1))).kernel
    x, z = (S / np.linalg.norm(S) for S in rng.standard_normal((2, 1, 5, 1)))
    rho = (x * z).sum()
    at_rho, at_zero = (kernel.matrix(*unit_vectors_of_product(r), OPTIONS) for r in (rho, 0.0))
    groups = np.eye(5, dtype=bool)
    found = kernel.channel_contributions(x, z, groups, np.ones((1, 1)), OPTIONS)
    assert_within(found[0, 0], (x * z)[0, :, 0] * ((at_rho - at_zero) / rho).item(), OF_CHANNELS)


def brute_contributions(kernel, X, Z, groups):
    """Return integrals over shares of groups, of signals that have covariances in common by √s.

    What they do not have in common is in channels where the other signal is 0.
    """

    def with_covariances(shares):
        roots, rests = np.sqrt(shares)[:, None], np.sqrt(1 - shares)[:, None]
        lifted_x = np.concatenate([roots * X, rests * X, 0 * X], axis=1)
        lifted_z = np.concatenate([roots * Z, 0 * Z, rests * Z], axis=1)
        return kernel.matrix(lifted_x, lifted_z, OPTIONS)

    nodes, weights = np.polynomial.legendre.leggauss(16)
    parts = np.zeros((len(X), len(Z), len(groups)))
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        for k, group in enumerate(groups):
            step, shares = 1e-3 * t * (1 - t), np.where(np.any(groups, axis=0), t, 1.0)
            up, down = (with_covariances(shares + sign * step * group) for sign in (1, -1))
            parts[:, :, k] += weight * (up - down) / (2 * step)
    return parts


@pytest.mark.parametrize("head", ["gap", "trace"])
def test_contributions_of_channels_are_integrals_over_their_covariances(head, rng):
    kernel = View(head=head, filter_size=3, length="all").pipeline(np.ones((1, 5, 8))).kernel
    X, Z = rng.standard_normal((2, 5, 8)), rng.standard_normal((3, 5, 8))
    groups = np.arange(5) % 3 == np.arange(2)[:, None]  # the third channel is in no group
    found = kernel.channel_contributions(X, Z, groups, np.eye(3), OPTIONS)
    assert_within(found, brute_contributions(kernel, X, Z, groups), OF_CHANNELS, 1)


def test_channels_in_another_order_have_the_same_contributions(rng):
    X, y = waves(rng, 20, 2, channels=3)
    order = [2, 0, 1]
    options = FOUR_VIEWS | {"random_state": 0}
    parts = ResidualKernelClassifier(**options).fit(X, y).contributions(X, of="channels")
    other = ResidualKernelClassifier(**options).fit(X[:, order], y)
    found = other.contributions(X[:, order], of="channels")
    assert_within(found, parts[:, :, order], OF_CHANNELS, np.abs(parts).max())


@pytest.mark.parametrize("views", ["fast", [COVARIANCES]])
def test_dead_channels_contribute_alike_and_channels_that_tell_more(views, rng):
    """A burst in one band and two channels tells the class."""
    time, y = np.arange(120), np.arange(60) % 2
    X = np.insert(rng.standard_normal((60, 3, 120)), [0, 1], 0.0, axis=1)
    burst = np.exp(-(((time - 50) / 5) ** 2)) * np.cos(1.2 * (time - 50))
    X[y == 1, 1] += 5 * burst
    X[y == 1, 4] += 5 * burst
    model = ResidualKernelClassifier(views, random_state=0).fit(X[:40], y[:40])
    parts = model.contributions(X[40:], of="channels") - model.median_contributions(of="channels")
    assert_within(parts[:, :, 0], parts[:, :, 2], OF_CHANNELS, np.abs(parts).max())
    size = np.abs(parts).mean(axis=(0, 1))
    assert set(np.argsort(size)[-2:]) == {1, 4} and size[[1, 4]].min() > 2 * size[3]


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_contributions_are_of_time_or_of_channels(kind, rng):
    X, y = waves(rng, 12, 2)
    model = kind(**ONE_VIEW).fit(X, y)
    for method in (partial(model.contributions, X), model.median_contributions):
        with pytest.raises(ValueError, match="^of is 'points', expected one of 'time', 'channels'"):
            method(of="points")
