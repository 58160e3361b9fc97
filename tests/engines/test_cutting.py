"""The cutting of work into tiles, blocks and tasks, which must not change results."""

from importlib import import_module

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda.launch_plan import H200
from rescntk.validation import DTYPES, HEADS
from tests.difficult_signals import uneven
from tests.engine_names import ENGINES

# Module constants of each engine that cut the work up, and values that cut it otherwise.
CUTS = {
    "reference": [
        {"_TILE_ENTRIES": 1, "_SHORTEST_RUN": 1, "_TABLE_BYTES": 1},
        {"_TILE_ENTRIES": 50, "_SHORTEST_RUN": 2, "_TABLE_BYTES": 10_000},
        {"_TILE_ENTRIES": 200, "_SHORTEST_RUN": 1, "_TABLE_BYTES": 3_000},
        {"_TILE_ENTRIES": 10**6},
    ],
    "numba": [
        {"_GROUP_BYTES": 1, "TASK_PAIRS": 1, "TABLE_BYTES": 1},
        {"_GROUP_BYTES": 800, "TASK_PAIRS": 300, "TASK_RESULTS": 3, "TABLE_BYTES": 10_000},
        {"_GROUP_BYTES": 10**6, "TASK_PAIRS": 10**9},
        {"_LOST_PART": 1, "TASK_PAIRS": 1},
    ],
    # The bytes that a device says are free; and its speed, which cuts launches to single offsets.
    "cuda": [
        {"free_bytes": lambda cupy: 1},
        {"free_bytes": lambda cupy: 1_500},
        {"device_limits": lambda: H200._replace(multiprocessors=0)},
    ],
}

MODULES = {"reference": "reference", "numba": "cpu.plan", "cuda": "cuda.compiler"}


def different_lengths(rng):
    """Return two lists of signals. Parallel windows of other amplitudes need deficits."""
    X = [rng.standard_normal((2, d)) for d in (5, 3, 7, 5, 2, 7, 7, 1)]
    X[3] = 4 * X[0] * (1 + 1e-9 * rng.standard_normal(X[0].shape))
    X[6] = 1.5 ** np.arange(7) * X[0][:, :1]
    X[5] = 3 * X[6][:, ::-1]
    return X, [rng.standard_normal((2, d)) for d in (6, 7, 2)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_how_the_work_is_cut(engine, head, dtype, monkeypatch, rng):
    """To the bit: not on tiles, blocks of signals and offsets, tasks, or threads."""
    X, Z = rng.standard_normal((5, 2, 9)), rng.standard_normal((4, 2, 9))
    X[2:], Z[2:] = uneven(2, 9, rng, cases=3), uneven(2, 9, rng, cases=2)
    network, dilated = rk.Network(4, 5), rk.Network(3, 3, dilation=(1, 2, 4))
    lists, others = different_lengths(rng)
    options = {"engine": engine, "dtype": dtype}

    def everything(threads):
        return [
            *rk.gram(network, X, Z, head=head, threads=threads, **options),
            *rk.gram(network, X, head=head, threads=threads, **options),
            rk.Kernel(network, "ntk", head).diag(X, threads=threads, **options),
            rk.Kernel(network, "ntk", head).paired(X[1:], Z, threads=threads, **options),
            rk.pixel_pairs(network, X, Z, threads=threads, **options),
            rk.pixel_pairs(network, X, threads=threads, **options),
            *shares(threads),
            *of_lists(threads),
        ]

    def of_lists(threads):
        if engine == "cuda" or head != "gap":
            return
        yield from rk.gram(dilated, lists, threads=threads, **options)
        yield from rk.gram(dilated, lists, others, normalized=True, threads=threads, **options)
        kernel = rk.Kernel(dilated, "ntk")
        yield kernel.paired(lists, lists[2:] + lists[:2], threads=threads, **options)

    def shares(threads):
        if engine == "cuda" or head == "equivariant":
            return
        for own in (X, [*X, X[0, :, :7]]) if head == "gap" else (X,):
            found = rk.pixel_shares(network, own, Z, head=head, threads=threads, **options)
            yield np.concatenate(found, axis=-1)

    whole = everything(1)
    module = import_module(f"rescntk.engines.{MODULES[engine]}")
    for cut, threads in zip(CUTS[engine] + [{}], (1, 3, 2, 7, None), strict=False):
        with monkeypatch.context() as patch:
            for name, value in cut.items():
                patch.setattr(module, name, value)
            for part, one in zip(everything(threads), whole, strict=True):
                assert (part == one).all()
