"""Extremes of floating-point numbers: signals near overflow, pixels far apart, weak branches."""

from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk.validation import HEADS
from tests import tolerances
from tests.engine_names import ENGINES

X = np.random.default_rng(0).standard_normal((3, 2, 6))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", HEADS)
def test_signals_up_to_the_largest_number(head, engine):
    """Normalized kernels do not depend on a factor; other kernels exceed float64, or are right."""
    modest = X * (1.5 / np.abs(X).max())
    huge = modest * 2.0**1023
    kernel = rk.ResCNTK(2, head=head)
    expected = kernel.replace(normalized=True)(modest, engine=engine)
    assert (kernel.replace(normalized=True)(huge, engine=engine) == expected).all()
    with pytest.raises(OverflowError):
        kernel(huge, engine=engine)
    weak = kernel.replace(readout_scale=2.0**-1000, input_scale=2.0**-101)  # 2^-1100 · 1/2
    expected = kernel(modest, engine=engine)
    assert np.abs(weak(huge, engine=engine) / 2.0**946 - expected).max() <= (
        2 * tolerances.KERNEL["float64"] * np.abs(expected).max()
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("factor", [1e-100, 1e-150, 1e-200, 1e-300])
def test_pixels_out_of_reach_do_not_count(factor, dtype, engine):
    """The head "equivariant" sees its receptive field alone, however large other pixels are."""
    bar = tolerances.KERNEL[dtype]
    for network, field in (
        (rk.Network(3, 1), [0]),
        (rk.Network(1, 3, input_filter_size=1), [0, 1, 5]),
        (rk.Network(1, 1, input_filter_size=3), [0, 1, 5]),
        (rk.Network(2, 1, outer_filter_size=3), [0, 1, 2, 4, 5]),
        (rk.Network(2, 3, outer_filter_size=1), [0, 1, 5]),
    ):
        kernel = rk.Kernel(network, "ntk", "equivariant", normalized=True)
        expected = kernel(X, engine=engine, dtype=dtype)
        Y = X.copy()
        Y[:, :, field] *= factor
        assert np.abs(kernel(Y, engine=engine, dtype=dtype) - expected).max() <= 2 * bar
        if dtype == "float64" and factor > 1e-150:
            plain = kernel.replace(normalized=False)
            ratio = plain.diag(Y, engine=engine) / factor**2 / plain.diag(X, engine=engine)
            np.testing.assert_allclose(ratio, 1, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weak_branches_are_right_or_refused(dtype, engine):
    weak = rk.Network(2, 5, c_v=1e-300)
    for head in HEADS:
        for kind in ("gpk", "ntk"):
            kernel = rk.Kernel(weak, kind, head, normalized=True)
            none = kernel.replace(alpha=0.0)(X, engine=engine, dtype=dtype)
            assert (kernel(X, engine=engine, dtype=dtype) == none).all()
        alone = rk.Kernel(weak.replace(trained=("inner", "outer")), "ntk", head, normalized=True)
        says = f"branch gain .* = 5e-301 and trains only inner and outer.*{dtype} does not resolve"
        with pytest.raises(ValueError, match=says):
            alone(X, engine=engine, dtype=dtype)
        small = alone.replace(c_v=1e-24)  # to first order, the kernel is proportional to c_v
        assert (
            np.abs(
                small(X, engine=engine, dtype=dtype)
                - small.replace(c_v=1e-25)(X, engine=engine, dtype=dtype)
            ).max()
            <= 2 * tolerances.KERNEL[dtype]
        )
    dark = X * (np.arange(X.shape[2]) > 0)  # pixel 1 has the branches alone
    kernel = rk.Kernel(rk.Network(2, c_v=1e-10), "gpk", "equivariant", normalized=True)
    expected = kernel(dark, engine="reference")
    for c_v in (1e-20, 1e-24, *[1e-156] * (dtype == "float64")):
        K = kernel.replace(c_v=c_v)(dark, engine=engine, dtype=dtype)
        assert np.abs(K - expected).max() <= 2 * tolerances.KERNEL[dtype] + 1e-10


def calls(signals, options):
    for head in HEADS:
        for depth, normalized in ((2, False), (2, True), (60, True)):
            kernel = rk.ResCNTK(depth, head=head, normalized=normalized)
            yield from (
                lambda k=kernel: k(signals, **options),
                lambda k=kernel: k(signals, signals[:2], **options),
                lambda k=kernel: k.diag(signals, **options),
            )
    yield lambda: rk.pixel_pairs(rk.Network(2), signals, **options)
    if options["engine"] == "reference":
        yield lambda: rk.ResCNTK(2, activation="erf")(signals, **options)


def outcome(call):
    try:
        return call()
    except OverflowError:
        return None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("factor", [1.0, 1e-160, 1e160])
def test_settings_for_floating_point_errors_change_nothing(factor, dtype, engine):
    """``np.errstate(all="raise")`` around a call: underflow inside is an ordinary event."""
    signals = X * factor
    signals[0, :, 2] = 0
    signals[1] *= 1e-100
    for call in calls(signals, {"engine": engine, "dtype": dtype}):
        expected = outcome(call)
        with np.errstate(all="raise"):
            found = outcome(call)
        assert (expected is None) == (found is None)
        assert expected is None or (found == expected).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-25), ("float64", 1e-170)])
def test_kernels_below_the_least_number_are_refused(dtype, size, engine):
    """Only signals of zeros have kernels of 0; normalized kernels have no least size."""
    options, signals = {"engine": engine, "dtype": dtype}, size * X
    for call in (rk.ResCNTK(2), rk.ResCGPK(2).diag, partial(rk.pixel_pairs, rk.Network(2))):
        with pytest.raises(OverflowError, match=f"the kernel falls below {dtype} at depth 2: exp"):
            call(signals, **options)
    signals[0] = 0
    normalized = rk.ResCNTK(2, normalized=True)(signals[:2], **options)
    assert normalized[1, 1] == 1 and (normalized[0] == 0).all()
    assert (rk.ResCNTK(2)(0 * signals, **options) == 0).all()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("skip", [True, False])
def test_tiny_signals_of_erf_networks(head, skip, rng):
    """erf is linear there: K(2^-840 x, z) = 2^-840 K(x, z), to the last bit."""
    network = rk.Network(3, activation="erf", skip=skip, trained=("input", "inner", "readout"))
    X, Z = 2.0**-60 * (rng.standard_normal((3, 2, 6)) + 0.5), rng.standard_normal((2, 2, 6)) + 0.3
    for small, tiny in (
        (rk.gram(network, X, Z, head=head), rk.gram(network, 2.0**-840 * X, Z, head=head)),
        (rk.gram(network, X, head=head), rk.gram(network, 2.0**-420 * X, head=head)),
    ):
        for one, other in zip(small, tiny, strict=True):
            assert (one != 0).all()
            assert (np.ldexp(other, 840) == one).all()
