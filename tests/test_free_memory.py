"""Calls that exceed the free memory are refused before any work, with the figures."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk import validation
from rescntk.engines import reference
from rescntk.kernels.call import KernelCall
from rescntk.theory import depth, locality, multisphere, smoothness
from rescntk.validation import KINDS

X = np.ones((100, 1, 8))
NETWORK, KERNEL = rk.Network(2), rk.ResCNTK(2)


def test_a_gram_larger_than_the_free_memory_is_refused_before_work(free, monkeypatch):
    options = {"engine": "reference"}
    expected = KERNEL(X, **options)
    for amount in (np.inf, 300_000):  # unknown, enough
        free(amount)
        assert (KERNEL(X, **options) == expected).all()
    for name in ("gram", "paired"):
        monkeypatch.setattr(reference, name, lambda *arguments: pytest.fail("worked"))
    free(70_000)
    says = r"takes at least [\d.]+ MB of memory, and [\d.]+ MB are free: give fewer signals"
    several = {"normalized": True, "depths": (1, 2)} | options
    rectangle = partial(rk.gram, NETWORK, X, X[:50], **several)
    for call, what in (
        (lambda: KERNEL(X, **options), "the NTK, 100 × 100 numbers"),
        (rectangle, "the GPK and NTK, 100 × 50 numbers, at 2 depths,"),
        (lambda: rk.pixel_pairs(NETWORK, X[:20], **options), "the NTK, 20 × 20 × 8 × 8 numbers"),
        (lambda: rk.pixel_shares(NETWORK, X, **options), "the NTK, 100 × 100 × 8 numbers"),
    ):
        with pytest.raises(MemoryError, match=f"^{what} {says}"):
            call()


HUGE, DEEP = 10**14, 99_999_999_999
DEPTH = f"depth {DEEP} for signals of 8 timepoints takes"
WINDOWS = (rk.Network(1, input_filter_size=size + 1) for size in (10**22, 10**9))
WINDOW, WIDE = map(partial, [rk.gram] * 2, WINDOWS, (np.ones((1, 1, 4)), np.ones((1, 1, 2, 2))))
DATA = [0.0, 1.0], [1.0, 2.0]
TOO_LARGE = [
    (lambda: rk.ResCNTK(DEEP)(X), DEPTH),
    (lambda: rk.ResCNTK(DEEP).diag(X), DEPTH),
    (lambda: rk.gram(NETWORK, X, depths=(1, DEEP)), DEPTH),
    (lambda: rk.pixel_pairs(NETWORK.replace(depth=DEEP), X), DEPTH),
    (lambda: rk.theory.conditioning.compare(X, (1, DEEP)), DEPTH),
    (lambda: smoothness.grid(HUGE), f"n_samples is {HUGE}: 3 numbers for each sample"),
    (lambda: smoothness.interpolation(KERNEL, *DATA, HUGE), f"n_samples is {HUGE}: 9 numbers"),
    (WINDOW, "input_filter_size 10000000000000000000001: a window of layer 1"),
    (WIDE, "input_filter_size 1000000001: a window of layer 1"),
]
TOO_LONG = [
    (
        lambda: depth.check(rk.Network, depths=[2, 4, 8, 16, 32, 10**9]),
        "depths has 1000000000, expected at most 100000000 layers",
    ),
    (
        lambda: multisphere.gram_complements([rk.Network(10**9)], np.ones((2, 1, 3))),
        "networks has the depth 1000000000, expected at most 100000000 layers",
    ),
    (lambda: multisphere.normalized_gpk([0.5], 10**9), "depth is 1000000000, expected at most"),
    (lambda: locality.path_counts(10**9, 1, 9), "depth is 1000000000, expected at most"),
    (lambda: locality.path_counts(10**5, 3, 10**5), "depth is 100000: counts of"),
    (lambda: locality.path_counts(10**8, 3, 9), "depth is 100000000: .* 9 pixels take hours"),
]


@pytest.mark.parametrize(("call", "says"), TOO_LARGE + TOO_LONG)
def test_sizes_beyond_the_memory_and_work_of_hours_are_refused(call, says):
    memory = (call, says) in TOO_LARGE
    more = "takes at least .* GB of memory" if memory and says != DEPTH else ""
    with pytest.raises(MemoryError if memory else ValueError, match=f"^{says}.*{more}"):
        call()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_engines_hold_what_they_say(dtype):
    """Against the peak of memory while a Gram is computed; buffers take some 40 MB."""
    signals = np.random.default_rng(0).standard_normal((700, 1, 2))
    for name, state in rk.engines.available().items():
        if state is not True or name == "cuda":
            continue
        rk.gram(NETWORK, signals[:2], engine=name, dtype=dtype)
        depths = (2, 1) if dtype == "float64" else (1, 2)  # copies: another order, another dtype
        call = KernelCall(
            NETWORK, signals, None, head="trace", kinds=KINDS, depths=depths, engine=name,
            dtype=dtype, threads=None,
        )  # fmt: skip
        tracemalloc.start()
        rk.gram(NETWORK, signals, depths=depths, engine=name, dtype=dtype, head="trace")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        least = call.request.result_bytes(700 * 700)
        assert least <= peak <= least + 60e6, name


def test_the_free_memory_is_the_systems():
    assert 2**20 < validation.free_bytes() <= np.inf
