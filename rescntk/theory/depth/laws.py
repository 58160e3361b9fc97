"""Predicted limits of kernels at infinite depth, and rates (docs/theory/depth_rates.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...checks.messages import shown
from ...checks.values import (
    check_integer,
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_real,
    check_shape,
    check_signals,
    check_symmetric,
)
from ...engines.heads import pixels_averaged
from ...engines.layer.means import pooled
from ...kernels import Kernel
from ...kernels.results import correlation
from ...network.network import Network, check_like_layers
from ...network.parameters import BASIC_FIELDS, FIELDS_WITHOUT_NORM
from .. import multisphere
from ..tools.argument_checks import check_branch, check_kind, check_known_head
from ..tools.complements import circular_mean, circular_sum
from .half_power import ERROR, MAX_GAIN, flow_limit, of_unit_energy

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""A predicted limit of normalized kernels over depth, with the exponent of its rate.

    Distances from the limit, in root mean square over pairs of signals, are predicted to be
    :math:`C L^{-e}`, or :math:`C L^{-e} \log L`, to leading order (docs/theory/depth_rates.md).
    With ``undefined`` all numbers are NaN, and ``source`` and ``rate`` are empty.
    """

    limit: np.ndarray | float = 0.0
    """The normalized kernels at infinite depth, (n, n), or one number for all different signals."""
    exponent: float = 1.0
    """e, positive."""
    log_power: int = 0
    """1 with the logarithm, else 0."""
    source: str = "handed in"
    undefined: str = ""
    """Why no prediction holds for these signals; empty if one does."""
    correction_exponent: float = 1.0
    """θ: the first correction to the law has the relative size (onset/L)^θ."""
    onset: float = 1.0
    """The depth at which the law sets in: before it nothing is contradicted."""
    settled: float = 1.0
    """The depth from which windows near a square-root point follow the law: before it the fitted
    exponent may be half (docs/theory/depth_rates.md)."""
    error: float = 0.0
    """Largest error of an entry of the limit."""

    def __post_init__(self) -> None:
        if self.undefined:
            for name in ("limit", "exponent", "correction_exponent", "onset", "settled", "error"):
                object.__setattr__(self, name, math.nan)
            object.__setattr__(self, "source", "")
            return
        for name in ("exponent", "correction_exponent", "onset"):
            check_positive(getattr(self, name), name)
        if check_integer(self.log_power, "log_power", at_least=0) > 1:
            raise ValueError(f"log_power is {shown(self.log_power)}, expected 0 or 1")
        values = check_real(self.limit, "limit", "(n, n) or a number")
        if isinstance(self.limit, bool) or not (np.abs(values) <= 1.0 + 1e-8).all():
            raise ValueError(f"limit is {shown(self.limit)}, expected correlations from -1 to 1")

    def complements(self, n_cases: int) -> np.ndarray:
        """Return 1 − limit for all pairs of signals.

        Parameters
        ----------
        n_cases : int
            Number of signals.

        Returns
        -------
        ndarray, (n_cases, n_cases)
            0 on the diagonal.

        Raises
        ------
        ValueError
            If `limit` is a matrix of another shape, or not symmetric.
        """
        values = 1.0 - np.array(self.limit, dtype=np.float64)
        values = np.full((n_cases, n_cases), values) if values.ndim == 0 else values
        check_shape(values, "the predicted limit", (n_cases, n_cases))
        np.fill_diagonal(values, 0.0)
        return check_symmetric(values, "the predicted limit")

    @property
    def rate(self) -> str:
        """The predicted rate in words, such as "log(L) L^-1"; empty where none is predicted."""
        if self.undefined:
            return ""
        return ("log(L) " if self.log_power else "") + f"L^-{self.exponent:g}"


@dataclass(frozen=True)
class Family:
    r"""A network for each depth, ``family(depth)``, with :math:`\alpha = a L^{-\gamma}`.

    Parameters
    ----------
    network : Network
        With one dilation for all layers and no biases. Its α is a, positive. Its depth does not
        matter.
    gamma : float, default 0.0
        γ, not negative; 0 for networks without skip connections.

    Raises
    ------
    ValueError
        If the network is another one, has no branch, or has no skip connections for a positive γ.

    Examples
    --------
    >>> import rescntk as rk
    >>> family = rk.theory.depth.Family(rk.Network(1, alpha=2.0), gamma=1.0)
    >>> family.name, family(4).alpha
    ('ResNet, α = 2 L^-1', 0.5)
    """

    network: Network
    gamma: float = 0.0

    def __post_init__(self) -> None:
        network, gamma = self.network, check_nonnegative(self.gamma, "gamma")
        check_like_layers(network, BASIC_FIELDS)
        if gamma and not network.skip:
            raise ValueError(
                "network has no skip connections, expected some: alpha is their weight"
            )
        check_branch(network)
        object.__setattr__(self, "gamma", gamma)

    @property
    def name(self) -> str:
        """The name in tables and pictures."""
        network = self.network
        factor = f"{network.alpha:g} " if network.alpha != 1 or self.gamma == 0 else ""
        alpha = f"{factor}L^-{self.gamma:g}" if self.gamma else factor.strip()
        vectors = network.filter_size == network.outer_filter_size == 1
        name = "FFNet" if vectors else "CNN"
        if network.skip:
            name = f"ResNet, {'filters of 1, ' if vectors else ''}α = {alpha}"
        name += "" if network.activation == "relu" else f", {network.activation}"
        slope = f", leaky with {network.negative_slope:g}" if network.negative_slope else ""
        return name + slope + (", readout frozen" if network.parts.initial == 0 else "")

    def __call__(self, depth: int) -> Network:
        layers = check_nonnegative(check_positive_integer(depth, "depth"), "depth")
        alpha = self.network.alpha * layers**-self.gamma
        return self.network.replace(depth=depth, alpha=alpha)

    def predict(self, X: np.ndarray, *, kind: str, head: str | int) -> Prediction:
        """Return the predicted limit of the kernels of signals.

        Parameters
        ----------
        X : ndarray, (n_cases, n_channels, n_timepoints)
        kind : {"gpk", "ntk"}
        head : {"equivariant", "trace", "gap"} or int

        Returns
        -------
        `Prediction`
            Where no prediction holds for the signals, ``undefined`` says why.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        X = check_signals(X, "X").astype(np.float64)
        check_kind(kind)
        check_known_head(head)
        if self.gamma < 0.5:
            return _degenerate(self.network, self.gamma, kind, X, head)
        X = of_unit_energy(self.network, X)
        if self.gamma == 0.5:
            return _half_power(self.network, kind, X, head)
        frozen = kind == "ntk" and self.network.parts.initial == 0
        predict = _one_layer if frozen else _dot_product
        return predict(self.network, self.gamma, kind, X, head)


def one_layer_kernel(network: Network, X: np.ndarray, *, kind: str, head: str | int) -> np.ndarray:
    """Return the kernel of one layer of `network` that sees windows of its inner filter.

    Not normalized. For α = L^-γ, γ > ½, and frozen input and readout the normalized tangent kernel
    tends to the normalized kernel of one layer (Barzilai et al. 2022, appendix F). Where input or
    readout are trained, it is what the branches add to F⁰, or to 2 F⁰ if both are, to first order
    and divided by Lα².

    Parameters
    ----------
    network : Network
        With one dilation for all layers. Its depth and α do not matter.
    X : ndarray, (n_cases, n_channels, n_timepoints)
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"} or int

    Returns
    -------
    ndarray, (n_cases, n_cases)

    Raises
    ------
    ValueError
        If the network is another one.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(2, 1, 1, rng=1)
    >>> frozen = rk.Network(1, 1, trained=("inner", "outer"))
    >>> limit = rk.theory.depth.one_layer_kernel(frozen, X, kind="ntk", head="trace")
    >>> limit.round(6)  # of two parallel vectors
    array([[2., 2.],
           [2., 2.]])
    """
    check_like_layers(network, FIELDS_WITHOUT_NORM)
    X, window = check_signals(X, "X"), network.inner_filter(2)
    scale = None if network.input_scale is None else network.input_scale / window.size
    layer = network.replace(depth=1, skip=False, input_scale=scale, readout_scale=1.0)
    windows = np.concatenate([np.roll(X, -tap, axis=2) for tap in window.offsets], axis=1)
    return Kernel(layer, kind, head)(windows)


def _width(head: str | int, X: np.ndarray) -> int:
    """Return the pixels of signals that a head averages."""
    return pixels_averaged(head, X.shape[2:])


def _normalized(K: np.ndarray) -> np.ndarray:
    return correlation(K, K.diagonal(), K.diagonal())


def _depth_of(value: float, power: float) -> float:
    """Return the depth, at least 1 and within float64, whose power is `value`."""
    return math.exp(min(math.log(max(value, 1.0)) / power, 600.0))


def _half_power(network: Network, kind: str, X: np.ndarray, head: str | int) -> Prediction:
    """Return the prediction for γ = ½: layers are steps of Euler's method."""
    if (gain := network.branch_gain) > MAX_GAIN:
        return Prediction(undefined=f"the gain of the branch is {gain:.3g}, above {MAX_GAIN:g}")
    limit = np.clip(flow_limit(network, X, kind=kind, head=head), -1.0, 1.0)
    error = ERROR
    if _width(head, X) > 1:  # a mean over pixel pairs has the rounding errors of its terms
        layer = network.replace(depth=1, readout_scale=1.0)
        pooled, terms = (Kernel(layer, "gpk", readout).diag(X) for readout in (head, "trace"))
        ratio = float((pooled / np.maximum(terms, 1e-300)).min())
        error = max(error, 64.0 * _EPS / max(ratio, _EPS))
    theta = _powers_of_gain(network, kind, X, head)[1]
    source = "the flow dF/dt = a² box K(box F) at time 1"
    return Prediction(limit, source=source, correction_exponent=theta, error=error)


def _one_layer(
    network: Network, gamma: float, kind: str, X: np.ndarray, head: str | int
) -> Prediction:
    """Return the prediction for γ > ½ where F⁰ is no part of the kernel."""
    K = one_layer_kernel(network, X, kind=kind, head=head)
    terms = K if _width(head, X) == 1 else one_layer_kernel(network, X, kind=kind, head="trace")
    if (K.diagonal() <= 20.0 * _EPS * terms.diagonal()).any():  # roundings of a mean over pairs
        return Prediction(undefined="a signal's kernel of one layer with itself is 0")
    power = 2.0 * gamma - 1.0
    smooth, correction = _powers_of_gain(network, kind, X, head)
    # The first layer sees single pixels, all others windows: an error of O(1/L) if it moves K.
    pixels = network.replace(filter_size=1, outer_filter_size=network.outer_filter_size)
    first = one_layer_kernel(pixels, X, kind=kind, head=head)
    ratios = first.diagonal() / K.diagonal()
    moved = first - 0.5 * np.add.outer(ratios, ratios) * K  # normalized, to first order
    differs = (np.abs(moved) > 64.0 * _EPS * np.abs(first).max()).any()
    of_others, of_first = power if smooth else 0.5 * power, 1.0 if differs else math.inf
    # Where both have one power, there is no error between them.
    difference = abs(of_others - of_first)
    exponent = min(of_others, of_first)
    theta = min(correction * power, difference or 1.0, 1.0)
    source = "Barzilai et al., app. F; Huang et al., theorem 7: the kernel of one layer"
    onset, settled = (_depth_of(network.branch_gain / gain, power) for gain in (1.0, smooth or 1.0))
    limit = _normalized(K)
    return Prediction(
        limit, exponent, 0, source, correction_exponent=theta, onset=onset, settled=settled
    )


def _powers_of_gain(
    network: Network, kind: str, X: np.ndarray, head: str | int
) -> tuple[float, float]:
    """Return the smooth gain, and the power of the gain in the first correction, 0.5 or 1.

    Below the smooth gain, at most 1, layers move the kernel in proportion to the branch gain. It is
    0 at square-root points: of K̇ where windows of two signals are opposite or parallel, of K where
    one of them is 0 (docs/theory/depth_rates.md). There the kernel moves like the gain's square
    root. Where it moves in proportion, the next term may have the power 3/2.
    """
    gains = 16.0 ** -np.arange(11.0)
    alphas = network.alpha * np.sqrt(gains / network.branch_gain)
    networks = [network.replace(depth=2, alpha=alpha) for alpha in alphas]
    moves = np.diff([_normalized(Kernel(weaker, kind, head)(X)) for weaker in networks], axis=0)
    moved = np.abs(moves).max(axis=(1, 2))
    moved = moved[moved > 1e-12]
    smooth = 1.0
    rough = np.flatnonzero(moved[1:] / moved[:-1] > 16.0**-0.98)  # a square root has 0.5
    if len(rough):
        smooth = float(gains[rough[-1] + 1]) if rough[-1] < len(moved) - 2 else 0.0
    beyond = np.abs(16.0 * moves[1:] - moves[:-1]).max(axis=(1, 2))  # without the linear term
    beyond = beyond[beyond > 1e-12]
    has_half = len(beyond) > 1 and beyond[-1] / beyond[-2] > 16.0**-1.75  # between 3/2 and 2
    return smooth, 0.5 if has_half or not smooth else 1.0


def _dot_product(
    network: Network, gamma: float, kind: str, X: np.ndarray, head: str | int
) -> Prediction:
    """Return the prediction for γ > ½ where F⁰ is part of the kernel."""
    power, errors = 2.0 * gamma - 1.0, np.zeros(len(X))
    features = network.replace(depth=1, skip=True, alpha=0.0, readout_scale=1.0)
    F0 = Kernel(features, "gpk", head)(X)
    if (width := _width(head, X)) > 1:
        # F⁰(x, x) has squares of means. A sum of w numbers errs by w·eps/2 times the sum of
        # absolute values. Two sums count: the user's, which took the mean away, and this one.
        sums = X.sum(axis=2, keepdims=True) if head == "gap" else pooled(np, X, (width,)) * width
        size, total = width / X.shape[2] * np.abs(X).sum(axis=(1, 2)), np.abs(sums).mean(axis=2)
        errors = width * _EPS * size / np.maximum(total.sum(axis=1), 1e-300)
    # The tangent kernel has F⁰ of input and readout, and a branch of all trained parts.
    start = F0.diagonal() * (network.parts.initial if kind == "ntk" else 1.0)
    branch = one_layer_kernel(network, X, kind=kind, head=head).diagonal()
    zero = (errors >= 1.0) | (start == 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = network.layer(1).alpha ** 2 * branch / start  # F⁰ leads once L times this is less
    source = "Barzilai et al., theorem 6.1: the dot product"
    if not zero.any():
        onset = _depth_of(float(ratio.max()) or network.branch_gain, power)
        theta = min(_powers_of_gain(network, kind, X, head)[1] * power, 1.0)
        error = 2.0 * float(errors.max())
        return Prediction(
            _normalized(F0), power, 0, source, correction_exponent=theta, onset=onset, error=error
        )
    note = f"F⁰(x, x) is 0 for {zero.sum()} of the signals, X[{zero.argmax()}] first"
    if not zero.all():
        return Prediction(undefined=f"{note}, and not for all of them")
    # Rounding errors of the mean are left in F⁰. Up to depth 1e5 they must not lead.
    if power * math.log(1e5) > math.log(max(float(ratio.min()), 1.0)):
        return Prediction(undefined=f"{note}: its rounding errors lead in deep networks")
    zeros = _one_layer(network, gamma, kind, X, head)
    return replace(zeros, source=f"{source}; {note}, where one layer is the limit")


def _degenerate(
    network: Network, gamma: float, kind: str, X: np.ndarray, head: str | int
) -> Prediction:
    """Return the prediction for 0 ≤ γ < ½, pL layers of a CNN: all ones, or 1/4."""
    parts, growth = network.parts, 1.0 - 2.0 * gamma
    # pL is branch_weight·L^growth.
    branch_weight = network.branch_gain if gamma else network.branch_share
    if not network.is_relu or network.input_filter_size > 1:
        return Prediction(undefined="for γ < ½ there is no theory of this activation or its inputs")
    if not multisphere.is_on_sphere(X):
        text = "the signals are not on the multi-sphere (multisphere.project makes them so)"
        return Prediction(undefined=text)
    if kind == "gpk" or (parts.readout == 1 and sum(parts) == 1):
        value, exponent, log_power = 1.0, 2.0 * growth, 0
        source = "all ones at (9π²/2)/(pL)² (sharper than lemma E.2)"
    elif parts.inner + parts.outer > 0:
        value, exponent, log_power = 0.25, growth, int(gamma == 0)
        source = "1/4 at different pixels (sharper than Huang et al., theorem 6)"
    else:
        return Prediction(undefined="no rate is known without inner and outer weights")
    window, closest = max(network.inner_filter(2), network.outer_filter(2)), math.inf

    def limit(delta: np.ndarray) -> np.ndarray:
        nonlocal closest
        mixed = circular_mean(delta, window)
        closest = min(closest, mixed[mixed > 0].min(initial=np.inf))
        different = delta > 0
        for _ in delta:  # filters mix pixel pairs: if one differs, all that they connect do
            different = circular_sum(different, window)
        return (1.0 - value) * different[None]

    complements = multisphere.over_pairs(X, head, limit)[0]
    # Two pixels of complement δ seem to agree until pL is 3π/√(2δ).
    layers = 3.0 * math.pi / math.sqrt(2.0 * closest)
    onset = max(
        _depth_of(layers / branch_weight, growth), _depth_of(branch_weight, 2.0 * gamma or 1.0)
    )
    # 1/p = (1 + β)/β has corrections of β = L^-2γ, the law itself of 1/(pL).
    theta = min(2.0 * gamma, growth) if gamma else 1.0
    return Prediction(
        1.0 - complements, exponent, log_power, source, correction_exponent=theta, onset=onset
    )
