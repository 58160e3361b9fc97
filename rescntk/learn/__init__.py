"""The kernels as scikit-learn estimators: signals in, predictions out.

Import `rescntk.learn.aeon` for the estimators of aeon.
"""

from __future__ import annotations

# reading/: what users give, checked. views/: what a network sees. ensemble/: a regression for each
# view, their weights, and results of cases left out. early/: labels before a signal's end.
# What users call: the files below, and aeon.py.
from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from ..checks.messages import LeftOutWarning, SignalsWarning
from .classifier import ResidualKernelClassifier
from .early.early import EarlyClassifier
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
