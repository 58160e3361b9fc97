"""Whole kernels on the emulated device: the tests of all engines, and lengths of every kind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.checks.values import DTYPES, KINDS
from tests import tolerances
from tests.difficult_signals import duplicates, spikes, uneven
from tests.engines import test_bits, test_cupy, test_extremes
from tests.engines import test_properties as properties
from tests.engines.accuracy import NETWORKS, assert_accurate
from tests.engines.claims import CLAIMS, applies, assert_holds, relative
from tests.engines.cuda import emulated
from tests.strategies import EVERY_FIELD, heads, kinds, networks, signals

pytestmark = [emulated.on_host, pytest.mark.slow]


def assert_agrees(network, X, Z, head, dtype):
    """Compare a Gram with the engine "array"'s in float64."""
    computed = rk.gram(network, X, Z, head=head, engine="cuda", dtype=dtype)
    expected = rk.gram(network, X, Z, head=head, engine="array")
    for kind, A, B in zip(KINDS, computed, expected, strict=True):
        kernel = rk.Kernel(network, kind, head)
        own = (kernel.diag(batch, engine="array") for batch in (X, Z))
        assert A.dtype == dtype
        assert relative(A, B, *own) <= tolerances.KERNEL[dtype]


# Lengths and filters: one time point, joined layers, and filters longer than the signals.
SHAPES = [(1, 1, 3), (13, 7, 1), (26, 3, 3), (3, 17, 3)]


@st.composite
def drawn(draw):
    """Return a network, and two batches of signals for it, of one of a few shapes."""
    d, inner, outer = draw(st.sampled_from(SHAPES))
    options = {"activations": ("relu",), "dilated": "freely", "layers": "of their own"}
    network = draw(networks(EVERY_FIELD, **options))
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    X, Z = draw(signals(batches=2, length=d))
    sides = draw(st.sampled_from([(d,), (2, d // 2)])) if d % 2 == 0 else (d,)
    return network, (X.reshape(*X.shape[:2], *sides), Z.reshape(*Z.shape[:2], *sides))


@settings(max_examples=8)
@given(drawn(), heads, kinds, st.booleans(), st.sampled_from(DTYPES))
def test_drawn_kernels_have_the_values_of_the_engine_array(
    device, case, head, kind, normalized, dtype
):
    """Drawn kernels have the engine "array"'s values, whose symmetries are tested natively."""
    network, batches = case
    assert_agrees(network, *batches, head, dtype)
    kernel = rk.Kernel(network, kind, head, normalized)
    for claim in CLAIMS:
        if applies(claim, *batches):
            assert_holds(claim, "cuda", kernel, dtype, *batches)


@pytest.mark.parametrize(
    ("make", "name"), [(duplicates, "depth 50"), (spikes, "all trained"), (uneven, "long filter")]
)
def test_kernels_of_difficult_signals_are_exact(device, name, make, rng):
    """They are compared with the definition in 40-digit arithmetic."""
    network, d = NETWORKS[name]
    assert_accurate(["cuda"], network, make(1, d, rng)[:4])


@pytest.mark.parametrize(
    ("d", "inner", "outer", "dtype"),
    [
        (2, 3, 5, "float32"), (40, 17, 33, "float64"), (64, 3, 3, "float32"),
        (600, 3, 3, "float64"), (601, 15, 1, "float32"), (1100, 9, 9, "float32"),
        (2100, 3, 3, "float64"), (2100, 3, 3, "float32"),
    ],
)  # fmt: skip
def test_signals_and_filters_of_many_lengths_have_the_values_of_the_engine_array(
    device, d, inner, outer, dtype, rng
):
    """Threads have one, two, four and eight pixels, and the last of them have fewer."""
    network = rk.Network(3, inner, outer_filter_size=outer)
    X, Z = rng.standard_normal((2, 2, d)), rng.standard_normal((3, 2, d))
    assert_agrees(network, X, Z, "trace" if d > 100 else "gap", dtype)


@pytest.mark.parametrize("case", [("trace", "float32"), ("gap", "float64")])
def test_results_do_not_depend_on_how_the_work_is_cut(device, case, monkeypatch, rng):
    test_bits.test_results_do_not_depend_on_how_the_work_is_cut("cuda", case, monkeypatch, rng)


def test_extreme_networks_have_finite_kernels(device):
    test_extremes.test_networks_that_shrink_or_explode_have_finite_normalized_kernels("cuda")
    properties.test_branches_of_0_leave_the_kernel_of_the_input("cuda")
    properties.test_branches_of_0_without_skip_connections_leave_nothing("cuda")


def test_kernels_of_cupy_arrays_are_cupy_arrays(device, work, rng):
    """The kernels serve ReLU; "auto" has erf computed by the engine "array" on the device."""
    for network, engine in ((test_cupy.RELU, "cuda"), (test_cupy.ERF, "auto")):
        work.clear()
        place = (device, engine)
        test_cupy.test_cupy_arrays_have_the_values_types_and_shapes_of_numpy(
            place, network, "gap", "float64", rng
        )
        assert (work["launches"] > 0) == (engine == "cuda")
