"""Images: right on both axes, equal to signals where they are signals, and what is refused."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import DTYPES, HEADS, KINDS
from tests import tolerances
from tests.engine_names import CPU, skip_unless_taken
from tests.engines.bodies.accuracy import assert_accurate
from tests.strategies import ALL_FIELDS, kinds, networks, signals

pytestmark = pytest.mark.slow

NETWORKS = {
    "default": rk.Network(3),
    "wraps several times": rk.Network(2, 9, outer_filter_size=5, input_filter_size=3),
    "dilated": rk.Network(3, 5, outer_filter_size=3, dilation=(1, 2, 10**12 + 1)),
    "no skip": rk.Network(3, 3, skip=False, input_filter_size=5, c_w=0.7),
    "leaky, frozen": rk.Network(3, 3, negative_slope=0.2, bias=0.2, trained=("inner",), alpha=0.3),
    "small alpha": rk.Network(3, alpha=1e-5),
    "biases": rk.Network(3, 3, input_filter_size=3, alpha=0.6, bias=0.7, dilation=(1, 2, 2)),
    "erf": rk.Network(2, 3, activation="erf", trained=("input", "inner", "outer", "readout")),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_against_the_definition(name, rng):
    X = rng.standard_normal((3, 2, 3, 4))
    if name == "small alpha":  # F⁰ averages to 0, and the digits of the branch stay
        X -= X.mean(axis=(2, 3), keepdims=True)
    elif NETWORKS[name].activation == "relu":  # nearly parallel windows of other amplitudes
        X[1] = 2 * X[0] * np.linspace(1, 3, 3)[:, None] + 1e-7 * X[1]
        X[2] = -np.roll(X[0], 1, axis=-1)
    assert_accurate(CPU, NETWORKS[name], X)


@pytest.mark.parametrize("engine", CPU)
@given(
    networks(ALL_FIELDS, activations=("relu",), max_depth=3, dilated="freely"),
    signals(max_cases=3, max_channels=2, length=12),
    st.sampled_from([(2, 6), (3, 4), (4, 3)]),
    kinds,
    st.sampled_from(DTYPES),
)
def test_bits(engine, network, X, sides, kind, dtype):
    """A pair's bits are its own; an image of one line is a signal; shifts change roundings."""
    skip_unless_taken(engine, network)
    options = {"kinds": (kind,), "engine": engine, "dtype": dtype}
    lines, X = X, X.reshape(*X.shape[:2], *sides)
    for head in HEADS:
        (K,) = rk.gram(network, X, head=head, **options)
        (alone,) = rk.gram(network, X[:1], X[-1:], head=head, **options)
        assert (K == K.T).all() and K[0, -1] == alone[0, 0]
        kernel = rk.Kernel(network, kind, head)
        assert (kernel.diag(X, engine=engine, dtype=dtype) == K.diagonal()).all()
        pairs = kernel.paired(X, X[::-1], engine=engine, dtype=dtype)
        upper = slice(len(X) // 2)  # in the rest, sides are exchanged
        assert (pairs[upper] == K[:, ::-1].diagonal()[upper]).all()
        for line in (lines[:, :, None], lines[..., None]):
            one = rk.gram(network, line, head=head, **options)[0]
            assert (one == rk.gram(network, lines, head=head, **options)[0]).all()
        if head != "equivariant":
            moved = np.roll(X, (1, 2), axis=(2, 3))
            both = moved if head == "trace" else X
            shifted = rk.gram(network, both, moved, head=head, **options)[0]
            turned = rk.gram(network, X.swapaxes(2, 3), head=head, **options)[0]
            size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
            for other in (shifted, turned):
                assert (np.abs(other - K) <= tolerances.KERNEL[dtype] * size).all()


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
def test_an_image_of_one_line_is_a_signal(head, dtype, engine, rng):
    lines, options = rng.standard_normal((3, 2, 12)), {"engine": engine, "dtype": dtype}
    for network, kind in product((rk.Network(3), rk.Network(2, 5)), KINDS):
        kernel = rk.Kernel(network, kind, head)
        for line in (lines[:, :, None], lines[..., None]):
            assert (kernel(line, **options) == kernel(lines, **options)).all()


@pytest.mark.parametrize("engine", CPU)
def test_pixel_pairs_and_shares(engine, rng):
    X, Z = rng.standard_normal((3, 2, 4, 5)), rng.standard_normal((2, 2, 4, 5))
    network = rk.Network(3, 3, outer_filter_size=5)
    for kind in KINDS:
        pairs = rk.pixel_pairs(network, X, Z, kind=kind, engine=engine)
        assert pairs.shape == (3, 2, 4, 5, 4, 5)
        gap, trace = pairs.mean(axis=(4, 5)) / 20, np.einsum("nmhwhw->nmhw", pairs) / 20
        for head, expected in (("gap", gap), ("trace", trace)):
            shares = rk.pixel_shares(network, X, Z, kind=kind, head=head, engine=engine)
            nested = rk.pixel_shares(network, X.tolist(), Z, kind=kind, head=head, engine=engine)
            assert (np.array(nested) == shares).all()
            seen = rk.pixel_shares(network, memoryview(X), Z, kind=kind, head=head, engine=engine)
            assert (seen == shares).all()
            K = rk.Kernel(network, kind, head)(X, Z, engine=engine)
            for error, size in ((shares - expected, expected), (shares.sum(axis=(2, 3)) - K, K)):
                assert np.abs(error).max() <= tolerances.ROUTES * np.abs(size).max()


def test_refusals(rng):
    X = rng.standard_normal((2, 3, 4, 5))
    with pytest.raises(ValueError, match=r"expected images of the same height and width"):
        rk.ResCNTK(3)(X, X.swapaxes(2, 3))
    with pytest.raises(ValueError, match=r"images of one call have one size"):
        rk.ResCNTK(3)([X[0], X[1, :, :2]])
