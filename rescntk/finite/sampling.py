r"""Kernels of sampled networks, and how they concentrate on the kernels of the infinite network.

The root mean square of :math:`\|\hat K - K\|_F / \|K\|_F` over networks falls like
:math:`C^{-1/2}` (Huang et al. 2020, theorem 4; Tirer et al. 2022, figure 1a).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from ..arrays import channels_and_length
from ..kernels import gram
from ..network import Network
from ..report_table import ReportTable
from ..validation import (
    KINDS,
    check_choice,
    check_depths,
    check_dtype,
    check_free_memory,
    check_integer,
)
from .forward import (
    as_batch,
    check_layers,
    check_range,
    features,
    fitting_batch,
    pool,
    readout_factor,
)
from .tangent import ntk, pooled_products
from .weights import Parameters, as_key, init, precision


def gpk(
    key: Any,
    network: Network,
    X: Any,
    width: int,
    n_samples: int,
    head: str = "gap",
    *,
    dtype: str = "float64",
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the Gaussian process kernel of networks of a finite width, and its standard error.

    One sample is :math:`\frac{r}{C} \langle \phi(x), \phi(z) \rangle` of the features φ that the
    head reads. It is the exact mean of f(x) f(z) over the readout's weights.

    Parameters
    ----------
    key : key of ``jax.random``, or int
    network, X, head
        As for ``finite.apply``.
    width, n_samples : int
        Channels of each layer, and number of networks, at least 2.
    dtype : {"float64", "float32"}, default "float64"

    Returns
    -------
    mean, standard_error : ndarray, (n_cases, n_cases)
        The mean over samples, and their standard deviation over the root of n_samples.

    Raises
    ------
    ValueError, MemoryError, OverflowError
        For arguments that are not as described; for a network, or the kernels of all samples,
        beyond the free memory; for kernels beyond the dtype.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 2, 8, rng=0)
    >>> rk.finite.gpk(0, rk.Network(depth=2), X, width=64, n_samples=10)[1].shape
    (3, 3)
    """
    return estimate(samples(key, network, X, width, n_samples, head, kind="gpk", dtype=dtype))


def estimate(kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard error over the first axis."""
    deviation = kernels.std(axis=0, ddof=1)
    return kernels.mean(axis=0), deviation / np.sqrt(len(kernels))


def samples(
    key: Any,
    network: Network,
    X: Any,
    width: int,
    n_samples: int,
    head: str = "gap",
    kind: str = "ntk",
    *,
    dtype: str = "float64",
) -> np.ndarray:
    """Return kernels of independently sampled networks, (n_samples, n_cases, n_cases).

    Parameters
    ----------
    key, network, X, width, n_samples, head, dtype
        As for `gpk`, and the same errors.
    kind : {"gpk", "ntk"}, default "ntk"
        The inner products of the features, or the tangent kernel.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 2, 8, rng=0)
    >>> rk.finite.samples(0, rk.Network(depth=2), X, width=64, n_samples=10).shape
    (10, 3, 3)
    """
    check_choice(kind, "kind", KINDS)
    compute = ntk if kind == "ntk" else features_kernel
    result = np.empty(check_samples(X, n_samples, dtype), dtype)
    for k, params in enumerate(draws(key, network, X, width, n_samples, head, dtype=dtype)):
        result[k] = compute(network, params, X, head=head)
    return result


def check_samples(X: Any, n_samples: Any, dtype: str, n_widths: int = 1) -> tuple[int, int, int]:
    """Return the shape of the kernels at one width; refuse kernels of all widths beyond memory."""
    number = check_integer(n_samples, "n_samples", at_least=2)  # one has no standard error
    dtype = check_dtype(dtype)
    n_cases = as_batch(X, "X", dtype).n_cases
    check_free_memory(
        n_widths * number * n_cases**2 * np.dtype(dtype).itemsize,
        f"n_samples is {number}: {number} kernels of {n_cases} × {n_cases} numbers",
        "give fewer samples or signals",
    )
    return number, n_cases, n_cases


def draws(
    key: Any, network: Network, X: Any, width: int, n_samples: int, head: str, dtype: str
) -> Iterator[Parameters]:
    """Yield the parameters of `n_samples` networks that take the signals `X`."""
    signals = as_batch(X, "X", dtype).arrays[0]
    n_channels, length = channels_and_length(signals)
    pixels, images = length if head == "trace" else None, signals.ndim == 4
    for own_key in jax.random.split(as_key(key), n_samples):
        yield init(
            own_key, network, n_channels, width, n_timepoints=pixels, images=images, dtype=dtype
        )


def features_kernel(network: Network, params: Parameters, X: Any, head: str = "gap") -> np.ndarray:
    """Return the mean of f(x) f(z) over the readout's weights of one network, (n, n)."""
    batch = fitting_batch(network, params, head, X)
    check_layers(network, params, batch)
    with precision(params.dtype):
        pooled = [_pooled(network, head, params, signals) for signals in batch.arrays]
        products = [[np.asarray(pooled_products(x, z)) for z in pooled] for x in pooled]
    order = batch.order
    kernel = readout_factor(network, params) ** 2 * np.block(products)[np.ix_(order, order)]
    return np.asarray(check_range(kernel, "kernel's numbers"))


@partial(jax.jit, static_argnums=(0, 1))
def _pooled(network: Network, head: str, params: Parameters, signals: jax.Array) -> jax.Array:
    return pool(features(network, params, signals), head)


class ConcentrationRow(NamedTuple):
    """Distance of sampled kernels from the exact one at one width."""

    width: int
    relative_error: float
    """Root mean square over networks of ‖K̂ − K‖_F / ‖K‖_F."""
    standard_error: float
    """Standard error of `relative_error`."""


@dataclass(frozen=True)
class Concentration(ReportTable):
    """Errors, a `ConcentrationRow` for each width by iterating, and the power law through them."""

    slope: float
    """Fitted exponent of the relative error over the width; in theory −½."""
    slope_error: float
    """Standard error of `slope`."""
    exact: np.ndarray
    """(n_cases, n_cases), from ``rescntk.gram``."""
    widest: tuple[np.ndarray, np.ndarray]
    """Mean kernel of the widest networks, with its standard error."""

    @property
    def deviations(self) -> np.ndarray:
        """(mean − exact) / standard error of the widest networks, (n_cases, n_cases); 0/0 is 0."""
        mean, error = self.widest
        difference = mean - self.exact
        nothing = (difference == 0) & (error == 0)
        with np.errstate(divide="ignore"):
            return np.where(nothing, 0.0, difference / np.where(nothing, 1.0, error))

    def __str__(self) -> str:
        lines = [f"{'width':>8} {'relative error':>20}"]
        for width, error, spread in self:
            lines.append(f"{width:8} {error:11.5f} ± {spread:.5f}")
        lines.append(f"slope {self.slope:.3f} ± {self.slope_error:.3f} (theory: −1/2)")
        return "\n".join(lines)


def concentration(
    key: Any,
    network: Network,
    X: Any,
    widths: Iterable[int],
    n_samples: int,
    head: str = "gap",
    kind: str = "ntk",
    *,
    dtype: str = "float64",
) -> Concentration:
    """Return the distance of sampled networks' kernels from the exact kernel, over widths.

    Parameters
    ----------
    key, network, X, n_samples, head, kind
        As for `samples`, at each width.
    widths : iterable of int
        At least two, rising.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the finite networks; the exact kernel is of float64.

    Raises
    ------
    ValueError
        For arguments that are not as described, or if the exact kernel is 0.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 2, 8, rng=0)
    >>> table = rk.finite.concentration(0, rk.Network(depth=2), X, (8, 32, 128), n_samples=8)
    >>> bool(-0.8 < table.slope < -0.2)
    True
    """
    widths = check_depths(widths, "widths")
    if len(widths) < 2 or any(b <= a for a, b in pairwise(widths)):
        raise ValueError(f"widths is {widths!r}, expected at least two rising integers")
    check_samples(X, n_samples, dtype, len(widths))
    check_choice(kind, "kind", KINDS)
    exact = np.asarray(gram(network, X, head=head, kinds=(kind,))[0])
    keys = jax.random.split(as_key(key), len(widths))
    sampled = {
        width: samples(own_key, network, X, width, n_samples, head, kind=kind, dtype=dtype)
        for own_key, width in zip(keys, widths, strict=True)
    }
    return summarize(exact, sampled)


def summarize(exact: np.ndarray, sampled: Mapping[int, np.ndarray]) -> Concentration:
    """Return the distance of kernels, by rising widths and as from `samples`, from `exact`."""
    size = np.linalg.norm(exact)
    if size == 0:
        raise ValueError("the exact kernel of X is 0, expected a kernel to be relative to")
    rows = []
    for width, kernels in sampled.items():
        squares = ((kernels.astype(np.float64) - exact) ** 2).sum(axis=(1, 2)) / size**2
        root = float(np.sqrt(squares.mean()))
        error = float(squares.std(ddof=1) / np.sqrt(len(kernels)) / (2 * root)) if root else 0.0
        rows.append(ConcentrationRow(width, root, error))
    slope, slope_error = slope_over_widths(rows)
    widest = estimate(sampled[rows[-1].width].astype(np.float64))
    return Concentration(tuple(rows), slope, slope_error, exact, widest)


def slope_over_widths(rows: Iterable[ConcentrationRow]) -> tuple[float, float]:
    """Return the exponent of error over width, and its standard error, by weighted least squares.

    NaN where an error is 0.
    """
    width, error, spread = np.array(list(rows), dtype=float).T
    if (error <= 0).any() or (spread <= 0).any():
        return float("nan"), float("nan")
    weights = error / spread  # of log(error), whose standard error is spread / error
    line, covariance = np.polyfit(np.log(width), np.log(error), 1, w=weights, cov="unscaled")
    return float(line[0]), float(covariance[0, 0] ** 0.5)
