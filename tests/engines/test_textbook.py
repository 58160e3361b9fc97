"""The engine "textbook": the definition in float64, beside the others, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings

import rescntk as rk
from rescntk import engines
from tests import tolerances
from tests.strategies import EVERY_FIELD, batches, networks

HEADS = "equivariant", "trace", "gap"
X = np.random.default_rng(0).standard_normal((4, 2, 5))

NEAR_PARALLEL = 4 * tolerances.EPS["float64"] ** 0.5
"""ρ is rounded to eps: arccos ρ of nearly parallel pixels errs by √(2 eps), relative to π, in each
of some layers, of which skip connections leave a part."""


@pytest.mark.parametrize("head", HEADS)
@settings(max_examples=24)
@given(
    networks(EVERY_FIELD, 5, activations=("relu",), dilated="freely", layers="of their own"),
    batches(("signals",)),
)
def test_the_definition_agrees_with_the_recursion_of_deficits(head, network, batches):
    signals = batches[0]
    for K, P, own in zip(
        rk.gram(network, signals, head=head, engine="textbook"),
        rk.gram(network, signals, head=head, engine="array"),
        # Terms of GAP have both signs where inner and outer weights are frozen.
        rk.gram(network, signals, head="trace" if head == "gap" else head, engine="array"),
        strict=True,
    ):
        root = np.sqrt(own.diagonal())
        assert np.all(np.abs(K - P) <= NEAR_PARALLEL * np.outer(root, root))


@pytest.mark.parametrize("head", HEADS)
def test_pairs_and_diagonals_are_those_of_the_matrix(head):
    kernel = rk.Kernel(rk.Network(3, bias=0.3, norm=True), "ntk", head)
    K = kernel(X, engine="textbook")
    pairs = kernel.paired(X, X[::-1], engine="textbook")
    np.testing.assert_allclose(pairs, K[:, ::-1].diagonal(), rtol=tolerances.ROUTES)
    own = kernel.diag(X, engine="textbook")
    np.testing.assert_allclose(own, K.diagonal(), rtol=tolerances.ROUTES)


def test_depths_are_those_that_were_asked_for():
    network = rk.Network(4)
    several = rk.gram(network, X, depths=(4, 2), engine="textbook").ntk
    for depth, K in zip((4, 2), several, strict=True):
        alone = rk.gram(network.replace(depth=depth), X, engine="textbook").ntk
        np.testing.assert_array_equal(K, alone)


def test_signals_of_two_lengths_are_refused():
    kernel = rk.Kernel(rk.Network(2, 3), "ntk", "gap")
    lists = [X[0], X[1][:, :3]]
    with pytest.raises(ValueError, match="it takes signals of one length"):
        kernel(lists, engine="textbook")


REFUSED = {
    "a pool": (rk.Network(2), X, {"head": 2}),
    "images": (rk.Network(2), X[:, :, None].repeat(3, axis=2), {"head": "gap"}),
    "erf": (rk.Network(2, activation="erf"), X, {}),
    "large signals": (rk.Network(2), 1e100 * X, {}),
    "tiny biases": (rk.Network(2, bias=1e-100), X, {}),
    "many bits": (rk.Network(401), X, {}),
    "many bits of some layers": (rk.Network(2, alpha=(1.0, 2.0**200)), X, {}),
    "many pixel pairs": (rk.Network(1), np.ones((50, 1, 50)), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_requests_are_refused_by_a_sentence(name):
    network, signals, options = REFUSED[name]
    with pytest.raises(ValueError, match="^engine='textbook' (cannot|would) compute"):
        rk.gram(network, signals, engine="textbook", **options)


OPTIONS = {"engine": "textbook", "head": "trace", "normalized": True}


def test_growth_up_to_the_limit_is_taken():
    """Layers of growth 2 multiply variances by 2^400 in all."""
    assert np.isfinite(rk.gram(rk.Network(400, 1), X[:2], **OPTIONS).gpk).all()


def test_the_growth_of_layers_beyond_the_depths_does_not_count():
    network = rk.Network(2, alpha=(1.0, 2.0**220))
    assert np.isfinite(rk.gram(network, X[:2], depths=(1,), **OPTIONS).gpk).all()


def test_auto_never_takes_it(monkeypatch):
    alone = {"textbook": engines.ENGINES["textbook"]}
    monkeypatch.setattr(engines, "ENGINES", alone)
    with pytest.raises(ValueError, match="no engine can compute this call"):
        rk.gram(rk.Network(2), X)
