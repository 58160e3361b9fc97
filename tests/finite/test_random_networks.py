"""Random networks of finite width: their outputs, and the exact means of their kernels.

Given the features below a layer, its pre-activations are independent Gaussians over channels, at
any width. So the products of its features have the definition's layer as their mean, to sampling
errors alone. A tangent kernel of one layer that reads the signal has its mean likewise.
"""

import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings

from rescntk import finite
from rescntk.finite.forward import features
from tests import tolerances
from tests.oracles import definition, finite_width
from tests.strategies import EVERY_FIELD, batches, heads, networks

pytestmark = pytest.mark.slow
WIDTH, SAMPLES = 8, 4096
SUMS = 10 * tolerances.ROUTES
"""As in test_finite.py."""


def initial(network, X, head, key):
    """Return parameters for signals or images."""
    _, channels, *sides = X.shape
    pixels = int(np.prod(sides)) if head == "trace" or isinstance(head, int) else None
    options = {"n_timepoints": pixels, "images": len(sides) == 2}
    return finite.init(key, network, channels, WIDTH, **options)


def assert_mean(samples, exact):
    """Compare the mean over the first axis with exact numbers."""
    deviation = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    error = np.abs(samples.mean(axis=0) - exact)
    bar = tolerances.STANDARD_ERRORS * deviation + SUMS * np.abs(exact).max()
    assert (error <= bar).all(), (error / bar).max()


@settings(max_examples=5)
@given(
    networks(EVERY_FIELD, 3, dilated="freely", layers="of their own"),
    batches(("signals", "images")),
    heads,
)
def test_outputs_are_those_of_the_definition(network, batches, head):
    X = batches[0]
    with jax.disable_jit():
        params = initial(network, X, head, 1)
        computed = np.asarray(finite.apply(network, params, X, head))
    expected = np.array([finite_width.output(network, params, x, head) for x in X])
    assert np.abs(computed - expected).max() <= SUMS * max(1.0, np.abs(expected).max())


def products(network, params, X):
    """Return the means over channels of products of features, (n, n, d, d)."""
    f = features(network, "trace", params, X).reshape(len(X), -1, WIDTH)
    return jax.numpy.einsum("ijc,klc->ikjl", f, f) / WIDTH


@settings(max_examples=4)
@given(
    networks(EVERY_FIELD, 3, dilated="freely", layers="of their own"),
    batches(("signals", "images")),
)
def test_a_layer_has_the_mean_of_the_definition(network, batches):
    """The last layer is drawn anew, with layer 1 all that it reads if this is the signal."""
    X = batches[0][:3]
    params = initial(network, X, "trace", 1)
    reads_signal = network.depth == 1 and "input" not in network.trained and not network.norm

    def sample(key):
        drawn = initial(network, X, "trace", key)
        if not reads_signal:
            inner = (*params.inner[:-1], drawn.inner[-1])
            outer = (*params.outer[:-1], drawn.outer[-1]) if params.outer else ()
            drawn = params._replace(inner=inner, outer=outer)
        return products(network, drawn, X)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(2), SAMPLES)
        samples = np.asarray(jax.jit(jax.vmap(sample))(keys))
        before = params._replace(inner=params.inner[:-1])
        F = None if reads_signal else np.asarray(products(network, before, X))
    left, right = np.triu_indices(len(X))
    if reads_signal:
        exact = definition.of_pairs(X, network, left, right)[1][0] / network.readout_scale
    else:
        F = np.vectorize(definition.mp.mpf, otypes=[object])(F[left, right])
        dual = np.frompyfunc(definition.dual_of(network), 3, 2)
        exact, _ = definition.after_layer(
            network, network.depth, F, 0 * F, (left, right), X.shape[2:], dual
        )
    assert_mean(samples[:, left, right], exact.astype(float))


@settings(max_examples=3)
@given(
    networks(EVERY_FIELD - {"norm"}, 1, dilated="freely"),
    batches(("signals", "images")),
    heads,
)
def test_tangent_kernels_of_one_layer_have_the_mean_of_the_definition(network, batches, head):
    assume("input" not in network.trained)  # else pre-activations are no Gaussians
    X = batches[0][:3]
    _, ntk = definition.pixel_pairs(X, network)[1]
    exact = definition.head(ntk, head, X.shape[2:]).astype(float)

    def sample(key):
        return finite.ntk(network, initial(network, X, head, key), X, head=head)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(3), SAMPLES)
        assert_mean(np.asarray(jax.jit(jax.vmap(sample))(keys)), exact)
