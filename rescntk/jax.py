"""Kernels as JAX functions of signals, for `jax.grad`, `jax.jit` and `jax.vmap`.

``docs/theory/deficits.md`` derives the recursion. It runs in the precision of the signals: JAX has
float64 where its option ``jax_enable_x64`` is set, and else turns float64 into float32.

Signals of any size are taken, subnormal ones too. A kernel that leaves the range of its dtype is 0
or infinite, and its derivatives are lost. In float32 this happens if both signals are below 1e-19
or above 1e19. Normalized kernels stay in the range; their derivatives are of the size of 1/x.

Values are not checked. With normalized features, two kinds of signals that other engines refuse
give inaccurate kernels here: pixels so small that their squares underflow are treated as 0, and
branches whose squares underflow beside large signals are lost.

Kernels are not differentiable where a pixel is 0, and tangent kernels are not where two pixels are
equal or opposite; the gradient there is the mean of both one-sided slopes. If all pixels of a
filter's window are 0 after layer 1, the gradient is finite, but it may differ from this mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from math import frexp, ldexp
from typing import Any

from .checks.messages import shown
from .checks.values import check_flag, check_kinds, check_positive_integer
from .engines.heads import check_head, pooled_head
from .engines.layer.operations import Operations
from .kernels import Kernel
from .kernels.gram import GRAMS
from .network import PER_LAYER_FIELDS, Network, check_network
from .network.parameters import KERNEL_FIELDS

if find_spec("jax") is None:
    raise ImportError("rescntk.jax needs jax: pip install 'rescntk[jax]'")

import jax
import jax.numpy as jnp
from jax import lax

from .engines.jax.numbers import safe_quotient, safe_root, scaled
from .engines.jax.pairs import Signal, SignalPair, read_signal

__all__ = ["gram", "kernel"]

KNOWN_FIELDS = KERNEL_FIELDS - {"activation"}
"""The fields of a network that these functions know; the activation is ReLU."""


def kernel(kernel: Kernel, *, block: int | None = None) -> Callable[..., jax.Array]:
    """Return a kernel as a pure function of JAX arrays, ``f(X, Z=None)``.

    Parameters
    ----------
    kernel : Kernel
        Any kernel of a network of ReLU or leaky ReLU. The function returns (n_cases, m_cases); its
        arguments and errors are those of `gram`.
    block : int, optional
        The same as for `gram`.

    Returns
    -------
    callable
        A function of JAX arrays, whose result is (n_cases, m_cases).

    Examples
    --------
    >>> import jax, numpy as np, rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> f = rk.jax.kernel(rk.ResCNTK(depth=2, normalized=True))
    >>> jax.grad(lambda X: f(X, X[:2]).sum())(X).shape
    (5, 2, 16)
    """
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {shown(kernel)}, expected a rescntk.Kernel")
    net, head, kinds, normalized = kernel.network, kernel.head, (kernel.kind,), kernel.normalized
    _check_network(net, normalized)

    def kernel_matrix(X: jax.typing.ArrayLike, Z: jax.typing.ArrayLike | None = None) -> jax.Array:
        return gram(net, X, Z, head=head, kinds=kinds, normalized=normalized, block=block)[0]

    return kernel_matrix


def gram(
    network: Network,
    X: jax.typing.ArrayLike,
    Z: jax.typing.ArrayLike | None = None,
    *,
    head: str | int = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    normalized: bool = False,
    block: int | None = None,
) -> tuple[jax.Array, ...]:
    """Return kernels of one network, as a pure function of the JAX arrays X and Z.

    All p pairs of a block are computed at once; p is block², or n·m without blocks. This takes some
    arrays of p·d² numbers for the head "gap", of p·d·(2w − 1) numbers for a head w, and of p·d
    numbers for other heads. Gradients keep such arrays of each layer. The first call with signals
    of a shape compiles for seconds, and its first gradient for up to half a minute.

    Parameters
    ----------
    network : Network
        A network of ReLU or leaky ReLU.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals of one length, or images (n_cases, n_channels, height, width). Their values are not
        checked.
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Signals or images with the same channels and pixels. The default is X.
    head, kinds, normalized
        As for `rescntk.gram`.
    block : int, optional
        The number of rows and columns of a block. By default the whole matrix is one block. Blocks
        are computed one after the other, and once more for a gradient, which keeps the arrays of
        one block.

    Returns
    -------
    named tuple of arrays
        One field for each of `kinds`, (n_cases, m_cases).

    Raises
    ------
    ValueError
        If an option is unknown, the activation is not ReLU, or X and Z are not as described.
    OverflowError
        If the growth of all layers leaves the range of float64.

    Examples
    --------
    >>> import numpy as np, rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> rk.jax.gram(rk.Network(depth=3), X, head="trace").ntk.shape
    (5, 5)
    """
    kinds = check_kinds(kinds)
    _check_network(network, check_flag(normalized, "normalized"))
    X, Z = _signals(X, "X"), None if Z is None else _signals(Z, "Z")
    if Z is not None and (X.shape[1:], X.dtype) != (Z.shape[1:], Z.dtype):
        raise ValueError(
            f"Z has shape {Z.shape} and dtype {Z.dtype}, and X has shape {X.shape} and dtype "
            f"{X.dtype}: expected the same channels, pixels and dtype"
        )
    operations = Operations(network, network.depth, X.shape[1], X.ndim - 2)
    size = None if block is None else check_positive_integer(block, "block")
    head = pooled_head(check_head(head), X.shape[2:])
    factor = None if normalized else _kernel_factor(network)
    return GRAMS[kinds](*_gram(operations, head, kinds, factor, size, X, Z))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _gram(
    operations: Operations,
    head: str | int,
    kinds: tuple[str, ...],
    factor: float | None,
    block: int | None,
    X: jax.Array,
    Z: jax.Array | None,
) -> list[jax.Array]:
    """Return kernels, multiplied by a factor or normalized. They are compiled once per shape."""
    read_signals = jax.vmap(partial(read_signal, operations, head))
    x = read_signals(X)
    z = x if Z is None else read_signals(Z)

    def pair_kernels(x: Signal, z: Signal) -> list[jax.Array]:
        return SignalPair(operations, head, x, z).kernels(kinds)

    all_kernels = jax.vmap(jax.vmap(pair_kernels, (None, 0)), (0, None))
    own_kernels = jax.vmap(lambda s: pair_kernels(s, s))
    if block is not None:  # gradients compute a block again, and keep no arrays of others
        all_kernels, own_kernels = (
            jax.checkpoint(f, prevent_cse=False) for f in (all_kernels, own_kernels)
        )

    def kernel_rows(x: Signal) -> list[jax.Array]:
        columns = _by_blocks(lambda z: [K.T for K in all_kernels(x, z)], block, z)
        return [K.T for K in columns]

    kernels = _by_blocks(kernel_rows, block, x)
    if factor is not None:
        mantissa, exponent = frexp(factor)
        exponents = x.exponent[:, None] + z.exponent + exponent
        return [scaled(mantissa * K, exponents) for K in kernels]
    all_signals = x if Z is None else jax.tree.map(lambda *sides: jnp.concatenate(sides), x, z)
    roots = map(safe_root, _by_blocks(own_kernels, block, all_signals))
    n, m = kernels[0].shape
    return [safe_quotient(K, r[:n, None] * r[-m:]) for K, r in zip(kernels, roots, strict=True)]


def _by_blocks(
    function: Callable[[Signal], list[jax.Array]], block: int | None, batch: Signal
) -> list[jax.Array]:
    """Return a function of a batch, computed block by block along the first axis of its results."""
    n = len(batch.exponent)
    if block is None or block >= n:
        return function(batch)
    places = jnp.minimum(jnp.arange(-(-n // block) * block), n - 1).reshape(-1, block)
    results = lax.map(lambda rows: function(jax.tree.map(lambda A: A[rows], batch)), places)
    return [values.reshape(-1, *values.shape[2:])[:n] for values in results]


def _check_network(network: Network, normalized: bool) -> None:
    """Raise an error if a network has fields that JAX does not have, or kernels beyond float64."""
    check_network(network, KNOWN_FIELDS, per_layer=PER_LAYER_FIELDS)
    if normalized:
        return
    _, exponent = _total_divisor(network)
    if not -1022 < exponent < 1023:
        raise OverflowError(
            f"the kernel leaves float64 at depth {network.depth}: its layers multiply it by "
            f"2^{exponent}, expected a smaller depth or normalized=True"
        )


def _total_divisor(network: Network) -> tuple[float, int]:
    """Return (m, e) so that m · 2^e is the number by which all layers together were divided."""
    return Operations(network, network.depth, 1).constants.total_divisor(network.depth)


def _kernel_factor(network: Network) -> float:
    """Return the factor on kernels: the divisor of all layers, times the readout scale."""
    return network.readout_scale * ldexp(*_total_divisor(network))


def _signals(X: Any, name: str) -> jax.Array:
    """Return signals or images as an array of floating-point numbers."""
    expected = "(n_cases, n_channels, n_timepoints), or of images with an axis (width,) more"
    if isinstance(X, list | tuple):
        raise ValueError(f"{name} is a {type(X).__name__}, expected one array {expected}")
    X = jnp.asarray(X)
    if X.ndim not in (3, 4) or 0 in X.shape:
        raise ValueError(f"{name} has shape {X.shape}, expected {expected}")
    if jnp.issubdtype(X.dtype, jnp.complexfloating):
        raise ValueError(f"{name} has dtype {X.dtype}, expected real numbers {expected}")
    return X if X.dtype in (jnp.float32, jnp.float64) else X.astype(jnp.result_type(float))
