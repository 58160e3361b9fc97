"""Views of signals: shortening, scales of training signals, channels appended."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import views


def test_shorten():
    X = np.array([[[1.0, 3.0, 5.0, 5.0, 8.0]]])
    np.testing.assert_allclose(views.shorten(X, 3), [[[2.0, 5.0, 8.0]]])
    np.testing.assert_allclose(
        views.shorten(X, 3, block_statistics=True)[0],
        [[2.0, 5.0, 8.0], [1.0, 0.0, 0.0], [1.0, 5.0, 8.0], [3.0, 5.0, 8.0]],
    )
    for same in (None, 5, 100):
        assert views.shorten(X, same, block_statistics=True) is X
    assert views.shorten(np.zeros((2, 3, 1460)), 128).shape == (2, 3, 122)


def test_views_take_their_scales_from_training_signals(rng):
    X, Z = 3 + 2 * rng.standard_normal((2, 6, 2, 40))
    X[:, 1] *= 100
    view = views.View(20, True, True, True, True).fit(X)
    seen = view(X)
    assert seen.shape == (6, 17, 20)  # 4 · 2 block statistics, 8 first differences, 1 constant
    np.testing.assert_allclose(seen[:, :8].mean(axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(seen[:, :8].std(axis=(0, 2)), 1)
    np.testing.assert_allclose(seen[:, 8:16].std(axis=(0, 2)), 1)
    np.testing.assert_allclose(seen[:, 16], 1)
    both = view(np.concatenate([X, Z]))
    assert (both[:6] == seen).all()
    assert (both[6:] == view(Z)).all()
    plain = views.View().fit(X)
    assert (plain(X) == X).all()


def test_constant_channels_do_no_harm():
    X = np.ones((4, 2, 10))
    for view in (views.View(None, False, True, True, True), views.View(4, True, True, True, True)):
        assert np.isfinite(view.fit(X)(X)).all()
        assert np.isfinite(view.fit(0 * X)(0 * X)).all()


def test_block_statistics_are_scaled_only_where_there_are_blocks(rng):
    X = 5.0 * rng.standard_normal((4, 2, 10)) + 1.0
    assert (views.View(10, block_statistics=True).fit(X)(X) == X).all()
    seen = views.View(5, block_statistics=True).fit(X)(X)
    np.testing.assert_allclose(np.sqrt(np.mean(seen**2, axis=(0, 2))), 1.0)


def test_the_constant_is_as_large_as_the_signals(rng):
    X = 5.0 * rng.standard_normal((4, 2, 10)) + 1.0
    seen = views.View(constant=True).fit(X)(X)
    assert (seen[:, :2] == X).all()
    np.testing.assert_allclose(seen[:, 2], np.sqrt(np.mean(X**2)))


def test_nearly_standard_signals_are_not_standardized_again(rng):
    """The rule of 5 %, on both sides."""
    X = rng.standard_normal((50, 2, 40))
    X = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    for mean, ratio, standard in ((0.04, 1.04, True), (0.06, 1.0, False), (0.0, 1.06, False)):
        Z = X * np.array([1.0, ratio])[:, None] + mean * ratio
        assert views.is_standard(Z) == standard
        assert views.is_standard(7.0 * Z) == standard
