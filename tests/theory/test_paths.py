"""Path counts and stride-q kernels against definitions."""

import itertools

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import locality, multisphere
from tests import tolerances
from tests.oracles import papers

EPS = tolerances.EPS["float64"]
ERF, NOTHING = rk.Network(1, activation="erf"), rk.Network(1, skip=False, c_v=0)


def taps_of(network):
    """Return the taps of all convolutions, from the output to the input."""
    steps = network.dilation
    steps = [steps] * network.depth if isinstance(steps, int) else steps

    def taps(size, step=1):
        return [step * k for k in range(-(size // 2), size // 2 + 1)]

    sizes = network.outer_filter_size, network.filter_size
    found = [taps(size, step) for step in steps[:0:-1] for size in sizes]
    return [*found, taps(sizes[0], steps[0]), taps(network.input_filter_size)]


@pytest.mark.parametrize("d", [1, 4, 20])
@pytest.mark.parametrize(
    ("depth", "q", "outer", "first"), [(1, 3, 3, 1), (3, 3, 3, 1), (4, 3, 1, 1), (2, 5, 3, 3)]
)
@pytest.mark.parametrize("dilated", [False, True])
def test_path_counts_by_walking_all_paths(depth, q, outer, first, d, dilated):
    dilation = [layer + 2 for layer in range(depth)] if dilated else 1
    sizes = {"outer_filter_size": outer, "input_filter_size": first, "dilation": dilation}
    network = rk.Network(depth, q, **sizes)
    ends = [sum(path) for path in itertools.product(*taps_of(network))]
    found = locality.path_counts(depth, q, d, **sizes)
    assert found.dtype == object
    assert all(type(count) is int for count in found)
    assert found.tolist() == np.bincount(np.mod(ends, d), minlength=d).tolist()
    pixels = locality.path_pixels(network)
    assert pixels.tolist() == ends
    assert abs(pixels).max() == locality.reach(network)


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
    rk.Network(1, 5, skip=False),
    rk.Network(3, alpha=0.6),
    rk.Network(3, skip=False),
    rk.Network(4, outer_filter_size=1, alpha=1.5),
    rk.Network(2, 5, outer_filter_size=3, input_filter_size=3, c_v=1.3, c_w=0.7),
]


@pytest.mark.parametrize("network", STRIDES, ids=repr)
def test_stride_kernels_as_the_appendix_defines_them(network, rng):
    paths = list(itertools.product(*taps_of(network)))
    t = rng.uniform(-0.95, 0.95, (2, len(paths)))
    found = locality.stride_kernel(network, t)
    assert found.shape == (2,)
    for row, value in zip(t, found, strict=True):
        of_tuple = dict(zip(paths, row.tolist(), strict=True))
        expected = by_tuples(of_tuple, network.depth, network)
        assert abs(value - expected) <= tolerances.TRANSCRIPTION
    complement = locality.stride_kernel(network, 1 - t, complement=True)
    assert np.abs(complement - (1 - found)).max() <= tolerances.ROUTES


@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("network", STRIDES, ids=repr)
def test_paths_that_share_their_pixels_make_the_ordinary_kernel(network, d):
    X, Z = multisphere.sample(3, 3, d, 1), multisphere.sample(2, 3, d, 2)
    t = multisphere.dot_products(X, Z)
    found = locality.stride_kernel(network, t[..., locality.path_pixels(network) % d])
    expected = rk.Kernel(network, "gpk", "equivariant", normalized=True)(X, Z)
    assert np.abs(found - expected).max() <= tolerances.ROUTES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: locality.path_counts(2, 4, 5), "filter_size is 4"),
        (lambda: locality.path_counts(3, 3, 10**12), "n_timepoints is 1000000000000"),
        (lambda: locality.path_pixels(rk.Network(10**4)), r"network has 10\^9541\.9 paths"),
        (lambda: locality.stride_kernel(ERF, [0, 0, 0]), "activation 'erf'"),
        (lambda: locality.stride_kernel(rk.Network(1), [1, 1]), r"shape \(2,\), expected \(..., 3"),
        (lambda: locality.stride_kernel(NOTHING, [0, 0, 0]), "0 for every signal"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
