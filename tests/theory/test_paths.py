"""Paths of convolutions, and fits of theorem 5.2 by spectra, against definitions."""

import itertools
from functools import cache

import numpy as np
import pytest

import rescntk as rk
import spectra
from rescntk import literature
from rescntk.theory import multisphere, paths, spectrum
from tests import tolerances
from tests.oracles import papers

CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO = literature.barzilai_resnet

# Results of fits, which search for minima: a few times `tolerances.MINIMUM`.
FIT = 1e-6

# Sums from their logarithms, which are -22 at the least and are rounded four times to eps/2.
OF_LOGARITHMS = 4 * 22 * tolerances.EPS["float64"] / 2


def taps_of(network):
    """Return the taps of all convolutions, from the output to the input."""
    steps = network.dilation
    steps = [steps] * network.depth if isinstance(steps, int) else steps

    def taps(size, step=1):
        return [step * k for k in range(-(size // 2), size // 2 + 1)]

    sizes = network.outer_filter_size, network.filter_size
    found = [taps(size, step) for step in steps[:0:-1] for size in sizes]
    return [*found, taps(sizes[0], steps[0]), taps(network.input_filter_size)]


@pytest.mark.parametrize(
    ("depth", "q", "outer", "first"), [(1, 3, 3, 1), (3, 3, 3, 1), (4, 3, 1, 1), (2, 5, 3, 3)]
)
@pytest.mark.parametrize("dilated", [False, True])
def test_path_counts_by_walking_all_paths(depth, q, outer, first, dilated):
    dilation = [layer + 2 for layer in range(depth)] if dilated else 1
    sizes = {"outer_filter_size": outer, "input_filter_size": first, "dilation": dilation}
    network = rk.Network(depth, q, **sizes)
    ends = [sum(path) for path in itertools.product(*taps_of(network))]
    for d in (1, 4, 20):
        found = paths.path_counts(network, d)
        assert found.tolist() == np.bincount(np.mod(ends, d), minlength=d).tolist()
    pixels = paths.path_pixels(network)
    assert pixels.tolist() == ends
    assert abs(pixels).max() == network.reach()


@pytest.mark.parametrize("sizes", [3, (5, 3, 1, 5)])
def test_numbers_of_paths_are_known_before_they_are_counted(sizes):
    network = rk.Network(4, sizes, outer_filter_size=(1, 5, 3, 3), input_filter_size=7)
    number = paths.path_counts(network, 5).sum()
    assert abs(paths._bits(network) / np.log2(float(number)) - 1) <= tolerances.ROUTES


def test_counts_that_take_hours_are_refused():
    """A million layers of 100 pixels add some 10^13 words of 64 bits."""
    with pytest.raises(ValueError, match=r"counts of 9.54e\+05 digits at 100 pixels take hours"):
        paths.path_counts(rk.Network(10**6), 100)
    assert paths.path_counts(rk.Network(1000), 100).sum() == 3**1999


D, TOP = 4, 5
"""Pixels and the highest frequency of fits."""

of_exponents = pytest.mark.parametrize("exponent", [None, 4.0])


@cache
def eigenvalues_of_gpk():
    options = {"kind": "gpk", "head": "equivariant", "normalized": True}
    return spectrum.eigenvalues(RESNET(3), 2, D, TOP, **options).eigenvalues


@cache
def fit_of(exponent, depths=None):
    options = {"kind": "gpk", "exponent": exponent, "depths": depths}
    return paths.fit_path_counts(RESNET(3), 2, D, TOP, **options)


def theorem_5_2(fit):
    """Return the theorem's sum at all frequencies, with the constants of a fit."""
    k, total = np.moveaxis(np.indices((TOP + 1,) * D), 0, -1), 0.0
    for depth, constant in zip(fit.depths, fit.constants, strict=True):
        p = paths.path_counts(rk.Network(depth, 3, outer_filter_size=1), D).astype(float)
        term = constant * fit.base ** np.minimum(p, k).sum(axis=-1)
        total = total + np.where(((p > 0) | (k == 0)).all(axis=-1), term, 0.0)
    return total * np.maximum(k, 1).prod(axis=-1) ** -fit.exponent


@pytest.mark.slow
def test_all_eigenvalues_are_positive():
    assert (eigenvalues_of_gpk() > 0).all()


@pytest.mark.slow
@of_exponents
def test_the_rms_of_a_fit_is_that_of_differences_of_logarithms(exponent):
    fit = fit_of(exponent)
    rms = np.sqrt((np.log(eigenvalues_of_gpk() / theorem_5_2(fit)) ** 2).mean())
    assert abs(rms / fit.rms - 1) <= FIT


@pytest.mark.slow
@of_exponents
def test_r_squared_is_the_share_of_the_variance_of_logarithms_that_a_fit_explains(exponent):
    fit, eigenvalues = fit_of(exponent), eigenvalues_of_gpk()
    square = (np.log(eigenvalues / theorem_5_2(fit)) ** 2).mean()
    assert abs(1 - square / np.log(eigenvalues).var() - fit.r_squared) <= FIT


@pytest.mark.slow
@of_exponents
def test_the_bound_factor_makes_a_fit_the_largest_lower_bound(exponent):
    """The theorem's inequality, with constants that are as large as they may be."""
    fit = fit_of(exponent)
    ratios = theorem_5_2(fit) * fit.bound_factor / eigenvalues_of_gpk()
    assert abs(ratios.max() - 1) <= OF_LOGARITHMS


@pytest.mark.slow
def test_a_fit_has_the_exponent_that_is_given():
    """Its bounds are the next numbers."""
    assert abs(fit_of(4.0).exponent - 4.0) <= 4.0 * tolerances.EPS["float64"]


@pytest.mark.slow
@of_exponents
def test_a_sum_over_depths_fits_better_than_one_depth(exponent):
    assert fit_of(exponent).rms < fit_of(exponent, (3,)).rms


@pytest.mark.slow
@of_exponents
def test_bases_are_at_least_1(exponent):
    assert min(fit_of(exponent).base, fit_of(exponent, (3,)).base) >= 1


WINDOW = rk.Network(1, input_filter_size=3, alpha=0.5, trained=("readout",))


@pytest.mark.parametrize(
    ("network", "kind", "d", "top"),
    [(RESNET(1, alpha=0.5), "gpk", 2, 8), (WINDOW, "gpk", 2, 4), (WINDOW, "ntk", 4, 4)],
)
def test_a_single_layer_is_its_own_mixture(network, kind, d, top):
    """t + α² κ1(t), weights 1 and α² over their sum; a window longer than the ring sees twice."""
    found = spectra.mixture(network, 3, d, top, kind)
    assert np.abs(found.weights - [0.8, 0.2]).max() <= FIT
    assert found.rms <= FIT
    assert np.abs(found.mixed - found.eigenvalues).max() <= FIT
    assert found.rms_alone > 0.5 or network is WINDOW


def test_pixels_without_a_frequency_do_not_change_what_a_fit_counts():
    """Pixel 2 has frequency 0 alone: the sum of the theorem is the same as if it were not there."""
    network = CNN(3)
    fit = paths.fit_path_counts(network, 2, 3, (5, 5, 0), kind="gpk", exponent=6.0)
    assert fit.base > 2  # counts matter
    options = {"kind": "gpk", "head": "equivariant", "normalized": True, "errors": True}
    computed = spectrum.eigenvalues(network, 2, 3, (5, 5, 0), **options)
    k = np.argwhere(computed.resolved)
    steps = np.minimum(paths.path_counts(network, 3).astype(float), k).sum(axis=1)
    theorem = fit.constants * fit.base**steps * np.maximum(k, 1).prod(axis=1) ** -fit.exponent
    rms = np.sqrt((np.log(computed.eigenvalues[tuple(k.T)] / theorem) ** 2).mean())
    assert abs(rms / fit.rms - 1) <= FIT


def test_a_fit_takes_one_more_eigenvalue_than_it_has_constants():
    """Of one depth: c, A and e."""
    assert paths.fit_path_counts(TWO(2), 2, 1, 3, kind="gpk", depths=[2]).rms > 0
    with pytest.raises(ValueError, match="3 eigenvalues exceed .*, expected at least 4 for 3 cons"):
        paths.fit_path_counts(TWO(2), 2, 1, 2, kind="gpk", depths=[2])


@pytest.mark.slow
def test_paths_of_a_fit_begin_with_the_filter_of_the_input():
    network = RESNET(2).replace(input_filter_size=3)
    fit = paths.fit_path_counts(network, 2, 5, (3, 3, 0, 0, 3), kind="gpk")
    assert fit.paths.tolist() == [[1, 1, 0, 0, 1], [3, 2, 1, 1, 2]]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "exponent"), [("gpk", 4), ("ntk", 2)])
def test_exponents_of_one_pixel_are_fitted(kind, exponent):
    """The NTK falls like k^-2 and not like k^-4: with the theorem's form a fit tells."""
    fit = paths.fit_path_counts(CNN(3), 2, 1, 40, kind=kind)
    assert abs(fit.exponent - exponent) <= tolerances.SLOPE


@pytest.mark.slow
def test_paths_of_a_fit_may_exceed_any_float():
    fit = paths.fit_path_counts(CNN(700), 2, 1, 10, kind="gpk")
    assert fit.paths.tolist() == [[3**699]] and np.isfinite(fit.rms)


def by_tuples(t, layer, network, J=()):
    """The appendix's recursion, a scalar a tuple: `t` maps tuples of offsets to numbers."""
    outer, inner, first = (
        range(-(q // 2), q // 2 + 1)
        for q in (network.outer_filter_size, network.filter_size, network.input_filter_size)
    )
    if layer == 0:
        return np.mean([t[(*J, k)] for k in first])

    def below(*offsets):
        return by_tuples(t, layer - 1, network, (*J, *offsets))

    if layer == 1:
        straight, sums = below(0), [below(k) for k in outer]
    else:
        straight, sums = below(0, 0), [np.mean([below(k, m) for m in inner]) for k in outer]
    branch = np.mean([papers.kappa1(value) for value in sums])
    beta = network.alpha**2 * network.c_v * network.c_w / 2
    return (straight + beta * branch) / (1 + beta) if network.skip else branch


STRIDES = [
    rk.Network(1),
    rk.Network(3, alpha=0.6),
    rk.Network(3, skip=False),
    rk.Network(4, outer_filter_size=1, alpha=1.5),
    rk.Network(2, 5, outer_filter_size=3, input_filter_size=3, c_v=1.3, c_w=0.7),
]


@pytest.mark.parametrize("network", STRIDES, ids=repr)
def test_stride_kernels_as_the_appendix_defines_them(network, rng):
    tuples = list(itertools.product(*taps_of(network)))
    t = rng.uniform(-0.95, 0.95, (2, len(tuples)))
    found = paths.stride_kernel(network, t)
    for row, value in zip(t, found, strict=True):
        of_tuple = dict(zip(tuples, row.tolist(), strict=True))
        expected = by_tuples(of_tuple, network.depth, network)
        assert abs(value - expected) <= tolerances.TRANSCRIPTION
    complement = paths.stride_kernel(network, 1 - t, complement=True)
    assert np.abs(complement - (1 - found)).max() <= tolerances.ROUTES


@pytest.mark.parametrize("network", STRIDES, ids=repr)
@pytest.mark.parametrize("d", [1, 3, 6])
def test_paths_that_share_their_pixels_make_the_ordinary_kernel(network, d):
    X, Z = multisphere.sample(3, 3, d, 1), multisphere.sample(2, 3, d, 2)
    shared = multisphere.dot_products(X, Z)[..., paths.path_pixels(network) % d]
    expected = rk.Kernel(network, "gpk", "equivariant", normalized=True)(X, Z)
    assert np.abs(paths.stride_kernel(network, shared) - expected).max() <= tolerances.ROUTES
