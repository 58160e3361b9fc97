"""Signals in, predictions out: the kernels as scikit-learn's estimators.

`rescntk.learn.aeon` and `rescntk.learn.sktime` hold the same two predictors as aeon and sktime
want them; they are imported on their own.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from .estimators import ResidualKernelClassifier, ResidualKernelRegressor
from .kernel import SignalKernel
from .matrix import KernelMatrix
from .scaler import SignalScaler

__all__ = [
    "KernelMatrix",
    "ResidualKernelClassifier",
    "ResidualKernelRegressor",
    "SignalKernel",
    "SignalScaler",
]
