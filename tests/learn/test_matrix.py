"""KernelMatrix in pipelines and searches."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import KernelMatrix, SignalKernel
from tests.learn.cases import waves


def test_kernel_matrix_in_pipelines(rng):
    X, y = waves(rng, 30, 2)
    kernel = rk.ResCNTK(2, normalized=True)
    K = kernel(X)
    matrix = KernelMatrix(kernel)
    assert (matrix.fit_transform(X) == K).all()
    assert (matrix.transform(X[:3]) == K[:3]).all()
    folds = StratifiedKFold(3)
    machine = SVC(kernel="precomputed", C=10.0)
    scores = cross_val_score(make_pipeline(matrix, machine), X, y, cv=folds)
    assert (scores == cross_val_score(machine, K, y, cv=folds)).all()  # slices rows and columns
    ridge = make_pipeline(matrix, KernelRidge(kernel="precomputed", alpha=0.1)).fit(X[:20], y[:20])
    expected = K[20:, :20] @ np.linalg.solve(K[:20, :20] + 0.1 * np.eye(20), y[:20])
    np.testing.assert_allclose(ridge.predict(X[20:]), expected, rtol=1e-9)
    pca = make_pipeline(matrix, KernelPCA(3, kernel="precomputed")).fit(X[:20])
    assert pca.transform(X[20:]).shape == (10, 3)


def test_kernel_matrix_searches_a_signal_kernel(rng):
    X, y = waves(rng, 20, 2)
    pipeline = make_pipeline(KernelMatrix(SignalKernel()), SVC(kernel="precomputed"))
    grid = {"kernelmatrix__kernel__depth": [1, 2], "svc__C": [1, 10]}
    found = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert set(found.best_params_) == set(grid)


def test_kernel_matrix_keeps_its_own_copy(rng):
    X = rng.standard_normal((5, 1, 6))
    matrix = KernelMatrix().fit(X)
    before = matrix.transform(X)
    probe = X.copy()
    X[:] = 0
    assert (matrix.transform(probe) == before).all()
    with pytest.raises(ValueError, match="expected a rescntk.Kernel"):
        KernelMatrix("rbf").fit(probe)
