"""The kernels as scikit-learn estimators: signals in, predictions out.

Import `rescntk.learn.aeon` for the estimators of aeon.
"""

from __future__ import annotations

# What users give, checked: base.py, inputs.py, tables.py, cases.py, signals.py.
# What a network sees: views.py, steps.py, bands.py, resolved_view.py, view_kernels.py.
# A view's regression: fitted_view.py.
# All views together: estimator.py, default_views.py, view_weights.py, levels.py, blas.py.
# Results of cases left out: left_out.py, calibration.py, stopping.py.
# What users call: the files below, and aeon.py.
from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("rescntk.learn needs scikit-learn: pip install 'rescntk[learn]'")

from .classifier import ResidualKernelClassifier
from .early import EarlyClassifier
from .regressor import ResidualKernelRegressor
from .signal_kernel import SignalKernel
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
