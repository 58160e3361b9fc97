"""Kernels in JAX and PyTorch: their gradients are `Kernel.vjp`'s, and models learn through them."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.autodiff import for_jax, for_torch
from tests.processes import run

KERNELS = {
    "ntk": rk.ResCNTK(depth=2),
    "normalized gpk": rk.ResCGPK(depth=2, head="trace", normalized=True),
}
RANDOM = np.random.default_rng(0)
X, Z, W = RANDOM.standard_normal((3, 2, 7)), RANDOM.standard_normal((4, 2, 7)), np.arange(12.0)
W = W.reshape(3, 4) - 5
SQUARE = np.cos(np.arange(9.0)).reshape(3, 3)


def rounding(dtype, sizes):
    """Return the error allowed for sums of `sizes` numbers that another order adds up."""
    return 64 * np.finfo(dtype).eps * sizes


def agrees(found, expected, dtype):
    assert found.dtype == dtype and found.shape == expected.shape
    error = np.abs(np.asarray(found, np.float64) - expected).max()
    assert error <= rounding(dtype, np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_in_jax_are_those_of_vjp(name, dtype):
    """Under jit, of X and Z and of X alone, in both precisions, and of a batch by vmap."""
    jax = pytest.importorskip("jax")
    kernel = KERNELS[name]
    with jax.enable_x64(dtype == "float64"):
        matrix = for_jax(kernel, engine="reference")
        x, z = (jax.numpy.asarray(each, dtype) for each in (X, Z))
        expected, own = kernel.vjp(X, Z, W), kernel.vjp(X, weights=SQUARE)
        agrees(jax.jit(matrix)(x, z), expected.K, dtype)
        found = jax.jit(jax.grad(lambda x, z: (matrix(x, z) * W).sum(), (0, 1)))(x, z)
        agrees(found[0], expected.X, dtype)
        agrees(found[1], expected.Z, dtype)
        alone = jax.grad(lambda x: (matrix(x) * SQUARE).sum())
        agrees(alone(x), own.X, dtype)
        both = jax.vmap(alone)(jax.numpy.stack([x, z[:3]]))
        agrees(both[1], kernel.vjp(Z[:3], weights=SQUARE).X, dtype)


def test_jax_differentiates_what_is_around_the_kernel():
    """The chain rule through a preprocessing: against central differences of NumPy's kernel."""
    jax = pytest.importorskip("jax")
    kernel, scales = KERNELS["ntk"], np.array([0.7, 1.3])
    with jax.enable_x64(True):
        matrix = for_jax(kernel, engine="reference")
        loss = jax.jit(lambda s: (matrix(s[:, None] * X) * SQUARE).sum())
        found = jax.grad(loss)(jax.numpy.asarray(scales))
        # Differences err by h² times the third derivative and by eps/h: 1e-8 at h = 1e-5.
        for k, step in enumerate(1e-5 * np.eye(2)):
            above, below = (
                (kernel((scales + sign * step)[:, None] * X) * SQUARE).sum() for sign in (1, -1)
            )
            assert abs(found[k] - (above - below) / 2e-5) < 1e-7


def test_what_jax_cannot_have_is_refused():
    jax = pytest.importorskip("jax")
    kernel = KERNELS["ntk"]
    matrix = for_jax(kernel, engine="reference")
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(matrix, (X.astype("f"),), (X.astype("f"),))
    with pytest.raises(ValueError, match="JVP"):
        jax.hessian(lambda x: matrix(x).sum())(X.astype("f"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="X of shape .* contains NaN"):
        jax.jit(matrix)(np.nan * X).block_until_ready()
    with pytest.raises(ValueError, match=r"X has shape \(2, 7\), expected signals"):
        matrix(X[0])
    for nothing in (None, "text", {}, [[1], [2, 3]]):
        with pytest.raises(ValueError, match="X is .*, expected an array of numbers"):
            matrix(nothing)
    with pytest.raises(ValueError, match="X has dtype int32, expected float32 or float64"):
        matrix(np.ones((2, 2, 3), np.int32))
    with pytest.raises(ValueError, match="X and Z have shapes .* expected the same channels"):
        matrix(X, Z[:, :1])
    for wrong, options, message in (
        (rk.Network(2), {}, "kernel is Network.* expected a rescntk.Kernel"),
        (None, {}, "kernel is None, expected a rescntk.Kernel"),
        (rk.Kernel(rk.Network(2, activation="erf"), "ntk"), {}, "activation 'erf'"),
        (kernel, {"engine": "cuda"}, "engine='cuda' cannot compute"),
        (kernel, {"dtype": "float16"}, "dtype is 'float16'"),
        (kernel, {"threads": 0}, "threads is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            for_jax(wrong, **options)


def test_optax_learns_the_channel_that_matters():
    """Weights of channels by the marginal likelihood; y is a difference within one of three."""
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    jnp = jax.numpy
    random = np.random.default_rng(1)
    signals = random.standard_normal((24, 3, 6))
    y = signals[:, 0, 2] - signals[:, 0, 3]
    with jax.enable_x64(True):
        matrix = for_jax(rk.ResCGPK(depth=1, head="trace"), engine="reference")

        def loss(logs):
            K = matrix(jnp.exp(logs)[:, None] * signals) + 0.05 * jnp.eye(len(y))
            factor = jnp.linalg.cholesky(K)
            white = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
            return 0.5 * white @ white + jnp.log(jnp.diagonal(factor)).sum()

        rule = optax.adam(0.1)
        logs, losses = jnp.zeros(3), []
        state = rule.init(logs)
        step = jax.jit(jax.value_and_grad(loss))
        for _ in range(25):
            value, gradient = step(logs)
            change, state = rule.update(gradient, state)
            logs = optax.apply_updates(logs, change)
            losses.append(float(value))
    logs = np.asarray(logs)
    assert losses[-1] < losses[0] - 5
    assert logs[0] > max(logs[1:]) + 1, "the weight of channel 0 is more than e times the others'"


def test_gradients_in_torch_are_those_of_vjp_and_a_model_learns():
    torch = pytest.importorskip("torch")
    kernel = KERNELS["ntk"]
    matrix = for_torch(kernel, engine="reference")
    for dtype in (torch.float64, torch.float32):
        x, z = (torch.tensor(each, dtype=dtype, requires_grad=True) for each in (X, Z))
        K = matrix(x, z)
        (K * torch.tensor(W)).sum().backward()
        expected, name = kernel.vjp(X, Z, W), str(dtype).removeprefix("torch.")
        for found, value in ((K.detach(), expected.K), (x.grad, expected.X), (z.grad, expected.Z)):
            agrees(found.numpy(), value, name)
    x = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(matrix, (x,))
    (first,) = torch.autograd.grad(matrix(x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        (first.square().sum() + x.sum()).backward()
    with pytest.raises(ValueError, match="X of shape .* contains NaN"):
        matrix(x * torch.nan)
    # Two signals and coefficients that reproduce four targets.
    targets = torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    points = torch.tensor(X[:2], requires_grad=True)
    coefficients = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    rule, losses = torch.optim.Adam([points, coefficients], lr=0.1), []
    for _ in range(40):
        rule.zero_grad()
        loss = (matrix(torch.tensor(Z), points) @ coefficients - targets).square().sum()
        loss.backward()
        rule.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize(("library", "extra"), [("jax", "finite"), ("torch", "torch")])
def test_a_missing_library_names_its_extra(library, extra):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "import rescntk as rk\n"
        f"try: rk.autodiff.for_{library}(rk.ResCNTK(2))\n"
        "except ImportError as error: print(error)"
    )
    assert run(code) == f"for_{library} needs {library}: pip install 'rescntk[{extra}]'"
