"""Views of signals: shortening, scales of training signals, channels appended."""

import numpy as np
import pytest

from rescntk.learn import steps, views


def test_shorten():
    X = np.array([[[1.0, 3.0, 5.0, 5.0, 8.0]]])
    np.testing.assert_allclose(views.shorten(X, 2), [[[2.0, 5.0, 8.0]]])
    np.testing.assert_allclose(
        views.shorten(X, 2, block_statistics=True)[0],
        [[2.0, 5.0, 8.0], [1.0, 0.0, 0.0], [1.0, 5.0, 8.0], [3.0, 5.0, 8.0]],
    )
    assert views.shorten(X, 1, block_statistics=True) is X
    for length, most, block in ((5, None, 1), (5, 5, 1), (5, 3, 2), (1460, 128, 12)):
        assert views.block_size(length, most) == block


def test_views_take_their_scales_from_training_signals(rng):
    X, Z = 3 + 2 * rng.standard_normal((2, 6, 2, 40))
    X[:, 1] *= 100
    view = views.View(20, True, True, True, True).fit(X)
    seen = view(X)
    assert seen.shape == (6, 17, 20)  # 4 · 2 block statistics, 8 first differences, 1 constant
    rms = np.sqrt(np.mean(seen[:, :8] ** 2, axis=(0, 2)))
    np.testing.assert_allclose(rms, 1)  # block statistics are scaled, not standardized
    np.testing.assert_allclose(seen[:, 8:16].std(axis=(0, 2)), seen[:, :8].std(axis=(0, 2)))
    np.testing.assert_allclose(seen[:, 16], np.sqrt(np.mean(seen[:, :16] ** 2)))
    both = view(np.concatenate([X, Z]))
    assert (both[:6] == seen).all()
    assert (both[6:] == view(Z)).all()
    assert (views.View().fit(X)(X) == X).all()
    # Block statistics are scaled only where there are blocks.
    assert (views.View(40, block_statistics=True).fit(X)(X) == X).all()


def test_constant_channels_do_no_harm():
    X = np.ones((4, 2, 10))
    for view in (views.View(None, False, True, True, True), views.View(4, True, True, True, True)):
        assert np.isfinite(view.fit(X)(X)).all()
        assert np.isfinite(view.fit(0 * X)(0 * X)).all()


def test_standardized_channels_and_differences_alone(rng):
    X = 3 + 2 * rng.standard_normal((6, 2, 40))
    seen = views.View(standardize=True).fit(X)(X)
    np.testing.assert_allclose(seen.mean(axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(seen.std(axis=(0, 2)), 1)
    both = views.View(first_differences=True).fit(X)(X)
    only = views.View(first_differences="only").fit(X)(X)
    assert (only == both[:, 2:]).all() and (both[:, :2] == X).all()
    steps = np.gradient(X, axis=2)
    np.testing.assert_allclose(only, steps * (X.std(axis=(0, 2)) / steps.std(axis=(0, 2)))[:, None])


def test_signals_much_larger_than_in_fit_are_refused(rng):
    X = rng.standard_normal((4, 2, 9))
    view = views.View(standardize=True, first_differences=True).fit(X)
    with pytest.raises(ValueError, match=r"up to 1\.7e\+308, expected smaller ones"):
        view(1.7e308 * np.sign(X))


def test_time_has_its_share_of_the_energy(rng):
    """Two channels on a circle, with s² times the energy of all other channels at each point."""
    X = rng.standard_normal((6, 3, 40))
    seen = views.View(time_scale=0.5, first_differences=True).fit(X)(X)
    assert seen.shape == (6, 8, 40)
    energy = (seen[:, 6:] ** 2).sum(axis=1)
    np.testing.assert_allclose(energy, 0.25 * (seen[:, :6] ** 2).sum(axis=1).mean())
    angles = np.arctan2(seen[:, 7], seen[:, 6])
    turns = np.broadcast_to(np.pi * np.arange(40) / 40, (6, 40))
    np.testing.assert_allclose(angles, turns, atol=1e-12)


@pytest.mark.parametrize(
    "view",
    [
        views.View(None, False, True, True, True, 0.3),
        views.View(20, True, False, "only", True, 1.0),
        views.View(7, False, True, False, False),
    ],
)
def test_lists_are_seen_as_arrays(view, rng):
    """Signals of one length: the same in a list. A short signal does not depend on a long one."""
    X = 3 + rng.standard_normal((6, 2, 40))
    fitted, listed = view.fit(X), view.fit(list(X))
    np.testing.assert_allclose(np.stack(listed(list(X))), fitted(X), rtol=1e-12, atol=1e-12)
    ragged = [X[0], X[1, :, :25], X[2, :, :1]]
    seen = view.fit(ragged)(ragged)
    block = view.fit(ragged).block
    assert [x.shape[1] for x in seen] == [-(-n // block) for n in (40, 25, 1)]
    assert all(np.isfinite(x).all() for x in seen)
    alone = view.fit(ragged)([ragged[1]])
    assert (alone[0] == seen[1]).all()


def test_offset_and_gain_of_each_signal_are_lost(rng):
    X = rng.standard_normal((6, 2, 40))
    X[0, 0] = 3.0  # a constant channel stays constant
    view = views.View(20, standardize=views.EACH).fit(X)
    gain, offset = rng.uniform(0.1, 9, (6, 2, 1)), rng.uniform(-9, 9, (6, 2, 1))
    np.testing.assert_allclose(view(gain * X + offset), view(X), atol=1e-12)
    assert (views.View(20).fit(X)(X + 1) != views.View(20).fit(X)(X)).any()


@pytest.mark.parametrize("length", [40, 37])
def test_short_time_spectra(length, rng):
    """Against sums of cosines and sines; blocks of 5 hide a tone from means, not from spectra."""
    X = rng.standard_normal((3, 2, length))
    found = steps.short_time_spectra(X, 5)
    assert found.shape == (3, 12, 8)
    window = np.sin(np.pi * np.arange(10) / 10) ** 2
    for i, channel, k, start in ((0, 0, 0, 5), (1, 0, 2, 10), (2, 1, 5, 35)):
        part = np.zeros(10)
        inside = X[i, channel, start - 2 : start + 8]  # two blocks around block start / 5
        part[: len(inside)] = window[: len(inside)] * inside
        sums = part @ np.exp(-2j * np.pi * k * np.arange(10) / 10)
        expected = np.sqrt(abs(sums))
        np.testing.assert_allclose(found[i, 6 * channel + k, start // 5], expected, rtol=1e-10)
    view = views.View(8, spectra=True).fit(X)
    np.testing.assert_allclose(np.mean(view(X) ** 2), 1)
    tone = np.sin(2 * np.pi * np.arange(40) / 5)[None, None]
    assert abs(views.shorten(tone, 5)).max() < 1e-12 < steps.short_time_spectra(tone, 5)[0, 2].min()


def test_whole_spectra(rng):
    """Against sums of cosines and sines; no level is seen, and blocks are of frequencies."""
    X = rng.standard_normal((3, 2, 21))
    angle = 2j * np.pi * np.outer(np.arange(21), np.arange(1, 11)) / 21
    expected = np.sqrt(np.abs(X @ np.exp(-angle)) / np.sqrt(21))
    np.testing.assert_allclose(steps.whole_spectra(X), expected, rtol=1e-10)
    view = views.View(5, spectra="whole").fit(X)
    assert view(X).shape == (3, 2, 5) and not view.sees_levels
    np.testing.assert_allclose(view(X + 7), view(X), rtol=1e-10)
    shares = rng.standard_normal((3, 5))
    np.testing.assert_allclose(view.to_time(shares, X[0]).sum(axis=1), shares.sum(axis=1))


@pytest.mark.parametrize("length", [1, 20, 21])
def test_energy_of_bands(rng, length):
    """Parts of each frequency's energy by sums of cosines; a burst has its band's energy."""
    x = rng.standard_normal((2, length))
    shares = steps.energy_of_bands(x, 3)
    frequencies = np.arange(1, length // 2 + 1)
    assert shares.shape == (max(1, -(-len(frequencies) // 3)), length)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    if length > 1:
        waves = np.exp(-2j * np.pi * np.outer(frequencies, np.arange(length)) / length)
        parts = (np.conj(x @ waves.T)[:, :, None] * waves * x[:, None]).real  # sums are |F|²
        parts[:, frequencies * 2 == length] *= 0.5  # this frequency has one wave, others two
        first = parts[:, :3].sum(axis=(0, 1))
        centred = parts[:, :3] - (np.conj(x @ waves.T)[:, :, None] * waves).real[:, :3] * x.mean(
            axis=1
        ).reshape(2, 1, 1)
        np.testing.assert_allclose(shares[0], centred.sum(axis=(0, 1)) / first.sum(), atol=1e-12)
    burst = np.zeros((1, 90))
    burst[0, 30:50] = np.sin(np.arange(20) * 2 * np.pi / 5)
    inside = steps.energy_of_bands(burst + 1e-3 * rng.standard_normal((1, 90)), 1)[17, 30:50]
    assert inside.sum() > 0.99


def test_time_points_are_standardized(rng):
    """Mean 0, deviation 1, but a tenth of the others' at least; equal signals stay finite."""
    X = rng.standard_normal((50, 2, 9)) * np.array([3.0] * 8 + [0.01]) + np.arange(9)
    seen = views.View(standardize=views.POINT, first_differences=True).fit(X)(X)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
    deviation = seen.std(axis=0)
    np.testing.assert_allclose(deviation[:, :8], 1)
    assert (deviation[:2, 8] < 0.1).all() and deviation[:2, 8].min() > 0.01
    equal = X[:1].repeat(4, axis=0)
    assert (views.View(standardize=views.POINT).fit(equal)(equal) == 0).all()


@pytest.mark.parametrize(
    ("settings", "axes"),
    [
        ({"standardize": "each", "first_differences": True, "time_scale": 1.0}, (23,)),
        ({"max_length": 5, "block_statistics": True, "first_differences": "only"}, (23,)),
        ({"max_length": 5, "spectra": True, "standardize": "each", "constant": True}, (23,)),
        ({"max_length": 6, "first_differences": True, "standardize": True}, (23,)),
        ({"max_length": 3, "first_differences": True, "time_scale": 1.0}, (7, 5)),
        ({"first_differences": True}, (1,)),
        ({"standardize": "point", "first_differences": "only"}, (23,)),
        ({"standardize": "point", "first_differences": True, "time_scale": 1.0}, (7, 5)),
        ({"spectra": "whole", "standardize": "each", "constant": True}, (23,)),
        ({"spectra": "whole", "max_length": 5, "block_statistics": True}, (22,)),
        ({"spectra": "whole"}, (1,)),
    ],
)
@pytest.mark.parametrize("metric", [None, [[1.0, 0.3], [-0.8, 0.2]]])
def test_adjoint_has_the_derivatives_of_the_view(rng, settings, axes, metric):
    """Against central differences; an exponent of two is part of the view."""
    X = np.ldexp(rng.standard_normal((4, 2, *axes)) + 0.5, 400)
    transform = None if metric is None else np.array(metric)
    view = views.View(**settings, transform=transform).fit(X)
    slopes, step = rng.standard_normal(view(X).shape), rng.standard_normal(X.shape)
    found = np.ldexp(view.adjoint(X, slopes), 400)
    size = 1e-5
    near = [view(X + np.ldexp(sign * size * step, 400)) for sign in (1, -1)]
    expected = ((near[0] - near[1]) * slopes).sum(axis=tuple(range(1, X.ndim))) / (2 * size)
    products = (found * step).sum(axis=tuple(range(1, X.ndim)))
    scale = np.abs(slopes).sum() * np.abs(view(X)).max()
    np.testing.assert_allclose(products, expected, atol=1e-8 * scale)


@pytest.mark.parametrize("standardize", [True, "each", "point"])
@pytest.mark.parametrize("spectra", [False, True, "whole"])
def test_weights_of_channels_stay_after_standardization(rng, standardize, spectra):
    """A metric acts on standardized channels; the view's channels keep their relative sizes."""
    X = rng.standard_normal((30, 3, 24)) * np.array([[1.0], [10.0], [0.1]]) + 5.0
    weights = np.array([1.5, 0.8, 0.3])
    settings = {"standardize": standardize, "spectra": spectra, "max_length": 6}
    settings["first_differences"] = spectra is False
    Z = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    plain = views.View(**settings).fit(Z)(Z)
    weighed = views.View(**settings, transform=np.diag(weights)).fit(X)(X)
    size, expected = (np.sqrt((seen**2).mean(axis=(0, 2))) for seen in (weighed, plain))
    of_channels = weights / np.sqrt((weights**2).mean())
    each = len(size) // 3
    of_channels = np.repeat(of_channels, each) if spectra is True else np.tile(of_channels, each)
    np.testing.assert_allclose(size, of_channels * expected, rtol=1e-10)


def test_metric_is_the_matrix_times_standardized_channels(rng):
    X = rng.standard_normal((9, 3, 12)) * np.array([[1.0], [10.0], [0.1]]) + 5.0
    X[:, 1] = 7.0  # a constant channel plays no part
    S = rng.standard_normal((3, 3))
    seen = views.View(transform=S).fit(X)(X)
    deviation = X.std(axis=(0, 2), keepdims=True)
    Z = (X - X.mean(axis=(0, 2), keepdims=True)) / np.where(deviation > 0, deviation, 1.0)
    expected = np.einsum("ij,njt->nit", S, Z)
    expected /= np.sqrt(expected.var(axis=(0, 2)).mean())
    np.testing.assert_allclose(seen, expected, atol=1e-12)
    as_list = views.View(transform=S).fit(list(X))(list(X))
    np.testing.assert_allclose(np.array(as_list), seen, atol=1e-12)
