"""Kernels as JAX functions of signals, for `jax.grad`, `jax.jit` and `jax.vmap`.

``docs/theory/recursion.md`` derives the recursion. It runs in the precision of the signals: JAX has
float64 where its option ``jax_enable_x64`` is set, and else turns float64 into float32.

Signals of any size are taken, subnormal ones too. A kernel that leaves the range of its dtype is 0
or infinite, and its derivatives are lost. In float32 it does where both signals are below 1e-19 or
above 1e19. Normalized kernels stay in the range; their derivatives are of the size of 1/x.

Values are not checked: with normalized features, pixels whose squares leave the dtype beside 1 are
taken for 0, where other engines refuse them.

Kernels have no derivative by a pixel that is 0. Tangent kernels have none at equal and opposite
pixels. Gradients are the mean of the slopes on both sides there. If a whole window is 0 after
layer 1, gradients are finite, and may be another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from importlib.util import find_spec
from itertools import groupby
from math import frexp, ldexp
from operator import add, mul
from typing import Any, NamedTuple, TypeAlias

from .engines.means import compensated_sum, from_the_middle, past_skip, pooled, weighted_mean
from .engines.operations import Operation, Operations
from .engines.pooling import check_head, places_of, pool_weights, pooled_head, widths_of
from .engines.recursion import Recursion
from .engines.windows import Window
from .kernels import Kernel
from .kernels.gram import GRAMS
from .messages import shown
from .network import ALL_FIELDS, OF_LAYERS, Network, check_network
from .validation import check_flag, check_kinds, check_positive_integer

if find_spec("jax") is None:
    raise ImportError("rescntk.jax needs jax: pip install 'rescntk[jax]'")

import jax
import jax.numpy as jnp
from jax import lax

from .jax_numbers import k0_of, k1_of, normal, read_scaled, safe_quotient, safe_root, scaled

__all__ = ["gram", "kernel"]


def kernel(kernel: Kernel, *, block: int | None = None) -> Callable[..., jax.Array]:
    """Return a kernel as a pure function of JAX arrays, ``f(X, Z=None)``.

    Parameters
    ----------
    kernel : Kernel
        Any kernel of a network of ReLU or leaky ReLU. The function returns (n_cases, m_cases); its
        arguments and errors are those of `gram`.
    block : int, optional
        As for `gram`.

    Returns
    -------
    callable
        A function of JAX arrays, whose result is (n_cases, m_cases).

    Examples
    --------
    >>> import jax, numpy as np, rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> f = rk.jax.kernel(rk.ResCNTK(depth=3, normalized=True))
    >>> jax.grad(lambda X: f(X, X[:2]).sum())(X).shape
    (5, 2, 16)
    """
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {shown(kernel)}, expected a rescntk.Kernel")
    net, head, kinds, normalized = kernel.network, kernel.head, (kernel.kind,), kernel.normalized
    _factor(net, normalized)  # refuses networks

    def of_signals(X: jax.typing.ArrayLike, Z: jax.typing.ArrayLike | None = None) -> jax.Array:
        return gram(net, X, Z, head=head, kinds=kinds, normalized=normalized, block=block)[0]

    return of_signals


def gram(
    network: Network, X: jax.typing.ArrayLike, Z: jax.typing.ArrayLike | None = None, *,
    head: str | int = "gap", kinds: Iterable[str] = ("gpk", "ntk"), normalized: bool = False,
    block: int | None = None,
) -> tuple[jax.Array, ...]:  # fmt: skip
    """Return kernels of one network, as a pure function of the JAX arrays X and Z.

    All p pairs of a block are computed at once: block², or all n·m. This takes some arrays of p·d²
    numbers for the head "gap", p·d·(2w − 1) for a head w, p·d for others. Gradients keep such
    arrays of each layer. The first call with signals of a shape compiles for seconds, its first
    gradient for up to half a minute.

    Parameters
    ----------
    network : Network
        A network of ReLU or leaky ReLU.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals of one length, or images (n_cases, n_channels, height, width). Values are not
        checked.
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Signals or images of the same channels and pixels, by default X.
    head, kinds, normalized
        As for `rescntk.gram`.
    block : int, optional
        Rows and columns of a block, by default all. Blocks are computed one after the other, and
        once more for a gradient, which keeps the arrays of one block.

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
    kinds, factor = check_kinds(kinds), _factor(network, check_flag(normalized, "normalized"))
    X, Z = _signals(X, "X"), None if Z is None else _signals(Z, "Z")
    if Z is not None and (X.shape[1:], X.dtype) != (Z.shape[1:], Z.dtype):
        raise ValueError(
            f"Z has shape {Z.shape} and dtype {Z.dtype}, and X has shape {X.shape} and dtype "
            f"{X.dtype}: expected the same channels, pixels and dtype"
        )
    operations = Operations(network, network.depth, X.shape[1], X.ndim - 2)
    size = None if block is None else check_positive_integer(block, "block")
    head = pooled_head(check_head(head), X.shape[2:])
    return GRAMS[kinds](*_gram(operations, head, kinds, None if normalized else factor, size, X, Z))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _gram(
    operations: Operations, head: str | int, kinds: tuple[str, ...], factor: float | None,
    block: int | None, X: Any, Z: Any,
) -> list[Any]:  # fmt: skip
    """Return kernels, times a factor or normalized. They are compiled once for each shape."""
    read = jax.vmap(partial(_read, operations, head))
    x = read(X)
    z = x if Z is None else read(Z)

    def pair(x: _Signal, z: _Signal) -> list[jax.Array]:
        return _Pair(operations, head, x, z).kernels(kinds)

    pairs, same = jax.vmap(jax.vmap(pair, (None, 0)), (0, None)), jax.vmap(lambda s: pair(s, s))
    if block is not None:  # gradients compute a block again, and keep no arrays of others
        pairs, same = (jax.checkpoint(f, prevent_cse=False) for f in (pairs, same))

    def rows(x: _Signal) -> list[jax.Array]:
        columns = _by_blocks(lambda z: [K.T for K in pairs(x, z)], block, z)
        return [K.T for K in columns]

    kernels = _by_blocks(rows, block, x)
    if factor is not None:
        mantissa, exponent = frexp(factor)
        exponents = x.exponent[:, None] + z.exponent + exponent
        return [scaled(mantissa * K, exponents) for K in kernels]
    every = x if Z is None else jax.tree.map(lambda *sides: jnp.concatenate(sides), x, z)
    roots = map(safe_root, _by_blocks(same, block, every))
    n, m = kernels[0].shape
    return [safe_quotient(K, r[:n, None] * r[-m:]) for K, r in zip(kernels, roots, strict=True)]


def _by_blocks(function: Callable[..., Any], block: int | None, batch: _Signal) -> Any:
    """Return results of a batch, whose axis is their first, block by block."""
    n = len(batch.exponent)
    if block is None or block >= n:
        return function(batch)
    places = jnp.minimum(jnp.arange(-(-n // block) * block), n - 1).reshape(-1, block)
    results = lax.map(lambda rows: function(jax.tree.map(lambda A: A[rows], batch)), places)
    return [values.reshape(-1, *values.shape[2:])[:n] for values in results]


def _factor(network: Network, normalized: bool) -> float:
    """Return the growth of a known network, times its readout scale; 1 of normalized kernels."""
    check_network(network, ALL_FIELDS - {"activation"}, of_layers=OF_LAYERS)
    if normalized:
        return 1.0
    mantissa, exponent = Operations(network, network.depth, 1).constants.power(network.depth)
    if not -1022 < exponent < 1023:
        raise OverflowError(
            f"the kernel leaves float64 at depth {network.depth}: its layers multiply it by "
            f"2^{exponent}, expected a smaller depth or normalized=True"
        )
    return network.readout_scale * ldexp(mantissa, exponent)


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


class _Signal(NamedTuple):
    """A signal (channels, *pixels), divided by a power of two near its largest value."""

    unit: jax.Array  # (channels, *pixels), pixels divided by their norms;
    parts: jax.Array  # (channels, *pixels), the products of which are F⁰;
    means: jax.Array  # (channels,), the parts' means over pixels; (channels, *pixels) over windows;
    energy: jax.Array  # (*pixels), F⁰ of single pixels at x = z;
    exponent: jax.Array  # of the power of two: kernels are homogeneous;
    bias: jax.Array  # the largest standard deviation of biases, divided by the power;
    norm: jax.Array  # 1, divided by the power.


def _read(operations: Operations, head: str | int, x: jax.Array) -> _Signal:
    network, forgets = operations.network, operations.constants.forgets_size
    mantissa, of_bias = frexp(operations.constants.largest_bias)
    values, exponents = normal(lax.stop_gradient(x))
    none = -(2**14)
    exponents = jnp.where(values == 0, none, jnp.frexp(values)[1] - 1 + exponents)
    beside = max(of_bias - 1 if mantissa else none, 0 if network.norm else none)
    exponent = jnp.maximum(exponents.max(), none if forgets else beside)
    exponent = jnp.where(exponent == none, 0, exponent)
    x = read_scaled(x, -exponent)
    exponent = jnp.zeros_like(exponent) if forgets else exponent
    bias = scaled(jnp.asarray(mantissa, x.dtype), of_bias - exponent)
    norm = scaled(jnp.ones((), x.dtype), -exponent)
    squares = (x * x).sum(axis=0)
    factor = network.factor_of_input(len(x))
    unit = safe_quotient(x, safe_root(squares)[None])
    flat, root = x.reshape(len(x), -1), factor**0.5
    sums = compensated_sum(flat, jnp) if operations.constants.is_weak else flat.sum(axis=1)
    means = root * sums / flat.shape[1]
    if not isinstance(head, str):
        means = root * pooled(x, widths_of(head, x.shape[1:]), jnp)
    return _Signal(unit, root * x, means, factor * squares, exponent, bias, norm)


_State: TypeAlias = tuple[list[jax.Array], list[jax.Array]]
"""Masses, which are differentiated too, and deficits."""


def _scanned_constants(operations: Operations) -> list[list[float]]:
    """Return the constants that a scan over layers takes, of each layer."""
    rows, every = [], operations.constants
    for layer in range(1, operations.depth + 1):
        constants, roots = every.of_layer(layer), (False, True)
        biases = [every.bias(layer, is_branch) for is_branch in roots]
        rows.append(
            [
                every.input_factor(layer - 1),
                *biases,
                constants.feature_weight,
                constants.branch_weight,
            ]
        )
    return rows


def _what_is_compiled(operations: Operations, of_layer: tuple[Operation, ...]) -> list[Any]:
    """Return what layers of one scan have in common."""
    constants = operations.constants.of_layer(of_layer[0].layer)
    order = bool(constants.feature_weight), constants.feature_weight < constants.branch_weight
    return [order, *((operation.kind, operation.window) for operation in of_layer)]


class _Pair(Recursion[_State]):
    """The recursion of a pair of signals (rescntk/engines/recursion.py).

    Masses are variances of both signals' pixels, two arrays (*pixels). Arrays of pixel pairs have
    the axes (*pixels, *pixels') for the head "gap", (offsets, *pixels) for pooled heads, and
    (*pixels) for others.
    """

    def __init__(self, operations: Operations, head: str | int, x: _Signal, z: _Signal) -> None:
        self.operations, self.head, self.x, self.z = operations, head, x, z
        self.parts, self.n_axes = operations.network.parts.carried, operations.n_axes

    def kernels(self, kinds: tuple[str, ...]) -> list[jax.Array]:
        """Return the kernels of each kind with their head, without scale and growth."""
        operations = self.operations
        state, self.linear = self.enter()
        carried = state, [jnp.zeros_like(self.linear)] * (1 + ("ntk" in kinds))
        constants = jnp.asarray(_scanned_constants(operations), self.linear.dtype)
        carried, _ = self.scanned(operations.layers[0], carried, constants[0])
        for _, of_layers in groupby(operations.layers[1:], partial(_what_is_compiled, operations)):
            alike = list(of_layers)
            layer = jax.checkpoint(partial(self.scanned, alike[0]), prevent_cse=False)
            first = alike[0][0].layer - 1
            carried, _ = lax.scan(layer, carried, constants[first : first + len(alike)])
        input_factor = operations.constants.input_factor(operations.depth)
        parts, (F, *tangent) = operations.network.parts, carried[1]
        multiples = {"gpk": input_factor, "ntk": input_factor * parts.initial}
        if parts.readout != self.parts.readout:  # A is T
            tangent = [A + F for A in tangent]
        of_kinds = dict(zip(multiples, [F, *tangent], strict=False))
        return [self.with_head(of_kinds[kind], multiples[kind]) for kind in kinds]

    def enter(self) -> tuple[_State, jax.Array]:
        """Return the masses and the deficits, U and U⁺, of the input, and F⁰."""
        x, z = self.x, self.z
        masses, linear = [x.energy, z.energy], self.over_channels(mul, x.parts, z.parts)
        g, deficits = self.product(masses), []
        for sign in (-1.0, 1.0):
            half = self.over_channels(lambda u, v, s=sign: 0.5 * (u + s * v) ** 2, x.unit, z.unit)
            # Where g is 0, deficits are 0, and ± F⁰ has their derivatives.
            deficits.append(g * half + jnp.where(g > 0, 0.0, sign * linear))
        for operation in self.operations.input:
            masses, deficits = self.window(operation, (masses, deficits))
            linear = self.mean(linear, operation.window)
        return (masses, deficits), linear

    def scanned(
        self, of_layer: tuple[Operation, ...], carried: Any, constants: Any
    ) -> tuple[Any, None]:
        """Return masses and deficits, and F and A, behind a layer."""
        (
            (state, kernels),
            (input_factor, *self.bias_roots, self.feature_weight, self.branch_weight),
        ) = (
            carried,
            constants,
        )
        self.constants = self.operations.constants.of_layer(of_layer[0].layer)
        return self.layer(of_layer, state, kernels, input_factor), None

    def norm(self, operation: Operation, state: _State) -> tuple[_State, jax.Array]:
        masses, deficits = state
        norms = self.x.norm, self.z.norm
        roots = [safe_quotient(n, safe_root(m)) for n, m in zip(norms, masses, strict=True)]
        masses = [jnp.where(m > 0, n**2, 0.0) for n, m in zip(norms, masses, strict=True)]
        factor = mul(*self.sides(*roots))
        return (masses, [factor * u for u in deficits]), factor

    def activate(
        self, operation: Operation, state: _State, tangent: list[jax.Array]
    ) -> tuple[_State, list[jax.Array]]:
        masses, deficits = state
        linear_part, g = self.operations.constants.linear_share, self.product(masses)
        w, *opposite = (jnp.where(g > 0, safe_quotient(u, g), 1.0) for u in deficits)
        w = w - lax.stop_gradient(jnp.maximum(w - 2.0, 0.0))
        v = opposite[0] if opposite else 2.0 - w
        near, a = w < v, jnp.where(w < v, w, v)
        k0, k1 = k0_of(a), k1_of(a)
        less, lost = jnp.where(near, w, 1.0) - k1, jnp.where(near, k0, 1.0 - k0)
        less, more = less + linear_part * (w - less), 2.0 - less + linear_part * (v - 2.0 + less)
        sigma = jnp.where(g > 0, 0.0, -deficits[0])  # 0, with the derivatives of Σ
        half = 0.5 * (1.0 + linear_part) * sigma  # the odd part of K; its even part has none
        K, branch = g - g * less + half, [g * less - half, g * more + half]
        if tangent:
            tangent = tangent[0]
            if c := self.parts.inner_minus_readout:
                tangent += c * (g * jnp.where(near, 1.0 - w, v - 1.0) + sigma)
            M = tangent - (1.0 - linear_part) * lost * tangent + self.parts.outer_plus_readout * K
            tangent = [M]
        return (masses, branch[: 1 + self.operations.constants.has_opposite]), [K, *tangent]

    def merged(
        self, masses: Any, weights: Sequence[float], wholes: list[Any], deficits: list[Any]
    ) -> _State:
        """Return merged masses and deficits: `wholes`, and `deficits` with what a merge adds.

        `masses` are the parts of both sides, which have the weights.
        """
        sums, coordinates = [], []
        for parts, total in zip(masses, wholes, strict=True):
            # 1 where all are equal
            ratios = (safe_root(safe_quotient(part, total)) for part in parts)
            first, *later = (w**0.5 * ratio for w, ratio in zip(weights, ratios, strict=True))
            sums.append(safe_root(total) * (1.0 + first))
            coordinates.append([other / (1.0 + first) for other in later])
        pairs = (self.sides(u, v) for u, v in zip(*coordinates, strict=True))
        N = 0.5 * mul(*self.sides(*sums)) * reduce(add, [(u - v) ** 2 for u, v in pairs])
        return wholes, [deficit + N for deficit in deficits]

    def window(self, operation: Operation, state: _State) -> _State:
        (masses, deficits), window = state, operation.window
        parts, wholes = ([of(m, window) for m in masses] for of in (self.taps, self.mean))
        return self.merged(parts, window.weights, wholes, [self.mean(u, window) for u in deficits])

    def bias(self, operation: Operation, state: _State) -> tuple[_State, jax.Array]:
        masses, deficits = state
        root = self.bias_roots[operation.is_branch]
        a, b = root * self.x.bias, root * self.z.bias
        both = [[m, a_or_b**2] for m, a_or_b in zip(masses, (a, b), strict=True)]
        deficits = [u + c * a * b for u, c in zip(deficits, (0.0, 2.0), strict=False)]
        return self.merged(both, [1.0, 1.0], [m + q for m, q in both], deficits), a * b

    def skip(
        self, operation: Operation, features: _State, branch: _State
    ) -> tuple[_State, tuple[float, float]]:
        weights = self.constants.feature_weight, self.constants.branch_weight
        if not self.operations.constants.has_like_layers:
            weights = self.feature_weight, self.branch_weight
        masses, deficits = (
            [self.past_skip(*pair, weights) for pair in zip(*sides, strict=False)]
            for sides in zip(features, branch, strict=True)
        )
        both = [[*pair] for pair in zip(features[0], branch[0], strict=True)]
        return self.merged(both, weights, masses, deficits), weights

    def past_skip(
        self, features: jax.Array, branch: jax.Array, weights: tuple[float, float]
    ) -> jax.Array:
        feature_weight, branch_weight = weights
        if not isinstance(feature_weight, jax.Array):
            return past_skip(features, branch, feature_weight, branch_weight)
        # JAX does not know the weights, but which of them is greater.
        if not self.constants.feature_weight:
            return branch_weight * branch
        if self.constants.feature_weight < self.constants.branch_weight:
            return branch + feature_weight * (features - branch)
        return features + branch_weight * (branch - features)

    def taps(self, values: jax.Array, window: Window) -> list[jax.Array]:
        """Return the values at the taps of a window, the middle one first."""
        sides = values.ndim // self.n_axes if isinstance(self.head, str) else 1
        axes = [window.axis - self.n_axes * side for side in range(1, 1 + sides)]
        return from_the_middle([jnp.roll(values, [-k] * len(axes), axes) for k in window.offsets])

    def mean(self, values: jax.Array, window: Window) -> jax.Array:
        """Return the means over the taps of a merge."""
        return weighted_mean(self.taps(values, window), window.weights)

    def sides(self, p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return arrays of both sides' pixels that broadcast to the pixel pairs."""
        if not isinstance(self.head, str):
            return p, q.ravel()[places_of(self.head, q.shape)]
        return (p[(..., *[None] * self.n_axes)] if self.head == "gap" else p), q

    def product(self, masses: jax.Array) -> jax.Array:
        """Return g = a b of the pixel pairs, the product of the roots of masses."""
        return mul(*self.sides(*map(safe_root, masses)))

    def over_channels(
        self, function: Callable[..., jax.Array], p: jax.Array, q: jax.Array
    ) -> jax.Array:
        """Return the sum over channels of a function of both sides' pixels."""
        return jax.vmap(lambda *channels: function(*self.sides(*channels)))(p, q).sum(axis=0)

    def with_head(self, kernel: jax.Array, of_linear: float) -> jax.Array:
        """Return a kernel with its head, to which `of_linear` times F⁰ is added."""
        if self.head in ("trace", "equivariant"):
            kernel = kernel + of_linear * self.linear
            return kernel.mean() if self.head == "trace" else kernel.ravel()[0]
        if not isinstance(self.head, str):
            weights = jnp.asarray(pool_weights(self.head, kernel.shape[1:]), kernel.dtype)
            kernel = jnp.tensordot(weights, kernel, 1)
        elif self.head != "gap":
            raise NotImplementedError(f"JAX has no head {self.head!r}")
        means = self.x.means * self.z.means  # the mean of F⁰ may be 0
        return kernel.mean() + of_linear * means.sum(axis=0).mean()
