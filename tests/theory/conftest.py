"""Settings of the tests of theory."""

import pytest

import rescntk as rk
from rescntk.theory import depth


@pytest.fixture
def each_gram_once(monkeypatch):
    """Keep the Grams of checks of depth, of both kinds in one pass, for later checks."""
    grams, compute = {}, rk.gram

    def gram(network, X, *, kinds, **options):
        key = network, X.tobytes(), options["head"], tuple(options["depths"])
        if key not in grams:
            grams[key] = compute(network, X, **options)
        return [getattr(grams[key], kind) for kind in kinds]

    monkeypatch.setattr(depth, "gram", gram)
