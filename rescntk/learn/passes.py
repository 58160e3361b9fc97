"""Passes: each is a view of the signals and the kernels of a network that sees them.

`plan` lists the passes that an estimator averages over, in the order of their value for time.
`affordable` and `in_time` leave passes out, by the work or by a limit in seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from ..kernels import gram, gram_again, prepare
from ..kernels.call import mean_of_kernels
from ..kernels.gradients import Gradients, mean_gradients
from ..kernels.pixels import gram_shares
from ..kernels.prepared import PreparedSignals
from ..network import Network
from ..validation import check_integer
from .views import (
    EACH,
    ONLY,
    POINT,
    WHOLE,
    Signals,
    View,
    block_size,
    lengths,
    longest_side,
    moderate_exponent,
    seen_length,
    take,
)

PLAN: tuple[dict[str, Any], ...] = (
    {"first_differences": True, "time_scale": 1.0},
    {"first_differences": ONLY, "block_statistics": True, "time_scale": 1.0, "max_length": 32},
    {"spectra": True, "standardize": EACH, "filter_size": 3, "max_length": 32},
    {"spectra": True, "time_scale": 1.0, "filter_size": 3, "max_length": 32},
    {"standardize": EACH, "filter_size": 3, "max_length": 32},
    {"first_differences": ONLY, "standardize": POINT, "head": "trace", "max_length": 2048},
    {"spectra": WHOLE, "standardize": EACH, "filter_size": 3, "head": "trace", "max_length": 512},
    {
        "spectra": WHOLE,
        "standardize": EACH,
        "block_statistics": True,
        "time_scale": 1.0,
        "filter_size": 3,
        "max_length": 32,
    },
    {"spectra": True, "standardize": EACH, "filter_size": 3, "head": "trace", "max_length": 32},
    {"first_differences": ONLY, "standardize": EACH, "filter_size": 3, "input_filter_size": 9},
    {"first_differences": True, "block_statistics": True},
    {"first_differences": ONLY, "filter_size": 3, "input_filter_size": 9, "max_length": 32},
    {"first_differences": ONLY, "filter_size": 3, "input_filter_size": 9, "max_length": 128},
)
"""Views and networks of the passes, by value for time; `COMMON` has the other settings.

Chosen of 63 passes (classification_tried.md) by accuracy on the 14 sets for choosing of
`benchmarks/ucr.py`, on the eight sets of `benchmarks/classification.py` without noise and with
noise of .1, and on simulated machines. One pass after another was added, and passes were exchanged
as long as it helped."""

IMAGE_PLAN: tuple[dict[str, Any], ...] = (
    {"first_differences": True, "time_scale": 1.0},
    {},
    {"filter_size": 5},
)
"""Passes over images, by value for time; `_COMMON_OF_IMAGES` has the other settings.

Chosen as in `PLAN`, of 24 passes on three random halves of half of scikit-learn's digits (8 × 8,
100 training images): mean accuracies .948, .950 and .953. Fourth passes took some back."""

EFFORTS = {"fast": 9, "default": 11, "thorough": len(PLAN)}
"""Number of passes of each effort, from the start of `PLAN`. Raising it takes more time. Measured
where `PLAN` was chosen: the time is 1 : 1.7 : 2.8, mean accuracy .883, .893 and .893, and on the
eight sets with noise of .1 .891, .884 and .893."""

COMMON: dict[str, Any] = {
    "max_length": 64,
    "block_statistics": False,
    "spectra": False,
    "standardize": True,
    "first_differences": False,
    "constant": True,
    "time_scale": 0.0,
    "filter_size": 9,
    "input_filter_size": 1,
    "dilation": 1,
    "head": "gap",
}
"""Settings of the passes of `PLAN` that a pass does not name."""

_COMMON_OF_IMAGES = COMMON | {"max_length": 16, "filter_size": 3}
"""The same of `IMAGE_PLAN`: GAP takes 16 × 16 pixels squared for each pair of images."""

_AFFORDABLE = {"fast": 3e6, "default": 5.5e6}
"""Pixel pairs times layers that the passes of an effort may cost for each signal. A pass that would
exceed it is left out. Raising it averages more passes over many signals. Measured on seven sets of
362 to 500 training signals: without the tenth pass, which 5.5e6 leaves out there, mean accuracy is
.784, with it .785."""

_OF_A_PAIR = {"fast": 0.0, "default": 18e3}
"""The same for each pair of signals, if it is more: from 600 signals on. Raising it averages more
passes over many signals. Chosen: thousands of signals have the passes of 600."""

_SHORTENED = {"fast": 3e6, "default": 4e7}
"""Pixel pairs times layers that the first passes may cost for each signal; beyond it signals are
shortened. Raising it takes more time. Measured on digits (8 × 8) with "default", 1000 training
images: accuracy .97 with 4e7, .91 with 5.5e6."""

_MOST = 5e11
"""The most of these for all signals together. Raising it lets "default" take longer than ten
minutes."""

_ALWAYS = 3
"""Passes that are always made, whatever they cost: signals with differences and time, differences
with block statistics, and short-time spectra. Raising it costs time with many signals. Chosen as
the least number that sees slow and fast changes, and time."""

_ALL_LANDMARKS = 1000
"""Most signals for which all signals are landmarks by default. Raising it takes more time and
memory, in proportion to the square. Measured with "fast" on 300 to 900 signals of three sets: with
half of them as landmarks a fit takes a tenth less, a prediction half, and accuracy falls by 0, .003
and .014; with a quarter a fit takes half, and accuracy falls by .003, .007 and .018."""

_LANDMARKS = 500
"""Default number of landmarks of more signals. Raising it is more accurate and takes more time.
Chosen so that 20000 signals of 100 time points take minutes on two cores."""

_SHORTER = (1, 2, 4, 8)
"""Factors by which many signals are shortened until the first passes are affordable. A factor of 2
takes a quarter of the time. Chosen: eighths of 128 time points are short already."""

_TRIED = 4e7
"""Pixel pairs times layers of a first try, by which the time of all passes is estimated. Raising
it makes the estimate better and later. Chosen: some 80 ms; of 10 ms estimates were 3 times off."""

_SECONDS_OF_A_FIT = 0.03
"""Seconds of a fitted pass besides its kernels. Raising it lengthens estimates for few signals.
Measured: 0.01 to 0.07 with 12 to 200 signals of 1 to 6 channels, on two shared cores."""


@dataclass(frozen=True)
class Pass:
    """A view of the signals, and the mean of the normalized kernels of one network, which sees it.

    The mean is over kinds and depths; one recursion gives them all. Its diagonal is 1.
    """

    view: View
    network: Network
    """The deepest network."""
    head: str
    kinds: tuple[str, ...]
    depths: tuple[int, ...]
    """Depths of the networks, which are otherwise the same."""

    def __call__(
        self, X: Signals, Z: Signals | PreparedSignals | None = None, **options: Any
    ) -> np.ndarray:
        """Return the matrix of viewed signals X with Z, or with X; options as for a `Kernel`.

        Prepared signals have the options that they were prepared with.
        """
        matrices: Any
        batches: Any = (X, Z)
        arrays = isinstance(Z, PreparedSignals) and isinstance(Z.batch, np.ndarray)
        if arrays and isinstance(X, np.ndarray):  # views of a list may have one length
            matrices = gram_again(*batches)
        else:
            matrices = gram(self.network, *batches, **self._kernels | options)
        return np.asarray(mean_of_kernels(matrices))

    def prepare(self, Z: Signals, **options: Any) -> PreparedSignals:
        """Return viewed signals for the pass to take as its Z at less cost, with the same bits."""
        return prepare(self.network, Z, **self._kernels, **options)

    def vjp(
        self, X: Signals, Z: Signals | None = None, *, weights: Any, **options: Any
    ) -> Gradients:
        """Return the derivatives of the sum of entries of the matrix times weights, (n, m).

        Weights and `options` are as for `Kernel.vjp`.
        """
        return mean_gradients(self.network, X, Z, weights, **self._kernels, **options)

    def shares(self, X: Signals, Z: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the shares of the points of X in the matrix, (n_cases, m_cases, n_points)."""
        of_kernels = gram_shares(self.network, X, Z, **self._kernels, **options)
        return np.mean([share.mean(axis=0, dtype=np.float64) for share in of_kernels], axis=0)

    @property
    def _kernels(self) -> dict[str, Any]:
        """The arguments that name the kernels of the mean."""
        return {"head": self.head, "kinds": self.kinds, "depths": self.depths, "normalized": True}

    def settings(self) -> dict[str, Any]:
        """Return the settings in which the passes of a plan may differ, by name."""
        values = vars(self.view) | vars(self.network) | vars(self)
        return {name: values[name] for name in COMMON}

    def describe(self) -> str:
        """Return the pass in words."""
        view, network = self.view, self.network
        signals = {False: "signals", True: "signals + differences", ONLY: "differences"}
        parts = [signals[view.first_differences]]
        parts += [f"{view.max_length} points"] * (view.max_length is not None)
        parts += ["block statistics"] * (view.block_statistics and view.spectra is not True)
        parts += ["short-time spectra"] * (view.spectra is True)
        parts += ["whole spectra"] * (view.spectra == WHOLE)
        parts += ["not standardized"] * (not view.standardize)
        parts += ["each standardized"] * (view.standardize == EACH)
        parts += ["time points standardized"] * (view.standardize == POINT)
        parts += [f"time {view.time_scale:g}"] * (view.time_scale > 0)
        parts += [f"filters {network.input_filter_size} and {network.filter_size}"]
        parts += [f"dilation {network.dilation}"] * (network.dilation != 1)
        return ", ".join([*parts, self.head])

    def work(self, X: Signals, n_landmarks: int) -> float:
        """Return the pixel pairs, times layers, of a fit to signals X with some landmarks."""
        n_pairs = _count_pairs(len(X), n_landmarks)
        axes = (float(lengths(X).mean()),) if isinstance(X, list) else X.shape[2:]
        axes = tuple(seen_length(length, self.view.spectra) for length in axes)
        block = block_size(int(max(axes)), self.view.max_length)
        shortened = math.prod(-(-length // block) for length in axes)
        pixel_pairs = shortened * (shortened if self.head == "gap" else 1)
        return n_pairs * pixel_pairs * max(self.depths)


def count_landmarks(landmarks: Any, n: int) -> int:
    """Return the number of landmarks among n signals; n if all signals are landmarks."""
    if landmarks is None:
        landmarks = "all" if n <= _ALL_LANDMARKS else _LANDMARKS
    if isinstance(landmarks, str):
        if landmarks == "all":
            return n
        raise ValueError(
            f"landmarks is {landmarks!r}, expected None, 'all' or an integer of at least 2"
        )
    return min(check_integer(landmarks, "landmarks", at_least=2), n)


def _count_pairs(n: int, n_landmarks: int) -> float:
    """Return the number of pairs of signals whose kernels a fit takes."""
    return n * (n + 1) / 2 if n_landmarks == n else float(n * n_landmarks)


def plan(
    rows: Sequence[Mapping[str, Any]],
    checked: Mapping[str, tuple[Any, ...]],
    X: Signals,
    alpha: float,
    shorter: int = 1,
) -> list[Pass]:
    """Return the passes of some rows, as of `PLAN`, without repetitions.

    Of the values that `check_several` returns, settings take the place of the rows': a pass is made
    with each combination. It has all kinds and depths.
    `shorter` divides the rows' `max_length`. Passes that do not suit the signals are changed, or
    left out: the heads "trace" and "equivariant", and standardized time points, need signals of one
    length.
    """
    length, images, passes = longest_side(X), X[0].ndim == 3, list[Pass]()
    settings = {name: values for name, values in checked.items() if name in COMMON}
    kinds, depths = checked["kind"], checked["depth"]
    for name in ("block_statistics", "spectra") if images else ():
        if any(settings.get(name, ())):
            raise ValueError(f"{name} is True, expected False for images: only signals have it")
    for row in rows:
        planned = (_COMMON_OF_IMAGES if images else COMMON) | dict(row)
        planned["max_length"] = max(1, planned["max_length"] // shorter)
        choices = {name: (value,) for name, value in planned.items()} | settings
        for combination in product(*choices.values()):
            values = dict(zip(choices, combination, strict=True))
            seen = seen_length(length, values["spectra"])
            block = block_size(seen, values["max_length"])
            shortened = -(-seen // block)
            largest = shortened - (shortened % 2 == 0)  # filter, an odd number
            for name in ("filter_size", "input_filter_size"):
                values[name] = min(values[name], largest)
            if block == 1:
                values |= {"block_statistics": False, "max_length": None}
                values["spectra"] = values["spectra"] == WHOLE and WHOLE
            if shortened == 1:
                values["first_differences"] = False
            head = values.pop("head")
            of_places = head != "gap" or values["standardize"] == POINT
            if not (of_places and isinstance(X, list)):
                of_view = {f.name: values.pop(f.name) for f in fields(View) if f.name in values}
                network = Network(max(depths), alpha=alpha, **values)
                passes.append(Pass(View(**of_view), network, head, kinds, depths))
    if not passes:
        raise ValueError(
            f"X has signals of different lengths, and all passes need signals of one length: "
            f"expected a pass with head='gap' and without standardize={POINT!r}"
        )
    return list(dict.fromkeys(passes))


def affordable(
    passes_of: Callable[..., Sequence[Pass]], X: Signals, n_landmarks: int, effort: str
) -> list[Pass]:
    """Return the first three passes, and others that are affordable with them for signals X.

    `passes_of` is `plan` of an effort with all arguments but `shorter`. Where three passes are too
    many, signals are shortened to a half, a quarter or an eighth.
    """
    n, of_a_pair = len(X), _OF_A_PAIR[effort]
    most = min(max(_AFFORDABLE[effort] * n, of_a_pair * _count_pairs(n, n_landmarks)), _MOST)
    for shorter in _SHORTER:
        passes = passes_of(shorter=shorter)
        works = [each_pass.work(X, n_landmarks) for each_pass in passes]
        total = sum(works[:_ALWAYS])
        if total <= min(_SHORTENED[effort] * n, _MOST):
            break
    kept = list(passes[:_ALWAYS])
    for each_pass, work in zip(passes[_ALWAYS:], works[_ALWAYS:], strict=True):
        if total + work <= most:
            total += work
            kept.append(each_pass)
    return kept


def unseen_share(passes: Sequence[Pass], X: Signals) -> float:
    """Return the share of the signals' energy that is faster than the shortest blocks of means.

    Where blocks have b points, means hide all frequencies above 1/(2b). Spectra hide none.
    """
    length = longest_side(X)
    of_time = [p for p in passes if p.head == "gap"] or passes
    block = min(1 if p.view.spectra else block_size(length, p.view.max_length) for p in of_time)
    energy, exponent = np.zeros(2), moderate_exponent(X)
    for x in X if block > 1 else ():
        axes = [np.abs(np.fft.fftfreq(d)) for d in x.shape[1:]]
        frequency = np.maximum.reduce(np.meshgrid(*axes, indexing="ij"))
        powers = np.abs(np.fft.fftn(np.ldexp(x, -exponent), axes=range(1, x.ndim))) ** 2
        energy += powers[:, frequency > 0].sum(), powers[:, frequency > 0.5 / block].sum()
    return float(energy[1] / (energy[0] or 1.0))


def in_time(
    passes: Sequence[Pass],
    X: Signals,
    n_landmarks: int,
    limit: float,
    report: Callable[[str], None] | None,
    options: dict[str, Any],
    n_fits: int = 1,
) -> Iterator[Pass]:
    """Yield the first pass, and the passes that are expected to end within a limit in seconds.

    `report` takes lines of text: the time of all passes, before they start, and each pass. Each
    pass is fitted `n_fits` times.
    """
    start = time.perf_counter()
    works = [each_pass.work(X, n_landmarks) for each_pass in passes]
    if report:
        work_seconds = _seconds_per_work(passes[0], X, options) * sum(works)
        seconds = n_fits * (work_seconds + _SECONDS_OF_A_FIT * len(passes))
        report(f"about {seconds:.2g} s")
    done = 0.0
    for number, (next_pass, work) in enumerate(zip(passes, works, strict=True), 1):
        line = f"[{number}/{len(passes)}] {next_pass.describe()}: "
        begin = time.perf_counter()
        if done and (begin - start) * (1 + work / done) > limit:
            if report:
                report(line + "dropped, out of time")
            continue
        yield next_pass
        done += work
        if report:
            now = time.perf_counter()
            remaining = (now - start) / done * sum(works[number:])
            report(line + f"{now - begin:.1f} s, about {round(remaining, 1):.2g} s left")


def _seconds_per_work(first: Pass, X: Signals, options: dict[str, Any]) -> float:
    """Return the seconds that a pixel pair and layer takes, on a few signals."""
    pairs = _TRIED / first.work(take(X, np.arange(1)), 1)
    few = take(X, np.arange(min(len(X), int(np.sqrt(2 * pairs)) + 2)))
    signals = first.view.fit(few)(few)
    first(signals, **options)  # what these signals need is compiled, or loaded
    begin = time.perf_counter()
    first(signals, **options)
    return (time.perf_counter() - begin) / first.work(few, len(few))
