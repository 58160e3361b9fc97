"""The random walk behind the diagonal of a ReLU network's kernels (see ``locality``)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..network import Network
from ..validation import check_choice, check_network
from ..vocabulary import KINDS

# Pixels of a field: 1 GiB of numbers.


class Walk(NamedTuple):
    """The random walk behind one kernel of one network, as ``locality`` has it."""

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
    def of(cls, network: Network, kind: str) -> Walk:
        check_network(network)
        check_choice(kind, "kind", KINDS)
        if network.activation != "relu":
            raise ValueError(
                f"network has activation {network.activation!r}, expected 'relu': only then is "
                f"K(x, x) linear in the pixels' energies, with weights that do not depend on x"
            )
        beta = network.branch_gain
        growth = network.skip + beta
        share = beta / growth if network.skip else 1.0
        rest = 1.0 / growth if network.skip else 0.0
        train_input, inner, outer, readout = network.parts
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
        outer = uniform(net.outer_filter_size, d)
        both = convolve(outer, uniform(net.filter_size, d))
        first, layer = self.share * outer, self.share * both
        first[0] += self.rest
        layer[0] += self.rest
        others = power(layer, n)
        law = self.once * convolve(first, others)
        if self.each:
            # k is the sum over layers of 1 where the branch is taken, 0 where it is not.
            law += (self.each * self.share) * convolve(outer, others)
            if n:
                rest = convolve(first, power(layer, n - 1))
                law += (self.each * self.share * n) * convolve(both, rest)
        if self.counted:
            law /= self.counted
        return convolve(law, uniform(net.input_filter_size, d))


def variance(size: int) -> float:
    """Return the variance of a step uniform on a window."""
    return (size**2 - 1) / 12.0


def uniform(size: int, d: int) -> np.ndarray:
    """Return the law of a step uniform on a window, on a circle of `d` pixels."""
    ends = np.arange(-(size // 2), size // 2 + 1) % d
    return np.bincount(ends, minlength=d) / size


def convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the circular convolution; no difference is taken, so all digits are kept."""
    line: Any = np.convolve(a, b)
    line[: len(a) - 1] += line[len(a) :]
    return line[: len(a)]


def power(law: np.ndarray, n: int) -> np.ndarray:
    """Return the law of the sum of n steps, by repeated squaring."""
    result = np.zeros_like(law)
    result[0] = 1.0
    while n:
        if n & 1:
            result = convolve(result, law)
        n >>= 1
        if n:
            law = convolve(law, law)
    return result / result.sum()  # 1 but for a rounding error, which each squaring has doubled
