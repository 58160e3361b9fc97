"""Bad input gets one clear ValueError: the argument's name, what came, what was expected."""

import re

import numpy as np
import pytest

import rescntk as rk
from rescntk import derivative, literature
from rescntk.theory import conditioning, multisphere

X = np.arange(24.0).reshape(2, 3, 4)
KERNEL = rk.ResCNTK(depth=2)


def with_value(value):
    bad = X.copy()
    bad[1, 2, 3] = value
    return bad


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (X[0], r"\(3, 4\), expected \(n_cases, n_channels, n_timepoints\)"),
        (X[None, None], r"\(1, 1, 2, 3, 4\)"),
        (np.float64(3.0), r"\(\)"),
        (X[:0], r"\(0, 3, 4\) with an empty axis"),
        (X[:, :0], r"\(2, 0, 4\) with an empty axis"),
        (X[:, :, :0], r"\(2, 3, 0\) with an empty axis"),
        (with_value(np.nan), r"\(2, 3, 4\) contains NaN or infinity \(first at \[1, 2, 3\]\)"),
        (with_value(-np.inf), "NaN or infinity"),
        (with_value(1).astype(np.longdouble) * np.longdouble("1e4000"), "NaN or infinity"),
        (X.astype(complex), "dtype complex128, expected real numbers"),
        (X.astype(object), "dtype object"),
        (X.astype(str), "dtype <U"),
        ([[[1.0, 2.0]], [[1.0]]], "not a rectangular array"),
        (None, "is None, expected real numbers"),
        ({"a": 1}, "is {'a': 1}, expected real numbers"),
    ],
)
def test_signals(bad, says):
    for call in (
        lambda: KERNEL(bad),
        lambda: KERNEL.diag(bad),
        lambda: rk.pixel_pairs(KERNEL.network, bad),
        lambda: multisphere.project(bad),
    ):
        with pytest.raises(ValueError, match=f"^X .*{says}"):
            call()
    if bad is not None:
        with pytest.raises(ValueError, match=f"^Z .*{says}"):
            KERNEL(X, bad)
    with pytest.raises(ValueError, match=f"^Z .*{says}"):
        KERNEL.paired(X, bad)


@pytest.mark.parametrize(
    ("Z", "says"),
    [
        (X[:, :2], r"^Z has shape \(2, 2, 4\), expected 3 channels as in X of shape \(2, 3, 4\)"),
        (X[:, :, :3], r"^Z has shape \(2, 3, 3\), expected 4 timepoints as in X"),
    ],
)
def test_signals_that_do_not_match(Z, says):
    for call in (KERNEL, KERNEL.paired, lambda *both: rk.pixel_pairs(KERNEL.network, *both)):
        with pytest.raises(ValueError, match=says):
            call(X, Z)


@pytest.mark.parametrize("Z", [X[:1], [X[0], X[1], X[0, :, :3]]])
def test_pairs_of_different_numbers_are_refused(Z):
    """Before an engine is chosen: no compilation comes first."""
    says = f"^Z has {len(Z)} signals, and X has 2: expected pairs, the same number"
    with pytest.raises(ValueError, match=says):
        KERNEL.paired(X, Z, engine="tpu")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"depth": 0}, "depth is 0, expected an integer of at least 1"),
        ({"depth": 2.0}, "depth is 2.0, expected an integer"),
        ({"depth": True}, "depth is True, expected an integer"),
        ({"depth": "2"}, "depth is '2', expected an integer"),
        ({"filter_size": 4}, "filter_size is 4, expected a positive odd integer"),
        ({"filter_size": 0}, "filter_size is 0"),
        ({"outer_filter_size": 2}, "outer_filter_size is 2"),
        ({"input_filter_size": 2}, "input_filter_size is 2"),
        ({"alpha": -1}, "alpha is -1, expected a finite number of at least 0"),
        ({"alpha": np.nan}, "alpha is nan"),
        ({"alpha": "1"}, "alpha is '1'"),
        *(
            ({"alpha": bad}, "alpha is .*3.*, expected a finite number of at least 0")
            for bad in (b"3", bytearray(b"3"), np.bytes_(b"3"), np.array("3"), np.array([3.0]))
        ),
        ({"alpha": memoryview(b"3")}, "alpha is <memory"),
        ({"alpha": np.timedelta64(3, "s")}, "alpha is .*timedelta64"),
        ({"alpha": np.array(True)}, r"alpha is array\(True\)"),
        ({"dilation": b"\1\2\3"}, "dilation is b'.*', expected an integer of at least 1"),
        ({"alpha": True}, "alpha is True, expected a finite number of at least 0"),
        ({"negative_slope": np.True_}, "negative_slope is .*True.*, expected a finite number"),
        ({"c_v": np.inf}, "c_v is inf"),
        ({"readout_scale": None}, "readout_scale is None"),
        ({"input_scale": -1.0}, "input_scale is -1.0"),
        ({"input_scale": 1e308}, "input_scale is 1e.308, expected 0 or from 1e-300 to 1e.300"),
        ({"input_scale": 5e-324}, "input_scale is 5e-324, expected 0 or from 1e-300"),
        ({"alpha": 1e200}, "alpha, c_v, c_w are 1e[+]200"),
        ({"skip": 1}, "skip is 1, expected True or False"),
        ({"activation": "tanh"}, "activation is 'tanh', expected one of 'relu', 'erf'"),
        (
            {"trained": ("inner", "head")},
            "trained is 'head', expected one of 'input', 'inner', 'outer', 'readout'",
        ),
        ({"trained": 3}, "trained is 3"),
        ({"negative_slope": -0.1}, "negative_slope is -0.1, expected a finite number"),
        ({"negative_slope": 2}, "negative_slope is 2.0 with activation 'relu', expected a number"),
        ({"negative_slope": 0.1, "activation": "erf"}, "negative_slope is 0.1 with .* and 0 for"),
        ({"bias": -0.1}, "bias is -0.1, expected a finite number of at least 0"),
        ({"bias": 0.1, "activation": "erf"}, "bias is 0.1 with .*'erf', .* expected bias 0"),
        ({"bias": 0.1, "c_w": 0.0}, "bias is 0.1 with .*c_w 0.0.* with positive c_v, c_w and"),
    ],
)
def test_networks(arguments, says):
    for make in (KERNEL.network.replace, lambda **a: rk.Network(**{"depth": 3} | a)):
        with pytest.raises(ValueError, match=f"^{says}"):
            make(**arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rk.Kernel(KERNEL.network, "cntk"), "kind is 'cntk', expected one of 'gpk', 'ntk'"),
        (lambda: rk.ResCNTK(3, head="mean"), "head is 'mean', expected one of 'equivariant', 'tra"),
        (lambda: rk.ResCNTK(3, normalized=1), "normalized is 1, expected True or False"),
        (lambda: rk.Kernel(3, "gpk"), "network is 3, expected a rescntk.Network"),
        (lambda: rk.gram(None, X), "network is None"),
        (lambda: rk.gram(KERNEL.network, X, head="mean"), "head is 'mean'"),
        (lambda: rk.gram(KERNEL.network, X, kinds=("gpk", "cntk")), "kinds is 'cntk'"),
        (lambda: rk.gram(KERNEL.network, X, kinds=()), r"kinds is \(\), expected one or both"),
        (lambda: rk.gram(KERNEL.network, X, kinds=("gpk", "gpk")), "kinds is"),
        (lambda: rk.gram(KERNEL.network, X, kinds=None), "kinds is None, expected one of 'gpk'"),
        (lambda: rk.gram(KERNEL.network, X, depths=()), "depths is empty"),
        (lambda: rk.gram(KERNEL.network, X, depths=(2, 0)), "depths is 0, expected an integer of"),
        (lambda: rk.gram(KERNEL.network, X, depths=3), "depths is 3, expected a sequence"),
        (lambda: rk.gram(KERNEL.network, X, depths=np.array(3)), r"depths is array\(3\), expected"),
        (lambda: rk.gram(KERNEL.network, X, depths=b"\3"), "depths is b'.*', expected a sequence"),
        (lambda: rk.gram(KERNEL.network, X, kinds=np.array("gpk")), r"kinds is array\('gpk'"),
        (lambda: rk.gram(KERNEL.network, X, normalized="no"), "normalized is 'no'"),
        (lambda: KERNEL(X, dtype="float16"), "dtype is 'float16', expected one of 'float64'"),
        (lambda: KERNEL(X, dtype=int), "dtype is <class 'int'>, expected one of 'float64'"),
        (lambda: KERNEL(X, dtype=np.ones(2)), "dtype is array.*, expected one of 'float64'"),
        (lambda: KERNEL(X, dtype="f8,("), "dtype is 'f8,[(]', expected one of 'float64'"),
        (lambda: KERNEL.replace(c_v=1e-300, skip=False)(X), "network multiplies variances by 5e"),
        (
            lambda: rk.ResCNTK(1100, skip=False, c_v=1.0, bias=0.3, trained="input")(X),
            "network has b",
        ),
        (lambda: KERNEL(X, engine="tpu"), "engine is 'tpu', expected one of 'auto', 'reference'"),
        (lambda: KERNEL(X, threads=0), "threads is 0, expected an integer of at least 1"),
        (lambda: KERNEL(X, progress="yes"), "progress is 'yes'"),
        (lambda: KERNEL.replace(kernel="x"), "replace is 'kernel', expected one of 'depth'"),
        (lambda: KERNEL.replace(head="x"), "head is 'x', expected one of 'equivariant'"),
        (lambda: literature.tirer_mlp(3, sigma_w=-1), "sigma_w is -1"),
        (lambda: literature.huang_resnet(3, gamma=np.nan), "gamma is nan"),
    ],
)
def test_options(call, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call()


def test_an_announced_engine_is_refused_with_its_reason():
    for name, state in rk.engines.available().items():
        if state is not True:
            with pytest.raises(
                ValueError, match=f"^engine='{name}' cannot compute .*: {re.escape(state)}; "
            ):
                KERNEL(X, engine=name)


T = np.zeros((2, 2))
A = np.array([[1.0, 0.5], [0.5, 1.0]])
SPHERE = multisphere.sample(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: multisphere.project(X * 0), r"X of shape .* zero at all channels of case 0, time"),
        (lambda: multisphere.sample(2, 0, 3), "n_channels is 0"),
        (lambda: multisphere.sample(2, 3, 4, rng=-1), "rng is -1, expected a NumPy Generator, an"),
        (lambda: multisphere.sample(2, 3, 4, rng=0.5), "rng is 0.5, expected a NumPy Generator, a"),
        # NumPy crashes at a matrix.
        (lambda: multisphere.sample(2, 3, 4, rng=np.matrix([[1]])), r"rng is matrix.*, expected a"),
        (lambda: multisphere.sample(2, 3, 4, rng=True), "rng is True, expected a NumPy Generator"),
        (lambda: conditioning.asymptotic_condition_number(5, 5, pixels=b"5"), "pixels is b'5'"),
        (lambda: conditioning.asymptotic_condition_number(5, 5, pixels=10**400), "pixels is 10+,"),
        (lambda: multisphere.gram_complements(5, SPHERE), "networks is 5, expected a list of at"),
        (lambda: multisphere.gram_complements([], SPHERE, head=T), "head is array"),
        (lambda: multisphere.dot_products(X + 1), "X of shape .* is not on the multi-sphere"),
        (lambda: multisphere.dot_products(1e200 * X), "X of shape .* is not on .* is off by inf"),
        (lambda: multisphere.dot_products(SPHERE, SPHERE[..., :3]), r"Z has shape \(2, 3, 3\)"),
        (lambda: multisphere.normalized_gpk(T + 2, 3), "t has values from 2.0 to 2.0, expected"),
        (lambda: multisphere.normalized_gpk(T + np.nan, 3), "t of shape .* contains NaN"),
        (lambda: multisphere.normalized_gpk(0.5, 3), r"t has shape \(\)"),
        (lambda: conditioning.condition_number(A[0]), r"A has shape \(2,\), expected \(n, n\)"),
        (lambda: conditioning.condition_number(np.triu(A)), "A of shape .* is not symmetric, expe"),
        (lambda: conditioning.condition_number(1j * A), "A has dtype complex128, expected real"),
        (lambda: conditioning.bounds(2 * A), "A has 2 on its diagonal, expected 1"),
        (lambda: conditioning.bounds(A[:1, :1]), r"A has shape \(1, 1\), expected at least 2"),
        (lambda: conditioning.asymptotic_condition_number(5, 5, 0.0), "alpha is 0.0, expected"),
        (lambda: conditioning.compare(X, (1,), kind="cgpk"), "kind is 'cgpk', expected one of"),
        (lambda: conditioning.asymptotic_condition_number(5, 5, kind=1), "kind is 1, expected"),
        (lambda: conditioning.compare(X[:1], (1, 2)), "X has 1 case, expected at least 2"),
        (lambda: conditioning.compare(X, (1, 2), alpha=0.0), "alpha is 0.0, expected a positive"),
        (lambda: conditioning.compare(X, (1,), alpha=1e-200), "alpha is 1e-200, expected a pos"),
        (lambda: conditioning.compare(X * [[[1]], [[0]]], (1,)), r"X has a signal .* 0 \(case 1\)"),
        (lambda: multisphere.dot_products(SPHERE, offset=1.5), "offset is 1.5"),
    ],
)
def test_theory(call, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call()


MASKED = np.ma.masked_array(X, X == 5)


@pytest.mark.parametrize(
    "masked",
    [
        MASKED,
        np.ma.masked_array(X),  # nothing is masked: refused by its type, not by its values
        list(MASKED),
        [list(case) for case in MASKED],
    ],
)
def test_masked_signals_are_refused(masked):
    says = r"is a masked array, expected real numbers .* without a mask: fill in masked values"
    for call in (
        lambda: KERNEL(masked),
        lambda: KERNEL.diag(masked),
        lambda: multisphere.project(masked),
        lambda: derivative.alpha_derivative(KERNEL, masked),
    ):
        with pytest.raises(ValueError, match=f"^X {says}"):
            call()
    with pytest.raises(ValueError, match=f"^Z {says}"):
        KERNEL(X, masked)


def test_masked_targets_and_matrices_are_refused():
    K, y = np.eye(2), np.ones(2)
    masked_K, masked_y = np.ma.masked_array(K, K == 1), np.ma.masked_array(y, [True, False])
    ladder = rk.regression.decompose(K)
    for name, call in (
        ("K", lambda: rk.regression.interpolate(masked_K, y)),
        ("y", lambda: ladder.ridge(masked_y, 1.0)),
        ("penalty", lambda: ladder.ridge(y, masked_y)),
        ("prior", lambda: rk.regression.posterior(K, K, masked_y, y)),
        ("A", lambda: conditioning.condition_number(masked_K)),
    ):
        with pytest.raises(ValueError, match=f"^{name} is a masked array"):
            call()


DAMAGED = {
    "is a masked array": lambda M: np.ma.masked_array(M, M == M[0, 0]),
    "contains NaN or infinity": lambda M: np.where(M == M[0, 0], np.inf, M),
    "has dtype complex128": lambda M: M.astype(complex),
    "has dtype <U": lambda M: M.astype(str),
}


@pytest.mark.parametrize("says", DAMAGED)
def test_matrices_of_regression(says):
    K = 2.0 * np.eye(2) + A
    bad, y, regression = DAMAGED[says](K), np.ones(2), rk.regression

    class Foreign:
        def __call__(self, X, Z=None):
            return bad[: len(X), : len(X if Z is None else Z)]

        def diag(self, X):
            return K.diagonal()

    class Product:
        shape = K.shape

        def __matmul__(self, V):
            return DAMAGED[says](K @ V)

    for name, call in (
        ("K", lambda: regression.solve(bad, y)),
        ("K", lambda: regression.ridge(bad, y, 1.0)),
        ("K", lambda: regression.decompose(bad)),
        ("K", lambda: regression.posterior(bad, K, y, y)),
        ("cross", lambda: regression.posterior(K, bad, y, y)),
        ("K @ v", lambda: regression.solve(Product(), y)),
        ("kernel[(]X[)]", lambda: regression.pivoted_cholesky(Foreign(), X, 1)),
    ):
        with pytest.raises(ValueError, match=f"^{name} .*{says}"):
            call()
