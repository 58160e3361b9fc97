"""The kernels as scikit-learn estimators: signals in, predictions out.

Import `rescntk.learn.aeon` or `rescntk.learn.sktime` for the estimators of these libraries.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from .classifier import ResidualKernelClassifier
from .drift import DriftWarning
from .kernel import SignalKernel
from .passes import PLAN
from .regressor import ResidualKernelRegressor
from .report import report
from .transformers import KernelMatrix, LandmarkFeatures, SignalScaler

__all__ = [
    "PLAN",
    "DriftWarning",
    "KernelMatrix",
    "LandmarkFeatures",
    "ResidualKernelClassifier",
    "ResidualKernelRegressor",
    "SignalKernel",
    "SignalScaler",
    "report",
]
