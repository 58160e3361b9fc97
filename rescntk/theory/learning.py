r"""Learning curves, numbers of signals and times to learn, from the spectrum.

Bordelon, Canatar and Pehlevan 2020; Canatar, Bordelon and Pehlevan 2021; Simon et al. 2021
(``docs/theory/learning_curves.md``). A kernel has eigenvalues λ_i and the target the coefficients
v_i. With n signals and the penalty δ, κ solves :math:`\sum_i \lambda_i/(\lambda_i+\kappa) +
\delta/\kappa = n`, and the *learnability* of mode i is :math:`L_i = \lambda_i/(\lambda_i+\kappa)`.
Gradient flow from 0 learns the share :math:`1 - e^{-\lambda t}` of it (Barzilai et al. 2022, 5.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from ..arrays import resolution
from ..decomposition import check_finite, decompose, nonnegative
from ..network import Network
from ..validation import (
    check_depths,
    check_integer,
    check_nonnegative,
    check_rectangular,
    check_shape,
    check_targets,
    is_sequence,
)
from . import spectrum
from .argument_checks import check_grid, check_options
from .report_table import ReportTable, texts

__all__ = [
    "Clock", "ClockRow", "ComplexityRow", "CurveRow", "Learned", "LearningCurve",
    "SampleComplexity", "alignment", "clock", "curve", "from_gram", "learned", "sample_complexity",
]  # fmt: skip


class CurveRow(NamedTuple):
    """The predicted errors of one number of signals: mean squares over targets."""

    n: int
    test_error: float
    """At new signals, label noise included; infinite where noise is fitted exactly."""
    train_error: float
    effective_dimension: float
    """Σ L_i, at most n: as many modes are learned."""
    kappa: float
    """κ, the eigenvalue of a mode that is half learned."""
    overfitting: float
    """E_0 = n/(n − Σ L_i²), at least 1: the factor by which noise in the labels grows."""


@dataclass(frozen=True)
class LearningCurve(ReportTable[CurveRow]):
    """A learning curve; iterating gives a `CurveRow` for each number of signals."""


def curve(
    eigenvalues: np.ndarray, coefficients: np.ndarray, sizes: Iterable[int], penalty: float = 0.0,
    *, noise: float = 0.0, multiplicities: np.ndarray | None = None,
) -> LearningCurve:  # fmt: skip
    r"""Return the learning curve of a kernel with given eigenvalues and of a given target.

    The test error is :math:`E_0 \bigl(\sum_i (1 - L_i)^2 v_i^2 + \sigma^2\bigr)`, the train error
    :math:`(\delta/n\kappa)^2` times the test error (Simon et al. 2021).

    Parameters
    ----------
    eigenvalues : ndarray, (n_modes,)
        λ_i of the kernel's integral operator, at least 0. Modes of eigenvalue 0 are never learned.
    coefficients : ndarray, (n_modes,) or (n_modes, n_targets)
        v_i of the target in orthonormal eigenfunctions. Errors are means over targets.
    sizes : iterable of int
        Numbers n of training signals.
    penalty : float, default 0.0
        δ, added to the diagonal of the kernel matrix (n, n).
    noise : float, default 0.0
        Variance σ² of independent errors in the labels, of training and of test signals.
    multiplicities : ndarray, (n_modes,), optional
        How often each eigenvalue occurs; a squared coefficient is the sum over its modes.

    Returns
    -------
    LearningCurve
        A `CurveRow` for each size.

    Raises
    ------
    ValueError
        If an argument is negative, or of another shape.
    OverflowError
        If κ or the squared coefficients leave float64.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> print(learning.curve([1.0, 0.1], [1.0, 1.0], (1, 2), penalty=0.1, multiplicities=[1, 10]))
    n  test_error  train_error  effective_dimension   kappa  overfitting
    --------------------------------------------------------------------
    1       1.548     0.005559               0.9401   1.669        1.208
    2       1.248     0.006532                1.855  0.6911        1.342
    """
    values = check_shape(eigenvalues, "eigenvalues", "(n_modes,)", lambda s: len(s) == 1)
    parts = check_targets(coefficients, len(values), "coefficients").reshape(len(values), -1)
    with np.errstate(over="ignore"):
        squares = np.square(parts).mean(axis=1)
        check_finite(squares.sum())
    counts = np.ones(len(values)) if multiplicities is None else multiplicities
    counts = check_shape(counts, "multiplicities", values.shape)
    for name, array in (("eigenvalues", values), ("multiplicities", counts)):
        if (array < 0).any():
            raise ValueError(f"{name} has {array.min():.3g}, expected numbers of at least 0")
    penalty, noise = check_nonnegative(penalty, "penalty"), check_nonnegative(noise, "noise")
    rows = []
    for n in check_depths(sizes, "sizes"):
        kappa = _solve_kappa(values, counts, n, penalty)
        share, rest = _shares(values, kappa)
        # δ/κ: without a penalty, n signals beyond the rank leave n − rank directions untrained.
        remaining = penalty / kappa if kappa > 0 else n - counts[values > 0].sum()
        spread = counts @ (share * rest) + remaining  # n − Σ L²: all terms are positive
        overfitting = float(n / spread) if spread > 0 else math.inf
        bias = float(squares @ rest**2 + noise)
        test = overfitting * bias if bias > 0 else 0.0
        train = float(remaining / n) ** 2 * test if remaining > 0 else 0.0
        rows.append(CurveRow(n, test, train, float(counts @ share), kappa, overfitting))
    return LearningCurve(tuple(rows))


def from_gram(
    K: np.ndarray, y: np.ndarray, sizes: Iterable[int], penalty: float = 0.0, *, noise: float = 0.0
) -> LearningCurve:
    r"""Return the learning curve of training sets drawn from a pool, tested on its other signals.

    Of K + δI, with eigenvalues Λ + δ, τ solves κ's equation without a penalty. Then κ is (δ + τ)/N,
    and τ/(Λ+δ+τ) is left of a direction (docs/theory/learning_curves.md, section 2).

    Parameters
    ----------
    K : ndarray, (N, N)
        Kernel matrix of the pool. Eigenvalues below N·eps·λ_max, eps of its dtype, count as 0.
    y : ndarray, (N,) or (N, n_targets)
        Targets of the pool. Centre them where the regression has an intercept.
    sizes : iterable of int
        Numbers n of training signals, below N.
    penalty : float, default 0.0
        δ, added to the diagonal of the kernel matrix (n, n).
    noise : float, default 0.0
        Variance σ² of independent errors in the labels, beside those that y has.

    Returns
    -------
    LearningCurve
        A `CurveRow` for each size.

    Raises
    ------
    ValueError
        If K is not symmetric and positive semidefinite, or a size is not below N.
    OverflowError
        If κ or the squared targets leave float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import learning
    >>> x = np.random.default_rng(0).standard_normal((60, 5))
    >>> table = learning.from_gram(x @ x.T, x[:, 0], (3, 10), penalty=1e-6)
    >>> table.column("test_error").round(3)
    array([0.424, 0.   ])
    """
    ladder, penalty = check_depths(sizes, "sizes"), check_nonnegative(penalty, "penalty")
    found, noise = decompose(K), check_nonnegative(noise, "noise")
    N, values = len(found.eigenvalues), found.eigenvalues
    values = values * (values > resolution(values, found.eps))
    if max(ladder) >= N:
        raise ValueError(f"sizes has {max(ladder)}, expected numbers below {N}, the signals of K")
    with np.errstate(over="ignore", invalid="ignore"):
        parts = found.eigenvectors.T @ check_targets(y, N).reshape(N, -1) / math.sqrt(N)
        check_finite(np.square(parts).sum())
    # Rounding errors of orthogonal vectors are no part of the target.
    tiny = N * float(np.finfo(np.float64).eps) * np.linalg.norm(parts, axis=0)
    parts[np.abs(parts) <= tiny] = 0.0
    # The root of the mean over targets. Noise has the same share in every direction.
    parts = np.hypot.reduce(parts, axis=1) / math.sqrt(parts.shape[1])
    parts, rank, rows = np.hypot(parts, math.sqrt(noise / N)), int(np.count_nonzero(values)), []
    for n, test, _, _, tau, overfitting in curve(values + penalty, parts, ladder):
        # Without a penalty, eigenvalues 0 share what n signals beyond the rank leave.
        odds = penalty / tau if penalty else max(n - rank, 0) / (N - n)
        left = 1.0 / (1.0 + odds)
        grown = N / (N - n) * (1.0 if penalty else left)
        train = (odds * (N - n) / n) ** 2 * test * grown if odds else 0.0
        overfitting *= grown * (left**2 if penalty else 1.0)
        dimension, kappa = float(_shares(values, penalty + tau)[0].sum()), (penalty + tau) / N
        rows.append(CurveRow(n, test * grown, train, dimension, kappa, overfitting))
    return LearningCurve(tuple(rows))


def alignment(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the share of y in the k leading eigenvectors of a kernel matrix, for each k.

    It rises to 1: the earlier, the fewer signals are needed (Canatar et al. 2021). Within equal
    eigenvalues the order is arbitrary.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix.
    y : ndarray, (n,) or (n, n_targets)
        Not 0. Several targets have one share, of all their squares.

    Returns
    -------
    ndarray, (n,)
        For k = 1 … n.

    Raises
    ------
    ValueError
        If K is not symmetric and positive semidefinite, or y is 0.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> learning.alignment([[3.0, 0.0], [0.0, 1.0]], [3.0, 4.0])
    array([0.36, 1.  ])
    """
    sums = np.cumsum(learned(K, y, (0.0,)).shares)
    return np.asarray(sums / sums[-1])


def _shares(values: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Return L = λ/(λ+κ) and 1 − L, both with all their digits. Where λ is 0, L is 0."""
    total = np.where(values > 0, values + kappa, 1.0)
    return values / total, np.where(values > 0, kappa / total, 1.0)


def _solve_kappa(values: np.ndarray, counts: np.ndarray, n: float, penalty: float) -> float:
    """Return κ with Σ λ/(λ+κ) + δ/κ = n, to rounding errors; 0 for δ = 0 from the rank on."""
    present = (values > 0) & (counts > 0)
    values, counts, rank = values[present], counts[present], counts[present].sum()
    if penalty == 0 and n >= rank:
        return 0.0
    with np.errstate(over="ignore"):  # κ ≤ (Σ λ + δ)/n; κ ≥ δ/n, and κ ≥ λ_min (rank − n)/n
        high = (values @ counts + penalty) / n
        low = max(penalty / n, values.min(initial=np.inf) * (rank - n) / n)
    if not 1e-307 < low <= high < 1e307:
        raise OverflowError("κ leaves the range of float64, expected moderate eigenvalues")

    def excess(kappa: float) -> float:
        """Return Σ L + δ/κ − n. From κ on L is 1 − (1 − L): the sum of the 1 less n is exact."""
        share, rest = _shares(values, kappa)
        above = values >= kappa
        others = counts @ np.where(above, -rest, share) + penalty / kappa
        return float((counts[above].sum() - n) + others)

    return float(brentq(excess, 0.999 * low, 1.001 * high, xtol=1e-320, rtol=1e-15, maxiter=3000))


class ComplexityRow(NamedTuple):
    """The number of signals at which functions of some frequencies are learned to a share."""

    frequencies: tuple[int, ...]
    eigenvalue: float
    """In units of K(x, x) of the equivariant kernel; 0 where it does not exceed its error."""
    n: float
    """Number of signals, between `least` and `most`; infinite for eigenvalue 0."""
    least: float
    most: float
    """Bounds: they differ by what frequencies above `max_frequency` may add."""


def _resolved(found: spectrum.Spectrum) -> np.ndarray:
    """Return eigenvalues, 0 where they do not exceed their errors."""
    return np.where(found.eigenvalues > found.errors, found.eigenvalues, 0.0)


@dataclass(frozen=True)
class SampleComplexity(ReportTable[ComplexityRow]):
    """Numbers of signals; iterating gives a `ComplexityRow` for each set of frequencies."""

    tail: float
    """Part of the kernel's trace in frequencies above `max_frequency`, from 0 to 1."""


def sample_complexity(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: int, *, kind: str,
    head: str, frequencies: Iterable[Iterable[int]] | None = None, share: float = 0.5,
    penalty: float = 0.0, **options: Unpack[spectrum.Quadrature],
) -> SampleComplexity:  # fmt: skip
    r"""Return at how many signals, drawn from the multi-sphere, each frequency is half learned.

    Frequencies above `max_frequency` act like a penalty. The largest eigenvalue of the last two
    frequencies is taken to bound theirs: this bounds n (``docs/theory/learning_curves.md``).

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int
        Highest frequency of each pixel, at least 1. A higher one narrows the bounds.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    frequencies : iterable of d integers each, optional
        From 0 to `max_frequency`. The default has 1, 2, … on pixel 0 only, 1 on pixels 0 and p for
        all p, and with the equivariant head 1 on each other pixel only.
    share : float, default 0.5
        Learnability L that counts as learned, above 0 and below 1.
    penalty : float, default 0.0
        δ, in units of K(x, x) of the equivariant kernel.
    **options
        Options of ``spectrum.eigenvalues``, but ``normalized`` and ``errors``.

    Returns
    -------
    SampleComplexity
        A `ComplexityRow` for each set of frequencies.

    Raises
    ------
    ValueError
        If an argument is out of range, or the work exceeds what the options allow.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> resnet, options = literature.barzilai_resnet(3), {"kind": "gpk", "head": "equivariant"}
    >>> found = learning.sample_complexity(resnet, 2, 3, 6, frequencies=[(1, 0, 0)], **options)
    >>> found.column("n").round(1)
    array([4.])
    """
    top = check_integer(max_frequency, "max_frequency", at_least=1)
    d = check_grid(n_channels, n_timepoints, top, head)[1]
    if not 0 < check_nonnegative(share, "share") < 1:
        raise ValueError(f"share is {share!r}, expected a number between 0 and 1")
    penalty, space = check_nonnegative(penalty, "penalty"), (n_channels, d, top)
    chosen = None if frequencies is None else _check_frequencies(frequencies, d, top)
    check_options(options, "normalized", "errors")
    options["normalized"] = True
    found = spectrum.eigenvalues(network, *space, kind=kind, head=head, errors=True, **options)
    # All count among the others. Below 0 they are by errors of the quadrature.
    resolved, values = _resolved(found), np.maximum(found.eigenvalues, 0.0)
    if chosen is None:  # only now it is known that there is memory for them
        one = np.eye(d, dtype=int)
        others = one[1 : d // 2 + 1]
        chosen = np.concatenate([np.arange(1, top + 1)[:, None] * one[0], one[0] + others])
        chosen = np.insert(chosen, top, others, axis=0) if head == "equivariant" else chosen
    counts = spectrum.multiplicities(*space, head=head)
    of_trace = spectrum.multiplicities(*space, head="equivariant")
    tail = max(1.0 - float((of_trace * values).sum()), 0.0)
    tail_least = tail_most = tail
    if head == "gap":
        # Each mode of the equivariant head is 1/d of a mode of GAP. It is more where a shift keeps
        # its frequencies. Then d/c pixels of a cycle have the frequency above max_frequency.
        cycles, kept = np.gcd(np.arange(1, d), d), float(spectrum.harmonics(n_channels, top + 1))
        tail_least = tail / d
        tail_most = tail_least * (1.0 + float((kept ** (1.0 - d / cycles)).sum()))
    outer = values.copy()
    outer[(slice(0, max(top - 1, 1)),) * d] = 0.0
    edge, rows = float(outer.max()), []
    for place in map(tuple, chosen.tolist()):
        value, least, most = float(resolved[place]), math.inf, math.inf
        kappa = value * (1.0 - share) / share
        if kappa > 0:
            with np.errstate(invalid="ignore"):  # κ beyond float64, for the tiniest shares
                known = float((counts * _shares(values, kappa)[0]).sum()) + penalty / kappa
            least, most = known + tail_least / (kappa + edge), known + tail_most / kappa
        rows.append(ComplexityRow(place, value, 0.5 * (least + most), least, most))
    return SampleComplexity(tuple(rows), tail)


def _check_frequencies(given: Iterable[Iterable[int]], d: int, top: int) -> np.ndarray:
    """Return sets of a frequency for each of d pixels, from 0 to `top`, (n_sets, d)."""
    text = f"expected sets of {d} integers from 0 to {top}"
    sets = list(given) if is_sequence(given) else []
    if not sets or not all(is_sequence(each) for each in sets):
        raise ValueError(f"frequencies is {given!r}, {text}")
    chosen = check_rectangular([tuple(each) for each in sets], "frequencies", text[9:])
    whole = chosen.dtype.kind in "iu" and chosen.shape[1:] == (d,)
    if not whole or chosen.min() < 0 or chosen.max() > top:
        raise ValueError(f"frequencies is {given!r}, {text}")
    return np.asarray(chosen)


class ClockRow(NamedTuple):
    """Frequencies, one a pixel, λ, its number of eigenfunctions, and 1 − exp(−λt) over time."""

    frequencies: tuple[int, ...]
    eigenvalue: float
    multiplicity: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Clock(ReportTable[ClockRow]):
    """Shares over time; iterating gives a `ClockRow` for all frequencies, the fastest first."""

    times: tuple[float, ...]

    def __str__(self) -> str:
        """Return the table as text, a column for each time."""
        header = (*ClockRow._fields[:3], *(f"t = {t:.4g}" for t in self.times))
        head, *body = map("  ".join, texts(header, ((*row[:3], *row.shares) for row in self)))
        return "\n".join([head, "-" * len(head), *body])


def clock(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: int | Iterable[int],
    times: ArrayLike, *, kind: str, head: str,
) -> Clock:  # fmt: skip
    r"""Return what gradient flow has learned of each eigenfunction on the multi-sphere over time.

    The flow is :math:`f'(x) = -E_z[K(x, z) (f(z) - y(z))]`, z uniform on the multi-sphere: times
    are steps times the learning rate for the mean of :math:`\frac12(f - y)^2`. On n signals, whose
    squares are added, `learned` and ``regression.flow`` need the n-th part of a time.

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int or d ints
        Highest frequency, of all pixels or of each.
    times : array_like, (n_times,)
        At least 0; infinity learns all of positive eigenvalues.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}

    Returns
    -------
    Clock
        A `ClockRow` for each combination of frequencies, the fastest first. Eigenvalues that do not
        exceed their errors are 0.

    Raises
    ------
    ValueError
        If an argument is out of range, or the work exceeds the limits of ``spectrum.eigenvalues``.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> resnet, options = literature.barzilai_resnet(2), {"kind": "ntk", "head": "equivariant"}
    >>> print(learning.clock(resnet, 2, 2, 1, (1, 10), **options))
    frequencies  eigenvalue  multiplicity   t = 1  t = 10
    -----------------------------------------------------
            0 0       3.571             1  0.9719       1
            1 0       1.664             2  0.8105       1
            0 1       1.337             2  0.7373       1
            1 1      0.1402             4  0.1308  0.7538
    """
    moments = nonnegative(times, "times", finite=False)
    space = n_channels, n_timepoints, max_frequency
    values = _resolved(spectrum.eigenvalues(network, *space, kind=kind, head=head, errors=True))
    counts = spectrum.multiplicities(*space, head=head)
    order = np.argsort(-values, axis=None, kind="stable")
    frequencies, falling = np.argwhere(values >= 0)[order], values.flat[order]
    columns = frequencies, falling, counts.flat[order], _grown(falling, moments).T
    rows = zip(*(column.tolist() for column in columns), strict=True)
    table = tuple(ClockRow(tuple(k), value, n, tuple(own)) for k, value, n, own in rows)
    return Clock(table, tuple(moments.tolist()))


class Learned(NamedTuple):
    """Falling ``eigenvalues`` λ of K and ``shares`` of ‖y‖² along their eigenvectors, (n,).

    At each time, (n_times,): ``total`` Σ share · (1 − exp(−λt)), which is ⟨f, y⟩/‖y‖², and
    ``error`` Σ share · exp(−2λt), which is ‖f − y‖²/‖y‖².
    """

    eigenvalues: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    error: np.ndarray


def learned(K: np.ndarray, y: np.ndarray, times: ArrayLike) -> Learned:
    r"""Return what the gradient flow :math:`f' = -K(f - y)` has learned of targets over time.

    It is the flow of ``regression.flow``, on :math:`\frac12 \sum_i (f_i - y_i)^2`: times are steps
    times the learning rate.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix. Eigenvalues below n·eps·λ_max, eps of its dtype, count as 0.
    y : ndarray, (n,) or (n, n_targets)
        Not 0. Several targets have one share, of all their squares.
    times : array_like, (n_times,)
        At least 0; infinity is the end of the flow.

    Returns
    -------
    Learned

    Raises
    ------
    ValueError
        If K is not symmetric and positive semidefinite, or y is 0.

    Examples
    --------
    >>> from rescntk.theory import learning
    >>> learning.learned([[3.0, 0.0], [0.0, 1.0]], [3.0, 4.0], times=(0.0, 2.0)).total.round(3)
    array([0.   , 0.912])
    """
    found, moments, n = decompose(K), nonnegative(times, "times", finite=False), len(K)
    smallest = resolution(found.eigenvalues, found.eps)
    values = np.where(found.eigenvalues > smallest, found.eigenvalues, 0.0)[::-1]
    y = check_targets(y, n).reshape(n, -1)
    if not (largest := np.abs(y).max()):
        raise ValueError("y is 0 for all signals, expected targets that have a direction")
    squares = np.square(found.eigenvectors.T @ (y / largest)).sum(axis=1)[::-1]
    shares, each = squares / squares.sum(), _grown(values, moments)
    return Learned(values, shares, each @ shares, (1.0 - each) ** 2 @ shares)


def _grown(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return 1 − exp(−λt), (n_times, n_values); 0 where λ is 0, at all times."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(values > 0, -np.expm1(-np.multiply.outer(times, values)), 0.0)
