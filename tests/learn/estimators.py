"""Estimators that scikit-learn's checks are run on, and the fitted views of a model."""

from rescntk import learn

VIEWS = [learn.View(head="trace", standardize="point", filter_size=3, depth=1)]

ESTIMATORS = [
    learn.KernelMatrix(learn.SignalKernel(depth=1, kind="gpk", head="trace")),
    learn.LandmarkFeatures(),
    learn.ResidualKernelClassifier(VIEWS, class_weight="balanced"),
    learn.ResidualKernelRegressor(VIEWS),
    learn.ViewTransformer(VIEWS[0]),
    learn.EarlyClassifier(learn.ResidualKernelClassifier(VIEWS), n_prefixes=2),
]


def fitted_views(model):
    """Return the views of a fitted model that have weight, as `ViewRegression`."""
    return model._ensemble.views
