"""Whole kernels on the emulated device: the tests of all engines, and lengths of every kind."""

from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.validation import DTYPES
from tests import difficult_signals, tolerances
from tests.engines import test_accuracy, test_bits, test_cupy, test_extremes
from tests.engines import test_properties as properties
from tests.engines.cuda import emulated
from tests.strategies import ALL_FIELDS, heads, kinds, networks, signals

pytestmark = [emulated.on_host, pytest.mark.slow]


def assert_agrees(network, X, Z, head, dtype):
    """Compare a Gram with the reference engine's in float64."""
    computed = rk.gram(network, X, Z, head=head, engine="cuda", dtype=dtype)
    expected = rk.gram(network, X, Z, head=head, engine="reference")
    for kind, A in computed._asdict().items():
        kernel = rk.Kernel(network, kind, head)
        own = (kernel.diag(batch, engine="reference") for batch in (X, Z))
        assert A.dtype == dtype
        assert properties.relative(A, getattr(expected, kind), *own) <= tolerances.KERNEL[dtype]


# Lengths and filters: one time point, joined layers, and filters longer than the signals.
SHAPES = [(1, 1, 3), (13, 7, 1), (26, 3, 3), (3, 17, 3)]


@st.composite
def drawn(draw):
    """Return a network, and two batches of signals for it, of one of a few shapes."""
    d, inner, outer = draw(st.sampled_from(SHAPES))
    network = draw(networks(ALL_FIELDS, activations=("relu",), dilated="freely"))
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    X, Z = draw(signals(batches=2, length=d))
    sides = draw(st.sampled_from([(d,), (2, d // 2)])) if d % 2 == 0 else (d,)
    return network, (X.reshape(*X.shape[:2], *sides), Z.reshape(*Z.shape[:2], *sides))


@settings(max_examples=25)
@given(drawn(), heads, kinds, st.booleans(), st.sampled_from(DTYPES), st.integers(0, 99))
def test_properties(device, case, head, kind, normalized, dtype, seed):
    """Drawn kernels have the properties of all engines, and the reference engine's values."""
    network, batches = case
    assert_agrees(network, *batches, head, dtype)
    properties.assert_bits("cuda", rk.Kernel(network, kind, head, normalized), dtype, *batches)
    for test, arguments in (
        (properties.test_symmetries, (head, kind, seed, 7.7)),
        (properties.test_heads_and_shares_are_means_of_pixel_pairs, (kind, seed)),
        (properties.test_grams_are_semidefinite_and_normalized, (head, kind)),
    ):
        test.hypothesis.inner_test("cuda", network, batches, *arguments)


NAMES = cycle(["all trained", "long filter", "one pixel"])


@pytest.mark.parametrize(
    ("make", "name"), [(make, next(NAMES)) for make in difficult_signals.SIGNALS]
)
def test_difficult_signals(device, name, make, rng):
    """Against the definition in 40-digit arithmetic."""
    network, d = test_accuracy.NETWORKS[name]
    test_accuracy.assert_accurate(["cuda"], network, make(3, d, rng))


def test_deep_and_difficult(device, rng):
    network, d = test_accuracy.NETWORKS["depth 50"]
    test_accuracy.assert_accurate(["cuda"], network, difficult_signals.duplicates(1, d, rng)[:4])
    for name in ("small branches of huang", "small branches"):
        test_accuracy.test_near_ties_and_small_terms(["cuda"], name, rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("d", "inner", "outer"),
    [(2, 3, 5), (40, 17, 33), (64, 3, 3), (600, 3, 3), (1100, 9, 9), (2100, 3, 3), (601, 15, 1)],
)
def test_lengths_and_filters(device, d, inner, outer, dtype, rng):
    """Threads of one, two, four and eight pixels; the last of them have fewer."""
    network = rk.Network(3, inner, outer_filter_size=outer)
    head = "trace" if d > 100 else "gap"
    X, Z = rng.standard_normal((2, 2, d)), rng.standard_normal((3, 2, d))
    assert_agrees(network, X, Z, head, dtype)


def test_very_long_filters(device, rng):
    """Sums of hundreds of terms, layer by layer, of signals that nearly agree."""
    test_accuracy.test_very_long_filters("cuda", rng)


@pytest.mark.parametrize(("head", "dtype"), [("trace", "float32"), ("gap", "float64")])
def test_results_do_not_depend_on_how_the_work_is_cut(device, dtype, head, monkeypatch, rng):
    test_bits.test_results_do_not_depend_on_how_the_work_is_cut(
        "cuda", head, dtype, monkeypatch, rng
    )


def test_extreme_networks(device, rng):
    test_extremes.test_networks_that_shrink_and_that_explode("cuda", rng)
    test_extremes.test_degenerate_constants("cuda", rng)


@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_cupy_in_cupy_out(device, head, work, rng):
    """The kernels serve ReLU; "auto" has erf computed by the reference engine on the device."""
    for network, engine in ((test_cupy.RELU, "cuda"), (test_cupy.ERF, "auto")):
        work.clear()
        place = (device, engine)
        test_cupy.test_same_values_dtypes_and_shapes(place, network, head, "float64", rng)
        assert (work["launches"] > 0) == (engine == "cuda")
