"""Signals, views and a mark that several tests of this folder share."""

import numpy as np
import pytest

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from rescntk.learn.views.defaults import CLASSIFIER_VIEWS, COVARIANCES

ignores_scores = pytest.mark.filterwarnings("ignore:left_out_score_")
"""For tests whose labels or targets the signals do not tell, as a warning then says."""

ONE_VIEW = {"views": [View(standardize="channel", filter_size=3)], "dtype": "float64"}
"""Parameters of an estimator of one view."""

TRACE_VIEW = {"views": [View(head="trace", standardize="point")], "dtype": "float64"}
"""Parameters of an estimator that tells the time points of signals apart."""


def classifier():
    """Return a new classifier that tells time points apart."""
    return ResidualKernelClassifier(**TRACE_VIEW)


def regressor():
    """Return a new regressor that tells time points apart."""
    return ResidualKernelRegressor(**TRACE_VIEW)


OPTIONS = {"engine": "auto", "dtype": "float64", "threads": None}
"""Options with which a view's kernel is computed."""

FOUR_VIEWS = {
    "views": [
        View(standardize="channel", filter_size=3, depth=1),
        View(differences=True, time=1.0, head="trace"),
        View(spectra=True, length=8, filter_size=3),
        View(differences="only", standardize="point", statistics=True, length=9),
    ],
    "dtype": "float64",
}
"""Parameters of an estimator of four views."""


BANDS = [
    View(bands="rectified", time=1.0),
    View(bands="rectified", standardize="local"),
    View(bands="magnitudes", standardize="channel"),
    View(bands="signs", head="trace"),
    View(bands="rectified", statistics=True),
]
LINEAR = [
    View(linear=True, length="all", standardize="point"),
    View(linear=True, differences=True, standardize="channel"),
]
EVERY_STEP = [
    *CLASSIFIER_VIEWS,
    *BANDS,
    *LINEAR,
    View(standardize="point"),
    View(statistics=True),
    View(spectra="whole", differences=True, filter_size=3),
    View(covariances=True),
    COVARIANCES,
]
"""Views that have every step at least once."""


def waves(rng, n, classes, length=24, channels=1):
    """Return sines with one frequency for each class, random phases and noise; and labels."""
    labels = np.arange(n) % classes
    frequency = 0.4 + 0.5 * labels[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (n, channels, 1))
    X = np.sin(np.arange(length) * frequency + phase)
    return X + 0.1 * rng.standard_normal(X.shape), labels


def beginnings(rng, n, classes=2, channels=1):
    """Return waves of 32 time points that begin somewhere in the first 22, after noise."""
    X, y = waves(rng, n, classes, length=32, channels=channels)
    for signal, start in zip(X, rng.integers(8, 22, n), strict=True):
        signal[:, :start] = 0.3 * rng.standard_normal((channels, start))
    return X, y
