"""Training of finite networks, against steps written out and the kernels' gradient flow."""

from functools import partial

import jax
import numpy as np
import optax
import pytest

import rescntk as rk
from rescntk import finite, literature
from tests import tolerances

pytestmark = pytest.mark.slow

NETWORK = rk.Network(1, 3, alpha=0.5)
BAR = 100 * tolerances.ROUTES
assert_same = partial(jax.tree.map, partial(np.testing.assert_allclose, rtol=0, atol=BAR))


@pytest.fixture
def task(rng):
    """Parameters, signals and targets."""
    X, y = rng.standard_normal((3, 2, 4)), rng.standard_normal(3)
    return finite.init(0, NETWORK, 2, 6), X, y


def steps_written_out(network, params, X, y, rate, steps):
    """Return the parameters after gradient steps on ½ Σ (f − y)²."""

    def loss(p):
        return 0.5 * ((finite.apply(network, p, X) - y) ** 2).sum()

    with jax.enable_x64(True):
        for _ in range(steps):
            stepped = jax.tree.map(lambda a, g: a - rate * g, params, jax.grad(loss)(params))
            params = params._replace(**{part: getattr(stepped, part) for part in network.trained})
    return params


@pytest.mark.parametrize(
    ("trained", "images"), [(("inner", "outer", "readout"), False), (("outer",), True)]
)
def test_gradient_descent(task, trained, images):
    _, X, y = task
    X = X.reshape(3, 2, 2, 2) if images else X
    network = NETWORK.replace(trained=trained, bias=0.5)
    params = finite.init(0, network, 2, 6, images=images)
    expected = steps_written_out(network, params, X, y, 0.1, 3)
    found = finite.train(network, params, X, y, 0.1, 3)
    assert_same(found.params, expected)
    for part in {"input", "inner", "outer", "readout"} - set(trained):
        assert getattr(found.params, part) is getattr(params, part)
    assert_same(finite.train(network, params, X, y, optax.sgd(0.1), 3, every=2).params, expected)


def test_records(task):
    params, X, y = task
    Z, record = X[:2] + 1, ("outputs", "kernel")
    found = finite.train(NETWORK, params, X, y, optax.adam(0.01), 6, Z=Z, record=record, every=4)
    assert found.steps.tolist() == [0, 4, 6]
    assert found.outputs.shape == (3, 3) and found.test_outputs.shape == (3, 2)
    assert_same(found.outputs[0], finite.apply(NETWORK, params, X))
    assert_same(found.test_outputs[-1], finite.apply(NETWORK, found.params, Z))
    assert np.abs(found.loss - 0.5 * ((found.outputs - y) ** 2).sum(axis=1)).max() <= BAR
    change = finite.ntk(NETWORK, found.params, X) - finite.ntk(NETWORK, params, X)
    assert abs(found.kernel_change[-1] - np.linalg.norm(change)) <= BAR
    assert found.kernel_change[0] == 0
    bare = finite.train(NETWORK, params, X, y, 0.1, 2, record=())
    assert bare.outputs is None and bare.kernel_change is None


def linearized(network, params, X, y, Z, rate, steps):
    """Return outputs at Z of the linearized network: a step multiplies errors by I − η Θ̂_0."""
    values, vectors = np.linalg.eigh(finite.ntk(network, params, X))
    learned = (1 - (1 - rate * values) ** steps[:, None]) / values
    f_X, f_Z = (np.asarray(finite.apply(network, params, signals)) for signals in (X, Z))
    moved = (learned * (vectors.T @ (y - f_X))) @ vectors.T
    return f_Z + moved @ finite.ntk(network, params, X, Z)


def test_a_network_with_a_trained_readout_alone_is_its_own_linearization(task):
    params, X, y = task
    network = NETWORK.replace(trained="readout")
    found = finite.train(network, params, X, y, 0.2, 20, record=("outputs", "kernel"))
    assert_same(found.outputs, linearized(network, params, X, y, X, 0.2, found.steps))
    assert found.kernel_change.max() <= BAR


def test_wide_networks_follow_the_kernels_gradient_flow():
    """Figure 1b of Tirer et al. in small: a wide network, its linearization and the kernel."""
    network = literature.tirer_resnet(2, alpha=0.5)
    circle = 2 * np.exp(2j * np.pi * np.arange(7) / 7).view(float).reshape(7, 2, 1)
    X, Z, y = circle[[0, 2, 4]], circle[[1, 3, 5, 6]], np.array([1.0, -1, 0])
    distances, kernel = [], rk.Kernel(network, "ntk")
    rate, record = 0.1, ("outputs", "kernel")
    for width in (16, 128):
        params = finite.init(1, network, 2, width)
        found = finite.train(network, params, X, y, rate, 100, Z=Z, record=record, every=25)
        beta = rk.regression.flow(kernel(X), y - found.outputs[0], rate * found.steps)
        flow = found.test_outputs[0] + beta @ kernel(X, Z)
        linear = linearized(network, params, X, y, Z, rate, found.steps)
        far, away = (np.abs(found.test_outputs - outputs).max() for outputs in (flow, linear))
        distances.append([far, away, found.kernel_change.max()])
        assert found.loss[-1] < 1e-2 * found.loss[0]
    # Linearization and kernel: at eight times the width 8^(-1/2) = 0.35 of the distance at most.
    assert (np.array(distances[1][1:]) <= 0.35 * np.array(distances[0][1:])).all()
    # The drawn kernel itself is some 128^(-1/2) = 9 percent away at the start, and f with it.
    assert distances[1][0] <= 0.2


def test_losses_that_are_not_finite_stop_with_the_step(task):
    says = r"the loss is (inf|nan) after step \d+, expected finite losses: a smaller"
    with pytest.raises(FloatingPointError, match=says):
        finite.train(NETWORK, *task, 1e6, 100)
