"""Condition numbers of a ResNet's and its CNN's kernels over depth: theorem 6.2, figure 3."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ...arrays import channels_and_length
from ...checks.values import check_batches, check_depths
from ...engines.heads import pixels_averaged
from ...kernels import gram
from ...network.network import Network, check_like_layers
from ...network.parameters import FIELDS_WITHOUT_NORM, RELU_FIELDS, unknown_field
from ..tools.argument_checks import (
    check_branch,
    check_cases,
    check_energies,
    check_kind,
    check_known_head,
    check_resnet,
)
from ..tools.report_table import ReportTable, aligned_cells
from .condition import asymptotic_condition_number, bounds, condition_number


class BoundedConditionNumber(NamedTuple):
    """The condition number of one kernel matrix, beside its bounds and its asymptote."""

    condition_number: float
    lower: float
    upper: float
    improved: float
    asymptote: float


class ComparisonRow(NamedTuple):
    """A row of a `Comparison`, which documents the columns."""

    depth: int
    cnn: BoundedConditionNumber
    resnet: BoundedConditionNumber
    ratio: float
    ratio_lower: float
    ratio_limit: float


@dataclass(frozen=True)
class Comparison(ReportTable[ComparisonRow]):
    """Condition numbers without and with skip connections; iterating gives a row for each depth.

    - ``depth``.
    - ``cnn`` (CGPK or CNTK) and ``resnet`` (ResCGPK or ResCNTK), each with five columns, such as
      ``cnn.lower``: ``condition_number``; ``lower``, ``upper`` and ``improved`` of `Bounds`; and
      ``asymptote``, the `asymptotic_condition_number`: of a GPK a leading term, no bound, of an NTK
      the limit. It is NaN before the onset, and where the laws do not hold for the signals.
    - ``ratio``: of the condition numbers, without over with skip connections. NaN where the second
      is infinite.
    - ``ratio_lower``: of the lower bounds.
    - ``ratio_limit``: limit of both ratios at infinite depth. Of GPKs it is 1/p² with p the
      ``Network.branch_share``, infinite beyond float64; of NTKs 1. NaN where the laws do not hold
      for the signals.
    """

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
        sides = dict(zip(("cnn", "resnet"), self.names, strict=True))
        upper = {f"{side}.{name}" for side in sides for name in ("upper", "improved")}
        vacuous = {name: self.column(name) == math.inf for name in upper}
        silent = {name for name in upper if vacuous[name].all()}
        groups = {"": {"depth": "depth"}}
        for side, title in sides.items():
            headers = {f"{side}.{name}": name for name in BoundedConditionNumber._fields}
            headers[f"{side}.condition_number"] = "condition"
            groups[title] = {name: text for name, text in headers.items() if name not in silent}
        ratios = {"ratio": "ratio", "ratio_lower": "of bounds", "ratio_limit": "limit"}
        groups[" / ".join(self.names)] = ratios
        columns = []
        for headers in groups.values():
            values = zip(*(self.column(name).tolist() for name in headers), strict=True)
            columns.append(["  ".join(cells) for cells in aligned_cells(headers.values(), values)])
        head, *body = map(" | ".join, zip(*columns, strict=True))
        top = " | ".join(map(str.center, groups, (len(column[0]) for column in columns)))
        if silent:
            body.append("left out: upper bounds that are vacuous at every depth: ε ≥ 1 − b")
        if any(vacuous[name].any() for name in upper - silent):
            body.append("upper bound inf: vacuous, ε ≥ 1 − b")
        if math.isnan(self.rows[0].ratio_limit):
            body.append(f"no asymptotes: {self._why_none()}")
        known = [row.depth for row in self.rows if not math.isnan(row.ratio)]
        better = [row.depth for row in self.rows if row.ratio > 1]
        first = f", first at depth {better[0]}" if 0 < len(better) < len(known) else ""
        text = f"{len(better)} of {len(known)} depths{first}" if known else "unknown"
        if unknown := len(self) - len(known):
            text += f"; {unknown} of {len(self)} depths have infinite condition numbers"
        body.append(f"ratio above 1, so skip connections condition better: {text}")
        return "\n".join([top, head, "-" * len(head), *body])

    def _why_none(self) -> str:
        """Return why there are no asymptotes."""
        if reason := _unknown_law(self.network, self.kind):
            return reason
        why = "positive multiples, with pooling of shifts too; filters of 1; rings of a dilation"
        return f"they do not hold for these signals ({why})"


def compare(
    network: Network,
    X: np.ndarray | list[np.ndarray],
    depths: Iterable[int],
    *,
    kind: str,
    head: str | int,
    engine: str = "auto",
    progress: bool = False,
) -> Comparison:
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
        activations other than ReLU, for biases, for a tangent kernel that trains neither inner nor
        outer weights, and for signals without the law (docs/theory/depth_limits.md, "Which
        signals").

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
    kind, head = check_kind(kind), check_known_head(head)
    check_like_layers(network, FIELDS_WITHOUT_NORM)
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
            side,
            signals,
            head=head,
            kinds=(kind,),
            depths=depths,
            normalized=True,
            engine=engine,
            progress=progress,
        )[0]
        check_energies(matrices)
        hold = hold and (skip or _laws_hold(network, signals, kind, head))  # asked once
        conditions = []
        for depth, A in zip(depths, matrices, strict=True):
            deep, law, bound = side.replace(depth=depth), math.nan, bounds(A)
            if hold:
                law = asymptotic_condition_number(deep, len(signals), kind=kind, n_pixels=lengths)
            value = condition_number(A)
            conditions.append(
                BoundedConditionNumber(value, bound.lower, bound.upper, bound.improved, law)
            )
        sides.append(conditions)
    s = network.growth / network.branch_gain if kind == "gpk" else 1.0
    limit, rows = s * s if hold else math.nan, []
    for depth, cnn, resnet in zip(depths, *sides, strict=True):
        of_values = _ratio(cnn.condition_number, resnet.condition_number)
        of_bounds = _ratio(cnn.lower, resnet.lower)
        rows.append(ComparisonRow(depth, cnn, resnet, of_values, of_bounds, limit))
    shape = len(signals), *channels_and_length(signals)
    return Comparison(tuple(rows), network, *shape, kind, head)


def _ratio(numerator: float, denominator: float) -> float:
    """Return a ratio, NaN where the denominator is infinite."""
    return numerator / denominator if math.isfinite(denominator) else math.nan


def _unknown_law(network: Network, kind: str) -> str | None:
    """Return why no law is known for a network's kernels, or None where one is."""
    if reason := unknown_field(network, RELU_FIELDS):
        return reason
    if kind == "ntk" and not (network.parts.inner or network.parts.outer):
        return "no law is known without trained inner or outer weights"
    return None


def _laws_hold(network: Network, signals: Iterable[np.ndarray], kind: str, head: str | int) -> bool:
    """Return whether the asymptotes hold for signals, whose kernels are not 0: see `compare`.

    Other pixels of two signals meet in pooled heads as in "gap": fewer do, which is not asked.
    """
    meets = head == "gap" or not (isinstance(head, str) or head == 1)
    if _unknown_law(network, kind):
        return False
    lengths = {length for signal in signals for length in signal.shape[1:]}
    splits_pixels = any(math.gcd(cast(int, network.dilation), length) > 1 for length in lengths)
    layer = network.layer(2)
    if max(layer.inner.size, layer.outer.size) > 1 and not splits_pixels:
        by_shape = defaultdict[tuple[int, ...], list[np.ndarray]](list)
        for signal in signals:
            by_shape[signal.shape].append(signal)
        return not any(_has_multiples(group, meets) for group in by_shape.values())
    if network.input_filter_size > 1:  # pixels see windows of the signals
        return False
    pixels = [signal.reshape(len(signal), -1).T for signal in signals]  # (d, n_channels) each
    if head == "equivariant":
        pixels = [vectors[:1] for vectors in pixels]
    sizes = [np.sqrt(np.square(vectors / np.abs(vectors).max()).sum(axis=1)) for vectors in pixels]
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
    for k, transform in enumerate(F):
        products = (F[k:].conj() * transform).sum(axis=1)
        cosines = np.fft.ifftn(products, axes=range(1, products.ndim)).real
        cosines[(0,) * cosines.ndim] = 0.0  # the signal itself
        if (cosines > 1.0 - 5e-13).any():
            return True
    return False
