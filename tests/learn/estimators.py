"""Estimators that scikit-learn's checks are run on."""

from rescntk import learn

VIEWS = [learn.View(head="trace", standardize="point", filter_size=3, depth=1)]

ESTIMATORS = [
    learn.KernelMatrix(learn.SignalKernel(depth=1, kind="gpk", head="trace")),
    learn.LandmarkFeatures(),
    learn.ResidualKernelClassifier(VIEWS, class_weight="balanced"),
    learn.ResidualKernelRegressor(VIEWS),
    learn.EarlyClassifier(learn.ResidualKernelClassifier(VIEWS), n_prefixes=2),
]
