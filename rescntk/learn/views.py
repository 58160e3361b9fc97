"""Views: how signals are prepared for a network, and the network that sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..kernels import Kernel
from ..network import Network
from ..validation import check_choice, check_flag, check_nonnegative, check_positive_integer
from .inputs import Signals, arrays, longest, read_signals
from .steps import (
    Blocks,
    ChannelScale,
    CommonScale,
    Differences,
    Level,
    PointScale,
    ShortTimeSpectra,
    SignalScale,
    Statistics,
    StatisticsScale,
    Step,
    Time,
    Unit,
    WholeSpectrum,
    each,
)

_STANDARDIZE = ("signal", "channel", "point")


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
        self._fitted, _ = self.resolve(signals).measure(signals, np.ones(len(signals)))
        return self

    def transform(self, X: Any) -> Signals:
        """Return the signals as the network sees them: more channels, fewer points."""
        signals = read_signals(self, X)
        return self._fitted.see(signals)

    def refusal(self, X: Signals) -> str:
        """Return why signals X cannot have the view, or an empty text; refuse wrong settings."""
        view = self._checked()
        if isinstance(X, list) and (view.head != "gap" or view.standardize == "point"):
            return "signals of different lengths have the head 'gap', and no time points in common"
        of_time = view.differences == "only" or view.spectra == "whole"
        if longest(X) == 1 and (of_time or view.standardize == "signal"):
            return "one time point has no differences, no spectrum and no deviation"
        return ""

    def resolve(self, X: Signals) -> ResolvedView:
        """Return the steps and the network that signals X have."""
        if reason := self.refusal(X):
            raise ValueError(f"X cannot have {self!r}: {reason}")
        view, length = self._checked(), longest(X)
        seen = max(1, length // 2) if view.spectra == "whole" else length
        block = -(-seen // view.length)
        n_points = -(-seen // block)
        largest = n_points - (n_points % 2 == 0)  # filters have odd sizes
        network = Network(
            view.depth, min(view.filter_size, largest),
            input_filter_size=min(view.input_filter_size, largest),
        )  # fmt: skip
        steps = view._steps(block, n_points, network.input_filter.reach + network.reach())
        return ResolvedView(network, view.head, n_points, tuple(steps))

    def _checked(self) -> View:
        """Return the view with flags of Python; refuse wrong settings."""
        view = replace(
            self, differences=_flag_or_word(self.differences, "differences", "only"),
            spectra=_flag_or_word(self.spectra, "spectra", "whole"),
            statistics=check_flag(self.statistics, "statistics"),
            standardize=check_choice(self.standardize, "standardize", _STANDARDIZE),
            time=check_nonnegative(self.time, "time"),
            length=check_positive_integer(self.length, "length"),
        )  # fmt: skip
        network = Network(self.depth, self.filter_size, input_filter_size=self.input_filter_size)
        Kernel(network, "gpk", self.head)  # checks its own
        return view

    def _steps(self, block: int, n_points: int, reach: int) -> Iterator[Step]:
        """Yield the steps to blocks of points, or of frequencies, and to what is added to them."""
        yield Unit()
        if self.standardize == "signal":
            yield SignalScale()
        blocks = Statistics(block) if self.statistics and block > 1 else Blocks(block)
        scale = StatisticsScale() if isinstance(blocks, Statistics) else ChannelScale()
        if self.spectra == "whole":
            yield WholeSpectrum(blocks, reach)
        elif self.spectra and block > 1:
            yield ShortTimeSpectra(block)
            scale = CommonScale()
        elif block > 1:
            yield blocks
        yield scale
        if self.differences and n_points > 1:
            yield Differences(self.differences)
        if self.standardize == "point":
            yield PointScale()
        yield Level()
        if self.time:
            yield Time(self.time)


@dataclass(frozen=True)
class ResolvedView:
    """A view of some signals: the steps that change them, and the network that sees the result."""

    network: Network
    head: str
    n_points: int  # of the longest signal after the steps
    steps: tuple[Step, ...]

    @property
    def sees_levels(self) -> bool:
        """Whether the view changes when a constant is added to a channel of a signal."""
        return all(step.sees_levels for step in self.steps)

    def measure(self, X: Signals, weights: np.ndarray) -> tuple[ResolvedView, Signals]:
        """Return the view as measured on signals X with weights, (n_cases,); and what it sees."""
        steps = []
        for step in self.steps:
            steps.append(step.measure(X, weights))
            X = each(steps[-1].see, X)
        return replace(self, steps=tuple(steps)), X

    def see(self, X: Signals) -> Signals:
        """Return signals as the network sees them, by a view that was measured."""
        with np.errstate(over="ignore", invalid="ignore"):
            for step in self.steps:
                X = each(step.see, X)
        if not all(np.isfinite(x).all() for x in arrays(X)):
            raise ValueError("X has values above float64 in units of fit, expected smaller ones")
        return X

    def to_time(self, shares: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return shares of time points, (…, n_timepoints), from shares of the points seen of x."""
        before = [x[None]]
        for step in self.steps[:-1]:
            before.append(step.see(before[-1]))
        for step, seen in zip(reversed(self.steps), reversed(before), strict=True):
            shares = step.to_time(shares, seen[0])
        return shares


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


def _flag_or_word(value: Any, name: str, *words: str) -> bool | str:
    """Return `value`, a Python or NumPy boolean or one of the words, as a bool or as the word."""
    if isinstance(value, str) and value in words:
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(
        f"{name} is {value!r}, expected True, False or {' or '.join(map(repr, words))}"
    )
