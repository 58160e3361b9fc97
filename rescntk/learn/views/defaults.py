"""The views that estimators have where none are given.

Views were chosen by accuracy and log loss on the sets for choosing of `benchmarks/ucr.py`, on
thirteen more sets, and on smaller sets and simulated machines, with noise and without.
"""

from __future__ import annotations

from dataclasses import replace

from .view import View

MANY_SIGNALS = 1000
"""More signals than this have `VIEWS_OF_MANY_SIGNALS`, and some of them are landmarks."""

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
"""Views of ``views="fast"``."""

CLASSIFIER_VIEWS = (
    *FAST_VIEWS,
    View(bands="rectified", time=1.0),
    View(bands="signs", time=1.0),
    View(differences="only", length="fine"),
    View(differences="only", filter_size=3, input_filter_size=9),
    View(differences=True, statistics=True, standardize="channel"),
)
"""Views of ``views="default"`` of the classifier."""

REGRESSOR_VIEWS = (
    *CLASSIFIER_VIEWS,
    View(linear=True, differences=True, standardize="point"),
)
"""Views of ``views="default"`` of the regressor. The last one has means over blocks:
they have little of the noise of recorded spectra, whose ends may have nothing else."""

VIEWS_OF_MANY_SIGNALS = (
    replace(_CHANNELS, length=32),
    _STATISTICS,
    _SPECTRA,
    View(spectra=True, time=1.0, standardize="channel", filter_size=3, length=32),
    _DIFFERENCES_AT_TIMES,
    _SPECTRUM_AT_FREQUENCIES,
    _SPECTRUM,
    _SPECTRA_AT_TIMES,
)
"""Views of both names for many signals: a fit takes two fifths of the time of `FAST_VIEWS`."""
