"""A kernel's bits depend on its pair alone: not on the batch, the cutting of work, or threads."""

from importlib import import_module

import numpy as np
import pytest

import rescntk as rk
from rescntk.arrays import SignalList
from rescntk.engines.protocol import Request
from rescntk.validation import DTYPES, HEADS, KINDS
from tests.difficult_signals import duplicates, opposites, steps, uneven
from tests.engine_names import CPU, ENGINES, needs_cpu, skip_unless_taken

NETWORKS = {
    "joined": rk.Network(4),
    "joined in two merges": rk.Network(4, 9),
    "two filters": rk.Network(3, 5, outer_filter_size=3, input_filter_size=3, dilation=(1, 2, 3)),
    "biases": rk.Network(3, bias=0.3, negative_slope=0.1, skip=False, trained=("inner",)),
    "opposites": rk.Network(3, alpha=1e-3),
    "erf": rk.Network(2, activation="erf"),
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
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_pair_has_its_bits_in_any_batch(engine, name, dtype, rng):
    """Also normalized; rows of a Gram are the Gram of some of its signals with all."""
    network = NETWORKS[name]
    skip_unless_taken(engine, network)
    X = batch(rng)
    images, lists = X[:, :, :16].reshape(-1, 2, 4, 4), cut(X, rng)
    options = {"engine": engine, "dtype": dtype}
    given = [(X, HEADS), (images, ("gap", "equivariant"))]
    if engine != "cuda":
        given.append((lists, ("gap",)))
    for signals, heads in given:
        for head in heads:
            for normalized in (False, True):
                kernel = rk.Kernel(network, "ntk", head, normalized)
                K = kernel(signals, **options)
                assert (K == K.T).all()
                some = kernel(signals[3:9], signals, **options)
                if engine == "reference":  # its left signal is the first one
                    some, rows = (np.triu(M, 3) for M in (some, K[3:9]))
                else:
                    rows = K[3:9]
                    assert (kernel(signals, signals[3:9], **options) == K[:, 3:9]).all()
                assert (some == rows).all()
                assert (kernel.diag(signals[5:], **options) == K.diagonal()[5:]).all()
                pairs = kernel.paired(signals[:4], signals[9:13], **options)
                assert (pairs == K[range(4), range(9, 13)]).all()
                prepared = kernel.prepare(signals, **options)
                for threads in (1, 2):
                    whole = kernel(signals[2:4], signals, threads=threads, **options)
                    assert (prepared(signals[2:4], threads=threads) == whole).all()
                    assert (whole == kernel(signals[2:4], signals, **options)).all()


# Module constants of each engine that cut the work up, and values that cut it otherwise.
CUTS = {
    "reference": [{"_ENTRIES": 1, "_TABLE_BYTES": 1}, {"_ENTRIES": 999, "_TABLE_BYTES": 30_000}],
    "cpu": [{"_TASK": 1.0, "_TABLE_BYTES": 1}, {"_TASK": 20_000, "_TABLE_BYTES": 50_000}],
    # The bytes that a device says are free, which cut signals into blocks and pairs into tiles.
    "cuda": [{"free_bytes": lambda cupy: 3_000}, {"free_bytes": lambda cupy: 400_000}],
}
MODULES = {"reference": "reference", "cpu": "cpu.engine", "cuda": "cuda.compiler"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_how_the_work_is_cut(engine, head, dtype, monkeypatch, rng):
    """Not on blocks of signals and of tables, tasks, or threads."""
    X, Z = batch(rng, 9), rng.standard_normal((4, 2, 9))
    network, lists = rk.Network(4, 5), [*cut(X, rng)]
    options = {"engine": engine, "dtype": dtype}

    def everything(threads):
        options["threads"] = threads
        yield from rk.gram(network, X, Z, head=head, **options)
        yield from rk.gram(rk.Network(3), X, head=head, depths=(1, 3), **options)
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
    for constants, threads in zip([*CUTS[engine], {}], (1, 3, None), strict=True):
        with monkeypatch.context() as patch:
            for name, value in constants.items():
                patch.setattr(module, name, value)
            for part, one in zip(everything(threads), whole, strict=True):
                assert (part == one).all()


@needs_cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
def test_many_signals_fill_lanes_and_blocks(head, dtype, rng):
    """Blocks of 16 right signals, of which the last is short; left signals come in groups."""
    X = rng.standard_normal((53, 3, 9))
    kernel, options = rk.ResCNTK(3, head=head), {"engine": "cpu", "dtype": dtype}
    K = kernel(X, **options)
    for k in range(0, 53, 13):
        assert (kernel(X[k : k + 1], X, **options)[0] == K[k]).all()
        assert (kernel(X[:20], X[k : k + 3], **options) == K[:20, k : k + 3]).all()


@pytest.mark.parametrize("engine", CPU)
def test_progress_counts_each_pair(engine, rng, capsys):
    X = SignalList(cut(batch(rng), rng))
    request = Request(rk.Network(3), "gap", KINDS, (3,))
    done = []
    found = rk.engines.choose(engine, request, X).paired(request, X, X, done.append)
    assert sum(done) == len(X) == len(found.left) == len(found.right)
    rk.ResCGPK(2)([*X], progress=True, engine=engine)
    assert "231" in capsys.readouterr().err
