"""Functions of regression refuse wrong arguments, and say why."""

from functools import partial

import numpy as np
import pytest

from rescntk import regression
from tests.regression.problems import MatrixKernel, OnlyProducts, indices


class Damaged(MatrixKernel):
    """A kernel whose values, and products with vectors, are damaged."""

    shape = (4, 4)

    def __call__(self, X, Z=None):
        return np.where(super().__call__(X, Z) >= 0, np.nan, 0)

    def __matmul__(self, V):
        return 1j * V


E2, ONES, ALONE = np.eye(2), np.ones(2), regression.decompose([[1.0]])
LADDER, LOW, FLOW = regression.decompose(E2), regression.pivoted_cholesky, regression.flow
SOLVE, RIDGE, POSTERIOR = regression.solve, regression.ridge, regression.posterior
ENSEMBLE, EVIDENCE = regression.ensemble, regression.evidence
LEFT_OUT, MASKED = partial(LADDER.leave_one_out, ONES, 0.1), np.ma.masked_array(E2)
REFUSALS = [
    (RIDGE, (np.ones((2, 3)), ONES, 1.0), r"K has shape \(2, 3\), expected \(n, n\)"),
    (RIDGE, (E2, np.ones(3), 1.0), r"y has shape \(3,\), expected \(2,\) or \(2, n_targets\)"),
    (RIDGE, ([[1, 2], [0, 1]], ONES, 1.0), "K of shape .* is not symmetric"),
    (RIDGE, (E2, ONES, -1), "penalty is -1, expected a finite number of at least 0"),
    (SOLVE, (MASKED, ONES), "K is a masked array"),
    (POSTERIOR, (E2, E2, [1, np.inf], ONES), "prior of shape .* contains NaN or inf"),
    (SOLVE, (Damaged(E2), np.ones(4)), "K @ v has dtype complex128"),
    (LOW, (Damaged(np.eye(4)), indices(4), 1), r"kernel\(X\) of shape .* contains NaN"),
    (LADDER.ridge, (ONES, [1, -1]), "^penalty .* of at least 0, one or a vector"),
    (LADDER.ridge, (ONES, []), "^penalty .* of at least 0, one or a vector"),
    (FLOW, (E2, ONES, -1), "^time .* of at least 0, one or a vector"),
    (regression.decompose, (E2, np.arange(2)), "case_weights has 0, expected positive numbers"),
    (POSTERIOR, (E2, [[0.5, 0], [2, 0]], [1, 1], ONES), "belong to K: the variance at point 1"),
    (POSTERIOR, (E2, np.ones((1, 3)), [1], ONES), r"cross has shape \(1, 3\), expected \(m, 2\)"),
    (POSTERIOR, (E2, np.ones((1, 2)), [1, 1], ONES), r"prior has shape \(2,\), expected \(1,\)"),
    (POSTERIOR, (E2, E2, ONES, ONES, [0, -1]), "noise has -1, expected numbers of at least 0"),
    (POSTERIOR, (E2, E2, ONES, ONES, [1]), r"noise has shape \(1,\), expected \(2,\)"),
    (POSTERIOR, (E2, E2, ONES, ONES, "1"), "noise is '1', expected a finite number of at least"),
    (POSTERIOR, (E2, E2, [[1, 1], [0, 1]], ONES), "prior of shape .* is not symmetric"),
    (POSTERIOR, (E2, 0.5 * E2, [[1, 1], [1, 1]], ONES), "belong to K: their covariance would"),
    (EVIDENCE, (np.ones((2, 2)), ONES, 1e-20), "K of shape .* numerically singular"),
    (EVIDENCE, (E2, [1e200, 1], 0.0), "the results exceed float64"),
    (POSTERIOR, (1e-300 * E2, E2, ONES, [1e300] * 2), "the results exceed float64"),
    (POSTERIOR, (1e308 * E2, E2, ONES, ONES, 1e308), "the results exceed float64"),
    (POSTERIOR, (E2, E2, -ONES, ONES), "belong to K: the variance at point 0"),
    (ENSEMBLE, (E2, (E2, E2, E2), ONES), r"tangent is a ndarray of length 2, expected a tuple \(T"),
    (ENSEMBLE, ((E2, E2), (E2, E2), ONES), r"gpk is a tuple of length 2, expected .* \(K, K_cross"),
    (ENSEMBLE, ((E2, E2), (E2, E2, ONES), ONES, -1), "^time is -1, .* of at least 0"),
    (ENSEMBLE, ((np.ones((2, 2)), E2), (E2, E2, E2), ONES), "^T of tangent: .* singular"),
    (ENSEMBLE, ((E2, E2), (np.eye(3), E2, E2), ONES), r"K has shape \(3, 3\), expected \(2, 2\)"),
    (ENSEMBLE, ((E2, E2[:1]), (E2, E2, E2), ONES), r"T_cross has shape \(1, 2\), expected \(2, 2"),
    (ENSEMBLE, ((E2, 1e200 * E2), (E2, E2, E2), ONES), "the results exceed float64"),
    (ENSEMBLE, ((E2, E2), (-E2, E2, E2), ONES), "one network: the variance at point 0 would"),
    (ENSEMBLE, ((E2, E2), (E2, 2 * E2, E2), ONES), "one network: the variance at point 0 would"),
    (SOLVE, (OnlyProducts(np.ones(3)), ONES), r"K is a OnlyProducts of shape \(3,\), expected"),
    (partial(SOLVE, preconditioner=E2), (E2, ONES), "penalty is 0.0, expected a positive number"),
    (RIDGE, ([[1, 2], [2, 1]], ONES, 0.0), "K of shape .* numerically singular"),
    (RIDGE, ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], np.ones(3), 0.0), "K of shape .* numerically sing"),
    (regression.decompose_features(ONES[:, None]).ridge, (ONES, 0.0), "K of shape .* numerically"),
    (
        SOLVE,
        (OnlyProducts(np.ones((0, 0))), []),
        r"K is a OnlyProducts of shape \(0, 0\), expected",
    ),
    (LOW, (3, indices(4), 2), "kernel is 3"),
    (LOW, (np.outer, indices(4), 2), r"kernel is .*, expected a rescntk.Kernel, or kernel.diag"),
    (FLOW, (0 * E2, ONES, np.inf), r"K of shape \(2, 2\) is numerically singular"),
    (partial(LADDER.ridge, intercept=2), (ONES, 0.1), "intercept is 2, expected True or False"),
    (POSTERIOR, ([[1], [1, 2]], E2, ONES, ONES), "K is not a rectangular array"),
    (regression.decompose_features, ([[1e200]],), "the results exceed float64"),
    (LOW, (MatrixKernel(-np.eye(4)), indices(4), 2), "kernel has -1 on its diagonal"),
    (LOW, (MatrixKernel(np.eye(4)), indices(4), 5), "rank is 5, expected at most .* 4"),
    (partial(LEFT_OUT, groups=[1]), (), r"^groups has shape \(1,\), expected"),
    (partial(LEFT_OUT, groups=[1.0, np.nan]), (), r"^groups\[1\] is missing \(nan\)"),
    (partial(LEFT_OUT, groups=np.array([1, "a"], dtype=object)), (), "^groups .*one kind"),
    (partial(LEFT_OUT, groups=[0, 0]), (), "^groups has one label, expected two: each group is"),
    (partial(LOW, rng=-1), (MatrixKernel(E2), indices(2), 1), "^rng is -1, expected a NumPy Gen"),
    (partial(ALONE.leave_one_out, intercept=True), ([1.0], 0.1), "^y has one case, expected two"),
    (SOLVE, (1e-3 * E2, [1e308] * 2), "the results exceed float64"),
    (FLOW, (1e-3 * E2, [1e308] * 2, np.inf), "the results exceed float64"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), REFUSALS)
def test_refusals(call, arguments, message):
    with pytest.raises(OverflowError if "exceed" in message else ValueError, match=message):
        call(*arguments)
