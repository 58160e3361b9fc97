"""The random walk behind the diagonal of a ReLU network's kernels (``docs/theory/locality.md``)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..network import Filter, Network, check_relu
from ..rings import circular_mean
from ..validation import check_choice
from ..vocabulary import KINDS


class Walk(NamedTuple):
    """The random walk behind one kernel of one network."""

    network: Network
    skip_probability: float
    """1 − p, the probability of taking the skip connection of a layer, with all its digits."""
    base_count: float
    """Times that a walk counts besides its branches, r + t."""
    count_per_branch: float
    """Times that a walk counts for each of its branches, i + o."""

    @classmethod
    def of(cls, network: Network, kind: str) -> Walk:
        """Return the walk of a ReLU network's Gaussian process kernel or tangent kernel."""
        check_relu(
            network,
            ", expected 'relu': only then is K(x, x) linear in the pixels' energies, with weights "
            "that do not depend on x",
        )
        check_choice(kind, "kind", KINDS)
        skipped = 1.0 / network.growth if network.skip else 0.0
        if kind == "gpk":
            return cls(network, skipped, 1.0, 0.0)
        parts = network.parts
        return cls(network, skipped, parts.initial, parts.inner + parts.outer)

    @property
    def branch_probability(self) -> float:
        """p, the probability of taking the branch of a layer."""
        return self.network.branch_share

    @property
    def mean_count(self) -> float:
        """r + t + (i + o) L p, the mean number of times that a walk counts."""
        branches = self.network.depth * self.branch_probability
        return self.base_count + self.count_per_branch * branches

    def check_nonzero(self) -> None:
        """Say so if the kernel is 0 for every signal."""
        if 0 in (self.network.growth, self.mean_count, self.network.readout_scale):
            raise ValueError(
                f"network is {self.network!r}, whose kernel is 0 for every signal, "
                f"expected one that has a receptive field"
            )

    def total(self) -> float:
        """Return the sum of the weights."""
        depth, count = self.network.depth, self.mean_count * self.network.readout_scale
        growth = self.network.growth
        with np.errstate(over="ignore"):
            total = float(np.float64(growth) ** depth * count) if count else 0.0
        if not math.isfinite(total):
            raise OverflowError(
                f"the sum of the weights exceeds float64 at depth {depth}: it grows by "
                f"{growth:.6g} a layer; normalized=True has no such limit"
            )
        return total

    def mean_branches(self) -> float:
        """Return the mean number of branches of a walk, under the kernel's counts."""
        mean = self.network.depth * self.branch_probability
        variance = mean * self.skip_probability
        return mean + self.count_per_branch * variance / self.mean_count

    def field(self, d: int) -> np.ndarray:
        """Return the distribution of the walk's end on a circle of `d` pixels.

        It is 0 for a kernel that counts no walk.
        """
        walks = self._equal_layers(d) if isinstance(self.network.dilation, int) else self._layers(d)
        ends = self.base_count * walks.ends + self.count_per_branch * walks.branches
        if self.mean_count:
            ends /= self.mean_count
        return convolve(ends, uniform(self.network.input_filter, d))

    def _layer(self, layer: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps' distribution of a layer, and p times the branch's distribution."""
        inner, outer = self.network.inner_filter(layer), self.network.outer_filter(layer)
        branch = convolve(uniform(outer, d), uniform(inner, d))
        branch = self.branch_probability * branch
        step = branch.copy()
        step[0] += self.skip_probability
        return step, branch

    def _equal_layers(self, d: int) -> _Walks:
        """Return the walks through layers 2 … L with equal filters, and layer 1."""
        n = self.network.depth - 1
        first, first_branch = self._layer(1, d)
        layer, branch = self._layer(2, d)
        others = power(layer, n)
        branches = convolve(first_branch, others)
        if n and self.count_per_branch:
            # A walk's number of branches is a sum over layers of 1 (branch) or 0 (skip).
            branches += n * convolve(branch, convolve(first, power(layer, n - 1)))
        return _Walks(convolve(first, others), branches)

    def _layers(self, d: int) -> _Walks:
        """Return the walks through layers of any filters, one layer after another."""
        p, skipped = self.branch_probability, self.skip_probability
        ends, branches = np.zeros(d), np.zeros(d)
        ends[0] = 1.0
        for layer in range(1, self.network.depth + 1):
            inner, outer = self.network.inner_filter(layer), self.network.outer_filter(layer)
            taken, counted = (p * moved(moved(v, inner), outer) for v in (ends, branches))
            branches = skipped * branches + (counted + taken)
            ends = skipped * ends + taken
        return _Walks(ends, branches)


class _Walks(NamedTuple):
    """Walks by their end on a circle, arrays (d,)."""

    ends: np.ndarray
    """The distribution of the end."""
    branches: np.ndarray
    """The same weighted by the walk's number of branches."""


def uniform(window: Filter, d: int) -> np.ndarray:
    """Return the distribution of a step uniform on a filter's taps, on a circle of `d` pixels."""
    return np.bincount(np.array(window.taps) % d, minlength=d) / window.size


def moved(distribution: np.ndarray, window: Filter) -> np.ndarray:
    """Return the distribution after one more step, uniform on a filter's taps."""
    return circular_mean(distribution, *window)


def convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the circular convolution of nonnegative vectors; no digits cancel."""
    line = np.convolve(a, b)
    line[: len(a) - 1] += line[len(a) :]
    return line[: len(a)]


def power(distribution: np.ndarray, n: int) -> np.ndarray:
    """Return the distribution of the sum of n steps, by repeated squaring."""
    result = np.zeros_like(distribution)
    result[0] = 1.0
    while n:
        if n & 1:
            result = convolve(result, distribution)
        n >>= 1
        if n:
            distribution = convolve(distribution, distribution)
    return result / result.sum()  # each squaring has doubled the rounding error of the sum
