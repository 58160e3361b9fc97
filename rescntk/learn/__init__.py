"""The kernels as scikit-learn estimators: signals in, predictions out.

Import `rescntk.learn.aeon` for the estimators of aeon.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from .classifier import ResidualKernelClassifier
from .early import EarlyClassifier
from .kernel import SignalKernel
from .regressor import ResidualKernelRegressor
from .transformers import KernelMatrix, LandmarkFeatures
from .views import View

__all__ = [
    "EarlyClassifier",
    "KernelMatrix",
    "LandmarkFeatures",
    "ResidualKernelClassifier",
    "ResidualKernelRegressor",
    "SignalKernel",
    "View",
]
