"""SignalKernel within scikit-learn: what takes kernels takes it, and gets the right ones."""

from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.metrics.pairwise import pairwise_kernels

import rescntk as rk
from rescntk.learn import KernelMatrix, SignalKernel
from tests import tolerances
from tests.helpers import assert_within


@pytest.fixture
def X(rng):
    return rng.standard_normal((12, 2, 9))


def flat(X):
    return X.reshape(len(X), -1)


KERNELS = {
    "default": SignalKernel(),
    "gpk": SignalKernel(
        depth=2, filter_size=5, kind="gpk", head="trace", alpha=0.5, normalized=False
    ),
    "erf": SignalKernel(
        depth=2, activation="erf", c_w=1.5, outer_filter_size=1, trained=("inner",)
    ),
    "pooled": SignalKernel(depth=2, head=8),
    "no skip": SignalKernel(depth=4, skip=False, input_filter_size=3),
}


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def two_channels(request):
    """A kernel of flat arrays of two channels, which a Gaussian process has cloned."""
    return request.param.clone_with_theta(request.param.theta).set_params(n_channels=2)


def test_matrices_are_those_of_the_library(two_channels, X):
    library = two_channels.kernel
    assert (two_channels(X) == library(X)).all()
    assert (two_channels(X, X[:3]) == library(X, X[:3])).all()


def test_flat_arrays_have_one_channel_after_the_other(two_channels, X):
    assert (two_channels(flat(X)) == two_channels(X)).all()


def test_diagonals_are_those_of_the_library(two_channels, X):
    assert (two_channels.diag(flat(X)) == two_channels.kernel.diag(X)).all()


SETTINGS = {"filter_size": 5, "outer_filter_size": 3, "activation": "erf", "trained": ("inner",)}


@pytest.mark.parametrize(
    "kernel",
    [
        SignalKernel(rk.Network(4, **SETTINGS)),
        SignalKernel(depth=4, **SETTINGS),
        SignalKernel(
            rk.Network(2, 5, outer_filter_size=3, trained="inner"), depth=4, activation="erf"
        ),
        SignalKernel().set_params(depth=4, **SETTINGS),
        SignalKernel().set_params(network=rk.Network(5, **SETTINGS), depth=4),
    ],
)
def test_parameters_are_given_with_a_network_or_one_by_one_or_set_by_name(kernel):
    assert kernel.network == rk.Network(4, **SETTINGS)
    assert kernel.kernel == rk.Kernel(kernel.network, "ntk", "gap", True)


def test_parameters_of_a_network_are_parameters_of_its_kernel():
    assert {field.name for field in fields(rk.Network)} <= SignalKernel().get_params().keys()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (SignalKernel(depth=4, alpha=1 / 3, kind="gpk"), "depth=4, alpha=0.333333, kind='gpk'"),
        (SignalKernel(filter_size=5), "filter_size=5"),
        (SignalKernel(rk.Network(3, 5, outer_filter_size=3)), "filter_size=5, outer_filter_size=3"),
    ],
)
def test_names_of_kernels_have_what_differs_from_the_default(kernel, expected):
    assert repr(kernel) == f"SignalKernel({expected})"


HALF = {"depth": 2, "alpha": 0.5, "n_channels": 2}
"""Parameters of a kernel whose α is a half."""


def test_clones_are_equal_and_other_kernels_are_not():
    kernel = SignalKernel(**HALF)
    assert clone(kernel) == kernel and clone(kernel).get_params() == kernel.get_params()
    assert kernel != SignalKernel(**HALF | {"depth": 3})


def test_the_hyperparameter_is_the_logarithm_of_alpha_within_its_bounds():
    kernel = SignalKernel(**HALF)
    assert kernel.theta == np.log([0.5]) and (kernel.bounds == np.log([[1e-2, 1e1]])).all()


def test_a_hyperparameter_sets_alpha():
    kernel = SignalKernel(**HALF).clone_with_theta(np.log([2.0]))
    assert_within(kernel.network.alpha, 2.0, tolerances.ROUTES)


@pytest.mark.parametrize("parameters", [{"alpha_bounds": "fixed"}, {"skip": False}], ids=str)
def test_an_alpha_that_is_fixed_has_no_derivative(parameters, X):
    kernel = SignalKernel(**parameters)
    assert kernel.theta.shape == (0,)
    assert kernel(X, eval_gradient=True)[1].shape == (12, 12, 0)


@pytest.mark.parametrize("name", ["gpk", "erf"])
def test_the_derivative_is_alpha_times_that_of_the_library(name, X):
    kernel = KERNELS[name]
    K, gradient = kernel(X, eval_gradient=True)
    matrix, slope = rk.derivative.alpha_derivative(kernel.kernel, X)
    assert (K == matrix).all()
    assert (gradient == kernel.network.alpha * slope[:, :, None]).all()


@pytest.mark.parametrize("name", ["gpk", "erf"])
def test_matrices_beside_derivatives_are_those_without(name, X):
    kernel = KERNELS[name]
    K, _ = kernel(X, eval_gradient=True)
    size = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    assert (np.abs(K - kernel(X)) / size).max() <= 2 * tolerances.KERNEL["float64"]


def test_a_gaussian_process_learns_alpha(rng):
    """Targets drawn from the process itself: the likelihood leads back to their α."""
    X = rng.standard_normal((40, 2, 8))
    true = SignalKernel(depth=3, kind="gpk", head="trace", alpha=0.5, n_channels=2)
    y = rng.multivariate_normal(np.zeros(40), true(X) + 1e-6 * np.eye(40), size=12).T
    start = true.clone_with_theta(np.log([2.0]))
    process = GaussianProcessRegressor(start, alpha=1e-6).fit(flat(X), y)
    at_truth = process.log_marginal_likelihood(true.theta)
    assert process.log_marginal_likelihood_value_ >= at_truth - 1e-6
    assert 0.35 < process.kernel_.network.alpha < 0.7


@pytest.mark.parametrize("form", ["lists", "images"])
def test_called_itself_it_takes_what_kernels_take(form, rng):
    images = rng.standard_normal((2, 2, 4, 3))
    X = images if form == "images" else [images[0, :, 0], images[1, :, 1, :2]]
    assert (SignalKernel(depth=2)(X) == rk.ResCNTK(2, normalized=True)(X)).all()


@pytest.mark.parametrize("options", [{}, {"engine": "array", "dtype": "float32", "threads": 1}])
def test_options_and_symmetry_reach_the_kernel(options, X, monkeypatch):
    calls, original = [], rk.Kernel.__call__

    def counted(self, X, Z=None, **options):
        calls.append((Z is None or Z is X, options))
        return original(self, X, Z, **options)

    monkeypatch.setattr(rk.Kernel, "__call__", counted)
    kernel = SignalKernel(depth=2, n_channels=2, **options)
    matrix = KernelMatrix(kernel).fit(X)
    results = [
        kernel(X),
        kernel(X, X),
        KernelMatrix(kernel).fit_transform(X),
        kernel(X, X[:2]),
        matrix.transform(X[:2]),
        pairwise_kernels(flat(X), flat(X[:5]), metric=kernel),
    ]
    given = {"engine": "auto", "dtype": "float64", "threads": None} | options
    assert calls == [(True, given)] * 3 + [(False, given)] * 3
    assert {str(r.dtype) for r in results} == {options.get("dtype", "float64")}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda X: SignalKernel(depth=0), "depth is 0, expected an integer of at least 1"),
        (lambda X: SignalKernel(alpha=np.nan), "alpha is nan"),
        (lambda X: SignalKernel(3), "network is 3, expected a rescntk.Network"),
        (lambda X: SignalKernel(depht=3), "'depht', expected one of"),
        (lambda X: SignalKernel().set_params(depht=3), "Invalid parameter depht"),
        (lambda X: SignalKernel().set_params(network=None), "network is None, expected a rescntk"),
        (lambda X: SignalKernel(n_channels=5)(flat(X)), "multiple of n_channels = 5"),
        (lambda X: SignalKernel(n_channels=0)(flat(X)), "n_channels is 0"),
        (lambda X: SignalKernel()(X, X[:2], eval_gradient=True), "eval_gradient without it"),
        (lambda X: SignalKernel(n_channels=2)(np.where(flat(X) > 1, np.nan, flat(X))), "first at"),
    ],
)
def test_wrong_parameters_and_arrays_are_refused(call, says, X):
    with pytest.raises(ValueError, match=says):
        call(X)


def of_alpha_0(**parameters):
    return SignalKernel(depth=2, alpha=0.0, n_channels=2, **parameters)


def test_an_alpha_of_0_is_not_learned(X):
    """It has no logarithm."""
    with pytest.raises(ValueError, match=r"alpha is 0.0, expected a positive .*'fixed'"):
        of_alpha_0()(X, eval_gradient=True)


def test_an_alpha_of_0_has_kernels(X):
    assert (of_alpha_0()(X) == rk.ResCNTK(2, alpha=0.0, normalized=True)(X)).all()


def test_a_fixed_alpha_of_0_is_used_by_gaussian_processes(X):
    process = GaussianProcessRegressor(of_alpha_0(alpha_bounds="fixed"), alpha=0.1)
    assert np.isfinite(process.fit(flat(X), X[:, 0, 0]).predict(flat(X))).all()


@pytest.mark.parametrize(
    "parameters", [{"activation": "gelu"}, {"norm": True}, {"depth": 2, "c_w": (1.0, 2.0)}], ids=str
)
def test_networks_without_a_derivative_have_a_fixed_alpha(parameters, X):
    kernel = SignalKernel(**parameters, n_channels=2)
    assert kernel.hyperparameter_alpha.fixed
    process = GaussianProcessRegressor(kernel, alpha=0.1).fit(flat(X), X[:, 0, 0])
    assert np.isfinite(process.predict(flat(X))).all()


@pytest.fixture
def table(X, pd):
    """The first channel of signals, with a column for each time point."""
    return pd.DataFrame(X[:, 0])


ONE_CHANNEL = SignalKernel(depth=2, n_channels=1)


def test_tables_are_flat_signals(table, X):
    assert (ONE_CHANNEL(table) == ONE_CHANNEL(X[:, :1])).all()


def test_kernels_of_the_library_say_how_tables_become_signals(table):
    with pytest.raises(ValueError, match=r"signals of one channel X.to_numpy\(\)\[:, None\]"):
        rk.ResCNTK(2)(table)
    rk.ResCNTK(2)(table.to_numpy()[:, None])  # what the message says


def test_saved_indices_are_refused(table):
    with pytest.raises(ValueError, match="'index', a saved index"):
        ONE_CHANNEL(table.reset_index())


def test_flat_signals_without_a_number_of_channels_warn_and_have_one(X):
    with pytest.warns(UserWarning, match=r"X of shape \(12, 18\) is flat.*give n_channels"):
        K = SignalKernel(depth=2)(flat(X))
    assert (ONE_CHANNEL(flat(X)) == K).all()


@pytest.mark.filterwarnings("error")
def test_signals_whose_channels_are_known_do_not_warn(X):
    SignalKernel(depth=2)(X)
    SignalKernel(depth=2, n_channels=2)(flat(X))
    KernelMatrix(SignalKernel(depth=2)).fit_transform(flat(X))  # documented: one channel


def test_the_number_of_channels_of_flat_signals_matters(X):
    off = np.abs(SignalKernel(depth=2, n_channels=2)(flat(X)) - ONE_CHANNEL(flat(X)))
    assert off.max() > 0.01
