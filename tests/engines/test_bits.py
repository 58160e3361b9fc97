"""A kernel's bits depend on its pair alone: not on the batch, the cutting of work, or threads."""

from importlib import import_module
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES, KINDS
from tests import tolerances
from tests.difficult_signals import duplicates, opposites, steps, uneven
from tests.engines.claims import CLAIMS, applies, assert_holds
from tests.helpers import CPU, ENGINES, needs_cpu, rarely

NETWORKS = {
    "joined": rk.Network(4),
    "merges": rk.Network(3, 9, outer_filter_size=3, input_filter_size=3, dilation=(1, 2, 3)),
    "biases": rk.Network(3, bias=0.3, negative_slope=0.1, skip=False, trained=("inner",)),
    "opposites": rk.Network(3, alpha=1e-3),
}


def batch(rng, d=17):
    """Return equal, opposite, parallel and zero signals among others."""
    X = rng.standard_normal((21, 2, d))
    X[:6], X[6:10], X[10:14] = duplicates(2, d, rng), opposites(2, d, rng), steps(2, d, rng)
    X[14:17], X[17] = uneven(2, d, rng), 0.0
    return X


def cut(X, rng):
    """Return a list of the signals' first pixels."""
    return [x[:, : int(d)] for x, d in zip(X, rng.integers(4, 18, len(X)), strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["joined", *rarely(*list(NETWORKS)[1:])])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_a_pair_has_its_bits_in_any_batch(claim, engine, name, dtype, rng):
    """There are more right signals than a vector has lanes, and the last vector is not full."""
    network, X = NETWORKS[name], batch(rng)
    if engine == "array":  # which is slow
        X = X[8:15, :, :9]
    images, lists = X[:, :, 1:].reshape(len(X), 2, -1, 4), cut(X, rng)
    long = [rng.standard_normal((2, d)) for d in (9, 66, 4, 32, 1)]
    cases = [
        (lists[:5], lists, "gap", "ntk", True),
        (X[3:9], X, "trace", "ntk", False),
        (X[3:9], X, "equivariant", "gpk", False),
        (images[3:9], images, "gap", "ntk", True),
        (X[3:9], X, 9, "ntk", True),
        (images[3:9], images, 3, "gpk", False),
        (X[:2], long[2:], "gap", "ntk", True),
        (long[2:], X[:2], "gap", "gpk", False),
    ]
    if engine == "cuda":  # which takes no lists
        cases = [case for case in cases if not any(isinstance(side, list) for side in case[:2])]
    cases = [case for case in cases if applies(claim, *case[:2])]
    if not cases:
        pytest.skip(f"{claim.__name__} is no claim about these batches")
    for left, right, head, kind, normalized in cases[:: 3 if engine == "array" else 1]:
        kernel = rk.Kernel(network, kind, head, normalized)
        assert_holds(claim, engine, kernel, dtype, left, right)


OWN_AXES = [(1,), (2,), (7,), (8,), (64,), (1, 3), (4, 1), (2, 2), (5, 4), (6, 3), (4, 6)]
"""Axes whose offsets have opposites, of which one, two or four are their own."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", OWN_AXES)
@pytest.mark.parametrize("engine", ENGINES)
def test_equal_signals_have_the_sum_of_all_offsets(engine, axes, dtype, rng):
    """Engines may compute one of two opposite offsets and count it twice. Shares need both."""
    X, options = rng.standard_normal((2, 3, *axes)), {"engine": engine, "dtype": dtype}
    K = rk.gram(rk.Network(3), X, **options)
    for kind, found in zip(KINDS, K, strict=True):
        of_copy = rk.gram(rk.Network(3), X, X.copy(), kinds=(kind,), **options)[0]
        assert (found.diagonal() == of_copy.diagonal()).all()
        shares = rk.pixel_shares(rk.Network(3), X, kind=kind, **options)
        whole = shares.sum(axis=tuple(range(2, shares.ndim)))
        np.testing.assert_allclose(
            found, whole, rtol=0, atol=tolerances.KERNEL[dtype] * K.ntk.max()
        )


# Module constants of each engine that cut the work up, and values that cut it otherwise.
CUTS = {
    "array": [
        {"_BATCH_PAIRS": 1, "_TABLE_BYTES": 1},
        {"_BATCH_PAIRS": 999, "_TABLE_BYTES": 30_000},
    ],
    "cpu": [
        {"_TASK_PAIRS": 1.0, "_TABLE_BYTES": 1},
        {"_TASK_PAIRS": 20_000, "_TABLE_BYTES": 50_000},
    ],
    # The bytes that a device says are free, which cut signals into blocks and pairs into tiles.
    "cuda": [{"free_bytes": lambda cupy: 3_000}, {"free_bytes": lambda cupy: 400_000}],
}
MODULES = {"array": "array.engine", "cpu": "cpu.engine", "cuda": "cuda.compiler"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case",
    [("gap", "float64"), *rarely(("trace", "float32"), ("equivariant", "float64"), (4, "float32"))],
    ids=str,
)
def test_results_do_not_depend_on_how_the_work_is_cut(engine, case, monkeypatch, rng):
    """The work is cut into blocks of signals and tables, tasks, pieces of results, and threads."""
    head, dtype = case
    X, Z = batch(rng, 9)[:14], rng.standard_normal((4, 2, 9))
    network, lists = rk.Network(4, 5), cut(X[:9], rng)
    options = {"engine": engine, "dtype": dtype}

    def everything(threads):
        options["threads"] = threads
        yield from rk.gram(network, X, Z, head=head, **options)
        yield from rk.gram(rk.Network(3), X, head=head, depths=(3, 1), **options)
        yield rk.Kernel(network, "ntk", head).diag(X, **options)
        yield rk.pixel_pairs(network, X[:5], **options)
        if engine != "cuda" and head != "equivariant":
            yield rk.pixel_shares(network, X, Z, head=head, **options)
        if engine != "cuda" and head == "gap":
            yield from rk.gram(network, lists, **options)
            yield from rk.gram(network, lists, lists[:3], normalized=True, **options)
            yield rk.Kernel(network, "ntk").paired(lists, lists[2:] + lists[:2], **options)

    whole = list(everything(1))
    module = import_module(f"rescntk.engines.{MODULES[engine]}")
    for constants, piece, threads in zip(CUTS[engine], (7, 60), (3, None), strict=True):
        with monkeypatch.context() as patch:
            patch.setattr("rescntk.kernels.results._PIECE", piece)
            patch.setattr("rescntk.engines.array.pairs._PIECE", 10 * piece)
            for name, value in constants.items():
                patch.setattr(module, name, value)
            for part, one in zip(everything(threads), whole, strict=True):
                assert (part == one).all()


@pytest.mark.parametrize("engine", CPU)
def test_short_signals_of_lists_have_the_bits_of_arrays(engine, rng):
    kernel, X = rk.ResCNTK(4), rng.standard_normal((2, 2, 5))
    alone = kernel(X, engine=engine)
    for more in (5, 9, 3):
        with_another = kernel([*X, rng.standard_normal((2, more))], engine=engine)
        assert (with_another[:2, :2] == alone).all()


@needs_cpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_signals_of_equal_digests_have_an_order(dtype, monkeypatch, rng):
    monkeypatch.setattr("zlib.crc32", lambda numbers: 7)
    X, Z = rng.standard_normal((2, 6, 2, 21))
    kernel = rk.ResCNTK(4)
    assert (
        kernel(X, Z, engine="cpu", dtype=dtype) == kernel(Z, X, engine="cpu", dtype=dtype).T
    ).all()


class Shares(NamedTuple):
    """Shares of lists whose signals have several lengths, and the call that computed them."""

    of_pixels: list
    kernel: rk.Kernel
    options: dict

    @property
    def size(self):
        """√(K(x, x) K(z, z)), to which errors are relative."""
        return np.sqrt(np.outer(self.kernel.diag(LEFT), self.kernel.diag(RIGHT)))


LEFT, RIGHT = (
    [np.random.default_rng((side, d)).standard_normal((2, d)) for d in lengths]
    for side, lengths in enumerate([(9, 12, 1, 99), (7, 12, 3)])
)
KERNELS = [
    rk.Kernel(network, kind)
    for network, kind in product((rk.Network(3, 5, dilation=(1, 2, 4)), rk.CNTK(2).network), KINDS)
]


@pytest.fixture(scope="module", params=product(CPU, DTYPES, KERNELS), ids=str)
def shares(request):
    engine, dtype, kernel = request.param
    options = {"engine": engine, "dtype": dtype}
    S = rk.pixel_shares(kernel.network, LEFT, RIGHT, kind=kernel.kind, **options)
    return Shares(S, kernel, options)


def test_a_share_depends_on_its_pair_alone(shares):
    """Both are bitwise equal."""
    kernel, options = shares.kernel, shares.options
    for (i, x), (k, z) in product(enumerate(LEFT), enumerate(RIGHT)):
        (alone,) = rk.pixel_shares(kernel.network, [x], [z], kind=kernel.kind, **options)
        assert alone.dtype == options["dtype"] and np.array_equal(alone, [shares.of_pixels[i][k]])


def test_shares_of_lists_add_up_to_kernels(shares):
    sums = np.array([of_signal.sum(axis=1) for of_signal in shares.of_pixels])
    error = np.abs(sums - shares.kernel(LEFT, RIGHT, **shares.options)) / shares.size
    assert error.max() <= tolerances.KERNEL[shares.options["dtype"]]


def test_shares_of_lists_are_exact(shares):
    """They are compared with those of the engine "array" in float64."""
    kernel, bar = shares.kernel, tolerances.KERNEL[shares.options["dtype"]] * shares.size
    exact = rk.pixel_shares(kernel.network, LEFT, RIGHT, kind=kernel.kind, engine="array")
    for i, k in np.ndindex(bar.shape):
        assert np.abs(shares.of_pixels[i][k] - exact[i][k]).max() <= bar[i, k]
