"""SignalKernel within scikit-learn: what takes kernels takes it, and gets the right ones."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import KernelMatrix, SignalKernel
from tests import tolerances


@pytest.fixture
def X(rng):
    return rng.standard_normal((12, 2, 9))


@pytest.fixture
def y(X):
    return (X[:, 0].mean(axis=1) > np.median(X[:, 0].mean(axis=1))).astype(int)


def flat(X):
    return X.reshape(len(X), -1)


KERNELS = {
    "default": SignalKernel(),
    "gpk": SignalKernel(2, 5, kind="gpk", head="trace", alpha=0.5, normalized=False),
    "erf": SignalKernel(2, activation="erf", c_w=1.5, outer_filter_size=1, trained=("inner",)),
    "no skip": SignalKernel(4, skip=False, input_filter_size=3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_is_the_kernel(name, X):
    kernel = KERNELS[name].clone_with_theta(KERNELS[name].theta).set_params(n_channels=2)
    ours = kernel.kernel
    assert (kernel(X) == ours(X)).all()
    assert (kernel(flat(X)) == ours(X)).all()  # one channel after the other
    assert (kernel(X, X[:3]) == ours(X, X[:3])).all()
    assert (kernel.diag(flat(X)) == ours.diag(X)).all()


def test_two_axes_are_one_channel(X):
    kernel = SignalKernel(2)
    assert (kernel(X[:, 0]) == kernel(X[:, :1])).all()


def test_round_trip_through_the_librarys_kernel():
    network = rk.Network(
        4,
        5,
        outer_filter_size=3,
        input_filter_size=7,
        alpha=0.3,
        activation="erf",
        c_v=1.1,
        c_w=0.7,
        readout_scale=0.5,
        input_scale=1.0,
        trained=("inner",),
    )
    for ours in (rk.Kernel(network, "gpk", "trace", True), rk.CNTK(3, 5)):
        assert SignalKernel.of(ours).kernel == ours
    assert SignalKernel.of(rk.CNTK(3, 5)).set_params(filter_size=7).kernel == rk.CNTK(3, 7)


def test_parameters(X):
    kernel = SignalKernel(depth=2, alpha=0.5, n_channels=2)
    assert clone(kernel) == kernel
    assert clone(kernel).get_params() == kernel.get_params()
    assert kernel != SignalKernel(depth=3, alpha=0.5, n_channels=2)
    np.testing.assert_allclose(kernel.theta, np.log([0.5]))
    np.testing.assert_allclose(kernel.bounds, np.log([[1e-2, 1e1]]))
    assert kernel.clone_with_theta(np.log([2.0])).alpha == pytest.approx(2.0)
    for fixed in (SignalKernel(alpha_bounds="fixed"), SignalKernel(skip=False)):
        assert fixed.theta.shape == (0,)
        assert fixed(X, eval_gradient=True)[1].shape == (12, 12, 0)
    assert not kernel.is_stationary()


def test_repr_names_what_differs_from_the_default():
    assert repr(SignalKernel()) == "SignalKernel()"
    kernel = SignalKernel(5, kind="gpk", alpha=0.1234567891, n_channels=12)
    assert repr(kernel) == "SignalKernel(depth=5, kind='gpk', alpha=0.123457, n_channels=12)"
    assert repr(2.0 * kernel).startswith("1.41**2 * SignalKernel(depth=5")
    assert repr(SignalKernel(alpha_bounds=np.array([1e-2, 1e1]))) == "SignalKernel()"
    bounds = SignalKernel(alpha_bounds=np.array([0.5, 1.5]))
    assert repr(bounds) == "SignalKernel(alpha_bounds=array([0.5, 1.5]))"
    np.testing.assert_allclose(bounds.bounds, np.log([[0.5, 1.5]]))


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_against_central_differences(name, X):
    """Sixth-order differences of the engine's kernels at steps of 0.02 in log α."""
    kernel = KERNELS[name]
    K, gradient = kernel(X, eval_gradient=True)
    assert gradient.shape == (12, 12, len(kernel.theta))
    size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    assert (np.abs(K - kernel(X)) / size).max() <= 2 * tolerances.KERNEL["float64"]
    if not len(kernel.theta):
        return
    h = 0.02

    def shifted(k):
        return kernel.clone_with_theta(kernel.theta + k * h)(X)

    central = sum(
        c * (shifted(k) - shifted(-k)) for k, c in ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))
    )
    error = np.abs(gradient[:, :, 0] - central / h) / size
    # h⁶/140 of the seventh derivative of log-polynomials of degree 2·depth: 4^7 h⁶/140 at most;
    # the differences' rounding errors, 2 KERNEL/h, are smaller.
    assert error.max() <= 4.0**7 * h**6 / 140 + 2 * tolerances.KERNEL["float64"] / h


def test_gradient_within_sums_and_products(X):
    kernel = ConstantKernel(2.0) * SignalKernel(2, n_channels=2) + WhiteKernel(0.1)
    gradient = kernel(flat(X), eval_gradient=True)[1]
    assert gradient.shape == (12, 12, 3)
    names = [h.name for h in kernel.hyperparameters]
    alone = SignalKernel(2, n_channels=2)(flat(X), eval_gradient=True)[1][:, :, 0]
    np.testing.assert_allclose(gradient[:, :, names.index("k1__k2__alpha")], 2.0 * alone)


def test_svc_with_three_axes(X, y):
    kernel = SignalKernel(2)
    model = SVC(kernel=kernel, C=10.0).fit(X[:8], y[:8])
    K = kernel.kernel(X)
    other = SVC(kernel="precomputed", C=10.0).fit(K[:8, :8], y[:8])
    np.testing.assert_allclose(
        model.decision_function(X[8:]), other.decision_function(K[8:, :8]), atol=1e-12
    )


def test_kernel_ridge(X):
    kernel, y = SignalKernel(2, n_channels=2), X[:, 1].sum(axis=1)
    model = KernelRidge(alpha=0.1, kernel=kernel).fit(flat(X[:8]), y[:8])
    K = kernel.kernel(X)
    expected = K[8:, :8] @ np.linalg.solve(K[:8, :8] + 0.1 * np.eye(8), y[:8])
    np.testing.assert_allclose(model.predict(flat(X[8:])), expected, rtol=1e-10)


def test_nystroem_with_all_components_is_exact(X):
    kernel = SignalKernel(2, n_channels=2)
    features = Nystroem(kernel, n_components=12, random_state=0).fit_transform(flat(X))
    np.testing.assert_allclose(features @ features.T, kernel.kernel(X), atol=1e-12)


def test_pairwise_kernels_is_one_call(X, monkeypatch):
    calls = []
    original = rk.Kernel.__call__
    monkeypatch.setattr(
        rk.Kernel, "__call__", lambda self, *a, **k: calls.append(1) or original(self, *a, **k)
    )
    kernel = SignalKernel(2, n_channels=2)
    K = pairwise_kernels(flat(X), flat(X[:5]), metric=kernel)
    assert len(calls) == 1
    assert (K == kernel.kernel(X, X[:5])).all()


def test_regression_process_learns_alpha(rng):
    """Targets drawn from the process itself: the likelihood leads back to their α."""
    X = rng.standard_normal((60, 2, 8))
    true = SignalKernel(3, kind="gpk", head="trace", alpha=0.5, n_channels=2)
    y = rng.multivariate_normal(np.zeros(60), true(X) + 1e-6 * np.eye(60), size=8).T
    start = true.clone_with_theta(np.log([2.0]))
    process = GaussianProcessRegressor(start, alpha=1e-6).fit(flat(X), y)
    at_truth = process.log_marginal_likelihood(true.theta)
    assert process.log_marginal_likelihood_value_ >= at_truth - 1e-6
    assert 0.35 < process.kernel_.alpha < 0.7
    slope = process.log_marginal_likelihood(np.log([0.7]), eval_gradient=True)[1]
    h = 1e-3
    near = [process.log_marginal_likelihood(np.log([0.7]) + k * h) for k in (-2, -1, 1, 2)]
    central = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
    assert slope[0] == pytest.approx(central, rel=1e-6)
    mean, deviation = process.predict(flat(X[:5]), return_std=True)
    np.testing.assert_allclose(mean, y[:5], atol=0.05)
    assert (deviation < 0.05).all()


def test_classification_process_learns_alpha(rng):
    """The learned α is the best of a grid, and its gradient is the likelihood's gradient."""
    X = rng.standard_normal((100, 2, 8))
    true = SignalKernel(3, kind="gpk", head="trace", alpha=0.5, n_channels=2)
    y = rng.multivariate_normal(np.zeros(100), true(X) + 1e-9 * np.eye(100)) > 0
    kernel = ConstantKernel(30.0, "fixed") * true.clone_with_theta(np.log([2.0]))
    process = GaussianProcessClassifier(kernel).fit(flat(X[:80]), y[:80])
    grid = np.log([[0.02], [0.1], [0.5], [1.0], [2.0], [5.0]])
    likelihoods = [process.log_marginal_likelihood(theta) for theta in grid]
    assert np.argmax(likelihoods) in (1, 2, 3)  # neither bound
    assert 0.02 < process.kernel_.k2.alpha < 5.0
    assert process.log_marginal_likelihood_value_ >= max(likelihoods) - 1e-6
    theta, h = np.log([0.7]), 1e-3
    slope = process.log_marginal_likelihood(theta, eval_gradient=True)[1]
    near = [process.log_marginal_likelihood(theta + k * h) for k in (-2, -1, 1, 2)]
    central = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
    assert slope[0] == pytest.approx(central, rel=1e-3)
    K = process.kernel_.k2.kernel(X)
    mean = K[80:, :80] @ (y[:80] - process.base_estimator_.pi_)  # Rasmussen and Williams (3.21)
    assert (process.predict(flat(X[80:])) == (mean > 0)).all()
    assert process.score(flat(X[80:]), y[80:]) >= 0.8


def test_grid_search_over_depth(rng):
    X, folds = rng.standard_normal((24, 2, 9)), StratifiedKFold(3)
    y = (X[:, 0] * X[:, 1]).sum(axis=1) > 0

    def scores(depth, C):
        K = rk.ResCNTK(depth, normalized=True)(X)
        return cross_val_score(SVC(kernel="precomputed", C=C), K, y, cv=folds).mean()

    pipeline = make_pipeline(KernelMatrix(SignalKernel()), SVC(kernel="precomputed"))
    for model, prefix, svc in (
        (SVC(kernel=SignalKernel()), "", ""),
        (pipeline, "kernelmatrix__", "svc__"),
    ):
        grid = {f"{prefix}kernel__depth": [1, 3, 20], f"{svc}C": [0.3, 10.0]}
        results = GridSearchCV(model, grid, cv=folds).fit(X, y).cv_results_
        expected = [scores(p[f"{prefix}kernel__depth"], p[f"{svc}C"]) for p in results["params"]]
        assert len(set(expected)) > 2  # otherwise this says little
        np.testing.assert_allclose(results["mean_test_score"], expected)


@pytest.mark.parametrize("options", [{}, {"engine": "reference", "dtype": "float32", "threads": 1}])
def test_options_and_symmetry_reach_the_kernel(options, X, monkeypatch):
    calls, pairs = [], []
    for name in ("__call__", "diag"):
        original = getattr(rk.Kernel, name)

        def seen(self, X, *others, _original=original, **given):
            calls.append(given)
            pairs.append((X, *others))
            return _original(self, X, *others, **given)

        monkeypatch.setattr(rk.Kernel, name, seen)
    kernel = SignalKernel(2, **options)
    matrix = KernelMatrix(kernel).fit(X)
    results = [
        kernel(X),
        kernel(X, X),
        KernelMatrix(kernel).fit_transform(X),
        kernel.diag(X),
        kernel(X, X[:2]),
        matrix.transform(X[:2]),
    ]
    assert calls == [{"engine": "auto", "dtype": "float64", "threads": None} | options] * 6
    assert [len(p) == 2 and p[1] is not None for p in pairs] == [False] * 4 + [True] * 2
    assert {str(r.dtype) for r in results} == {options.get("dtype", "float64")}


def test_options_of_a_matrix_of_its_own(X, monkeypatch):
    calls = []
    original = rk.Kernel.__call__
    monkeypatch.setattr(
        rk.Kernel, "__call__", lambda self, *a, **k: calls.append(k) or original(self, *a, **k)
    )
    options = {"engine": "reference", "dtype": "float32", "threads": 1}
    KernelMatrix(rk.ResCNTK(2), **options).fit(X).transform(X)
    assert calls == [options]
    for name, value in options.items():
        with pytest.raises(ValueError, match=f"{name} is .*, expected it .* of the SignalKernel"):
            KernelMatrix(SignalKernel(2), **{name: value}).fit(X)


def test_derivative_comes_with_its_matrix(X, monkeypatch):
    """The kernel and its four neighbours in α, on the engine and the threads asked for."""
    calls, original = [], rk.Kernel.__call__

    def counted(self, *arguments, **options):
        calls.append((self.network.alpha, options))
        return original(self, *arguments, **options)

    monkeypatch.setattr(rk.Kernel, "__call__", counted)
    kernel = SignalKernel(2, engine="reference", dtype="float32", threads=3)
    K, gradient = kernel(X, eval_gradient=True)
    assert sorted(alpha for alpha, _ in calls) == [1 + k / 1024 for k in (-2, -1, 0, 1, 2)]
    options = {"engine": "reference", "dtype": "float64", "threads": 3}
    assert [given for _, given in calls] == [options] * 5
    assert K.dtype == gradient.dtype == np.float64


@pytest.mark.parametrize("kernel", [SignalKernel(2, kind="gpk", n_channels=3), SignalKernel(2)])
def test_kernel_matrix_reads_flat_signals_like_its_kernel(kernel, rng):
    F = rng.standard_normal((6, 12))
    matrix = KernelMatrix(kernel)
    assert (matrix.fit_transform(F) == kernel(F)).all()
    assert (matrix.transform(F[:2]) == kernel(F[:2], F)).all()
    deep = F.reshape(6, kernel.n_channels or 1, -1)
    assert (matrix.transform(deep[:2]) == kernel(deep[:2], deep)).all()
    assert (matrix.n_channels_, matrix.n_timepoints_) == deep.shape[1:]
    assert (matrix.fit(deep).transform(F[:2]) == kernel(deep[:2], deep)).all()
    if kernel.n_channels == 3:
        with pytest.raises(ValueError, match="multiple of n_channels = 3"):
            matrix.fit(F[:, :11])


def test_refusals(X):
    with pytest.raises(ValueError, match="multiple of n_channels = 5"):
        SignalKernel(n_channels=5)(flat(X))
    with pytest.raises(ValueError, match="n_channels is 0"):
        SignalKernel(n_channels=0)(flat(X))
    with pytest.raises(ValueError, match="X has shape"):
        SignalKernel()(X[0, 0])
    with pytest.raises(ValueError, match="expected eval_gradient without it"):
        SignalKernel()(X, X[:2], eval_gradient=True)
    with pytest.raises(ValueError, match="5 to 6 time points, expected one length"):
        SignalKernel()([np.zeros((1, 5)), np.zeros((1, 6))])
    broken = X.copy()
    broken[3, 0, 2] = np.nan
    with pytest.raises(ValueError, match="first in case 3"):
        SignalKernel()(broken)
    with pytest.raises(ValueError, match="first in case 3"):
        SignalKernel(n_channels=2)(flat(broken))
    with pytest.raises(ValueError, match="depth is 0"):
        SignalKernel(0)(X)


def test_what_has_no_logarithm_is_not_learned(X):
    kernel = SignalKernel(2, alpha=0.0, n_channels=2)
    for use in (
        lambda: GaussianProcessRegressor(kernel).fit(flat(X), X[:, 0, 0]),
        lambda: kernel.theta,
        lambda: kernel(X, eval_gradient=True),
    ):
        with pytest.raises(ValueError, match=r"alpha is .*, expected a positive .*'fixed'"):
            use()
    for alpha in (-1.0, np.nan):
        with pytest.raises(ValueError, match="expected a positive"):
            _ = SignalKernel(alpha=alpha).theta


def test_no_residual_branch_is_fine_where_alpha_is_fixed(X):
    for kernel in (SignalKernel(2, alpha=0.0), SignalKernel(2, alpha=0.0, alpha_bounds="fixed")):
        assert (kernel(X) == rk.ResCNTK(2, alpha=0.0, normalized=True)(X)).all()
    process = GaussianProcessRegressor(kernel.set_params(n_channels=2), alpha=0.1)
    assert np.isfinite(process.fit(flat(X), X[:, 0, 0]).predict(flat(X))).all()


def test_parameters_of_a_plain_kernel_are_not_searched():
    for matrix in (KernelMatrix(), KernelMatrix(rk.ResCNTK(2))):
        with pytest.raises(ValueError, match="^kernel__depth cannot be set.*a SignalKernel"):
            matrix.set_params(kernel__depth=2)
    matrix = KernelMatrix().set_params(kernel=SignalKernel(), kernel__depth=2)
    assert matrix.kernel.depth == 2


def test_flat_signals_without_a_number_of_channels_warn(rng):
    X = rng.standard_normal((4, 2, 6))
    flat_X = X.reshape(4, -1)
    with pytest.warns(UserWarning, match=r"X of shape \(4, 12\) is flat.*give n_channels"):
        K = SignalKernel(2)(flat_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (SignalKernel(2, n_channels=1)(flat_X) == K).all()
        assert not np.allclose(SignalKernel(2, n_channels=2)(flat_X), K)
        SignalKernel(2)(X)
        KernelMatrix(SignalKernel(2)).fit_transform(flat_X)  # documented: one channel
