"""Designs of three parameters in which any two values of two parameters meet."""

from itertools import product


def pairs_meet(first, second, third):
    """Return triples: each of `first` with each of `second`, beside values of `third` in turn.

    `third` has no more values than `first`, and no more than `second`.
    """
    first, second, third = list(first), list(second), list(third)
    assert len(third) <= min(len(first), len(second))
    return [
        (first[i], second[j], third[(i + j) % len(third)])
        for i, j in product(range(len(first)), range(len(second)))
    ]
