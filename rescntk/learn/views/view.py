"""Views: how signals are prepared for a network, and the network that sees them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from ...checks.messages import shown
from ...checks.values import (
    check_choice,
    check_flag,
    check_nonnegative,
    check_positive_integer,
)
from ...engines.heads import check_head, pooled_head
from ...network import Network
from ...network.parameters import check_filter_size
from ..reading.signals import Signals, longest_length
from .bands import Bands, LocalScale
from .covariances import Covariances
from .kernels import LinearKernel, NetworkKernel, ViewKernel
from .pipeline import ViewPipeline
from .steps import (
    Blocks,
    BlockStep,
    ConstantAndTime,
    ConstantChannel,
    Differences,
    PointScale,
    ShortTimeSpectra,
    SignalScale,
    Statistics,
    Step,
    WholeSpectrum,
)

_NETWORK_PARAMETERS = ("depth", "filter_size", "input_filter_size")
"""Parameters of `View` that are also those of `Network`."""

_ALLOWED = {
    "linear": {"differences", "standardize", "length"},
    "covariances": {"standardize", "depth", "network"},
}
"""For some parameters of `View`, the only others that may be given beside them."""

_EXCLUDED = {
    "bands": {"differences", "spectra"},
    "network": {*_NETWORK_PARAMETERS},
}
"""For some parameters of `View`, others that must have their defaults beside them."""

_FINE_POINTS = (64, 512)
"""Least and largest number of points of views with ``length="fine"``. For signals of many channels
the least number is half as large."""

_FINE_PRODUCT = 25_600
"""Points times signals that views with ``length="fine"`` have at most, unless they have the least
number of points. For signals of many channels it is divided by `channel_factor`."""

_FEW_CHANNELS = 10
"""Number of channels up to which kernels take no more time than for one channel."""

T = TypeVar("T")


def channel_factor(X: Signals) -> float:
    """Return how many times as long the kernels of signals take as those of few channels."""
    return max(1.0, len(X[0]) / _FEW_CHANNELS)


def _parameter(default: T, check: Callable[[Any, str], Any]) -> T:
    """Declare a parameter of `View`, with the check of its value and name."""
    return field(default=default, metadata={"check": check})


def _flag_or(word: str) -> Callable[[object, str], bool | str]:
    """Return a check for booleans of Python or NumPy, and a word."""

    def check(value: object, name: str) -> bool | str:
        if isinstance(value, str) and value == word:
            return value
        if isinstance(value, bool | np.bool_):
            return bool(value)
        raise ValueError(f"{name} is {shown(value)}, expected True, False or {word!r}")

    return check


def _one_of(*words: str) -> Callable[[object, str], str]:
    """Return a check for one of several words."""
    return lambda value, name: check_choice(value, name, words)


def _none_or(check: Callable[[object, str], T]) -> Callable[[object, str], T | None]:
    """Return a check that takes None too."""
    return lambda value, name: None if value is None else check(value, name)


def _check_length(value: object, name: str) -> str | int:
    """Return a number of points, or a word that stands for one."""
    if isinstance(value, str):
        return check_choice(value, name, ("all", "fine"))
    return check_positive_integer(value, name)


def _check_network(value: object, name: str) -> Network:
    """Return the value if it is a network."""
    if not isinstance(value, Network):
        raise ValueError(f"{name} is {shown(value)}, expected a rescntk.Network or None")
    return value


def _with_filters_up_to(largest: int, network: Network) -> Network:
    """Return a network whose filters have the size `largest` at most."""
    sizes: dict[str, int | tuple[int, ...]] = {}
    for name in ("filter_size", "outer_filter_size", "input_filter_size"):
        size = getattr(network, name)
        is_per_layer = isinstance(size, tuple)
        sizes[name] = tuple(min(k, largest) for k in size) if is_per_layer else min(size, largest)
    return network.replace(**sizes)


class UnsuitableSignals(ValueError):
    """An error for signals that cannot have a view. Its `args` are the view and the reason."""

    @property
    def reason(self) -> str:
        """Why the signals cannot have the view."""
        return str(self.args[1])

    def __str__(self) -> str:
        return f"X cannot have {self.args[0]!r}: {self.reason}"


@dataclass(frozen=True, repr=False, kw_only=True)
class View:
    """A view: how signals are prepared for a network, and the network that sees them.

    A view cannot be changed; the function replace of Python's module dataclasses returns another
    one. `ViewTransformer` shows what the network sees. The signals go through these steps in order:

    1. each signal's own scale (`standardize="signal"`, or "local")
    2. spectra, bands, covariances or blocks
    3. the scale of channels
    4. differences
    5. the scale of time points (`standardize="point"`)
    6. a constant channel, which is always added and whose value is the root mean square of all
       others, and two channels of time (`time`)

    Before these steps, all signals are divided by one power of two if their squares leave float64.

    Parameters
    ----------
    differences : bool or "only", default False
        Whether central differences of each channel along time are added as channels, or, with
        "only", take the channels' place.
    spectra : bool or "whole", default False
        Whether short-time spectra of the blocks or, with "whole", the spectrum of the whole signal
        take the place of the signals. The network sees the square roots of magnitudes.
    bands : {"rectified", "magnitudes", "signs"}, optional
        Whether bands of an octave take the place of the signals, at the signals' own resolution. A
        band b is the difference of two smoothings by Gaussians, whose deviations go from 0.7 points
        to an eighth of the longest signal. Blocks then average max(b, 0) and max(−b, 0)
        ("rectified"), or the absolute value of b ("magnitudes"), or whether b is above −1, −0.3,
        0.3 and 1 of its deviations ("signs"), and so keep detail that blocks of the signals lose.
        Views of bands have no differences and no spectra.
    covariances : bool, default False
        Whether logarithms of covariances of channels take the place of the signals: covariances of
        the signal and of up to four bands of an octave, each whitened by the mean covariance in
        `fit` and shrunk towards it by a fifth. The network sees one point. If there are more than
        32 channels, only the 32 directions with the largest variance are used. Views of covariances
        take only `standardize`, `depth` and `network`: ``standardize="channel"`` keeps what the
        energies of channels show.
    statistics : bool, default False
        Whether the deviation, minimum and maximum of each block are added to its mean, as channels.
    standardize : {"signal", "local", "channel", "point"}, default "signal"
        Over what signals are standardized: a mean is subtracted, and the difference is divided by a
        deviation. "signal": over each channel of each signal, and then over each channel of all
        signals; "local": the same, with local means and deviations in between; "channel": over each
        channel of all signals; "point": over each channel of all signals, and then over each time
        point of all signals.
    time : float, default 0.0
        Scale of two channels that show the relative time, as the points of a half circle. If it is
        0, there are none. With the head "gap", 1 lets the network see at which time a pattern is.
    length : int, "all" or "fine", default 64
        Maximum number of points that the network sees of the signals given to `fit`. Longer signals
        are averaged over blocks, whose length `fit` sets: new signals of a list that are longer
        than all in `fit` have more points. Signals that are not longer have neither short-time
        spectra nor statistics. "all" stands for no maximum. "fine" stands for 25,600/n points if
        `fit` has n signals, rounded down to a power of two, but for 64 points at least and 512 at
        most. So the kernel matrix of a GAP view takes about the same time for 50 to 400 signals.
        With c > 10 channels, which take longer, "fine" stands for 256,000/(c n) points, rounded in
        the same way, but for 32 points at least and 512 at most.
    linear : bool, default False
        Whether the kernel is the inner product of all points, in place of a network's kernel. Ridge
        regression on it is ridge regression on the points. Linear views take only `differences`,
        `standardize` and `length`. Their time points, standardized by ``"point"``, have deviation 1
        however little they vary.
    filter_size : int, default 9
        Size of the network's inner and outer filters, an odd number. It is cut to the number of
        points.
    input_filter_size : int, default 1
        Size of the network's first filter, an odd number. It is cut to the number of points.
    head : {"gap", "trace", "equivariant"} or int, default "gap"
        The readout, as for `rescntk.Kernel`: an integer counts points that the network sees.
    depth : int, default 2
        Number of residual layers of the network. Deeper networks see longer patterns, and take more
        time.
    network : Network, optional
        The network that sees the signals. `depth`, `filter_size` and `input_filter_size` must then
        have their defaults. Its filters are cut to the number of points too.

    Raises
    ------
    ValueError
        For values that a parameter does not take, by itself or beside those of other parameters.

    Notes
    -----
    Views of the same parameters are equal, and have the same hash.

    Short-time spectra take the place of statistics too: `statistics` then changes nothing.

    Some views refuse lists of signals of different lengths, or signals of a single time point. The
    error says what the signals lack. Differences that are added to channels, short-time spectra and
    statistics are left out if all signals have a single time point. Among longer signals, a signal
    of a single time point is taken as constant.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import Network
    >>> from rescntk.learn import View, ViewTransformer
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 200))
    >>> view = View(differences=True, time=1.0, length=50, network=Network(3, norm=True))
    >>> ViewTransformer(view).fit_transform(X).shape
    (20, 7, 50)
    """

    differences: bool | str = _parameter(False, _flag_or("only"))
    spectra: bool | str = _parameter(False, _flag_or("whole"))
    bands: str | None = _parameter(None, _none_or(_one_of(*Bands.KINDS)))
    covariances: bool = _parameter(False, check_flag)
    statistics: bool = _parameter(False, check_flag)
    standardize: str = _parameter("signal", _one_of("signal", "local", "channel", "point"))
    time: float = _parameter(0.0, check_nonnegative)
    length: int | str = _parameter(64, _check_length)
    linear: bool = _parameter(False, check_flag)
    filter_size: int = _parameter(9, check_filter_size)
    input_filter_size: int = _parameter(1, check_filter_size)
    head: str | int = _parameter("gap", lambda value, _: check_head(value))
    depth: int = _parameter(2, check_positive_integer)
    network: Network | None = _parameter(None, _none_or(_check_network))  # noqa: RUF009

    def __post_init__(self) -> None:
        """Check the parameters, and keep them as their checks return them."""
        for f in fields(self):
            object.__setattr__(self, f.name, f.metadata["check"](getattr(self, f.name), f.name))
        names = {f.name for f in fields(self)}
        excluded = {name: names - {name} - allowed for name, allowed in _ALLOWED.items()}
        for name, others in (excluded | _EXCLUDED).items():
            if getattr(self, name):
                self._check_defaults(others, name)

    def _check_defaults(self, others: set[str], name: str) -> None:
        """Raise a ValueError if one of the `others` does not have its default beside `name`."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in others and value != f.default:
                raise ValueError(
                    f"{f.name} is {shown(value)}, expected {f.default!r} with "
                    f"{name}={getattr(self, name)!r}"
                )

    def __repr__(self) -> str:
        """Return the call that makes the view, without parameters that have their defaults."""
        changed = (f.name for f in fields(self) if getattr(self, f.name) != f.default)
        return f"View({', '.join(f'{name}={getattr(self, name)!r}' for name in sorted(changed))})"

    def pipeline(self, X: Signals) -> ViewPipeline:
        """Return the steps that checked signals go through, and the network that sees them.

        Nothing is fitted yet: `ViewPipeline.fit_and_transform` does that, and needs signals whose
        squares are in float64. Views that do the same with the signals have equal pipelines.
        Signals that the view cannot take raise `UnsuitableSignals`, a ValueError.
        """
        to_blocks = self._to_blocks(X)
        n_points = to_blocks.n_points_after(longest_length(X))
        steps = tuple(self._steps(to_blocks, n_points))
        if reason := self._refusal(X, steps):
            raise UnsuitableSignals(self, reason)
        return ViewPipeline(self._kernel(n_points), n_points, steps)

    def _refusal(self, X: Signals, steps: Sequence[Step]) -> str:
        """Return why signals cannot have the view with these steps; an empty text if they can."""
        if isinstance(X, list) and self.head != "gap":
            return "signals of different lengths have the head 'gap' alone"
        if isinstance(X, list) and self.linear:
            return "signals of different lengths have no inner product"
        n_before = longest_length(X)
        for step in steps:
            if isinstance(X, list) and step.reason_against_lists:
                return step.reason_against_lists
            if n_before == 1 and step.reason_against_one_point:
                return step.reason_against_one_point
            n_before = step.n_points_after(n_before)
        return ""

    def _kernel(self, n_points: int) -> ViewKernel:
        """Return the kernel of signals that have this number of points in the view."""
        if self.linear:
            return LinearKernel()
        network = self.network
        if network is None:
            network = Network(
                self.depth, self.filter_size, input_filter_size=self.input_filter_size
            )
        largest = n_points - (n_points % 2 == 0)  # filters have odd sizes
        return NetworkKernel(
            _with_filters_up_to(largest, network), pooled_head(self.head, (n_points,))
        )

    def _most_points(self, X: Signals, n_before: int) -> int:
        """Return the maximum number of points that the network sees of signals X.

        Before blocks they have `n_before` points, or frequencies.
        """
        if self.length == "all":
            return n_before
        if self.length == "fine":
            least, most = _FINE_POINTS
            factor = channel_factor(X)
            points = _FINE_PRODUCT / (len(X) * factor)
            return min(most, 2 ** int(math.log2(max(least if factor == 1 else least // 2, points))))
        return int(self.length)

    def _steps(self, to_blocks: BlockStep, n_points: int) -> Iterator[Step]:
        """Yield the steps in their order.

        The step `to_blocks` makes the `n_points` of the longest signal that the network sees.
        """
        if self.standardize in ("signal", "local"):
            yield SignalScale()
        if self.standardize == "local":
            yield LocalScale()
            yield SignalScale()
        if to_blocks != Blocks(1):  # blocks of one point change nothing
            yield to_blocks
        yield to_blocks.channel_scale()
        only_differences = self.differences == "only"
        if only_differences or (self.differences and n_points > 1):
            yield Differences(only=only_differences)
        if self.standardize == "point":
            yield PointScale(least_ratio=0.0) if self.linear else PointScale()
        yield ConstantAndTime(radius_factor=self.time) if self.time else ConstantChannel()

    def _to_blocks(self, X: Signals) -> BlockStep:
        """Return the step from signals X to blocks of time points, or of frequencies."""
        length = longest_length(X)
        if self.covariances:
            return Covariances(length, Covariances.n_octaves_of(length))
        n_before = WholeSpectrum.n_frequencies_of(length) if self.spectra == "whole" else length
        block_length = -(-n_before // self._most_points(X, n_before))
        has_statistics = self.statistics and block_length > 1
        blocks = Statistics(block_length) if has_statistics else Blocks(block_length)
        if self.bands:
            return Bands(self.bands, Bands.n_octaves_of(length), blocks)
        if self.spectra == "whole":
            return WholeSpectrum(blocks)
        if self.spectra and block_length > 1:
            return ShortTimeSpectra(block_length)
        return blocks
