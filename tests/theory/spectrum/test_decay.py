"""Exponents of the decay and the constants of theorem 5.1, against kernels and spectra."""

import itertools
import math
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import spectrum
from rescntk.theory.spectrum.constants import moments
from rescntk.theory.spectrum.grid import windows
from tests import tolerances
from tests.oracles import papers

pytestmark = pytest.mark.slow

CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO, TWO_CNN = literature.barzilai_resnet, literature.barzilai_cnn
SERIES, BOUNDS = spectrum.taylor_coefficients, spectrum.decay_constants
EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize(
    ("network", "n_channels", "d", "top", "expected"),
    [
        (TWO(3), 3, 1, 40, {"gpk": [-5], "ntk": [-3]}),
        (CNN(2), 2, 3, 48, {"gpk": [-4, -6, -6], "ntk": [-2, -4, -4]}),
        (RESNET(3), 2, 4, 24, {"gpk": [-4, -6, -6], "ntk": [-2, -4, -4]}),
        (TWO(2), 3, 3, 40, {"gpk": [-5, -9, -9], "ntk": [-3, -7, -7]}),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_exponents(network, n_channels, d, top, expected, kind):
    """Theorem 5.1's bounds, and the law of the singularities, approached with frequency."""
    found = spectrum.decay_exponents(network, n_channels, d, top, kind)
    assert found.column("law").tolist() == expected[kind]
    for row in found:
        p, nu_b = len(row.pixels), 1 + {"gpk": 3, "ntk": 1}[kind] / (2 * d)
        assert abs(row.lowest + p * (n_channels + 2)) <= 1e-12
        assert abs(row.highest + p * (n_channels + 2 * nu_b - 3)) <= 1e-12
        assert row.lowest <= row.law <= row.highest
        assert abs(row.exponent - row.law) <= min(row.uncertainty, tolerances.SLOPE)
    assert (found.errors <= 1e-2 * found.eigenvalues)[found.eigenvalues > 1e-9].all()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_the_law_inside_one_window(kind):
    """min(s (C0 + 2), 3 + q (C0 − 1)) of one convolution a layer; covers beyond it, by hand."""
    for depth, q, C in product((2, 3), (1, 3, 5), (2, 3, 5)):
        for s in range(1, q + 1):
            found = spectrum.decay_law(CNN(depth, q), C, 31, np.arange(s) - (q - 1) // 2, kind)
            assert -found == min(s * (C + 2), 3 + q * (C - 1)) - 2 * (kind == "ntk")
            outer = CNN(depth, q).replace(trained=("outer",))
            found = spectrum.decay_law(outer, C, 31, np.arange(s) - (q - 1) // 2, "ntk")
            assert -found == min(s * (C + 2), 1 + q * (C - 1))
    for network, d, expected in (
        (CNN(2, 5), 5, [4, 8, 8, 8, 8]),
        (CNN(3, 3), 5, [4, 6, 6, 8, 8]),
        (literature.barzilai_cnn(3, 3), 9, [4, 8, 8, 8, 8, 12]),
    ):
        laws = [spectrum.decay_law(network, 2, d, range(s)) for s in range(1, len(expected) + 1)]
        assert (np.negative(laws) == expected).all()


def test_the_law_where_no_window_covers_all_pixels():
    """Pixels 1, 2 and −1 of a five-pixel ring: a window of the third layer, or two smaller ones."""
    sets = [(0, 2), (1, 2, -1), (0, 1, 2, 3, 4)]
    found = spectrum.decay_exponents(CNN(3), 2, 5, 14, pixels=sets, nodes=28)
    assert found.column("law").tolist() == [-6, -8, -8]
    assert np.abs(found.column("exponent") - found.column("law")).max() <= tolerances.SLOPE
    # Two windows of 1 pixel, 2 · 5, are cheaper than the window of 5 that has both, 3 + 5 · 2.
    (row,) = spectrum.decay_exponents(CNN(2, 5), 3, 5, 20, pixels=[(0, 1)], nodes=30)
    assert row.law == -10 and abs(row.exponent + 10) <= tolerances.COMPETITION
    # The exponent of one pixel is the GPK's, −4, where only the readout is trained, and where only
    # outer weights are: a window of one pixel is of layer 1, with no trained part below it.
    readout, outer = TWO(3).replace(trained="readout"), CNN(2).replace(trained="outer")
    for network, d in ((readout, 1), (outer, 3)):
        (row,) = spectrum.decay_exponents(network, 2, d, 40, "ntk", pixels=[(0,)])
        assert row.law == -4 and abs(row.exponent + 4) <= tolerances.SLOPE


def test_the_law():
    law = spectrum.decay_law
    assert law(CNN(2, 5), 3, 5, (0, 1), "ntk") == -8
    # Seven pixels, two of them far apart: windows of 1 cost 4 each, one of 7 costs 10.
    assert law(CNN(4), 2, 9, (-3, 3)) == -8
    assert law(CNN(4), 2, 9, (-3, -2, 2, 3)) == -10
    assert law(CNN(4), 2, 9, (-3, 3), "ntk") == -6
    assert law(CNN(2), 2, 9, (3,)) == -np.inf
    assert law(CNN(2), 2, 9, (3,), head="trace") == -4
    # Outer weights see the slopes of later layers, whose windows are wider.
    outer = CNN(2).replace(trained=("outer",))
    assert law(outer, 2, 3, (0,), "ntk") == law(outer, 2, 3, (0, 1), "ntk") == -4
    assert law(TWO(2, alpha=0.0), 2, 3, (0,)) == -np.inf  # linear
    # Layer 1 is seen at pixels −1, 0, 1: two windows of 1 cost 14, one of 3 costs 15.
    dilated = rk.Network(2, 1, outer_filter_size=3, skip=False, dilation=(1, 3))
    assert law(dilated, 5, 9, (-1, 1)) == -14
    # Exponential in the pixels, a search would not end.
    assert law(CNN(20), 2, 32, range(0, 32, 2), "ntk") == -32  # a window of 31


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
    assert abs(ratio - (1.380 if skip else 1.224)) <= 5e-4
    values = spectrum.eigenvalues(TWO(3) if skip else TWO_CNN(3), 3, 1, (60,))
    scaled = values[58] / values[59] * (58.5 / 59.5) ** 5
    assert abs(scaled / ratio - 1) <= 9 / 58**2  # the next term of `tolerances.SLOPE`


@pytest.mark.parametrize("network", [TWO(1), TWO(2), CNN(2), rk.Network(1, input_filter_size=3)])
@pytest.mark.parametrize("head", ["equivariant", "trace"])
def test_where_eigenvalues_are_0(network, head):
    """Exactly where the law says so: outside of all windows of the last layer."""
    d = 8
    field = windows(network, d)[1][-1]
    top = [2 if head == "trace" or pixel in field else 0 for pixel in range(d)]
    found = spectrum.eigenvalues(network, 2, d, top, "ntk", head)
    for pixels in (p for n in (1, 2, 3) for p in itertools.combinations(range(d), n)):
        law = spectrum.decay_law(network, 2, d, pixels, "ntk", head)
        k = tuple(2 * (pixel in pixels) for pixel in range(d))
        value = found[k] if all(np.less_equal(k, top)) else 0.0
        assert (value == 0) == (law == -np.inf), pixels


def test_eigenvalues_of_0_have_no_slope():
    """Pixels 3 and −3 are in the receptive field, but in none of the last layer's windows of 5."""
    sets = [(3, -3), (3,), (1, 3)]
    none, _, two = found = spectrum.decay_exponents(TWO_CNN(2), 2, 8, 12, pixels=sets, nodes=28)
    assert (found.eigenvalues[0] == 0).all() and (found.eigenvalues[1] > 0).all()
    assert found.column("law").tolist() == [-np.inf, -4, -8]
    assert np.isnan(none.exponent) and abs(two.exponent + 8) <= two.uncertainty


def test_dual_coefficients():
    """κ1 and ρ κ0 at ρ = ½ (60 degrees), and the powers of lemma C.4."""
    layer, powers = CNN(1, 1).replace(trained=("inner",)), 0.5 ** np.arange(4002)
    slope, value = SERIES(layer, 1, 4002, "ntk")[1:], SERIES(layer, 1, 4001)
    assert abs(slope @ powers - 2 / 3) <= 4 * EPS
    assert abs(value @ powers - (math.sqrt(3) / 2 + math.pi / 3) / math.pi) <= 4 * EPS
    limit = math.sqrt(2) / math.pi**1.5
    assert abs(slope[4001] * 4001**1.5 / limit - 1) < 1e-3
    assert abs(value[4000] * 4000**2.5 / limit - 1) < 1e-3
    assert (slope[2::2] == 0).all() and (value[3::2] == 0).all()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(
    ("network", "d"),
    [
        (rk.Network(3, 3, alpha=0.7), 2),
        (CNN(3), 3),
        (rk.Network(2, 1, outer_filter_size=3, input_filter_size=3, trained=("input", "outer")), 3),
        (rk.Network(2, skip=False, trained=("input", "inner", "outer", "readout")), 3),
    ],
)
def test_the_series_is_the_kernel(rng, network, d, kind):
    """At |t| ≤ 0.1 with powers up to 9: the rest is below 1e-9."""
    t = rng.uniform(-0.1, 0.1, d)
    found = SERIES(network, d, 9, kind)
    assert (found >= 0).all()
    for own in t:
        found = np.tensordot(own ** np.arange(10), found, 1)
    X, Z = np.zeros((2, 1, 2, d))
    X[0, 0], Z[0] = math.sqrt(2), math.sqrt(2) * np.stack([t, np.sqrt(1 - t**2)])
    expected = rk.Kernel(network, kind, "equivariant", normalized=True)(X, Z)[0, 0]
    assert abs(found - expected) <= 1e-9


def test_moments_are_integrals():
    for C in (2, 3, 7):
        complements, matrix = spectrum.quadrature.rule("gegenbauer", C, 5, 16)
        expected = spectrum.quadrature.integrate(
            matrix, (1 - complements)[:, None] ** np.arange(12), {0: 5}
        )
        for k, n in product(range(6), range(12)):
            own = n >= k and (n - k) % 2 == 0
            found = moments(C, np.array(k), np.array(n)) if own else 0.0
            assert abs(found - expected[k, n]) <= 1e-13
    for C in (10**12, 2**63):  # ∫ t² w = 1/C0
        assert abs(C * moments(C, np.array(0), np.array(2)) - 1) <= tolerances.ROUTES


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(
    ("network", "C", "d", "sets"),
    [
        (rk.Network(3, 1, alpha=0.5), 3, 1, [(0,)]),
        (CNN(2), 2, 3, [(0,), (-1, 0, 1)]),
        (RESNET(3), 2, 4, [(2,), (0, 1)]),
    ],
)
def test_bounds_of_theorem_5_1(network, C, d, sets, kind):
    """All eigenvalues lie between the bounds; for one pixel c_1 is within a factor of 50 (GPK)."""
    for pixels in sets:
        top = {1: 20, 2: 10, 3: 6}[len(pixels)]
        highest = [top * (pixel in {p % d for p in pixels}) for pixel in range(d)]
        computed = spectrum.eigenvalues(network, C, d, highest, kind, normalized=True)
        found = BOUNDS(network, C, d, pixels, kind)
        assert 0 < found.lower < found.upper
        k = np.array(list(product(range(1, top + 1), repeat=len(pixels))))
        full = np.zeros((len(k), d), dtype=int)
        full[:, list(pixels)] = k
        values = computed[tuple(full.T)]
        low, high = found.bounds(k)
        assert (low <= values * (1 + tolerances.SPECTRUM)).all()
        assert (values <= high * (1 + tolerances.SPECTRUM)).all()
        if len(pixels) == 1 and kind == "gpk":
            assert (values / low).min() < 50
        # Sharper than the theorem, which has all pixels of the receptive field for s.
        nu = {"gpk": 2.5, "ntk": 1.5}[kind]
        assert found.upper_exponent <= -(C - 1) - 2 * (nu - 1) / d


def test_absent_pixels_and_heads():
    constants = partial(BOUNDS, CNN(2), 2, 4)
    assert constants([2]).upper == 0
    alone, trace = [constants([pixel]) for pixel in (0, 1, -1)], constants([2], head="trace")
    for name in ("lower", "upper"):
        assert abs(getattr(trace, name) / (sum(getattr(c, name) for c in alone) / 4) - 1) < 1e-12
