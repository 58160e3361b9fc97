"""The views that estimators have by default.

Views were chosen by accuracy and log loss on the sets for choosing of `benchmarks/ucr.py`, on
thirteen more sets, and on smaller sets and simulated machines, with noise and without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .view import View

_BANDS = View(bands="rectified", standardize="local", length="fine")
_LINEAR_POINTS = View(linear=True, standardize="point", length="all")
_LINEAR_CHANNELS = View(linear=True, standardize="channel", length="all")
_CHANNELS = View(differences=True, time=1.0, standardize="channel")
_STATISTICS = View(differences="only", statistics=True, time=1.0, standardize="channel", length=32)
_SPECTRA = View(spectra=True, filter_size=3, length=32)
_SHAPE = View(filter_size=3, length=32)
_DIFFERENCES_AT_TIMES = View(differences="only", standardize="point", head="trace", length=2048)
_SPECTRUM_AT_FREQUENCIES = View(spectra="whole", filter_size=3, head="trace", length=512)
_SPECTRUM = View(spectra="whole", statistics=True, time=1.0, filter_size=3, length=32)
_SPECTRA_AT_TIMES = View(spectra=True, filter_size=3, head="trace", length=32)

_LINEAR_BLOCKS = View(linear=True, differences=True, standardize="point")
_BANDS_AT_TIMES = View(bands="rectified", time=1.0)
_SIGNS_AT_TIMES = View(bands="signs", time=1.0)
_DIFFERENCES = View(differences="only", length="fine")
_WIDE_DIFFERENCES = View(differences="only", filter_size=3, input_filter_size=9)
_STATISTICS_BESIDE = View(differences=True, statistics=True, standardize="channel")

FAST_VIEWS = (
    _BANDS,
    _LINEAR_POINTS,
    _LINEAR_CHANNELS,
    _CHANNELS,
    _STATISTICS,
    _SPECTRA,
    _SHAPE,
    _DIFFERENCES_AT_TIMES,
    _SPECTRUM_AT_FREQUENCIES,
    _SPECTRUM,
    _SPECTRA_AT_TIMES,
)

CLASSIFIER_VIEWS = (
    *FAST_VIEWS,
    _BANDS_AT_TIMES,
    _SIGNS_AT_TIMES,
    _DIFFERENCES,
    _WIDE_DIFFERENCES,
    _STATISTICS_BESIDE,
)

CLASSIFIER_DEFAULTS = {"fast": FAST_VIEWS, "default": CLASSIFIER_VIEWS}
"""Views of the classifier, by the words that its parameter `views` takes."""

REGRESSOR_DEFAULTS = {name: (*views, _LINEAR_BLOCKS) for name, views in CLASSIFIER_DEFAULTS.items()}
"""Views of the regressor. The last one is linear in means over blocks, which average out the noise
of recorded spectra, whose ends may have nothing else."""

COVARIANCES = View(covariances=True, standardize="channel")
"""View that is added to the defaults for signals of several channels. With one channel it would see
the logarithms of the energies of its bands; whether that helps was not measured."""

_SAVINGS: tuple[tuple[View, tuple[View, ...]], ...] = (
    (_STATISTICS_BESIDE, ()),
    (_WIDE_DIFFERENCES, ()),
    (_DIFFERENCES, ()),
    (_SIGNS_AT_TIMES, ()),
    (_BANDS_AT_TIMES, (replace(_BANDS_AT_TIMES, length=32),)),
    (_BANDS, (replace(_BANDS, length=32),)),
    (_CHANNELS, (replace(_CHANNELS, length=32),)),
)
"""Views that cost much work, in the order in which fits to many signals do without them, and the
views that take their place. All together save three quarters of the work of the default views of
long signals of one channel. Accuracies, log losses and times of such fits are in
benchmarks/results/many_signals.md."""


def with_savings(views: Sequence[View]) -> Iterator[tuple[View, ...]]:
    """Yield the views, then fewer and shorter ones, which take less and less work."""
    yield tuple(views)
    for view, substitutes in _SAVINGS:
        if view in views:
            place = views.index(view)
            views = *views[:place], *substitutes, *views[place + 1 :]
            yield views
