"""rescntk.learn: what is chosen, how it scores, and what is said about bad signals."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
    readouts,
    search,
    views,
)
from tests import tolerances

QUICK = {
    "depth": (1, 2),
    "filter_size": 3,
    "input_filter_size": (1, 5),
    "constant": False,
    "slopes": False,
}


def waves(rng, n, classes, length=24, channels=1):
    """Sines of as many frequencies as classes, with phases of their own and some noise."""
    labels = np.arange(n) % classes
    frequency = 0.4 + 0.5 * labels[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (n, channels, 1))
    X = np.sin(np.arange(length) * frequency + phase)
    return X + 0.1 * rng.standard_normal(X.shape), labels


# -- readouts


def bordered(K, Y, penalty):
    """Ridge regression with an intercept from its normal equations."""
    n = len(K)
    ridge = penalty * np.mean(K.diagonal())
    system = np.block(
        [[K + ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
    )
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solution[:-1], solution[-1]


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 10.0])
def test_ridge_and_leaving_one_out(penalty, rng):
    K = rk.ResCNTK(2, normalized=True)(rng.standard_normal((15, 2, 8)))
    Y = rng.standard_normal((15, 3))
    path = readouts.RidgePath(K, Y)
    coefficients, intercepts = bordered(K, Y, penalty)
    fitted = path.fit(penalty)
    np.testing.assert_allclose(fitted.coefficients, coefficients, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.intercepts, intercepts, rtol=1e-6, atol=1e-9)
    left_out = path.left_out(penalty)
    for i in range(15):
        rest = np.delete(np.arange(15), i)
        # All diagonals are 1, so that the unit of the penalty is the same without one case.
        coefficients, intercepts = bordered(K[np.ix_(rest, rest)], Y[rest], penalty)
        np.testing.assert_allclose(
            left_out[i], K[i, rest] @ coefficients + intercepts, rtol=1e-6, atol=1e-9
        )
    np.testing.assert_allclose(path.residuals([penalty])[0], Y - left_out)


def test_support_vectors_are_sklearns(rng):
    K = rk.ResCNTK(2)(rng.standard_normal((20, 2, 8)))
    Y = np.where(rng.standard_normal((20, 2)) > 0, 1.0, -1.0)
    Y[:, 1] = 1.0  # one sign alone
    decisions = readouts.support_vectors(K, Y, 10.0)(K)
    machine = SVC(kernel="precomputed", C=10.0).fit(K / K.diagonal().mean(), Y[:, 0])
    expected = machine.decision_function(K / K.diagonal().mean())
    np.testing.assert_allclose(decisions[:, 0], expected, atol=1e-10)
    assert (decisions[:, 1] == 1.0).all()


def test_held_out_does_not_see_the_fold(rng):
    K, Y = np.eye(6), rng.standard_normal((6, 1))
    folds = [(np.array([2, 3, 4, 5]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3, 4, 5]))]
    decisions = readouts.held_out(K, Y, folds, lambda K, Y: readouts.ridge(K, Y, 1.0))
    np.testing.assert_allclose(decisions[:2, 0], Y[2:].mean())  # nothing in common: the mean
    np.testing.assert_allclose(decisions[2:, 0], Y[:2].mean())


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_finds_the_sharpness(classes, rng):
    """Labels drawn from softmax(s · decisions): s is found within 5 standard errors."""
    n, true = 4000, 1.7
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    chances = readouts.probabilities(decisions, true)
    labels = (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    sharpness, losses = readouts.calibrate(decisions, labels)
    columns = readouts.margins(decisions)
    mean = (chances * columns).sum(axis=1, keepdims=True)
    information = (chances * (columns - mean) ** 2).sum()
    # Smoothed labels pull by 2/n, which is less than a standard error.
    assert abs(sharpness - true) <= tolerances.STANDARD_ERRORS / np.sqrt(information)
    own = -np.log(chances[np.arange(n), labels])
    # Smoothing moves 1/(n + 2) of the weight to other classes; the sharpness is the best one.
    assert losses.mean() == pytest.approx(own.mean(), abs=0.01)


def test_calibration_stays_finite_when_all_is_right():
    decisions, labels = np.array([[-1.0], [1.0], [2.0]]), np.array([0, 1, 1])
    sharpness, _ = readouts.calibrate(decisions, labels)
    assert 0 < sharpness < 100
    assert readouts.probabilities(decisions, sharpness).min() > 1e-3


# -- views


def test_shorten():
    X = np.array([[[1.0, 3.0, 5.0, 5.0, 8.0]]])
    np.testing.assert_allclose(views.shorten(X, 3), [[[2.0, 5.0, 8.0]]])
    np.testing.assert_allclose(
        views.shorten(X, 3, spread=True)[0],
        [[2.0, 5.0, 8.0], [1.0, 0.0, 0.0], [1.0, 5.0, 8.0], [3.0, 5.0, 8.0]],
    )
    for same in (None, 5, 100):
        assert views.shorten(X, same, spread=True) is X
    assert views.shorten(np.zeros((2, 3, 1460)), 128).shape == (2, 3, 122)


def test_views_take_their_scales_from_training_signals(rng):
    X, Z = 3 + 2 * rng.standard_normal((2, 6, 2, 40))
    X[:, 1] *= 100
    view = views.View(20, spread=True, standardize=True, slopes=True, constant=True).fit(X)
    seen = view(X)
    assert seen.shape == (6, 17, 20)  # mean, spread, least, most of 2 channels; slopes; constant
    np.testing.assert_allclose(seen[:, :8].mean(axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(seen[:, :8].std(axis=(0, 2)), 1)
    np.testing.assert_allclose(seen[:, 8:16].std(axis=(0, 2)), 1)
    np.testing.assert_allclose(seen[:, 16], 1)
    both = view(np.concatenate([X, Z]))
    assert (both[:6] == seen).all()
    assert (both[6:] == view(Z)).all()
    plain = views.View().fit(X)
    assert (plain(X) == X).all()


def test_constant_channels_do_no_harm():
    X = np.ones((4, 2, 10))
    for view in (views.View(None, False, True, True, True), views.View(4, True, True, True, True)):
        assert np.isfinite(view.fit(X)(X)).all()
        assert np.isfinite(view.fit(0 * X)(0 * X)).all()


# -- the search


def test_each_matrix_is_computed_once(rng, monkeypatch):
    calls = []

    def counted(network, X, **options):
        calls.append((network, options["head"], X.tobytes()))
        return rk.gram(network, X, **options)

    monkeypatch.setattr(search, "gram", counted)
    X, y = waves(rng, 12, 2)
    model = ResidualKernelClassifier(
        depth=(1, 3, 2),
        filter_size=(3, 99),
        input_filter_size=(1, 5, 99),
        constant=(False, True),
        readout="ridge",
    )
    model.fit(X, y)
    # slopes × constant × filters that fit × heads; the waves are standardized already.
    assert len(calls) == len(set(calls)) == 2 * 2 * 2 * 2
    table = model.search_results_
    assert len(table["error"]) == len(calls) * 3 * 2 * 2  # depths × kinds × normalized
    assert model.best_error_ == table["error"][np.argmin(table["error"])]
    for name in ("head", "kind", "depth", "input_filter_size", "slopes", "normalized"):
        assert model.best_params_[name] == table[name][np.argmin(table["error"])]


def test_from_coarse_to_fine(rng):
    """Fine detail decides: the search goes on to greater lengths; otherwise it stops."""
    y = np.arange(24) % 2
    X = rng.standard_normal((24, 1, 64))
    X[:, 0, 1:] += np.where(y == 1, 1, -1)[:, None] * X[:, 0, :-1]
    options = QUICK | {"max_length": (16, 32, 64, 128), "spread": False, "head": "gap"}
    model = ResidualKernelClassifier(**options).fit(X, y)
    assert model.best_params_["max_length"] == 64  # nothing is longer
    assert set(model.search_results_["max_length"]) == {16, 32, 64}
    slow, y = waves(rng, 24, 2, length=32)
    slow = np.repeat(slow, 4, axis=2)
    model = ResidualKernelClassifier(**options).fit(slow, y)
    assert set(model.search_results_["max_length"]) == {16, 32}  # 32 points tell all


def test_what_was_chosen_is_what_predicts(rng):
    X, y = waves(rng, 30, 3)
    model = ResidualKernelClassifier(readout="ridge", **QUICK).fit(X[:20], y[:20])
    chosen = model.best_params_
    assert model.kernel_.head == chosen["head"]
    assert model.kernel_.kind == chosen["kind"]
    assert model.kernel_.network.depth == chosen["depth"]
    seen = model.view_(X)
    K = model.kernel_(seen)
    Y = readouts.one_against_rest(y[:20], 3)
    path = readouts.RidgePath(K[:20, :20], Y)
    error = np.mean(path.residuals(chosen["penalty"]) ** 2)
    assert error == pytest.approx(model.best_error_)
    expected = path.fit(chosen["penalty"])(K[20:, :20])
    np.testing.assert_allclose(model.decision_function(X[20:]), expected, atol=1e-10)
    assert model.score(X[20:], y[20:]) == 1.0


# -- classifier


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("readout", ["ridge", "svm"])
def test_classifier(classes, readout, rng):
    X, y = waves(rng, 60, classes, channels=2)
    names = np.array(["a", "b", "c"])[y]
    model = ResidualKernelClassifier(readout=readout, **QUICK).fit(X[:30], names[:30])
    assert model.best_params_["readout"] == readout
    assert (model.classes_ == np.unique(names)).all()
    predicted = model.predict(X[30:])
    assert np.mean(predicted == names[30:]) > 0.9
    chances = model.predict_proba(X[30:])
    assert chances.shape == (30, classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.classes_[chances.argmax(axis=1)] == predicted).all()
    decisions = model.decision_function(X[30:])
    assert decisions.shape == ((30,) if classes == 2 else (30, 3))
    if classes == 2:
        assert (model.classes_[(decisions > 0).astype(int)] == predicted).all()
    assert 0.8 < model.best_score_ <= 1.0


def test_same_result_every_time_and_inputs_untouched(rng):
    X, y = waves(rng, 20, 2)
    before = X.copy()
    X.flags.writeable = False
    one, other = (ResidualKernelClassifier(**QUICK).fit(X, y) for _ in range(2))
    assert (one.predict_proba(X) == other.predict_proba(X)).all()
    assert one.best_params_ == other.best_params_
    assert (before == X).all()


def test_two_axes_are_one_channel(rng):
    X, y = waves(rng, 20, 2)
    flat = ResidualKernelClassifier(**QUICK).fit(X[:, 0], y)
    deep = ResidualKernelClassifier(**QUICK).fit(X, y)
    assert (flat.decision_function(X) == deep.decision_function(X[:, 0])).all()


def test_any_depth_when_normalized(rng):
    X, y = waves(rng, 12, 2, length=6)
    options = QUICK | {"depth": (1, 1500), "head": "trace", "input_filter_size": 1}
    model = ResidualKernelClassifier(normalized=True, readout="ridge", **options).fit(X, y)
    assert np.isfinite(model.search_results_["error"]).all()
    with pytest.raises(OverflowError, match="normalized=True"):
        ResidualKernelClassifier(normalized=False, **options).fit(X, y)


def test_a_class_of_one_case(rng):
    X, y = waves(rng, 20, 2)
    y[0] = 7
    assert ResidualKernelClassifier(**QUICK).fit(X, y).best_params_["readout"] == "ridge"
    with pytest.raises(ValueError, match="readout='ridge'"):
        ResidualKernelClassifier(readout="svm", **QUICK).fit(X, y)


def test_classes_of_one_case_are_not_judged(rng):
    """The error counts where the class is known without the case; too few such, and no search."""
    X, y = waves(rng, 18, 3)
    y[:4] = [10, 11, 12, 13]  # four cases alone in their class, fourteen in company
    model = ResidualKernelClassifier(**QUICK).fit(X, y)
    row = np.argmin(model.search_results_["error"])
    labels = np.unique(y, return_inverse=True)[1]
    Y = readouts.one_against_rest(labels, 7)
    K = model.kernel_(model.view_(X))
    penalty = model.search_results_["penalty"][row]
    errors = (readouts.RidgePath(K, Y).left_out(penalty) - Y)[4:]
    assert model.best_error_ == pytest.approx(np.mean(errors**2))

    few = np.array([0, 1, 2, 3, 4, 5, 6])
    one_each = [0, 1, 2, 3, 4, 5, 5]
    model = ResidualKernelClassifier(**QUICK).fit(X[few], one_each)
    assert len(model.search_results_["error"]) == 1
    chosen = {"depth": 2, "head": "gap", "kind": "ntk", "normalized": True, "penalty": 1e-2}
    assert chosen.items() <= model.best_params_.items()
    assert model.best_params_["input_filter_size"] == 5


# -- regressor


def test_regressor_with_several_targets(rng):
    frequency = rng.uniform(0.3, 1.2, 70)
    level = rng.uniform(-1, 1, 70)
    X = np.sin(np.arange(30) * frequency[:, None] + rng.uniform(0, 6, (70, 1))) + level[:, None]
    targets = np.stack([1000 * frequency, level], axis=1)
    model = ResidualKernelRegressor(depth=(1, 2), head="gap").fit(X[:50], targets[:50])
    assert model.predict(X[50:]).shape == (20, 2)
    assert model.score(X[50:], targets[50:]) > 0.9
    assert model.best_score_ > 0.9
    assert model.best_error_ == model.search_results_["error"].min()
    assert model.best_score_ <= 1 - model.best_error_
    one = ResidualKernelRegressor(depth=(1, 2), head="gap").fit(X[:50], targets[:50, 1])
    assert one.predict(X[50:]).shape == (20,)
    assert one.score(X[50:], targets[50:, 1]) > 0.9


def test_regressor_scores_by_leaving_one_out(rng):
    X, y = rng.standard_normal((12, 2, 8)), rng.standard_normal(12)
    options = {"depth": 2, "input_filter_size": 1, "head": "trace", "kind": "gpk", "filter_size": 3}
    options |= {"standardize": False, "slopes": False, "normalized": True, "penalty": 0.1}
    errors = []
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        view = views.View(128, constant=True).fit(X)
        K = rk.ResCGPK(2, head="trace", normalized=True)(view(X))
        coefficients, intercept = bordered(K[np.ix_(rest, rest)], y[rest, None], 0.1)
        errors.append(K[i, rest] @ coefficients[:, 0] + intercept[0] - y[i])
    model = ResidualKernelRegressor(**options).fit(X, y)
    assert model.best_error_ == pytest.approx(np.mean(np.square(errors)) / y.var(), rel=1e-9)


def test_constant_target(rng):
    X = rng.standard_normal((8, 1, 6))
    model = ResidualKernelRegressor(**QUICK).fit(X, np.full(8, 3.5))
    np.testing.assert_allclose(model.predict(X), 3.5)


# -- matrix and scaler


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


def test_scaler(rng):
    X = np.array([1.0, -5.0])[:, None] + np.array([3.0, 0.01])[:, None] * rng.standard_normal(
        (7, 2, 9)
    )
    scaler = SignalScaler()
    Z = scaler.fit_transform(X)
    np.testing.assert_allclose(Z.mean(axis=(0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=(0, 2)), 1)
    np.testing.assert_allclose(scaler.inverse_transform(Z), X)
    assert SignalScaler().fit_transform(X[:, 0]).shape == (7, 9)
    flat = np.full((4, 2, 5), 0.1)
    assert (np.abs(SignalScaler().fit_transform(flat)) < 1e-15).all()
    assert (SignalScaler(with_mean=False, with_std=False).fit_transform(X) == X).all()


# -- what is said about bad signals and parameters

ALL = [
    ResidualKernelClassifier(**QUICK),
    ResidualKernelRegressor(**QUICK),
    KernelMatrix(),
    SignalScaler(),
]


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
def test_errors_say_what_to_do(model, rng):
    X, y = waves(rng, 10, 2)
    ragged = [X[0, :, :20], *X[1:]]
    objects = np.empty(10, dtype=object)
    objects[:] = ragged
    for unequal in (ragged, objects, [x[0] for x in ragged]):
        with pytest.raises(ValueError, match=r"20 to 24 time points.*Resizer"):
            model.fit(unequal, y)
    with pytest.raises(ValueError, match=r"channels, expected one number"):
        model.fit([X[0].repeat(2, axis=0), *X[1:]], y)
    broken = X.copy()
    broken[3, 0, 5] = np.nan
    with pytest.raises(ValueError, match=r"first in case 3.*SimpleImputer"):
        model.fit(broken, y)
    model.fit(X, y)
    use = model.predict if hasattr(model, "predict") else model.transform
    with pytest.raises(ValueError, match=r"1 channel × 20 time points.*1 channel × 24"):
        use(X[:, :, :20])
    with pytest.raises(ValueError, match=r"2 channels × 24.*Resizer"):
        use(X.repeat(2, axis=1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "depth is 0"),
        ({"depth": ()}, "depth is empty"),
        ({"filter_size": 4}, "filter_size is 4"),
        ({"input_filter_size": "wide"}, "input_filter_size is 'wide'"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": ("gap", "mean")}, "head is 'mean'"),
        ({"standardize": "yes"}, "standardize is 'yes'"),
        ({"penalty": 0.0}, "penalty is 0.0, expected a positive number"),
        ({"max_length": 0}, "max_length is 0"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"readout": "tree"}, "readout is 'tree'"),
        ({"C": -1.0}, "C is -1.0"),
        ({"cv": 0}, "cv is 0"),
        ({"finalists": 0}, "finalists is 0"),
        ({"engine": "gpu"}, "engine is 'gpu'"),
    ],
)
def test_parameters_are_checked(parameters, message, rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match=message):
        ResidualKernelClassifier(**(QUICK | parameters)).fit(X, y)


def test_other_refusals(rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match="one class"):
        ResidualKernelClassifier(**QUICK).fit(X, np.zeros(10))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ResidualKernelClassifier(**QUICK).fit(X, y[:-1])
    with pytest.raises(ValueError, match="dim 3"):
        ResidualKernelRegressor(**QUICK).fit(X, np.zeros((10, 1, 1)))


def test_nothing_is_imported_unless_used():
    code = "import sys, rescntk; assert not {'sklearn', 'aeon', 'sktime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("module", "missing", "remedy"),
    [
        ("rescntk.learn", "sklearn", "rescntk[learn]"),
        ("rescntk.learn.aeon", "aeon", "rescntk[datasets]"),
        ("rescntk.learn.sktime", "sktime", "pip install sktime"),
    ],
)
def test_what_is_missing_is_said_in_one_line(module, missing, remedy):
    code = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert remedy in last
