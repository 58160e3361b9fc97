"""Views: how signals are prepared for a network, and the network that sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..kernels import Kernel
from ..network import Network
from ..validation import check_choice, check_flag, check_nonnegative, check_positive_integer
from .inputs import Signals, arrays, longest, read_signals, unit_exponent

_LEAST_OF_POINT = 0.1
"""Least deviation of a time point, in units of its channel's root mean square over time points."""

_STANDARDIZE = ("signal", "channel", "point")

_ROUNDING = 10 * float(np.finfo(np.float64).eps)  # deviations count as 0, by the largest value


@dataclass(repr=False, unsafe_hash=True)
class View(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A view: signals in, what the network sees out.

    Steps in order: each signal by itself, spectra, blocks, scales, which `fit` measures,
    differences, time. A constant channel, of the signals' root mean square, is always added.

    Parameters
    ----------
    differences : bool or "only", default False
        Whether first differences of each channel are added, or take its place.
    spectra : bool or "whole", default False
        Whether short-time spectra of the blocks, or the whole signal's spectrum, take the place of
        the signals: roots of magnitudes.
    statistics : bool, default False
        Whether deviation, minimum and maximum of each block are added to its mean.
    standardize : {"signal", "channel", "point"}, default "signal"
        Over what: each signal by itself, and then all; all signals; or all at each time point.
    time : float, default 0.0
        Scale of two channels with the relative time, a half circle. 0 has none.
    length : int, default 64
        Longest signals that stay as they are. Longer ones are averaged over blocks. Signals that
        are not longer have neither short-time spectra nor statistics.
    filter_size, input_filter_size, depth : int, default 9, 1 and 2
        As for `rescntk.Network`. Filters longer than the view's signals are cut.
    head : {"gap", "trace", "equivariant"}, default "gap"
        As for `rescntk.Kernel`.

    Notes
    -----
    Views of the same settings are equal, and settings cannot change. `fit` and `transform` take X
    as `ResidualKernelClassifier.fit` does. A ValueError is raised for signals that the view cannot
    take: lists need GAP and no ``standardize="point"``, and signals of a single time point have no
    differences, spectra or deviation. Such a signal among longer ones is taken as constant.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import View
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 200))
    >>> View(differences=True, time=1.0, length=50).fit_transform(X).shape
    (20, 7, 50)
    """

    differences: bool | str = False
    spectra: bool | str = False
    statistics: bool = False
    standardize: str = "signal"
    time: float = 0.0
    length: int = 64
    filter_size: int = 9
    input_filter_size: int = 1
    head: str = "gap"
    depth: int = 2

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ and name in self.__dataclass_fields__:
            raise AttributeError(f"{name} of a View cannot change: make another View")
        super().__setattr__(name, value)

    def set_params(self, **params: Any) -> View:
        """Set parameters of a view that is not fitted yet, as searches do."""
        if unknown := params.keys() - self.get_params():
            raise ValueError(f"{sorted(unknown)} are no parameters of View")
        self.__dict__.update(params)
        return self

    def fit(self, X: Any, y: Any = None) -> View:
        """Measure the scales, and return the view; y is ignored."""
        signals = read_signals(self, X, reset=True)
        resolved = self.resolve(signals)
        if isinstance(resolved, str):
            raise ValueError(f"X cannot have {self!r}: {resolved}")
        resolved.measure(signals, np.ones(len(signals)))
        self._fitted = resolved
        return self

    def transform(self, X: Any) -> Signals:
        """Return the signals as the network sees them: more channels, fewer points."""
        signals = read_signals(self, X)
        return self._fitted.see(signals)

    @property
    def network(self) -> Network:
        """The network that sees the view."""
        return Network(self.depth, self.filter_size, input_filter_size=self.input_filter_size)

    @property
    def sees_levels(self) -> bool:
        """Whether the view changes when a constant is added to a channel of a signal."""
        blind = self.standardize == "signal" or self.spectra == "whole"
        return not blind and self.differences != "only"

    def resolve(self, X: Signals) -> View | str:
        """Return the view as signals X have it, or why they cannot; refuse wrong settings."""
        view = replace(
            self, differences=_flag_or_word(self.differences, "differences", "only"),
            spectra=_flag_or_word(self.spectra, "spectra", "whole"),
            statistics=check_flag(self.statistics, "statistics"),
            standardize=check_choice(self.standardize, "standardize", _STANDARDIZE),
            time=check_nonnegative(self.time, "time"),
            length=check_positive_integer(self.length, "length"),
        )  # fmt: skip
        Kernel(view.network, "gpk", view.head)  # checks its own
        return view._cut(X)

    def _cut(self, X: Signals) -> View | str:
        """Return what `resolve` does, of a view whose settings are right."""
        if isinstance(X, list) and (self.head != "gap" or self.standardize == "point"):
            return "signals of different lengths have the head 'gap', and no time points in common"
        length = longest(X)
        of_time = self.differences == "only" or self.spectra == "whole"
        if length == 1 and (of_time or self.standardize == "signal"):
            return "one time point has no differences, no spectrum and no deviation"
        seen, block = self._block(length)
        n_points = -(-seen // block)
        largest = n_points - (n_points % 2 == 0)  # filters have odd sizes
        return replace(
            self, differences=self.differences if n_points > 1 else False,
            spectra=self.spectra if block > 1 or self.spectra == "whole" else False,
            statistics=self.statistics and block > 1, length=self.length if block > 1 else seen,
            filter_size=min(self.filter_size, largest),
            input_filter_size=min(self.input_filter_size, largest),
        )  # fmt: skip

    def _block(self, length: int) -> tuple[int, int]:
        """Return the number of points before they are averaged, and of a block; 1 averages none."""
        seen = max(1, length // 2) if self.spectra == "whole" else length
        return seen, -(-seen // self.length)

    def measure(self, X: Signals, weights: np.ndarray) -> Signals:
        """Measure the scales of signals X in a resolved view, and return X as seen by it."""
        self._steps: list[Any] = []

        def add(step: Callable[..., np.ndarray], *settings: Any) -> Signals:
            self._steps.append(partial(step, *settings))
            return each(self._steps[-1], X)

        _, block = self._block(longest(X))
        X = add(self._shortened, block, unit_exponent(X))
        mean, deviation, size = _scales(X, weights)
        if self.spectra is True:
            mean, deviation = np.zeros(len(mean)), np.full(len(mean), np.sqrt(np.mean(size**2)))
        elif self.statistics:
            sizes = size.reshape(4, -1)  # deviations of constant channels are rounding errors
            large = sizes > _ROUNDING * sizes.max(axis=0)
            mean, deviation = np.zeros(len(mean)), np.where(large, sizes, 0.0).ravel()
        X = add(_standardized, mean[:, None], np.where(deviation > 0, deviation, 1.0)[:, None])
        if self.differences:  # they get the deviation of their channel
            rises, deviations = (_scales(A, weights)[1] for A in (each(_rise, X), X))
            ratio = deviations / np.where(rises > 0, rises, 1.0)
            X = add(_with_rises, np.where(rises > 0, ratio, 0.0), self.differences == "only")
        if self.standardize == "point":
            points: Any = np.asarray(X)
            of_points = _scales(points.reshape(len(points), -1, 1), weights)[:2]
            mean, deviation = (part.reshape(points.shape[1:]) for part in of_points)
            least = _LEAST_OF_POINT * np.sqrt(np.mean(deviation**2, axis=1, keepdims=True))
            scale = np.maximum(deviation, least)
            X = add(_standardized, mean, np.where(scale > 0, scale, 1.0))
        level = float(np.sqrt(np.mean(_scales(X, weights)[2] ** 2))) or 1.0
        return add(_with_level_and_time, level, self.time)

    def _shortened(self, block: int, exponent: int, X: np.ndarray) -> np.ndarray:
        """Return signals, spectra, or means of blocks, with their deviations and extremes."""
        X = np.ldexp(X, -exponent)
        if self.standardize == "signal":
            X = _standardized_alone(X)
        if self.spectra is True:
            return _short_time_spectra(X, block)
        if self.spectra == "whole":  # roots of magnitudes at frequencies from 1/d to 1/2
            X = np.sqrt(np.abs(np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:]))
            if not X.shape[2]:  # one time point does not vary, like a constant signal
                X = np.zeros((*X.shape[:2], 1))
        if block == 1:
            return X
        starts, sizes = np.arange(0, X.shape[2], block), _block_sizes(X.shape[2], block)
        means = np.add.reduceat(X, starts, axis=2) / sizes
        if not self.statistics:
            return means
        squares = (X - np.repeat(means, sizes, axis=2)) ** 2
        deviations = np.sqrt(np.add.reduceat(squares, starts, axis=2) / sizes)
        extremes = (f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum))
        return np.concatenate([means, deviations, *extremes], axis=1)

    def see(self, X: Signals) -> Signals:
        """Return signals as the network sees them, of a view that was measured."""
        with np.errstate(over="ignore", invalid="ignore"):
            for step in self._steps:
                X = each(step, X)
        if not all(np.isfinite(x).all() for x in arrays(X)):
            raise ValueError("X has values above float64 in units of fit, expected smaller ones")
        return X

    def to_time(self, shares: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return shares of time points, (…, n_timepoints), from shares of the view's points.

        A block's share goes to its time points in equal parts, the share of a short-time spectrum
        by the weights of its window. The share of a band of a whole spectrum goes by the energy, at
        each time, of the frequencies that the network sees from there.
        """
        length, (block, exponent) = x.shape[1], self._steps[0].args
        if self.spectra == "whole":
            reach = self.network.input_filter.reach + self.network.reach()
            alone = _standardized_alone(np.ldexp(x, -exponent)[None])[0]
            return shares @ _energy_of_bands(alone, shares.shape[-1], block, reach)
        sizes = _block_sizes(length, block)
        if self.spectra is not True:
            return np.repeat(shares / sizes, sizes, axis=-1)
        place = np.arange(length) - np.arange(0, length, block)[:, None] + block // 2  # in a window
        inside = (place >= 0) & (place < 2 * block)
        weights = np.where(inside, np.hanning(2 * block + 1)[place * inside], 0.0)
        return shares @ (weights / weights.sum(axis=1, keepdims=True))


FAST = (
    View(differences=True, time=1.0, standardize="channel"),
    View(differences="only", statistics=True, time=1.0, standardize="channel", length=32),
    View(spectra=True, filter_size=3, length=32),
    View(spectra=True, time=1.0, standardize="channel", filter_size=3, length=32),
    View(filter_size=3, length=32),
    View(differences="only", standardize="point", head="trace", length=2048),
    View(spectra="whole", filter_size=3, head="trace", length=512),
    View(spectra="whole", statistics=True, time=1.0, filter_size=3, length=32),
    View(spectra=True, filter_size=3, head="trace", length=32),
)
"""Views of ``views="fast"``. Chosen by accuracy on sets for choosing of `benchmarks/ucr.py`, and on
smaller sets and simulated machines, with noise and without."""

DEFAULT = (
    *FAST,
    View(differences="only", filter_size=3, input_filter_size=9),
    View(differences=True, statistics=True, standardize="channel"),
)
"""Views of ``views="default"``."""

MANY = (replace(FAST[0], length=32), *FAST[1:4], *FAST[5:])
"""Views of ``views="default"`` for many signals, where the first of `FAST` takes half of a fit, and
the fifth makes no difference."""


def each(function: Callable[[np.ndarray], np.ndarray], X: Signals) -> Signals:
    """Apply a function of arrays (n_cases, n_channels, n_timepoints) to signals of any lengths."""
    return function(X) if isinstance(X, np.ndarray) else [function(x[None])[0] for x in X]


def _flag_or_word(value: Any, name: str, word: str) -> bool | str:
    """Return `value`, a Python or NumPy boolean or the given word, as a bool or as the word."""
    if isinstance(value, str) and value == word:
        return word
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} is {value!r}, expected True, False or {word!r}")


def _standardized_alone(X: np.ndarray) -> np.ndarray:
    """Return signals whose channels have mean 0 and deviation 1 each; constant ones are 0."""
    mean, deviation = X.mean(axis=2, keepdims=True), X.std(axis=2, keepdims=True)
    constant = deviation <= _ROUNDING * np.abs(X).max(axis=2, keepdims=True)
    return (X - mean) / np.where(constant, np.inf, deviation)


def _standardized(mean: np.ndarray, scale: np.ndarray, X: np.ndarray) -> np.ndarray:
    return (X - mean) / scale


def _with_rises(scale: np.ndarray, alone: bool, X: np.ndarray) -> np.ndarray:
    rises = _rise(X) * scale[:, None]
    return rises if alone else np.concatenate([X, rises], axis=1)


def _with_level_and_time(level: float, time: float, X: np.ndarray) -> np.ndarray:
    n, channels, length = X.shape
    parts = [X, np.full((n, 1, length), level)]
    if time:
        angle = np.pi * np.arange(length) / length
        circle = time * level * np.sqrt(channels) * np.stack([np.cos(angle), np.sin(angle)])
        parts.append(np.broadcast_to(circle, (n, 2, length)))
    return np.concatenate(parts, axis=1)


def _scales(X: Signals, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, deviation and root mean square of each channel, (n_channels,) each.

    They are over all cases, with weights, and time points. A constant channel has deviation 0.
    """
    points, weights = np.concatenate(list(X), axis=1), weights.repeat([x.shape[1] for x in X])
    weights = weights / weights.sum()
    mean = points @ weights
    deviation = np.sqrt((points - mean[:, None]) ** 2 @ weights)
    deviation = np.where(deviation > _ROUNDING * np.abs(points).max(axis=1), deviation, 0.0)
    return mean, deviation, np.sqrt(points**2 @ weights)


def _block_sizes(length: int, block: int) -> np.ndarray:
    return np.minimum(block, length - np.arange(0, length, block))


def _rise(X: np.ndarray) -> np.ndarray:
    """Return central differences along time; one-sided at the ends."""
    return np.gradient(X, axis=2) if X.shape[2] > 1 else np.zeros(X.shape)


def _short_time_spectra(X: np.ndarray, block: int) -> np.ndarray:
    """Return roots of short-time spectra, (n_cases, n_channels · (block + 1), n_blocks).

    A block's spectrum is of a Hann window of twice its length, by channel and rising frequency.
    The first window begins half a block before the signal, whose surroundings are 0.
    """
    n, channels, length = X.shape
    padded = np.zeros((n, channels, (-(-length // block) + 1) * block))
    padded[:, :, block // 2 : block // 2 + length] = X
    parts = np.lib.stride_tricks.sliding_window_view(padded, 2 * block, axis=2)[:, :, ::block]
    roots = np.sqrt(np.abs(np.fft.rfft(parts * np.hanning(2 * block + 1)[:-1], axis=3)))
    return roots.transpose(0, 1, 3, 2).reshape(n, channels * (block + 1), -1)


def _energy_of_bands(x: np.ndarray, n_bands: int, block: int, reach: int) -> np.ndarray:
    """Return the share of each time point in the energy of bands, (n_bands, length); sums are 1.

    A band has `block` frequencies. Its energy at a time is the sum, over channels, of the squared
    envelope of the signal with this band and others at most `reach` bands away, which count by a
    cosine bell. Time points have equal shares of a band without energy.
    """
    length = x.shape[1]
    spectrum = np.fft.rfft(x, axis=1)
    bands = (np.arange(spectrum.shape[1]) - 1) // block  # the mean has -1
    far = np.abs(bands - np.arange(n_bands)[:, None])
    bell = np.where((far <= reach) & (bands >= 0), 1 + np.cos(np.pi * far / (reach + 1)), 0.0)
    # Without negative frequencies the magnitude over time is the envelope.
    energy: Any = sum(np.abs(np.fft.ifft(bell * row, length, axis=1)) ** 2 for row in spectrum)
    sums = energy.sum(axis=1, keepdims=True)
    found = sums > _ROUNDING**2 * sums.sum()
    return np.divide(energy, sums, out=np.full(energy.shape, 1.0 / length), where=found)
