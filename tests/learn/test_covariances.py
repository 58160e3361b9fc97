"""Views of covariances: their formula by SciPy, and what they do not depend on."""

import numpy as np
import pytest
import scipy.linalg

from rescntk.learn import ResidualKernelClassifier, View, ViewTransformer
from rescntk.learn.views import covariances
from rescntk.learn.views.bands import split_into_bands
from rescntk.learn.views.defaults import COVARIANCES
from tests.helpers import assert_within
from tests.learn.estimators import assert_add_up

SPECTRAL = 1e-10
"""Two routes by eigenvectors of covariances whose condition is at most 1/(a fifth): tests keep the
digits of well-conditioned ones, and magnify no error by more than a thousand."""


def mixed(rng, n, channels, length=60):
    """Return smooth signals whose channels are mixtures of sources, another mixture for each."""
    sources = rng.standard_normal((n, channels, length + 4))
    sources = np.lib.stride_tricks.sliding_window_view(sources, 5, axis=2).mean(axis=3)
    return (np.eye(channels) + 0.5 * rng.standard_normal((n, channels, channels))) @ sources


def products(view, X):
    """Return inner products of what a network sees of signals, without the constant channel."""
    seen = ViewTransformer(view).fit_transform(X)[:, :-1, 0]
    return seen @ seen.T


def band_of(k, X):
    """Return band k of signals: the signal itself has number 0."""
    centred = X - X.mean(axis=2, keepdims=True)
    n_octaves = covariances.Covariances.n_octaves_of(X.shape[2])
    bands = split_into_bands(X, n_octaves)
    return [centred, *np.split(bands, n_octaves, axis=1)][k]


def test_a_view_of_covariances_sees_logarithms_whitened_by_the_mean(rng):
    """Inner products of matrices are traces of products; the floor is left out here."""
    X = mixed(rng, 12, 3)
    expected = np.zeros((12, 12))
    logarithms, share = [], 1 / 5  # of the mean, as the docstring of `View` says
    for k in range(1 + covariances.Covariances.n_octaves_of(60)):
        S = np.array([y @ y.T / 60 for y in band_of(k, X)])
        inverse = scipy.linalg.inv(scipy.linalg.sqrtm(S.mean(axis=0)))
        whitened = (1 - share) * inverse @ S @ inverse + share * np.eye(3)
        logarithms.append([scipy.linalg.logm(A).real for A in whitened])
    L = np.array(logarithms)
    L -= L.mean(axis=1, keepdims=True)
    expected = np.einsum("bnij,bmji->nm", L, L)
    expected /= expected.trace() / (12 * len(L) * 6)  # 6 numbers a band, of mean square 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covariances, "_FLOOR", 1e-14)
        assert_within(products(COVARIANCES, X), expected, SPECTRAL)


def test_mixtures_of_all_channels_change_nothing(rng, monkeypatch):
    monkeypatch.setattr(covariances, "_FLOOR", 1e-14)
    X, mixture = mixed(rng, 12, 4), rng.standard_normal((4, 4)) + 3 * np.eye(4)
    assert_within(products(COVARIANCES, 1e5 + mixture @ X), products(COVARIANCES, X), SPECTRAL)


def test_dead_channels_change_nothing(rng):
    """Constant ones, before or behind others, of whatever value."""
    X = mixed(rng, 12, 3)
    dead = np.concatenate([np.full((12, 1, 60), 1 / 3), X, np.full((12, 2, 60), -7e5)], axis=1)
    few, more = (products(COVARIANCES, Z) for Z in (X, dead))
    assert_within(more / more.trace(), few / few.trace(), SPECTRAL)


def test_copies_of_channels_change_little(rng):
    X = mixed(rng, 12, 3)
    few, more = (products(COVARIANCES, Z) for Z in (X, np.concatenate([X, X[:, :1]], axis=1)))
    assert np.corrcoef(few.ravel(), more.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("view", [COVARIANCES, View(covariances=True)])
@pytest.mark.parametrize("shape", [(9, 1, 40), (9, 30, 8), (9, 40, 60), (9, 2, 2), (9, 3, 3)])
def test_any_numbers_of_channels_and_points_are_seen(view, shape, rng):
    X = rng.standard_normal(shape).cumsum(axis=2)
    seen = ViewTransformer(view).fit(X).transform(np.concatenate([X, 0 * X[:1], 1e9 * X[:1]]))
    assert np.isfinite(seen).all() and seen.shape[2] == 1
    p, n_bands = min(shape[1], 32), 1 + covariances.Covariances.n_octaves_of(shape[2])
    assert seen.shape[1] == n_bands * p * (p + 1) // 2 + 1


def test_directions_of_most_variance_are_seen_of_many_channels(rng):
    """The same products as of these directions alone."""
    sources = mixed(rng, 9, 32, 90)
    mixture = np.linalg.qr(rng.standard_normal((50, 50)))[0][:, :32]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covariances, "_FLOOR", 1e-12)
        few, more = (products(COVARIANCES, Z) for Z in (sources, mixture @ sources))
    assert_within(more, few, SPECTRAL)


def coupled(rng, n, length=80):
    """Return noise of five channels, of which the first two are alike in every second signal."""
    y, X = np.arange(n) % 2, rng.standard_normal((n, 5, length))
    common = rng.standard_normal((n, 1, length))
    X[y == 1, :2] = np.sqrt(0.5) * (X[:, :2] + common)[y == 1]
    return X, y


def test_couplings_of_channels_are_found_that_no_channel_shows(rng):
    """All channels have variance 1."""
    X, y = coupled(rng, 120)
    model = ResidualKernelClassifier([COVARIANCES]).fit(X[:60], y[:60])
    assert model.score(X[60:], y[60:]) > 0.9


@pytest.mark.parametrize("centre", [30, 90])
def test_contributions_are_where_a_burst_in_two_channels_is(centre, rng):
    """A burst in one band and two channels tells the class, beside noise that has no place."""
    time, y = np.arange(120), np.arange(60) % 2
    X = rng.standard_normal((60, 4, 120))
    burst = np.exp(-(((time - centre) / 5) ** 2)) * np.cos(1.2 * (time - centre))
    X[y == 1, :2] += 6 * burst
    model = ResidualKernelClassifier([COVARIANCES]).fit(X, y)
    parts = model.contributions(X[y == 1])[:, 0]
    smooth = np.convolve(np.abs(parts).mean(axis=0), np.ones(9) / 9, mode="same")
    half_a_window = 4  # of the mean over nine points
    assert abs(smooth.argmax() - centre) <= half_a_window and smooth.max() > 3 * np.median(smooth)


def test_contributions_of_covariances_add_up(rng):
    X, y = coupled(rng, 60)
    model = ResidualKernelClassifier([COVARIANCES]).fit(X, y)
    assert_add_up(model.contributions(X), model, X)
