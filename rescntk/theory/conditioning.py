"""Condition numbers of kernel matrices over depth.

Barzilai et al. 2022, section 6.2, compare a normalized kernel matrix with a *double-constant*
matrix B: 1 on the diagonal, elsewhere the mean off-diagonal entry b.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.linalg

from ..arrays import channels_and_length, resolution, rounding_unit
from ..engines.pooling import check_head, pixels_averaged
from ..kernels import gram
from ..network import KERNEL_FIELDS, RELU_FIELDS, Network, check_one_dilation, unknown_field
from ..validation import (
    check_batches,
    check_depths,
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_symmetric,
    is_sequence,
)
from .argument_checks import check_branch, check_cases, check_energies, check_kind, check_resnet
from .depth.rates import asymptotic_complement
from .mean_entries import MeanEntries, MeanRow, mean_entries
from .report_table import ReportTable, texts
from .separation import separation_bound

__all__ = [
    "Bounds", "Comparison", "ComparisonRow", "MeanEntries", "MeanRow",
    "asymptotic_condition_number", "bounds", "compare", "condition_number", "mean_entries",
    "separation_bound",
]  # fmt: skip


class Bounds(NamedTuple):
    """Bounds on the condition number of a matrix A (Barzilai et al. 2022, lemma 6.1)."""

    off_diagonal: float
    """The mean off-diagonal entry b."""
    epsilon: float
    """The largest absolute row sum of A − B."""
    lower: float
    """The condition number of B: 1 + nb/(1−b); for b < 0, where the lemma is silent,
    (1−b)/(1−b+nb)."""
    upper: float
    """(1−b+nb+ε)/(1−b−ε); for b < 0, (1−b+ε)/(1−b+nb−ε). inf where a denominator is 0 or less:
    the bound is vacuous there, whatever the condition number."""
    upper_equal_rows: float
    """The improved bound of figure 3, at most `upper` (docs/theory/conditioning.md, section 3)."""


def condition_number(A: np.ndarray) -> float:
    """Return the condition number of a positive semidefinite matrix, λ_max/λ_min.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric.

    Returns
    -------
    float
        Infinity where λ_min is at most its rounding error, n·eps·λ_max, eps of A's dtype.

    Raises
    ------
    ValueError
        If A is not symmetric.

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> conditioning.condition_number([[4.0, 0.0], [0.0, 2.0]])
    2.0
    """
    A, eps = check_symmetric(A, "A"), rounding_unit(A)
    eigenvalues = scipy.linalg.eigvalsh(A)
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        return math.inf
    return float(eigenvalues[-1] / eigenvalues[0])


def bounds(A: np.ndarray) -> Bounds:
    """Return bounds on the condition number of a normalized kernel matrix.

    Parameters
    ----------
    A : ndarray, (n, n)
        Symmetric, 1 on the diagonal, n at least 2.

    Returns
    -------
    `Bounds`

    Raises
    ------
    ValueError
        If A is not symmetric, has another diagonal, or entries above 1e150.

    Examples
    --------
    >>> from rescntk.theory import conditioning
    >>> conditioning.bounds([[1.0, 0.5], [0.5, 1.0]]).upper
    3.0
    """
    A = check_symmetric(A, "A")
    n = len(A)
    if n < 2:
        raise ValueError(f"A has shape {A.shape}, expected at least 2 rows")
    value = max(A.diagonal(), key=lambda entry: abs(entry - 1.0))
    if abs(value - 1.0) > 1e-6:
        raise ValueError(
            f"A has {value:.6g} on its diagonal, expected 1: a normalized kernel matrix"
        )
    complements = 1.0 - A  # entries near 1 still differ in their complements
    np.fill_diagonal(complements, 0.0)
    if np.abs(complements).max() > 1e150:  # squares exceed float64
        raise ValueError(f"A has {np.abs(A).max():.3g}, expected correlations from -1 to 1")
    mean_complement = float(complements.sum()) / (n * (n - 1))  # 1 − b
    b = 1.0 - mean_complement
    deviation = np.abs(complements - mean_complement)
    np.fill_diagonal(deviation, 0.0)
    epsilon = float(deviation.sum(axis=1).max())
    # Eigenvalues of B: 1 − b + nb for the constant vector, 1 − b for all others.
    constant = mean_complement + n * b
    smallest, largest = sorted((mean_complement, constant))
    least, most = smallest - epsilon, largest + epsilon
    # The same with the constant vector apart from all others (docs/theory/conditioning.md).
    spread = float(np.std(complements.sum(axis=1)))
    top, bottom = mean_complement + epsilon, mean_complement - epsilon
    most_apart = min(most, max(constant, top) + _outside(constant, top, spread))
    least_apart = max(least, min(constant, bottom) - _outside(constant, bottom, spread))
    upper = most / least if least > 0 else math.inf
    equal_rows = most_apart / least_apart if least_apart > 0 else math.inf
    lower = largest / smallest if smallest > 0 else math.inf
    return Bounds(b, epsilon, lower, upper, min(equal_rows, upper))


def _outside(first: float, second: float, beside: float) -> float:
    """Return how far outside of its diagonal, two numbers, a symmetric matrix has eigenvalues."""
    half = 0.5 * abs(first - second)
    return beside * (beside / (half + math.hypot(half, beside))) if beside else 0.0


def asymptotic_condition_number(
    network: Network, n: int, *, kind: str, pixels: int | Iterable[int] = 1
) -> float:
    """Return the asymptote of the condition number of a deep kernel matrix (n, n).

    `compare` tells for which signals (docs/theory/conditioning.md, section 4).

    - GPK: n over `depth.asymptotic_complement`, for one length. This is a leading term, no bound.
      On the multi-sphere, with the heads "trace" and "equivariant", it is below `Bounds.lower`.
      Elsewhere it can exceed the condition number until layers have evened out the pixels: for
      long signals and GAP some hundred times.
    - NTK with trained inner or outer weights: the limit, (nd + 3)/3, whatever the depth.

    Parameters
    ----------
    network : Network
        Of ReLU without biases. With skip connections `alpha` is positive.
    n : int
        Number of signals.
    kind : {"gpk", "ntk"}
    pixels : int or iterable of n int, default 1
        The pixels that the head averages: for "gap" the signals' lengths d, one, or one of each
        signal; for a head of w pixels w, of images w²; else 1.

    Returns
    -------
    float
        The asymptote; 1 for n = 1. Of the GPK NaN before the law's onset, and infinity where the
        complement is below float64.

    Raises
    ------
    ValueError
        If the network is another one, has no branch, or trains neither inner nor outer weights
        (NTK), or if there are not 1 or n lengths.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import conditioning
    >>> deep, plain = rk.Network(1000), rk.Network(1000, skip=False)
    >>> law = [conditioning.asymptotic_condition_number(n, 50, kind="gpk") for n in (plain, deep)]
    >>> round(law[0] / law[1], 12)
    4.0
    >>> round(conditioning.asymptotic_condition_number(deep, 50, kind="ntk"), 2)
    17.67
    """
    n, kind = check_positive_integer(n, "n"), check_kind(kind)
    given = tuple(cast(Iterable[int], pixels)) if is_sequence(pixels) else (pixels,)
    count = check_nonnegative(n, "n")
    lengths = np.array(
        [check_positive(check_positive_integer(d, "pixels"), "pixels") for d in given]
    )
    if len(lengths) not in (1, n):
        raise ValueError(f"pixels has {len(lengths)} lengths, expected 1 or n = {n}")
    delta = asymptotic_complement(network)
    if kind == "ntk" and not (network.parts.inner or network.parts.outer):
        raise ValueError(
            f"network has trained {network.trained!r}, expected 'inner' or 'outer' for kind 'ntk': "
            f"other tangent kernels have other limits"
        )
    if n == 1:
        return 1.0
    if kind == "ntk":
        return _tangent_limit(n, lengths)
    if delta == 0:  # deeper than 1e161 layers
        return math.inf
    if (lengths == lengths[0]).all():
        return count / (delta / float(lengths[0]))
    # The matrix is 1 − δ (1/dᵢ + 1/dⱼ)/2 off the diagonal. To leading order its eigenvalues are n,
    # and the eigenvalues of δ diag(1/dᵢ) on vectors of sum 0.
    centred = np.eye(n) - 1.0 / n
    eigenvalues = scipy.linalg.eigvalsh(centred @ (centred / lengths[:, None]))
    return float(count / (delta * eigenvalues[1]))


def _tangent_limit(n: int, lengths: np.ndarray) -> float:
    """Return the condition number of n tangent kernels of infinite depth, of GAP's lengths."""
    if (lengths == lengths[0]).all():
        return 1.0 + float(n) * float(lengths[0]) / 3.0
    # 1/4 at different pixels and 1 at equal ones: GAP's normalized entry is root_i · root_j.
    roots = np.sqrt(lengths / (lengths + 3.0))
    limit = np.multiply.outer(roots, roots)
    np.fill_diagonal(limit, 1.0)
    return condition_number(limit)


class ComparisonRow(NamedTuple):
    """A row of a `Comparison`; its "cnn" is CGPK or CNTK, its "resnet" ResCGPK or ResCNTK."""

    depth: int
    cnn: float
    cnn_lower: float
    cnn_upper: float
    cnn_improved: float
    """The improved upper bound, `Bounds.upper_equal_rows`."""
    cnn_asymptote: float
    """`asymptotic_condition_number`: of a GPK a leading term, no bound; of an NTK the limit. NaN
    before the onset, and where the laws do not hold for the signals."""
    resnet: float
    resnet_lower: float
    resnet_upper: float
    resnet_improved: float
    resnet_asymptote: float
    ratio: float
    """Ratio of the condition numbers, without over with skip connections; NaN where the second is
    infinite."""
    ratio_lower: float
    """Ratio of the lower bounds."""
    ratio_limit: float
    """Limit of both ratios at infinite depth: of GPKs ((1+α²)/α²)², infinite beyond float64, of
    NTKs 1. NaN where the laws do not hold for the signals."""


@dataclass(frozen=True)
class Comparison(ReportTable[ComparisonRow]):
    """Condition numbers without and with skip connections, a `ComparisonRow` for each depth."""

    network: Network
    """The ResNet."""
    n_cases: int
    n_channels: int
    n_timepoints: int
    """Of the longest signal; of images the number of pixels."""
    kind: str
    head: str | int

    @property
    def names(self) -> tuple[str, str]:
        """The kernels' names, such as ("CGPK", "ResCGPK")."""
        return f"C{self.kind.upper()}", f"ResC{self.kind.upper()}"

    def __str__(self) -> str:
        """Return the table as text, without upper bounds that are vacuous at every depth."""
        sides = ("condition", "lower", "upper", "improved", "asymptote")
        header = ["depth", *sides, *sides, "ratio", "of bounds", "limit"]
        silent = {k for k in (3, 4, 8, 9) if all(row[k] == math.inf for row in self.rows)}
        spans = range(1), range(1, 6), range(6, 11), range(11, 14)
        groups = [[k for k in span if k not in silent] for span in spans]
        lines = []
        for cells in texts(header, self.rows):
            lines.append(" | ".join("  ".join(cells[k] for k in group) for group in groups))
        head, *body = lines
        names = "", *self.names, " / ".join(self.names)
        top = " | ".join(map(str.center, names, map(len, head.split(" | "))))
        if silent:
            body.append("left out: upper bounds that are vacuous at every depth: ε ≥ 1 − b")
        if any(row[k] == math.inf for row in self.rows for k in {3, 4, 8, 9} - silent):
            body.append("upper bound inf: vacuous, ε ≥ 1 − b")
        if math.isnan(self.rows[0].ratio_limit):
            why = "positive multiples of each other, or filters of 1"
            body.append(f"no asymptotes: they do not hold for these signals ({why})")
        known = [row.depth for row in self.rows if not math.isnan(row.ratio)]
        better = [row.depth for row in self.rows if row.ratio > 1]
        first = f", first at depth {better[0]}" if 0 < len(better) < len(known) else ""
        text = f"{len(better)} of {len(known)} depths{first}" if known else "unknown"
        if unknown := len(self) - len(known):
            text += f"; {unknown} of {len(self)} depths have infinite condition numbers"
        body.append(f"ratio above 1, so skip connections condition better: {text}")
        return "\n".join([top, head, "-" * len(head), *body])


def compare(
    network: Network, X: np.ndarray | list[np.ndarray], depths: Iterable[int], *, kind: str,
    head: str | int, engine: str = "auto", progress: bool = False,
) -> Comparison:  # fmt: skip
    """Compare the condition numbers of the kernels of a ResNet and of its CNN, over depth.

    The CNN is the network without its skip connections. Theorem 6.2 and figure 3 of Barzilai et al.
    2022 compare CGPK with ResCGPK, which is training of the readout; with `bounds` and asymptotes.
    With all layers trained (``kind="ntk"``) both condition numbers tend to a limit,
    `asymptotic_condition_number`.

    Parameters
    ----------
    network : Network
        With skip connections, a positive `alpha`, and one dilation for all layers. Its depth does
        not matter.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        At least two signals, or images (n_cases, n_channels, height, width); on the multi-sphere
        for the theorem to apply. For the head "gap" also a list of arrays (n_channels,
        n_timepoints_i).
    depths : iterable of int
    kind : {"gpk", "ntk"}
        "ntk" compares CNTK with ResCNTK.
    head : {"equivariant", "trace", "gap"} or int
    engine, progress
        As for `Kernel`.

    Returns
    -------
    `Comparison`
        A row for each depth. Asymptotes are NaN before their onset. They are NaN at all depths for
        activations other than ReLU, for biases, and for a tangent kernel without trained inner and
        outer weights. So they are where filters do not join all pixels off the multi-sphere, and
        where a signal is a positive multiple of another one (for the head "gap" and windows of
        pixels of a shift of another one, or of its own).

    Raises
    ------
    ValueError
        If the network has no skip connections or no branch, or a signal's kernel with itself is 0.
    OverflowError
        If kernels exceed float64 at one of the depths.
    MemoryError
        If the Gram matrices of all depths exceed the free memory.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import conditioning
    >>> X = rk.theory.multisphere.sample(10, 4, 8, rng=0)
    >>> table = conditioning.compare(rk.Network(1), X, (1, 10, 100), kind="gpk", head="trace")
    >>> bool((table.column("ratio") > 1).all())
    True
    """
    kind, head = check_kind(kind), check_head(head)
    check_one_dilation(network, KERNEL_FIELDS)
    check_resnet(network)
    check_branch(network)
    signals: Any = check_batches(X, None, head)[0]
    depths = check_depths(depths)
    check_cases(signals, 2, "the bounds are about pairs of signals")
    lengths = [pixels_averaged(head, np.shape(signal)[1:]) for signal in signals]
    sides, hold = [], True
    for skip in (False, True):
        side = network.replace(skip=skip)
        matrices = gram(
            side, signals, head=head, kinds=(kind,), depths=depths, normalized=True, engine=engine,
            progress=progress,
        )[0]  # fmt: skip
        check_energies(matrices)
        hold = hold and (skip or _laws_hold(network, signals, kind, head))  # asked once
        sides.append([_conditions(A) for A in matrices])
        for L, entries in zip(depths, sides[-1], strict=True):
            deep, law = side.replace(depth=L), math.nan
            if hold:
                law = asymptotic_condition_number(deep, len(signals), kind=kind, pixels=lengths)
            entries.append(law)
    s = network.growth / network.branch_gain if kind == "gpk" else 1.0
    limit, rows = s * s if hold else math.nan, []
    for depth, cnn, resnet in zip(depths, *sides, strict=True):
        ratios = [cnn[k] / resnet[k] if math.isfinite(resnet[k]) else math.nan for k in (0, 1)]
        rows.append(ComparisonRow._make((depth, *cnn, *resnet, *ratios, limit)))
    shape = len(signals), *channels_and_length(signals)
    return Comparison(tuple(rows), network, *shape, kind, head)


def _conditions(A: np.ndarray) -> list[float]:
    """Return the condition number of a matrix, and its lower, upper and improved bounds."""
    return [condition_number(A), *bounds(A)[2:]]


def _laws_hold(network: Network, signals: Iterable[np.ndarray], kind: str, head: str | int) -> bool:
    """Return whether the asymptotes hold for signals, whose kernels are not 0: see `compare`.

    Other pixels of two signals meet in pooled heads as in "gap": fewer do, which is not asked.
    """
    parts, meets = network.parts, head == "gap" or not (isinstance(head, str) or head == 1)
    if unknown_field(network, RELU_FIELDS) or (kind == "ntk" and not (parts.inner or parts.outer)):
        return False
    lengths = {length for signal in signals for length in signal.shape[1:] if length > 1}
    apart = any(math.gcd(cast(int, network.dilation), length) > 1 for length in lengths)
    layer = network.layer(2)
    if max(layer.inner.size, layer.outer.size) > 1 and not apart:
        by_shape = defaultdict[tuple[int, ...], list[np.ndarray]](list)
        for signal in signals:
            by_shape[signal.shape].append(signal)
        return not any(_has_multiples(group, meets) for group in by_shape.values())
    if network.input_filter_size > 1:  # pixels see windows of the signals
        return False
    pixels = [signal.reshape(len(signal), -1).T for signal in signals]  # (d, n_channels) each
    if head == "equivariant":
        pixels = [each[:1] for each in pixels]
    sizes = [np.sqrt(np.square(each / np.abs(each).max()).sum(axis=1)) for each in pixels]
    if any(np.ptp(size) > 1e-9 * size.max() for size in sizes):
        return False
    groups = [np.concatenate(pixels)] if meets else np.stack(pixels, axis=1)
    return not any(_has_multiples(group, False) for group in groups)


def _has_multiples(signals: Iterable[np.ndarray], shifted: bool) -> bool:
    """Return whether a signal is a positive multiple of another, or `shifted` of a shift of any.

    Up to angles of 1e-6, whose laws set in at more than 1e6 layers.
    """
    X = np.array([signal / np.abs(signal).max() for signal in signals])
    X /= np.sqrt((X * X).sum(axis=tuple(range(1, X.ndim)), keepdims=True))
    X = X if shifted else X.reshape(len(X), -1, 1)
    F = np.fft.fftn(X, axes=range(2, X.ndim))
    for k, own in enumerate(F):
        products = (F[k:].conj() * own).sum(axis=1)
        cosines = np.fft.ifftn(products, axes=range(1, products.ndim)).real
        cosines[(0,) * cosines.ndim] = 0.0  # the signal itself
        if (cosines > 1.0 - 5e-13).any():
            return True
    return False
