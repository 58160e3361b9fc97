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


@pytest.mark.parametrize("d", [1, 4, 20])
@pytest.mark.parametrize(
    ("depth", "q", "outer", "first"),
    [(1, 3, 3, 1), (3, 3, 3, 1), (4, 3, 1, 1), (2, 5, 3, 3)],
)
@pytest.mark.parametrize("dilated", [False, True])
def test_path_counts_by_walking_all_paths(depth, q, outer, first, d, dilated):
    def taps(size, step=1):
        return [step * k for k in range(-(size // 2), size // 2 + 1)]

    dilation = [layer + 2 for layer in range(depth)] if dilated else [1] * depth
    steps = [taps(size, step) for step in dilation[:0:-1] for size in (outer, q)]
    steps += [taps(outer, dilation[0]), taps(first)]
    expected = [0] * d
    for path in itertools.product(*steps):
        expected[sum(path) % d] += 1
    sizes = {"outer_filter_size": outer, "input_filter_size": first, "dilation": dilation}
    found = locality.path_counts(depth, q, d, **sizes)
    assert found.dtype == object
    assert all(type(count) is int for count in found)
    assert found.tolist() == expected
    network = rk.Network(depth, q, **sizes)
    pixels = locality.path_pixels(network)
    assert pixels.tolist() == [sum(path) for path in itertools.product(*steps)]
    assert abs(pixels).max() == locality.reach(network)


def by_tuples(t, layer, network, J=()):
    """The appendix's recursion, a scalar a tuple: `t` maps tuples of offsets to numbers."""
    taps_o, taps_i, taps_0 = (
        range(-(q // 2), q // 2 + 1)
        for q in (network.outer_filter_size, network.filter_size, network.input_filter_size)
    )
    if layer == 0:
        return np.mean([t[(*J, k)] for k in taps_0])
    beta = network.alpha**2 * network.c_v * network.c_w / 2
    last = layer == 1
    inner = (None,) if last else taps_i

    def below(k, m):
        return by_tuples(t, layer - 1, network, (*J, k) if last else (*J, k, m))

    branch = np.mean([papers.kappa1(np.mean([below(k, m) for m in inner])) for k in taps_o])
    if not network.skip:
        return branch
    return (below(0, 0) + beta * branch) / (1 + beta)


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
    pixels = locality.path_pixels(network)
    t = rng.uniform(-0.95, 0.95, (2, len(pixels)))
    taps = {
        q: range(-(q // 2), q // 2 + 1)
        for q in (network.outer_filter_size, network.filter_size, network.input_filter_size)
    }
    steps = [taps[network.outer_filter_size], taps[network.filter_size]] * (network.depth - 1)
    steps += [taps[network.outer_filter_size], taps[network.input_filter_size]]
    found = locality.stride_kernel(network, t)
    assert found.shape == (2,)
    for row, value in zip(t, found, strict=True):
        of_tuple = dict(zip(itertools.product(*steps), row.tolist(), strict=True))
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
    if network.input_filter_size == 1:
        assert np.abs(found - expected).max() <= tolerances.ROUTES
    else:  # windows of unit pixels have unit energy too
        own = rk.Kernel(network, "gpk", "equivariant")
        scale = np.sqrt(own.diag(X)[:, None] * own.diag(Z))
        assert np.abs(found - own(X, Z) / scale).max() <= tolerances.ROUTES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: locality.path_counts(2, 4, 5), "filter_size is 4"),
        (lambda: locality.path_counts(3, 3, 10**12), "n_timepoints is 1000000000000"),
        (lambda: locality.path_pixels(rk.Network(10)), r"network has 10\^9\.1 paths.* 10\^1\.0 GB"),
        (lambda: locality.path_pixels(rk.Network(10**4)), r"network has 10\^9541\.9 paths"),
        (lambda: locality.stride_kernel(ERF, [0, 0, 0]), "activation 'erf'"),
        (lambda: locality.stride_kernel(rk.Network(1), [1, 1]), r"shape \(2,\), expected \(..., 3"),
        (lambda: locality.stride_kernel(rk.Network(1), [1, 1, 1.1]), "values from 1.0 to 1.1"),
        (lambda: locality.stride_kernel(NOTHING, [0, 0, 0]), "0 for every signal"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
