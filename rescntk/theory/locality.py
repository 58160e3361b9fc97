r"""Effective receptive fields: which pixels a convolutional kernel listens to, and how strongly.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. At :math:`z = x` the features of a
ReLU network are perfectly correlated, :math:`K = \frac{c_v}{2}\Sigma` and
:math:`\dot K = \frac{c_v}{2}`, so that the equivariant kernels are *linear* in the energies of
the pixels (s is ``input_scale``, one over the number of channels by default):

.. math::
    K_{Eq}(x, x) = \sum_i w_i\, s \|x_i\|^2 , \qquad
    \frac{\partial K_{Eq}(x, x)}{\partial x_i} = 2 s\, w_i\, x_i .

The weights w are the effective receptive field, and they are those of a *random walk*. With
:math:`\beta = \alpha^2 c_v c_w / 2` the recursion of the Gaussian process kernel's energies is
:math:`F^l = (1 + \beta H_o H_i) F^{l-1}`, where :math:`H_o` and :math:`H_i` average over the
outer and the inner filter's window and :math:`H_i` is missing in layer 1. Divided by its total
:math:`(1+\beta)^L` a layer takes the skip connection with probability :math:`1 - p` and its
residual branch with probability :math:`p = \beta/(1+\beta)`; a branch walks one step uniform on
the outer window, then one on the inner. Hence

.. math:: w = (1+\beta)^L \sum_k P(k)\, (\text{law of the walk through } k \text{ branches}),
   \qquad k \sim \mathrm{Binomial}(L, p) ,

an ensemble of CNNs of all depths. Without skip connections p = 1 and k = L. The tangent kernel
adds up the derivatives with respect to all trained layers, and each is linear: it counts a walk
once for every trained layer on its way, :math:`r + t + (i + o)\, k` times (1 or 0 for readout,
input, inner and outer weights, trained or frozen):

.. math:: w_{NTK} = (1+\beta)^L \sum_k P(k)\, (r + t + (i + o) k)\, (\dots) .

So without skip connections both kernels have the *same* field but for a factor, and with them
the tangent kernel prefers longer walks, by less than one branch on average (`width`). The field
of a network itself (Luo et al. 2016) is the Gaussian process kernel's at initialization: with
:math:`f` the output at that pixel, :math:`E[(\partial f/\partial x_{ci})^2] = s\, w_i` at any x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..activations import one_minus_kappa1
from ..calls import check_depths, check_network
from ..engines.request import KINDS
from ..engines.rings import circular_sum
from ..engines.tables import trained
from ..network import Network, check_choice, check_depth, check_flag
from .multisphere import check_dot_products

# Paths that `path_pixels` will list: 1 GiB of integers.
_MOST_PATHS = 2**27


def effective_receptive_field(
    network: Network, n_timepoints: int, kind: str = "ntk", *, normalized: bool = False
) -> np.ndarray:
    r"""Return the weights of the pixels' energies in K(x, x).

    Barzilai et al. 2022, figure 2 (the kernels' half), in closed form for any ReLU network:
    :math:`K_{Eq}(x,x) = \sum_i w_i\, s\|x_i\|^2` with s the network's ``input_scale`` (one over
    the number of channels by default). The walk's law is raised to the L-th power by repeated
    squaring, on the circle and in positive numbers: each weight keeps its digits, however
    small, at any depth.

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints : int
        Length d of the signals. Convolutions are circular: a wide field wraps around.
    kind : {"ntk", "gpk"}, default "ntk"
        Which kernel, with the head "equivariant" (the field of "trace" is uniform, and that of
        "gap" not a function of energies).
    normalized : bool, default False
        Return w / Σw instead, which works at any depth.

    Returns
    -------
    ndarray, (n_timepoints,)
        Nonnegative; entry 0 is the output pixel, entry i the one i pixels away, circularly:
        entries i and d − i are equal (``np.fft.fftshift`` puts the output pixel in the
        middle). Exactly 0 outside the receptive field.

    Raises
    ------
    ValueError
        For arguments that are not as described above; and with ``normalized`` for a kernel
        that is 0 for every signal, such as the tangent kernel where nothing is trained.
    OverflowError
        If the sum of the weights exceeds float64; ``normalized=True`` has no such limit.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> network = literature.barzilai_resnet(depth=1)
    >>> locality.effective_receptive_field(network, 7, "gpk").round(3)
    array([1.333, 0.333, 0.   , 0.   , 0.   , 0.   , 0.333])
    """
    walk = _Walk.of(network, kind)
    d, normalized = check_depth(n_timepoints, "n_timepoints"), check_flag(normalized, "normalized")
    if normalized:
        walk.check_nonzero()
    # Where the field does not wrap around, a circle just large enough for it will do.
    circle = min(d, 2 * reach(network) + 1)
    field = walk.field(circle)
    if not normalized:
        field = field * walk.total()
    weights = np.zeros(d)
    weights[np.arange(circle) - circle // 2] = np.roll(field, circle // 2)
    return weights


def reach(network: Network) -> int:
    """Return how far the receptive field goes: the distance of the farthest connected pixel.

    Parameters
    ----------
    network : Network

    Returns
    -------
    int
        In pixels. Signals longer than twice that are not wrapped around.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
    >>> locality.reach(rk.Network(depth=5, filter_size=3))
    9
    """
    check_network(network)
    outer, inner = network.outer_filter_size // 2, network.filter_size // 2
    return network.input_filter_size // 2 + network.depth * (outer + inner) - inner


def width(network: Network, kind: str = "ntk") -> float:
    r"""Return the width of the effective receptive field: its standard deviation, in pixels.

    The standard deviation of the walk on the unbounded line, that is of the normalized weights
    where the signal is long enough for them not to wrap around. A step uniform on q pixels has
    variance :math:`v_q = (q^2-1)/12`, so that with :math:`\bar k` residual branches on average

    .. math:: \mathrm{width}^2 = v_{q_0} + \bar k\, (v_{q_o} + (1 - 1/L)\, v_{q_i}) ,

    where :math:`q_0, q_o, q_i` are the input's, the outer and the inner filter size (layer 1
    has no inner step, and a branch is equally likely in all L layers),

    .. math::
        \bar k_{GPK} = L p , \qquad
        \bar k_{NTK} = L p + \frac{(i+o)\, L p (1-p)}{r + t + (i+o) L p} ,

    and :math:`p = \beta/(1+\beta)`, :math:`\beta = \alpha^2 c_v c_w/2`, or p = 1 without skip
    connections (the module says what r, t, i, o are). The tangent kernel's walks take less than
    1 branch more.

    Parameters
    ----------
    network : Network
        With ReLU.
    kind : {"ntk", "gpk"}, default "ntk"

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For another activation, and for a kernel that is 0 for every signal.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> round(locality.width(literature.barzilai_cnn(depth=50)), 4)  # √(99 · 2/3)
    8.124
    >>> round(locality.width(literature.barzilai_resnet(depth=50)), 4)
    5.8006
    """
    walk = _Walk.of(network, kind)
    walk.check_nonzero()
    outer, inner = _variance(network.outer_filter_size), _variance(network.filter_size)
    branch = outer + (1.0 - 1.0 / network.depth) * inner
    return math.sqrt(_variance(network.input_filter_size) + walk.mean_branches() * branch)


def asymptotic_width(network: Network) -> float:
    r"""Return the width that the fields of a deep network tend to, relatively.

    Both kernels': :math:`\sqrt{L p\, (v_{q_o} + v_{q_i})}` in the notation of `width`, which for
    Barzilai's networks is :math:`\sqrt{L p\, (q^2-1)/6}` with :math:`p = \alpha^2/(1+\alpha^2)`,
    or 1 without skip connections: fields grow like √L while receptive fields grow like L (Luo et
    al. 2016, for finite networks), and skip connections make them :math:`\sqrt{1 + 1/\alpha^2}`
    times narrower. The square of `width` differs from its square by at most
    :math:`v_{q_0} + v_{q_o} + v_{q_i}`, so it is a law for :math:`L p \gg 1`. With
    :math:`\alpha = L^{-\gamma}` that is γ < ½: at γ = ½ the number of branches tends to a Poisson
    distribution of mean 1 (for Barzilai's constants), above it to 0.

    Parameters
    ----------
    network : Network
        With ReLU.

    Returns
    -------
    float
        In pixels.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> round(locality.asymptotic_width(literature.barzilai_cnn(depth=600)), 12)
    28.284271247462
    >>> round(locality.asymptotic_width(literature.barzilai_resnet(depth=600)), 12)
    20.0
    """
    branches = network.depth * _Walk.of(network, "gpk").share
    step = _variance(network.outer_filter_size) + _variance(network.filter_size)
    return math.sqrt(branches * step)


class Widths(NamedTuple):
    """Widths of the fields of one family of networks over depth; arrays (n_depths,)."""

    depth: np.ndarray
    gpk: np.ndarray
    """`width` of the Gaussian process kernel."""
    ntk: np.ndarray
    """`width` of the tangent kernel."""
    law: np.ndarray
    """`asymptotic_width`."""
    reach: np.ndarray
    """`reach`, the farthest pixel."""


def widths(family: Network | Callable[[int], Network], depths: Iterable[int]) -> Widths:
    """Return the widths of effective receptive fields as a function of depth.

    Parameters
    ----------
    family : Network, or function from a depth to a Network
        A network stands for those that differ from it in depth alone.
    depths : iterable of int

    Returns
    -------
    Widths

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> locality.widths(literature.barzilai_resnet, (1, 10, 100)).ntk.round(3)
    array([0.707, 2.629, 8.185])
    """
    depths = check_depths(depths)
    if isinstance(family, Network):
        networks = [family.replace(depth=depth) for depth in depths]
    elif callable(family):
        networks = [family(depth) for depth in depths]
    else:
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    rows = [
        (n.depth, width(n, "gpk"), width(n, "ntk"), asymptotic_width(n), reach(n)) for n in networks
    ]
    return Widths(*(np.array(column) for column in zip(*rows, strict=True)))


def path_counts(
    depth: int,
    filter_size: int,
    n_timepoints: int,
    *,
    outer_filter_size: int | None = None,
    input_filter_size: int = 1,
) -> np.ndarray:
    r"""Return the number of paths from each pixel to the output of a CNN.

    The :math:`p_i^{(L)}` of theorem 5.2 of Barzilai et al. 2022: paths in the network without
    skip connections, with one channel in each node. Depth L means L layers of two convolutions,
    the first of which has one (as in ``literature.barzilai_cnn``): 2L − 1 convolutions, and
    :math:`q^{2L-1}` paths in all. With ``outer_filter_size=1`` it has one convolution a layer
    (``literature.geifman_cnn``), L − 1 in all. Divided by their sum the counts are the CNN's
    effective receptive field.

    Parameters
    ----------
    depth, filter_size, outer_filter_size, input_filter_size
        As for `Network`.
    n_timepoints : int
        Length of the signals; paths wrap around.

    Returns
    -------
    ndarray of Python integers (dtype object), (n_timepoints,)
        Exact at any depth. Entry 0 is the output pixel, entry i the one i pixels away.

    Examples
    --------
    >>> from rescntk.theory import locality
    >>> locality.path_counts(depth=2, filter_size=3, n_timepoints=9)
    array([7, 6, 3, 1, 0, 0, 1, 3, 6], dtype=object)
    >>> locality.path_counts(depth=100, filter_size=3, n_timepoints=5).sum() == 3**199
    True
    """
    network = Network(
        depth,
        filter_size,
        outer_filter_size=outer_filter_size,
        input_filter_size=input_filter_size,
        skip=False,
    )
    counts = np.zeros(check_depth(n_timepoints, "n_timepoints"), dtype=object)
    counts[0] = 1
    for size in _convolutions(network):
        counts = circular_sum(np, counts, size)
    return counts


def path_pixels(network: Network) -> np.ndarray:
    r"""Return the pixel in which each path from the output ends, as its distance from the output.

    The paths of appendix D of Barzilai et al. 2022: tuples J of the offsets that one convolution
    after another moves by, from the output to the input; the pixel is their sum :math:`|J|`.
    There are :math:`q_o^L q_i^{L-1} q_0` of them, ordered like the entries of an array
    with an axis for each convolution, the output's first.

    Parameters
    ----------
    network : Network

    Returns
    -------
    ndarray of int, (n_paths,)
        From −`reach` to `reach`; modulo the signal's length it is an index into a signal.

    Raises
    ------
    ValueError
        If there are more than 2^27 paths.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
    >>> locality.path_pixels(rk.Network(depth=1, filter_size=3))
    array([-1,  0,  1])
    >>> len(locality.path_pixels(rk.Network(depth=4, filter_size=3)))
    2187
    """
    n_paths = _count_paths(network)
    if n_paths > _MOST_PATHS:
        raise ValueError(
            f"network has {n_paths:.3g} paths, which would take {8 * n_paths / 2**30:.3g} GiB to "
            f"list: expected at most {_MOST_PATHS} (they multiply with each convolution)"
            if n_paths.bit_length() < 1000
            else f"network has more than 2^{n_paths.bit_length() - 1} paths, "
            f"expected at most {_MOST_PATHS}"
        )
    pixels = np.zeros(1, dtype=np.intp)
    for size in _convolutions(network):
        pixels = (pixels[:, None] + np.arange(-(size // 2), size // 2 + 1)).ravel()
    return pixels


def stride_kernel(network: Network, t: np.ndarray, *, complement: bool = False) -> np.ndarray:
    r"""Return the "stride-q" kernel, in which every path has a dot product of its own.

    Appendix D of Barzilai et al. 2022. In the recursion of ``multisphere.normalized_gpk`` two
    windows of one layer overlap, and paths meet; here no two do, as if all convolutions had the
    stride of their filter:

    .. math::
        \bar K^l(t) = (1-p)\, \bar K^{l-1}(t^{(0,0)}) + p\, \frac1{q_o} \sum_k
        \kappa_1\Big(\frac1{q_i} \sum_{k'} \bar K^{l-1}(t^{(k,k')})\Big) ,

    where :math:`t^{(k,k')}` are the variables of the paths that begin with the offsets k and k'
    (layer 1 has no inner sum, :math:`\bar K^0` is the mean over the input's window), and p the
    branch's share, :math:`\alpha^2/(1+\alpha^2)` for Barzilai's constants. A skip connection
    is the path straight on, so paths are those of the network without skip connections.

    Where all paths to a pixel are given that pixel's dot product,
    ``t[..., path_pixels(network) % n_timepoints]``, it is the ordinary kernel. Its Taylor
    coefficients therefore sum to the ordinary kernel's: that is how path counts enter the
    eigenvalues (theorem 5.2). And its derivative by one variable at t = 1 is the weight of one
    path: over the paths to a pixel they sum to the effective receptive field. The appendix
    carries the bounds over to the tangent kernel without defining a version of it.

    Parameters
    ----------
    network : Network
        With ReLU.
    t : array_like, (..., n_paths)
        Dot products in [-1, 1], one a path in the order of `path_pixels`.
    complement : bool, default False
        Take and return 1 − (·) instead: with full relative accuracy.

    Returns
    -------
    ndarray, (...)
        The normalized Gaussian process kernel with the equivariant head.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import locality, multisphere
    >>> network = rk.Network(depth=3)
    >>> t = np.array([0.9, 0.5, 0.0, -0.3, 0.2])  # one a pixel
    >>> of_paths = locality.stride_kernel(network, t[locality.path_pixels(network) % 5])
    >>> bool(abs(of_paths - multisphere.normalized_gpk(t, depth=3)[0]) < 1e-15)
    True
    """
    walk, n_paths = _Walk.of(network, "gpk"), _count_paths(network)
    walk.check_nonzero()
    values = np.asarray(t, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != n_paths:
        raise ValueError(f"t has shape {values.shape}, expected (..., {n_paths}), one a path")
    outer, inner = network.outer_filter_size, network.filter_size
    gap = check_dot_products(values, complement)
    gap = gap.reshape(*values.shape[:-1], -1, network.input_filter_size).mean(axis=-1)
    for size in (1,) + (inner,) * (network.depth - 1):
        windows = gap.reshape(*values.shape[:-1], -1, outer, size)
        branch = one_minus_kappa1(np.minimum(windows.mean(axis=-1), 2.0)).mean(axis=-1)
        gap = walk.rest * windows[..., outer // 2, size // 2] + walk.share * branch
    gap = gap[..., 0]
    return gap if complement else 1.0 - gap


class _Walk(NamedTuple):
    """The random walk behind one kernel of one network; the module says what it is."""

    network: Network
    growth: float
    """What a layer multiplies the sum of the weights by, 1 + β."""
    share: float
    """The probability p of taking the branch of a layer."""
    rest: float
    """1 − p, with all its digits."""
    once: float
    """How often a walk is counted besides its branches, r + t."""
    each: float
    """And how often for each of its branches, i + o."""

    @classmethod
    def of(cls, network: Network, kind: str) -> _Walk:
        check_network(network)
        check_choice(kind, "kind", KINDS)
        if network.activation != "relu":
            raise ValueError(
                f"network has activation {network.activation!r}, expected 'relu': only then is "
                f"K(x, x) linear in the pixels' energies, with weights that do not depend on x"
            )
        beta = network.alpha**2 * network.c_v * network.c_w / 2
        growth = network.skip + beta
        share = beta / growth if network.skip else 1.0
        rest = 1.0 / growth if network.skip else 0.0
        train_input, inner, outer, readout = trained(network)
        once, each = (1.0, 0.0) if kind == "gpk" else (readout + train_input, inner + outer)
        return cls(network, growth, share, rest, once, each)

    @property
    def counted(self) -> float:
        """How often a walk is counted, on average."""
        return self.once + self.each * (self.network.depth * self.share)

    def check_nonzero(self) -> None:
        if self.growth == 0 or self.counted == 0 or self.network.readout_scale == 0:
            raise ValueError(
                f"network is {self.network!r}, whose kernel is 0 for every signal, "
                f"expected one that has a receptive field"
            )

    def total(self) -> float:
        """Return the sum of the weights."""
        depth, counted = self.network.depth, self.counted * self.network.readout_scale
        with np.errstate(over="ignore"):
            total = float(np.float64(self.growth) ** depth * counted) if counted else 0.0
        if not math.isfinite(total):
            raise OverflowError(
                f"the sum of the weights exceeds float64 at depth {depth}: it grows by "
                f"{self.growth:.6g} a layer; normalized=True has no such limit"
            )
        return total

    def mean_branches(self) -> float:
        """Return the mean number of branches of a walk."""
        mean = self.network.depth * self.share
        return mean + self.each * (mean * self.rest) / self.counted

    def field(self, d: int) -> np.ndarray:
        """Return the law of the walk's end on a circle of `d` pixels.

        It is 0 for a kernel that counts no walk.
        """
        net, n = self.network, self.network.depth - 1
        outer = _uniform(net.outer_filter_size, d)
        both = _convolve(outer, _uniform(net.filter_size, d))
        first, layer = self.share * outer, self.share * both
        first[0] += self.rest
        layer[0] += self.rest
        others = _power(layer, n)
        law = self.once * _convolve(first, others)
        if self.each:
            # k is the sum over layers of 1 where the branch is taken, 0 where it is not.
            law += (self.each * self.share) * _convolve(outer, others)
            if n:
                rest = _convolve(first, _power(layer, n - 1))
                law += (self.each * self.share * n) * _convolve(both, rest)
        if self.counted:
            law /= self.counted
        return _convolve(law, _uniform(net.input_filter_size, d))


def _convolutions(network: Network) -> list[int]:
    """Return the filter sizes of all convolutions on the way from the output to the input."""
    outer, inner = network.outer_filter_size, network.filter_size
    return [outer, inner] * (network.depth - 1) + [outer, network.input_filter_size]


def _count_paths(network: Network) -> int:
    check_network(network)
    return math.prod(_convolutions(network))


def _variance(size: int) -> float:
    """Return the variance of a step uniform on a window."""
    return (size**2 - 1) / 12.0


def _uniform(size: int, d: int) -> np.ndarray:
    """Return the law of a step uniform on a window, on a circle of `d` pixels."""
    ends = np.arange(-(size // 2), size // 2 + 1) % d
    return np.bincount(ends, minlength=d) / size


def _convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the circular convolution; no difference is taken, so all digits are kept."""
    line: Any = np.convolve(a, b)
    line[: len(a) - 1] += line[len(a) :]
    return line[: len(a)]


def _power(law: np.ndarray, n: int) -> np.ndarray:
    """Return the law of the sum of n steps, by repeated squaring."""
    result = np.zeros_like(law)
    result[0] = 1.0
    while n:
        if n & 1:
            result = _convolve(result, law)
        n >>= 1
        if n:
            law = _convolve(law, law)
    return result / result.sum()  # 1 but for a rounding error, which each squaring has doubled
