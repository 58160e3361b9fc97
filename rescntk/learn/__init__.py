"""The kernels as scikit-learn estimators: signals in, predictions out.

Import `rescntk.learn.aeon` for the estimators of aeon.
"""

from __future__ import annotations

# reading/ checks what users give, views/ has what networks see, ensemble/ the regressions of views,
# and early/ labels before a signal's end. Users call the classes imported below, and aeon.py.
#
# `fit` of the classifier: `read_cases` returns the different signals, and `targets_of_classes` the
# targets ±1. `fit_ensemble` then calls
# - `chosen_views` and `draw_landmarks`, as a budget of work allows;
# - `fit_view` for each view: ridge regression on its kernel, and errors of cases left out;
# - `overall_weights`, which weighs the views by these errors.
# `calibrate` chooses how averaged decisions become probabilities.
#
# `predict_proba`: `Ensemble.results` returns decisions of views, weighted at each signal by its
# novelty, and `Calibration` the probabilities.
from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from ..checks.messages import LeftOutWarning, SignalsWarning
from .classifier import ResidualKernelClassifier
from .early.early_classifier import EarlyClassifier
from .regressor import ResidualKernelRegressor
from .signal_kernel import SignalKernel
from .transformers import KernelMatrix, LandmarkFeatures, ViewTransformer
from .views.view import View

__all__ = [
    "EarlyClassifier",
    "KernelMatrix",
    "LandmarkFeatures",
    "LeftOutWarning",
    "ResidualKernelClassifier",
    "ResidualKernelRegressor",
    "SignalKernel",
    "SignalsWarning",
    "View",
    "ViewTransformer",
]
