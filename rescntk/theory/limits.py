r"""Limits of kernels at infinite depth, and the rates at which theory says they are reached.

Notation as for `Network`: :math:`F^l` is the covariance of the features, :math:`T^l` their
tangent kernel, :math:`\mathrm{box}` the mean over a filter's window of pixel pairs,

.. math::
    F^l = F^{l-1} + \alpha^2\,\mathrm{box}\,K^l, \qquad
    T^l = T^{l-1} + \alpha^2\,\mathrm{box}\bigl(K^l + \dot K^l \odot
          (\Sigma^l + c_w\,\mathrm{box}\,T^{l-1})\bigr), \qquad
    \Sigma^l = c_w\,\mathrm{box}\,F^{l-1}

(:math:`\Sigma^1 = c_w F^0`), where :math:`K^l, \dot K^l` are functions of :math:`\Sigma^l`, and
:math:`\Theta = T^L + F^L` or, with the readout frozen, :math:`T^L`.

**α = a L^-γ, γ > ½, something beside inner and outer weights trained** (Barzilai et al. 2022,
theorem 6.1). :math:`L\alpha^2 = a^2 L^{1-2\gamma} \to 0`, so that to first order every layer
does the same: :math:`F^L = F^0 + L\alpha^2\,\mathrm{box} K(c_w\,\mathrm{box} F^0) + \dots` and
:math:`T^L = L\alpha^2\,\mathrm{box}(K + \dot K \odot \Sigma)(c_w\,\mathrm{box} F^0) + \dots`.
The limit is :math:`F^0`, the dot product, on any signals and with any activation. The first
term of the error is thus :math:`L^{1-2\gamma}` with a constant that is known: the branch just
added is itself the kernel G of a network, the one of the next paragraph, and a normalized entry
:math:`A_{xz}/\sqrt{A_{xx}A_{zz}}` moves by
:math:`G_{xz}/\sqrt{A_{xx}A_{zz}} - \tfrac12 \hat A_{xz} (G_{xx}/A_{xx} + G_{zz}/A_{zz})`.

**The same with inner and outer weights alone trained** (their appendix F; derived here for any
filters and head). :math:`F^0` is gone from Θ, and what remains carries one factor
:math:`L\alpha^2` that normalization takes out:

.. math::
    \frac{\Theta^L}{L\alpha^2} \to \mathrm{box}_{\text{outer}}\bigl(K + \dot K \odot \Sigma\bigr),
    \qquad \Sigma = c_w\,\mathrm{box}_{\text{inner}} F^0 .

For α → 0 the three freeze at their values for :math:`F^0`, because
:math:`F^l - F^0 = O(L\alpha^2)`; and the term :math:`\dot K \odot \mathrm{box}\,T` is of second
order. Now :math:`\mathrm{box}\,F^0` is the covariance of signals whose windows have become their
channels, ``input_filter_size`` of a `Network`: the limit is the tangent kernel of the network of
depth 1 *without* skip connections that sees the signals through such windows, its readout
frozen. With the equivariant head on the multi-sphere, normalized,
:math:`\tfrac12\,\mathrm{box}(\kappa_1(u) + u\,\kappa_0(u))` with :math:`u = \mathrm{box}\,t`;
for d = 1 this is :math:`\tfrac12(\kappa_1(\rho) + \rho\,\kappa_0(\rho))`, theorem 7 of Huang et
al. 2020. The error is :math:`O(L^{1-2\gamma})` from the second order, and :math:`O(1/L)` from
the first layer, which sees single pixels where all others see windows: the exponent is
:math:`\min(2\gamma - 1, 1)`, and :math:`2\gamma - 1` for inner filters of size 1. The condition
is that no :math:`u = -1`: there :math:`\kappa_0(u + O(L\alpha^2))` has its square root, and
:math:`2\gamma - 1` becomes :math:`\gamma - \frac12`; for u close to −1 the two meet where
:math:`L\alpha^2 \approx 1 + u`. Fully connected, :math:`d = 1`, the first term's constant is
known as well (`degeneracy.resnet_rate`).

**α fixed, ReLU, multi-sphere: GPK.** All entries tend to 1, at the law of
`conditioning.asymptotic_complement`.

**α fixed, or no skip connections: NTK.** There :math:`1 - \kappa_0 = 3s/l + \dots` at layer l,
s the `conditioning.slowdown`, for every pair of different pixels. With :math:`\tau_l` the
tangent kernel of the features in units of their variance, :math:`1/s` the share of the residual
branch in that variance, and m = 1 or 2 for one or both kinds of weights trained, a layer is
:math:`\tau_l = \tau_{l-1} + \tfrac1s (m - \tfrac{3s}{l} \tau_{l-1}) + \dots`: whatever s,
:math:`\tau_l = m l/(4s)`, while it is :math:`m l/s` for equal pixels. Off the diagonal
:math:`\hat\Theta \to 1/4` (Huang et al. 2020, theorem 6, for their feedforward network), for
ResCNTK and CNTK, whatever the filters. With the next term of the law,
:math:`1 - \kappa_0 = \tfrac{3s}{l}(1 - \tfrac32 \tfrac{\log l}{l})`, the theorem's
:math:`O(\mathrm{polylog}(L)/L)` is :math:`\tfrac38 \log L/L + O(1/L)`. Global average pooling
sees equal pixels on the diagonal too, and 1/4 becomes d/(d + 3).

**α = a L^-γ, 0 < γ < ½.** The same with :math:`s = L^{2\gamma}/a^2`: L/s effective layers, so
:math:`L^{4\gamma-2}` for the GPK, :math:`L^{2\gamma-1}` for the NTK (without the logarithm,
which comes from layers that are not infinitesimal).

**γ = ½.** :math:`L\alpha^2` is neither small nor large: the kernels tend to those of a flow,
:math:`dF/ds = \mathrm{box}\,K(\mathrm{box}\,F)` at time a², and there is no theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels import Kernel, gram
from ..network import Network
from ..validation import check_constant
from . import conditioning, degeneracy, multisphere

Measure = Callable[[np.ndarray, str], Any]

# How many times deeper than where a law starts a network has to be for the law to be seen.
FAR = 10.0


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""What a family of kernels is said to tend to, and how fast.

    Distances, in root mean square over pairs of signals, are to be
    :math:`C L^{-p} (\log L)^k`, relatively, in very deep networks.

    Parameters
    ----------
    limit : Kernel, float, ndarray (n, n), or callable
        The normalized kernel at infinite depth. A number is that of all pairs of different
        signals. A callable takes signals and a head and returns *complements*, 1 − limit.
    exponent : float, optional
        p, not negative. 0 says that the limit is there to be compared with, and is not
        expected to be reached.
    log_power : {0, 1}, default 0
        k.
    constant : float or callable, optional
        C, or a function of signals and head that returns it.
    source : str
        Whose prediction it is, in a few words.
    degenerate : bool, default False
        Whether the limit is the same for all pairs of signals whose pixels all differ. A limit
        that is so for the pairs at hand counts as such anyway.
    requires_multisphere : bool, default False
        Whether it is about signals on the multi-sphere only.
    onset : float, default 0
        The depth below which the rate is not to be seen.
    rate_at : callable, optional
        A function of signals and head that returns p and `onset`, where they depend on those.

    Examples
    --------
    >>> from rescntk.theory import limits
    >>> limits.Prediction(0.25, exponent=1, log_power=1).rate
    'log(L) L^-1'
    """

    limit: Kernel | float | np.ndarray | Measure
    exponent: float | None = None
    log_power: int = 0
    constant: float | Measure | None = None
    source: str = "handed in"
    degenerate: bool = False
    requires_multisphere: bool = False
    onset: float = 0.0
    rate_at: Callable[[np.ndarray, str], tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        if self.exponent is not None:
            check_constant(self.exponent, "exponent")
        if self.log_power not in (0, 1):
            raise ValueError(f"log_power is {self.log_power!r}, expected 0 or 1")
        if callable(self.limit):
            return
        try:
            values = np.asarray(self.limit)
        except ValueError:  # lists of different lengths
            values = np.asarray("")
        if values.dtype.kind not in "iuf":
            raise ValueError(
                f"limit is {self.limit!r}, expected a Kernel, a number, an array (n, n) or a "
                f"function of signals and head"
            )
        if values.ndim == 0 and not -1.0 <= values <= 1.0:
            raise ValueError(f"limit is {self.limit!r}, expected a correlation from -1 to 1")

    def complements(self, X: np.ndarray, head: str) -> np.ndarray:
        """Return 1 − limit for the pairs of some signals, (n, n), 0 on the diagonal."""
        n = len(X)
        if isinstance(self.limit, Kernel):
            values = 1.0 - self.limit.replace(head=head, normalized=True)(X)
        elif callable(self.limit):
            values = np.array(self.limit(X, head), dtype=np.float64)
        else:
            values = 1.0 - np.array(self.limit, dtype=np.float64)
            values = np.full((n, n), float(values)) if values.ndim == 0 else values
        if values.shape != (n, n) or not np.isfinite(values).all():
            raise ValueError(
                f"the predicted limit has shape {values.shape}, expected finite numbers "
                f"({n}, {n}) for {n} signals"
            )
        np.fill_diagonal(values, 0.0)
        if np.abs(values - values.T).max() > 1e-8:
            raise ValueError("the predicted limit is not symmetric, expected a kernel matrix")
        return values

    def distance_constant(self, X: np.ndarray, head: str) -> float | None:
        """Return C for some signals, if it is predicted."""
        return self.constant(X, head) if callable(self.constant) else self.constant

    def at(self, X: np.ndarray, head: str) -> Prediction:
        """Return the prediction with the rate that it has for some signals."""
        if self.rate_at is None:
            return self
        exponent, onset = self.rate_at(X, head)
        return replace(self, exponent=exponent, onset=onset, rate_at=None)

    @property
    def rate(self) -> str:
        """The predicted rate in words, such as "log(L) L^-1"."""
        if not self.exponent:
            return "unknown" if self.exponent is None else "none"
        return ("log(L) " if self.log_power else "") + f"L^-{self.exponent:g}"


def dot_product(network: Network) -> Kernel:
    """Return the kernel of the features that enter the first layer, F⁰: a dot product.

    Parameters
    ----------
    network : Network
        Its depth, filters and α do not matter.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import limits, multisphere
    >>> X = multisphere.sample(3, 4, 5, rng=0)
    >>> K = limits.dot_product(rk.Network(50)).replace(head="trace")(X)
    >>> bool(abs(K - multisphere.dot_products(X).mean(axis=2)).max() < 1e-15)
    True
    """
    return Kernel(network.replace(depth=1, skip=True, alpha=0.0), "gpk", normalized=True)


def two_layer(network: Network, kind: str = "ntk") -> Kernel:
    r"""Return the kernel of one layer alone, on signals seen through its inner filter.

    With the readout frozen, the limit of the tangent kernel for α = L^-γ, γ > ½
    (Barzilai et al. 2022, appendix F; the derivation is at the head of this module).

    Parameters
    ----------
    network : Network
        One of `filter_size` and `input_filter_size` is 1.
    kind : {"gpk", "ntk"}, default "ntk"

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import limits
    >>> frozen = rk.Network(50, filter_size=5, trained=("inner", "outer"))
    >>> limits.two_layer(frozen).network.input_filter_size
    5
    """
    windows = network.filter_size, network.input_filter_size
    if 1 not in windows:
        raise ValueError(
            f"filter_size is {windows[0]} and input_filter_size is {windows[1]}, expected one of "
            f"them 1: the limit sees the signals through both, which is no filter of this library"
        )
    seen = network.replace(depth=1, skip=False, input_filter_size=max(windows))
    return Kernel(seen, kind, normalized=True)


def fixed(network: Network, kind: str) -> Prediction | None:
    """Return the prediction for deep networks that differ from `network` in depth alone.

    Parameters
    ----------
    network : Network
    kind : {"gpk", "ntk"}

    Returns
    -------
    Prediction or None
        None where theory is silent: for other activations than ReLU, for
        ``input_filter_size`` above 1, and for tangent kernels without inner and outer weights.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import limits
    >>> limits.fixed(rk.Network(1), "gpk").rate
    'L^-2'
    """
    share = network.branch_share
    if share == 0:
        raise ValueError(
            f"alpha, c_v, c_w are {network.alpha!r}, {network.c_v!r}, {network.c_w!r}, expected "
            f"positive numbers: without a residual branch depth changes nothing"
        )
    if not _has_law(network):
        return None
    if _is_gpk(network, kind):
        law = conditioning.asymptotic_complement(1, skip=False) / share**2
        return _ones(network, 2.0, law, "(9π²/2) s²/L² (sharper than lemma E.2)")
    if not {"inner", "outer"} & set(network.trained):
        return None
    return _quarter(network, 1.0, 1, 0.375)


def decaying(network: Network, gamma: float, kind: str) -> Prediction | None:
    """Return the prediction for networks with α = a·depth^-γ, a the α of `network`.

    Parameters
    ----------
    network : Network
        With skip connections.
    gamma : float
        Not negative.
    kind : {"gpk", "ntk"}

    Returns
    -------
    Prediction or None
        For γ = ½, where there is no theorem, the limit for larger γ with exponent 0; None as
        for `fixed` for smaller γ.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import limits
    >>> limits.decaying(rk.Network(1), 0.75, "ntk").rate
    'L^-0.5'
    """
    gamma = check_constant(gamma, "gamma")
    if not network.skip:
        raise ValueError("network has no skip connections, expected some: alpha is their weight")
    if network.alpha == 0:
        raise ValueError("alpha is 0, expected a positive factor of depth**-gamma")
    if gamma == 0:
        return fixed(network, kind)
    if gamma < 0.5:
        return _slowed(network, gamma, kind)
    frozen = kind == "ntk" and not {"input", "readout"} & set(network.trained)
    one_window = 1 in (network.filter_size, network.input_filter_size)
    if frozen and not one_window:
        return None
    limit = two_layer(network) if frozen else dot_product(network)
    if gamma == 0.5:
        return Prediction(limit, 0.0, source="no theorem: γ > 1/2 is required; its limit")
    if frozen:
        return _one_layer(network, gamma, limit)

    def constant(X: np.ndarray, head: str) -> float:
        start = gram(dot_product(network).network, X, head=head, kinds=("gpk",))[0]
        branch = gram(two_layer(network).network, X, head=head, kinds=(kind,))[0]
        if kind == "ntk":
            start = start * sum(part in network.trained for part in ("input", "readout"))
        own, growth = start.diagonal(), branch.diagonal() / start.diagonal()
        root = np.sqrt(np.multiply.outer(own, own))
        change = branch / root - 0.5 * start / root * np.add.outer(growth, growth)
        return network.alpha**2 * _root_mean_square(change)

    return Prediction(
        limit,
        2.0 * gamma - 1.0,
        constant=constant if one_window else None,
        source="Barzilai et al., theorem 6.1: the dot product",
    )


def _one_layer(network: Network, gamma: float, limit: Kernel) -> Prediction:
    """Return the prediction for a frozen readout and γ > ½."""
    fast = 1.0 if network.filter_size > 1 else math.inf  # the first layer's part of the error
    relu = network.activation == "relu"
    source = "Huang et al., theorem 7" if network.filter_size == 1 else "Barzilai et al., app. F"

    def rate(X: np.ndarray, head: str) -> tuple[float, float]:
        if not (relu and multisphere.contains(X)):
            return min(2.0 * gamma - 1.0, fast), 0.0
        above = multisphere.closest(network, X, head)[1]
        if above == 0:
            return min(gamma - 0.5, fast), 0.0
        weight = network.branch_gain
        return min(2.0 * gamma - 1.0, fast), (FAR * weight / above) ** (1.0 / (2.0 * gamma - 1.0))

    def constant(X: np.ndarray, head: str) -> float | None:
        if X.shape[2] > 1:
            return None
        t = np.clip(dot_product(network)(X), -1.0, 1.0)[np.triu_indices(len(X), 1)]
        if t.min() <= -1.0 + 64 * np.finfo(np.float64).eps:
            return None
        weight = network.branch_gain
        return weight * float(np.sqrt(np.mean(degeneracy.resnet_rate(t) ** 2)))

    huang = relu and network.trained == ("inner", "outer") and network.input_filter_size == 1
    return Prediction(
        limit,
        min(2.0 * gamma - 1.0, fast),
        constant=constant if huang and network.filter_size == 1 else None,
        source=f"{source}: the two-layer NTK",
        rate_at=rate,
    )


def _slowed(network: Network, gamma: float, kind: str) -> Prediction | None:
    """Return the prediction for 0 < γ < ½: that for fixed α, with L^(1−2γ) effective layers."""
    if not _has_law(network):
        return None
    if _is_gpk(network, kind):
        share = network.branch_gain
        law = conditioning.asymptotic_complement(1, skip=False) / share**2
        return _ones(network, 2.0 - 4.0 * gamma, law, "(9π²/2) s²/L², s = 1/α²")
    if not {"inner", "outer"} & set(network.trained):
        return None
    return _quarter(network, 1.0 - 2.0 * gamma, 0, None)


def _has_law(network: Network) -> bool:
    return network.activation == "relu" and network.input_filter_size == 1


def _is_gpk(network: Network, kind: str) -> bool:
    return kind == "gpk" or network.trained == ("readout",)


def _ones(network: Network, exponent: float, law: float, source: str) -> Prediction:
    """Return the limit of all ones: complements are `law` at different pixels, 0 at equal ones."""

    def complements(X: np.ndarray, head: str) -> np.ndarray:
        return np.zeros((len(X), len(X)))

    def constant(X: np.ndarray, head: str) -> float:
        # So small a complement that normalization (of GAP) is linear in it.
        tiny = 2.0**-40
        return law / tiny * _root_mean_square(_where_different(network, X, head, tiny))

    return Prediction(
        complements,
        exponent,
        constant=constant,
        source=f"all ones at {source}",
        degenerate=True,
        requires_multisphere=True,
    )


def _quarter(network: Network, exponent: float, log_power: int, factor: float | None) -> Prediction:
    """Return the limit that is 1/4 at different pixels, 1 at equal ones."""

    def complements(X: np.ndarray, head: str) -> np.ndarray:
        return _where_different(network, X, head, 0.75)

    def constant(X: np.ndarray, head: str) -> float:
        assert factor is not None
        tiny = 2.0**-20
        one, other = (_where_different(network, X, head, 0.75 + e) for e in (-tiny, tiny))
        return factor * _root_mean_square(one - other) / (2.0 * tiny)

    return Prediction(
        complements,
        exponent,
        log_power,
        constant=None if factor is None else constant,
        source="1/4 at different pixels (sharper than Huang et al., theorem 6)",
        degenerate=True,
        requires_multisphere=True,
    )


def _where_different(network: Network, X: np.ndarray, head: str, value: float) -> np.ndarray:
    """Return what a head makes of complements that are `value` at different pixels, 0 at equal.

    Filters mix the pixel pairs of a row: then one that differs makes all differ.
    """
    mixes = max(network.filter_size, network.outer_filter_size) > 1

    def function(gaps: np.ndarray) -> np.ndarray:
        different = gaps > 0
        if mixes:
            different = np.broadcast_to(different.any(axis=0), different.shape)
        return value * different[None]

    return multisphere.over_pairs(X, head, function)[0]


def _root_mean_square(A: np.ndarray) -> float:
    """Return the root mean square over pairs of different signals."""
    above = A[np.triu_indices(len(A), 1)]
    return float(np.sqrt(np.mean(above * above)))
