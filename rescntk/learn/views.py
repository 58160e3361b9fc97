"""Views: how signals are prepared for a network, and the network that sees them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin

from ..engines.heads import check_head, pooled_head
from ..messages import shown
from ..network import Network
from ..validation import (
    check_choice,
    check_flag,
    check_nonnegative,
    check_positive_integer,
)
from .bands import Bands, BandScale, LocalScale
from .inputs import Signals, fitting, longest, read_signals
from .resolved_view import ResolvedView
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
)
from .view_kernels import LinearKernel, NetworkKernel

_LENGTHS = ("all", "fine")
_FINE, _FINE_WORK = (64, 512), 25_600
"""Points of fine views, and the most points times signals."""
_OF_LINEAR = {"linear", "differences", "standardize", "length"}
_BANDS = ("rectified", "magnitudes", "signs")
_STANDARDIZE = ("signal", "local", "channel", "point")


@dataclass(repr=False, unsafe_hash=True, kw_only=True)
class View(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A view: signals in, what the network sees out.

    Steps in order:

    1. each signal's own scale (`standardize="signal"`, or "local")
    2. spectra, bands or blocks
    3. the scale of channels
    4. differences
    5. the scale of time points (`standardize="point"`)
    6. a constant channel, the root mean square of all others, always added
    7. time

    `fit` measures the scales.

    Parameters
    ----------
    differences : bool or "only", default False
        Whether central differences of each channel along time are added, or take its place.
    spectra : bool or "whole", default False
        Whether short-time spectra of the blocks, or the whole signal's spectrum, take the place of
        the signals: roots of magnitudes.
    bands : {"rectified", "magnitudes", "signs"}, optional
        Whether bands of an octave, at the signals' own resolution, take the place of the signals:
        differences of Gaussians b, from 0.7 points to an eighth of the longest signal. Blocks then
        average max(b, 0) and max(−b, 0), or magnitudes, or where b is above −1, −0.3, 0.3 and 1
        of its deviations. Detail that blocks of the signals lose stays. Views of bands have no
        differences and no spectra.
    statistics : bool, default False
        Whether deviation, minimum and maximum of each block are added to its mean.
    standardize : {"signal", "local", "channel", "point"}, default "signal"
        Over what: each signal by itself, and then all; "local" divides each signal by its local
        deviation too; all signals; or all at each time point.
    time : float, default 0.0
        Scale of two channels with the relative time, a half circle. 0 has none.
    length : int, "all" or "fine", default 64
        Maximum number of points that the network sees. Longer signals are averaged over blocks.
        Signals that are not longer have neither short-time spectra nor statistics. "all" has no
        maximum. "fine" has one that falls with the number n of signals in `fit`: the largest power
        of two up to 25,600/n, but 64 at least and 512 at most. From 50 to 400 signals the kernel
        matrix of a GAP view then takes about the same time.
    linear : bool, default False
        Whether the kernel is the inner product of all points, in place of a network's: ridge
        regression on it is ridge regression on the points. Linear views have `differences`,
        `standardize` and `length` alone. Their time points, standardized by ``"point"``, have
        deviation 1 however little they vary.
    filter_size : int, default 9
        Size of the network's inner and outer filters, odd; cut to the number of points.
    input_filter_size : int, default 1
        Size of the network's first filter, odd; cut to the number of points.
    head : {"gap", "trace", "equivariant"} or int, default "gap"
        The readout, as for `rescntk.Kernel`: an integer counts points that the network sees.
    depth : int, default 2
        Number of residual layers of the network.

    Notes
    -----
    Views of the same settings are equal, and settings cannot change. Lists need GAP and no
    ``standardize="point"``. Signals of a single time point have no differences, spectra or
    deviation: views that put these in the place of the signals, or with ``standardize="signal"``,
    refuse them, and others leave them out. Short-time spectra replace statistics too. Such a signal
    among longer ones is taken as constant.

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
    bands: str | None = None
    statistics: bool = False
    standardize: str = "signal"
    time: float = 0.0
    length: int | str = 64
    linear: bool = False
    filter_size: int = 9
    input_filter_size: int = 1
    head: str | int = "gap"
    depth: int = 2

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ and name in self.__dataclass_fields__:
            raise AttributeError(f"{name} of a View cannot change: make another View")
        super().__setattr__(name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters of a view that is not fitted yet, as searches do.

        Parameters
        ----------
        **params
            Parameters of `View` by name. `fit` checks their values.

        Returns
        -------
        View
            The view itself.

        Raises
        ------
        ValueError
            For names that are no parameters.
        """
        if unknown := params.keys() - self.get_params():
            raise ValueError(f"{sorted(unknown)} are no parameters of View")
        self.__dict__.update(params)
        return self

    def set_output(self, *, transform: str | None = None) -> Self:
        """Take the output of a pipeline, which a view's signals do not have.

        A pipeline sets the output of all its steps. Signals have three axes, and no table has them:
        a view returns arrays or lists whatever is set.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default None
            Kind of tables that other steps return.

        Returns
        -------
        View
            The view itself.

        Raises
        ------
        ValueError
            For other kinds.
        """
        if transform is not None:
            check_choice(transform, "transform", ("default", "pandas", "polars"))
        return self

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Measure the scales of signals.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a table of numbers, or a list of signals (n_channels, n_timepoints_i).
        y : object, optional
            Ignored.

        Returns
        -------
        View
            The view itself.

        Raises
        ------
        ValueError
            For wrong parameters, missing values, and signals that the view cannot take.
        """
        with fitting(self) as fresh:
            signals = read_signals(fresh, X, reset=True)
            fresh._fitted, _ = self.resolve(signals).measure(signals, np.ones(len(signals)))
        return self

    def transform(self, X: ArrayLike) -> Signals:
        """Return signals as the network sees them: more channels, fewer points.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, of as many channels and, but for lists, time points.

        Returns
        -------
        ndarray, (n_cases, n_seen_channels, n_points), or a list of (n_seen_channels, n_points_i)
            Numbers without unit.

        Raises
        ------
        ValueError
            For signals of another shape, and for values beyond float64 in units of `fit`.
        NotFittedError
            Before `fit`.
        """
        signals = read_signals(self, X)
        return self._fitted.see(signals)

    def refusal(self, X: Signals) -> str:
        """Return why signals cannot have the view.

        Parameters
        ----------
        X : ndarray, (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i)
            Checked signals.

        Returns
        -------
        str
            Empty if they can have it.

        Raises
        ------
        ValueError
            For wrong parameters.
        """
        view = self._checked()
        in_common = view.head != "gap" or view.standardize == "point" or view.linear
        if isinstance(X, list) and in_common:
            return "signals of different lengths have the head 'gap', and no time points in common"
        of_time = view.differences == "only" or view.spectra == "whole" or view.bands
        if longest(X) == 1 and (of_time or view.standardize in ("signal", "local")):
            return "one time point has no differences, no spectrum and no deviation"
        return ""

    def resolve(self, X: Signals) -> ResolvedView:
        """Return the steps that signals go through, and the network that sees them.

        Parameters
        ----------
        X : ndarray, (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i)
            Checked signals.

        Returns
        -------
        ResolvedView
            Its steps are not measured yet. Views that do the same with the signals are equal.

        Raises
        ------
        ValueError
            For wrong parameters, and signals that the view cannot take.
        """
        if reason := self.refusal(X):
            raise ValueError(f"X cannot have {self!r}: {reason}")
        view, length = self._checked(), longest(X)
        seen = max(1, length // 2) if view.spectra == "whole" else length
        block = -(-seen // view._most_points(len(X), seen))
        n_points = -(-seen // block)
        largest = n_points - (n_points % 2 == 0)  # filters have odd sizes
        network = Network(
            view.depth, min(view.filter_size, largest),
            input_filter_size=min(view.input_filter_size, largest),
        )  # fmt: skip
        steps = view._steps(block, n_points, length)
        head = pooled_head(view.head, (n_points,))
        kernel = LinearKernel() if view.linear else NetworkKernel(network, head)
        return ResolvedView(kernel, n_points, tuple(steps))

    def _checked(self) -> View:
        """Return the view with flags of Python; refuse wrong settings."""
        view = replace(
            self, differences=_flag_or_word(self.differences, "differences", "only"),
            spectra=_flag_or_word(self.spectra, "spectra", "whole"),
            statistics=check_flag(self.statistics, "statistics"),
            standardize=check_choice(self.standardize, "standardize", _STANDARDIZE),
            time=check_nonnegative(self.time, "time"),
            linear=check_flag(self.linear, "linear"), head=check_head(self.head),
        )  # fmt: skip
        if view.bands is not None:
            check_choice(view.bands, "bands", _BANDS)
        if isinstance(self.length, str):
            check_choice(self.length, "length", _LENGTHS)
        else:
            check_positive_integer(self.length, "length")
        Network(self.depth, self.filter_size, input_filter_size=self.input_filter_size)  # checks
        if view.linear:
            view._check_others("linear", set(vars(view)) - _OF_LINEAR)
        if view.bands:
            view._check_others("bands", {"differences", "spectra"})
        return view

    def _check_others(self, of: str, names: set[str]) -> None:
        """Raise a ValueError if a view with the setting `of` changes others that it excludes."""
        for name in sorted(names):
            value, expected = getattr(self, name), getattr(View(), name)
            if value != expected:
                kind = f"{of}={getattr(self, of)!r}"
                raise ValueError(f"{name} is {shown(value)}, expected {expected!r} with {kind}")

    def _most_points(self, n: int, length: int) -> int:
        """Return the largest number of points that the network sees of n signals."""
        if self.length == "all":
            return length
        if self.length == "fine":
            least, most = _FINE
            return min(most, max(least, 2 ** int(math.log2(_FINE_WORK / n))))
        return int(self.length)

    def _steps(self, block: int, n_points: int, length: int) -> Iterator[Step]:
        """Yield the steps to blocks of points, or of frequencies, and to what is added to them.

        The longest signal has `length` points, and `n_points` blocks.
        """
        yield Unit()
        if self.standardize in ("signal", "local"):
            yield SignalScale()
        if self.standardize == "local":
            yield LocalScale()
            yield SignalScale()
        blocks = Statistics(block) if self.statistics and block > 1 else Blocks(block)
        scale = StatisticsScale() if isinstance(blocks, Statistics) else ChannelScale()
        if self.bands:
            yield Bands(self.bands, Bands.octaves_of(length), blocks)
            scale = scale if isinstance(blocks, Statistics) else BandScale()
        elif self.spectra == "whole":
            yield WholeSpectrum(blocks)
        elif self.spectra and block > 1:
            yield ShortTimeSpectra(block)
            scale = CommonScale()
        elif block > 1:
            yield blocks
        yield scale
        if self.differences and n_points > 1:
            yield Differences(self.differences)
        if self.standardize == "point":
            yield PointScale(least=0.0) if self.linear else PointScale()
        yield Level()
        if self.time:
            yield Time(self.time)


FAST = (
    View(bands="rectified", standardize="local", length="fine"),
    View(linear=True, standardize="point", length="all"),
    View(linear=True, standardize="channel", length="all"),
    View(differences=True, time=1.0, standardize="channel"),
    View(differences="only", statistics=True, time=1.0, standardize="channel", length=32),
    View(spectra=True, filter_size=3, length=32),
    View(filter_size=3, length=32),
    View(differences="only", standardize="point", head="trace", length=2048),
    View(spectra="whole", filter_size=3, head="trace", length=512),
    View(spectra="whole", statistics=True, time=1.0, filter_size=3, length=32),
    View(spectra=True, filter_size=3, head="trace", length=32),
)
"""Views of ``views="fast"``. Chosen by accuracy and log loss on sets for choosing of
`benchmarks/ucr.py` and on thirteen sets more, and on smaller sets and simulated machines, with
noise and without."""

DEFAULT = (
    *FAST,
    View(bands="rectified", time=1.0),
    View(bands="signs", time=1.0),
    View(differences="only", length="fine"),
    View(differences="only", filter_size=3, input_filter_size=9),
    View(differences=True, statistics=True, standardize="channel"),
)
"""Views of ``views="default"``, of the classifier."""

FOR_TARGETS = (*DEFAULT, View(linear=True, differences=True, standardize="point"))
"""Views of ``views="default"``, of the regressor. The means over blocks of the last one leave out
the noise of spectra, whose ends may have little else."""

MANY = (
    replace(FAST[3], length=32),
    *FAST[4:6],
    View(spectra=True, time=1.0, standardize="channel", filter_size=3, length=32),
    *FAST[7:],
)
"""Views of both names for many signals; with them a fit takes two fifths of that of `FAST`."""


def _flag_or_word(value: object, name: str, *words: str) -> bool | str:
    """Return `value`, a Python or NumPy boolean or one of the words, as a bool or as the word."""
    if isinstance(value, str) and value in words:
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(
        f"{name} is {shown(value)}, expected True, False or {' or '.join(map(repr, words))}"
    )
