"""Exponents of the decay of eigenvalues, and their law, against spectra."""

import itertools
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import spectrum
from rescntk.theory.spectrum.grid import windows
from tests import tolerances
from tests.oracles import papers

CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO, TWO_CNN = literature.barzilai_resnet, literature.barzilai_cnn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "n_channels", "d", "top", "expected"),
    [
        (TWO(3), 3, 1, 40, {"gpk": [5], "ntk": [3]}),
        (CNN(2), 2, 3, 48, {"gpk": [4, 6, 6], "ntk": [2, 4, 4]}),
        (RESNET(3), 2, 4, 24, {"gpk": [4, 6, 6], "ntk": [2, 4, 4]}),
        (TWO(2), 3, 3, 40, {"gpk": [5, 9, 9], "ntk": [3, 7, 7]}),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_exponents(network, n_channels, d, top, expected, kind):
    """Theorem 5.1's bounds, and the law of the singularities, approached with frequency."""
    found = spectrum.decay_exponents(network, n_channels, d, top, kind=kind)
    assert found.column("law").tolist() == expected[kind]
    for row in found:
        p, nu_b = len(row.pixels), 1 + {"gpk": 3, "ntk": 1}[kind] / (2 * d)
        lower, upper = p * (n_channels + 2), p * (n_channels + 2 * nu_b - 3)
        assert abs(row.exponent_of_lower_bound - lower) <= tolerances.ROUTES
        assert abs(row.exponent_of_upper_bound - upper) <= tolerances.ROUTES
        assert row.exponent_of_upper_bound <= row.law <= row.exponent_of_lower_bound
        assert abs(row.exponent - row.law) <= min(row.error, tolerances.SLOPE)
    assert (found.errors <= 1e-2 * found.eigenvalues)[found.eigenvalues > 1e-9].all()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_the_law_inside_one_window(kind):
    """min(s (C0 + 2), 3 + q (C0 − 1)) of one convolution a layer."""
    for depth, q, C in product((2, 3), (1, 3, 5), (2, 3, 5)):
        for s in range(1, q + 1):
            found = spectrum.decay_law(
                CNN(depth, q), C, 31, np.arange(s) - (q - 1) // 2, kind=kind, head="equivariant"
            )
            assert found == min(s * (C + 2), 3 + q * (C - 1)) - 2 * (kind == "ntk")
            outer = CNN(depth, q).replace(trained=("outer",))
            found = spectrum.decay_law(
                outer, C, 31, np.arange(s) - (q - 1) // 2, kind="ntk", head="equivariant"
            )
            assert found == min(s * (C + 2), 1 + q * (C - 1))


@pytest.mark.parametrize(
    ("network", "d", "expected"),
    [
        (CNN(2, 5), 5, [4, 8, 8, 8, 8]),
        (CNN(3, 3), 5, [4, 6, 6, 8, 8]),
        (TWO_CNN(3, 3), 9, [4, 8, 8, 8, 8, 12]),
    ],
)
def test_the_law_of_covers_by_several_windows(network, d, expected):
    """By hand, for 1, 2, 3, … neighbouring pixels."""
    laws = [
        spectrum.decay_law(network, 2, d, range(s), kind="gpk", head="equivariant")
        for s in range(1, len(expected) + 1)
    ]
    assert laws == expected


@pytest.mark.parametrize(("kind", "expected"), [("gpk", 14), ("ntk", 12)])
def test_the_law_counts_pixels_of_overlapping_windows_once(kind, expected):
    """Two windows of three pixels have four together, less than the one of the last layer costs."""
    network = rk.Network(2, 5, outer_filter_size=1, input_filter_size=3, skip=False)
    for d in (9, 12):
        assert spectrum.decay_law(network, 3, d, (-3, 0), kind=kind, head="equivariant") == expected


def test_a_product_of_overlapping_windows_falls_as_the_law_says():
    """The term of the eigenvalue in docs/theory/decay.md, whose exponent is at least that of all.

    The mean over four independent t of κ₁ of both windows, in their Legendre coefficients: with u
    and v the two middle pixels, it is the mean over them of a product of two coefficients.
    """
    nodes, weights = np.polynomial.legendre.leggauss(160)
    weights = weights / 2
    frequencies = np.array([12, 16, 24, 32])
    legendre = np.array([np.polynomial.legendre.Legendre.basis(k)(nodes) for k in frequencies])
    sums = nodes[:, None] + nodes  # of the two middle pixels
    tau = np.clip((nodes + sums[..., None]) / 3, -1, 1)
    kappa = (np.sqrt(1 - tau**2) + tau * (np.pi - np.arccos(tau))) / np.pi
    coefficients = np.einsum("uvt,t,kt->kuv", kappa, weights, legendre)
    means = np.einsum("kuv,u,v->k", coefficients**2, weights, weights)
    slopes = -np.diff(np.log(means)) / np.diff(np.log(frequencies + 0.5))
    near = 0.6  # of finite frequencies: slopes fall to 14
    assert (np.diff(slopes) < 0).all() and abs(slopes[-1] - 14) < near


@pytest.mark.slow
def test_the_law_where_no_window_covers_all_pixels():
    """Pixels 1, 2 and −1 of a five-pixel ring: a window of the third layer, or two smaller ones."""
    sets = [(0, 2), (1, 2, -1), (0, 1, 2, 3, 4)]
    found = spectrum.decay_exponents(CNN(3), 2, 5, 14, kind="gpk", pixels=sets, nodes=28)
    assert found.column("law").tolist() == [6, 8, 8]
    assert np.abs(found.column("exponent") - found.column("law")).max() <= tolerances.SLOPE
    # Two windows of 1 pixel, 2 · 5, are cheaper than the window of 5 that has both, 3 + 5 · 2.
    (row,) = spectrum.decay_exponents(CNN(2, 5), 3, 5, 20, kind="gpk", pixels=[(0, 1)], nodes=30)
    assert row.law == 10 and abs(row.exponent - 10) <= tolerances.COMPETITION


@pytest.mark.parametrize(
    ("network", "d"), [(TWO(3).replace(trained="readout"), 1), (CNN(2).replace(trained="outer"), 3)]
)
def test_tangent_kernels_with_the_exponent_of_the_gpk(network, d):
    """The window of one pixel is of layer 1, and no trained part is below it."""
    (row,) = spectrum.decay_exponents(network, 2, d, 40, kind="ntk", pixels=[(0,)])
    assert row.law == 4 and abs(row.exponent - 4) <= tolerances.SLOPE


OUTER = CNN(2).replace(trained=("outer",))
DILATED = rk.Network(2, 1, outer_filter_size=3, skip=False, dilation=(1, 3))
SPREAD = rk.Network(2, outer_filter_size=1, input_filter_size=3, skip=False, dilation=(1, 2))


@pytest.mark.parametrize(
    ("network", "n_channels", "d", "pixels", "kind", "head", "law"),
    [
        (CNN(2, 5), 3, 5, (0, 1), "ntk", "equivariant", 8),
        # Seven pixels, two of them far apart: windows of 1 cost 4 each, one of 7 costs 10.
        (CNN(4), 2, 9, (-3, 3), "gpk", "equivariant", 8),
        (CNN(4), 2, 9, (-3, -2, 2, 3), "gpk", "equivariant", 10),
        (CNN(4), 2, 9, (-3, 3), "ntk", "equivariant", 6),
        (CNN(2), 2, 9, (3,), "gpk", "equivariant", np.inf),
        (CNN(2), 2, 9, (3,), "gpk", "trace", 4),
        # Outer weights see the slopes of later layers, whose windows are wider.
        (OUTER, 2, 3, (0,), "ntk", "equivariant", 4),
        (OUTER, 2, 3, (0, 1), "ntk", "equivariant", 4),
        (TWO(2, alpha=0.0), 2, 3, (0,), "gpk", "equivariant", np.inf),  # linear
        (TWO(2).replace(trained=()), 2, 3, (0,), "ntk", "equivariant", np.inf),  # 0
        (TWO(2).replace(trained=()), 2, 3, (0,), "gpk", "equivariant", 4),
        # Layer 1 is seen at pixels −1, 0, 1: two windows of 1 cost 14, one of 3 costs 15.
        (DILATED, 5, 9, (-1, 1), "gpk", "equivariant", 14),
        # Layer 1 is seen at pixels −2, 0, 2: {4, 0, 1} is its window on the ring, {0, 1, 2} is not.
        (SPREAD, 2, 5, (-1, 0, 1), "gpk", "equivariant", 6),
        (SPREAD, 2, 5, (0, 1, 2), "gpk", "equivariant", 8),
        # Layer 2 is seen at pixels −1, 0, 1: {1, 2, 3} is no window of it on a ring of 4.
        (CNN(3), 2, 4, (1, 2, 3), "gpk", "equivariant", 7),
        # Exponential in the pixels, a search would not end: a window of 31.
        (CNN(20), 2, 32, range(0, 32, 2), "ntk", "equivariant", 32),
    ],
)
def test_the_law(network, n_channels, d, pixels, kind, head, law):
    assert spectrum.decay_law(network, n_channels, d, pixels, kind=kind, head=head) == law


@pytest.mark.parametrize("skip", [True, False])
def test_even_and_odd_frequencies(skip):
    """λ_k (k + ½)⁵ has the ratio (A₊ + A₋)/(A₊ − A₋): 1.380, or 1.224 without skip connections."""
    # At t = 1 each of three layers R adds its term (1 − t)^(3/2). At t = −1 the first one does, and
    # the slopes of R at the two next correlations multiply it.
    share, rho = 1.0 - 0.5 * skip, [-1.0]
    for _ in range(2):
        rho.append((1 - share) * rho[-1] + share * papers.kappa1(rho[-1]))
    slopes = [1 - share + share * papers.kappa0(u) for u in rho[1:]]
    ratio = (3 + np.prod(slopes)) / (3 - np.prod(slopes))
    assert abs(ratio - (1.380 if skip else 1.224)) <= tolerances.printed(3)
    values = spectrum.eigenvalues(
        TWO(3) if skip else TWO_CNN(3), 3, 1, (60,), kind="gpk", head="equivariant"
    ).eigenvalues
    scaled = values[58] / values[59] * (58.5 / 59.5) ** 5
    next_term = 9 / 58**2  # as of `tolerances.SLOPE`
    assert abs(scaled / ratio - 1) <= next_term


@pytest.mark.slow
@pytest.mark.parametrize("network", [TWO(1), TWO(2), CNN(2), rk.Network(1, input_filter_size=3)])
@pytest.mark.parametrize("head", ["equivariant", "trace"])
def test_where_eigenvalues_are_0(network, head):
    """Exactly where the law says so: outside of all windows of the last layer."""
    d = 8
    field = windows(network, d)[1][-1]
    top = [2 if head == "trace" or pixel in field else 0 for pixel in range(d)]
    found = spectrum.eigenvalues(network, 2, d, top, kind="ntk", head=head).eigenvalues
    for pixels in (p for n in (1, 2, 3) for p in itertools.combinations(range(d), n)):
        law = spectrum.decay_law(network, 2, d, pixels, kind="ntk", head=head)
        k = tuple(2 * (pixel in pixels) for pixel in range(d))
        value = found[k] if all(np.less_equal(k, top)) else 0.0
        assert (value == 0) == (law == np.inf), pixels


def test_eigenvalues_of_0_have_no_slope():
    """Pixels 3 and −3 are in the receptive field, but in none of the last layer's windows of 5."""
    sets = [(3, -3), (3,), (1, 3)]
    none, _, two = found = spectrum.decay_exponents(
        TWO_CNN(2), 2, 8, 12, kind="gpk", pixels=sets, nodes=28
    )
    assert (found.eigenvalues[0] == 0).all() and (found.eigenvalues[1] > 0).all()
    assert found.column("law").tolist() == [np.inf, 4, 8]
    assert np.isnan(none.exponent) and abs(two.exponent - 8) <= two.error


def slope_of_waves(frequency, values, n_channels):
    """Return minus the slope over log(k + C0/2 − 1) that even and odd frequencies have in common.

    It is the ratio of their covariances to their variances, both added.
    """
    x, y = np.log(frequency + n_channels / 2 - 1), np.log(values)
    groups = [(x[frequency % 2 == odd], y[frequency % 2 == odd]) for odd in (0, 1)]
    covariance = sum(((a - a.mean()) * (b - b.mean())).sum() for a, b in groups)
    return -covariance / sum(((a - a.mean()) ** 2).sum() for a, _ in groups)


@pytest.mark.parametrize("n_channels", [2, 4])
def test_exponents_and_their_bars_are_slopes_of_the_upper_frequencies(n_channels):
    """As the table's documentation says, of its own eigenvalues."""
    found = spectrum.decay_exponents(TWO(2), n_channels, 1, 16, kind="gpk")
    (row,), k, values = found, found.frequencies, found.eigenvalues[0]
    assert (values > 10 * found.errors[0]).all()
    parts = (k >= 8), (k >= 4) & (k <= 8)
    upper, lower = (slope_of_waves(k[part], values[part], n_channels) for part in parts)
    assert abs(row.exponent - upper) <= tolerances.TRANSCRIPTION * upper
    assert abs(row.error - (2 * abs(upper - lower) + 1 / 16)) <= tolerances.TRANSCRIPTION * upper


def test_upper_bounds_do_not_depend_on_pixels_outside_the_receptive_field():
    """Theorem 5.1 has the signal's length; the network sees three pixels of it."""
    bounds = [
        spectrum.decay_exponents(CNN(2), 2, d, 8, kind="gpk", pixels=[(0, 1)]).column(
            "exponent_of_upper_bound"
        )
        for d in (3, 7)
    ]
    assert bounds[0] == bounds[1]


def test_pixels_are_named_by_their_distance_from_the_output_pixel():
    """The pixel half a ring away is as far to the right as to the left: it is positive."""
    sets = [(0,), (1,), (2,), (3,)]
    found = spectrum.decay_exponents(TWO(2), 2, 4, 8, kind="gpk", pixels=sets)
    assert [row.pixels for row in found] == [(0,), (1,), (2,), (-1,)]
