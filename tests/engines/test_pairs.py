"""`Kernel.paired`: the diagonal of a Gram matrix, to the bit, from n pairs."""

from itertools import product

import pytest
from rescntk.engines.scaling import Scaling

import rescntk as rk
from rescntk.arrays import SignalList
from rescntk.engines.protocol import Request
from rescntk.validation import DTYPES, HEADS, KINDS
from tests.difficult_signals import opposites, steps, uneven
from tests.engine_names import CPU, ENGINES, takes

NETWORKS = rk.Network(4, 3), rk.Network(2, 3, skip=False, input_filter_size=3)
ERF = rk.Network(2, activation="erf")


def difficult_pairs(rng):
    """Return two batches: doubtful, opposite, equal and zero signals among Gaussian ones."""
    X, Z = rng.standard_normal((2, 14, 2, 9))
    X[:4], X[4:6] = steps(2, 9, rng), uneven(2, 9, rng, cases=2)
    Z[:6] = 3 * X[[1, 2, 3, 0, 5, 4]]
    X[6:10] = opposites(2, 9, rng)
    Z[6:10] = X[[7, 6, 9, 8]]
    Z[10], Z[11], X[12] = X[10], 0, 0
    return X, Z


def cut(X, rng):
    """Return a list of the signals' first pixels, 4 to 9."""
    return [x[:, : int(d)] for x, d in zip(X, rng.integers(4, 10, len(X)), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", HEADS)
def test_the_diagonal_of_a_gram_to_the_bit(engine, head, rng):
    """Half of the kernels are normalized: with any two of head, network, kind and precision."""
    X, Z = difficult_pairs(rng)
    batches = [(X, Z), (X[:1], Z[:1])]
    if engine != "cuda":
        batches += (X.reshape(-1, 2, 3, 3), Z.reshape(-1, 2, 3, 3)), (list(X), list(Z))
        if head == "gap":
            batches += (cut(X, rng), cut(Z, rng)), (X, cut(Z, rng)), (cut(X, rng), Z)
    choices = product(enumerate((*NETWORKS, ERF)), enumerate(KINDS), enumerate(DTYPES))
    for (i, network), (j, kind), (k, dtype) in choices:
        if not takes(engine, network):
            continue
        kernel = rk.Kernel(network, kind, head, (HEADS.index(head) + i + j + k) % 2 == 1)
        options = {"engine": engine, "dtype": dtype}
        for one, other in batches:
            pairs = kernel.paired(one, other, **options)
            assert pairs.dtype == dtype and pairs.shape == (len(one),)
            assert (pairs == kernel(one, other, **options).diagonal()).all()
            assert (kernel.paired(other, one, **options) == pairs).all()
            some = [case for case in (0, 5, 9) if case < len(one)]
            own, partner = ([batch[case] for case in some] for batch in (one, other))
            if own[0].ndim == 2:
                assert (kernel.paired(own, partner, **options) == pairs[some]).all()


@pytest.mark.parametrize("engine", CPU)
def test_doubtful_pairs_are_computed_again(engine, rng, monkeypatch):
    """Some of these pairs, in arrays and lists, have other digits without deficits."""
    X, Z = difficult_pairs(rng)
    kernel, options = rk.Kernel(NETWORKS[0], "ntk"), {"engine": engine}
    batches = (X, Z), (cut(X, rng), cut(Z, rng))
    kept = [kernel.paired(*both, **options) for both in batches]
    monkeypatch.setattr(Scaling, "allowed_doubt", lambda _, n, c=1.0: n * c + 1e300)
    monkeypatch.setattr(Scaling, "most_parallel", lambda _, n: n + 1e300)
    for both, before in zip(batches, kept, strict=True):
        assert (kernel.paired(*both, **options) != before).any()


@pytest.mark.parametrize("engine", CPU)
def test_progress_counts_each_pair_once(engine, rng):
    X, Z = (SignalList(cut(batch, rng)) for batch in difficult_pairs(rng))
    request = Request(NETWORKS[0], "gap", KINDS, (3,))
    done = []
    found = rk.engines.choose(engine, request, X).paired(request, X, Z, done.append)
    assert sum(done) == len(X) == len(found.left) == len(found.right)
