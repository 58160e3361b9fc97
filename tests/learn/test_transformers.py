"""KernelMatrix and LandmarkFeatures: in pipelines, searches and streams."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import KernelMatrix, LandmarkFeatures, SignalKernel, View, ViewTransformer, base
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import waves

KERNEL = rk.ResCNTK(2, normalized=True)


def test_kernel_matrices_in_pipelines_have_the_scores_of_precomputed_ones(rng):
    X, y = waves(rng, 30, 2)
    K, matrix = KERNEL(X), KernelMatrix(KERNEL)
    folds, machine = StratifiedKFold(3), SVC(kernel="precomputed", C=10.0)
    scores = cross_val_score(make_pipeline(matrix, machine), X, y, cv=folds)
    assert (scores == cross_val_score(machine, K, y, cv=folds)).all()  # slices rows and columns


@pytest.mark.parametrize("last", [KernelMatrix(KERNEL), LandmarkFeatures(KERNEL, 5)])
def test_pipelines_with_views_return_tables(last, rng, pd):
    """Views return signals, and the last step a table with names of its columns."""
    X, y = waves(rng, 20, 2)
    pipeline = make_pipeline(ViewTransformer(View(differences=True)), last)
    expected = pipeline.fit(X, y).transform(X)
    pipeline.set_output(transform="pandas")
    for table in (pipeline.transform(X), pipeline.fit(X, y).transform(X)):
        assert isinstance(table, pd.DataFrame) and (table.to_numpy() == expected).all()
        assert table.columns.tolist() == last.get_feature_names_out().tolist()
    assert pipeline[0].transform(X).shape == (20, 3, 24)


def test_pipelines_of_tables_classify_as_those_of_arrays(rng, pd):
    X, y = waves(rng, 20, 2)
    machine = SVC(kernel="precomputed", C=10.0)
    whole = make_pipeline(ViewTransformer(), KernelMatrix(KERNEL), machine)
    predicted = whole.fit(X, y).predict(X)
    assert (whole.set_output(transform="pandas").fit(X, y).predict(X) == predicted).all()


def test_views_refuse_unknown_kinds_of_tables():
    with pytest.raises(ValueError, match="^transform is 'excel', expected one of"):
        ViewTransformer(View()).set_output(transform="excel")


def test_kernel_matrix_keeps_its_own_copy(rng):
    X = rng.standard_normal((5, 1, 6))
    for signals in (X, [X[0], X[1, :, :3], X[2]]):
        matrix = KernelMatrix().fit(signals)
        probe = [x.copy() for x in signals]
        before = matrix.transform(probe)
        for x in signals:
            x[:] = 0.0
        assert (matrix.transform(probe) == before).all()


@pytest.fixture(params=[3, None])
def flat_matrix(request, rng):
    """A transformer whose kernel knows the number of channels, or not; flat signals; signals."""
    kernel, F = SignalKernel(depth=2, n_channels=request.param), rng.standard_normal((6, 12))
    return KernelMatrix(kernel), F, F.reshape(6, request.param or 1, -1)


def test_flat_signals_have_the_kernel_matrix_of_signals(flat_matrix):
    matrix, F, signals = flat_matrix
    K = matrix.kernel(signals)
    assert (matrix.fit_transform(F) == K).all() and (matrix.transform(F[:2]) == K[:2]).all()


def test_flat_signals_and_signals_are_compared(flat_matrix):
    matrix, F, signals = flat_matrix
    K = matrix.kernel(signals)
    assert (matrix.fit(F).transform(signals[:2]) == K[:2]).all()
    assert (matrix.fit(signals).transform(F[:2]) == K[:2]).all()


def test_flat_signals_have_the_shape_of_signals(flat_matrix):
    matrix, F, signals = flat_matrix
    matrix.fit(F)
    assert (matrix.n_channels_, matrix.n_timepoints_) == signals.shape[1:]


def test_images_have_the_height_and_width_of_those_fitted(rng):
    matrix = KernelMatrix(KERNEL).fit(rng.standard_normal((4, 2, 3, 5)))
    assert (matrix.n_channels_, matrix.n_timepoints_) == (2, (3, 5))
    for height, width in ((4, 5), (3, 6), (5, 3)):
        says = rf"2 channels × \({height}, {width}\) .* 2 channels × \(3, 5\) .* as in fit"
        with pytest.raises(ValueError, match=says):
            matrix.transform(rng.standard_normal((1, 2, height, width)))


@pytest.fixture(params=["float64", "float32"])
def features(request, rng):
    """Features of waves by eight landmarks, the kernel matrix, and their rounding errors."""
    X, _ = waves(rng, 20, 2, length=12)
    kernel = SignalKernel(depth=2, engine="array", dtype=request.param)
    transformer = LandmarkFeatures(kernel, 8)
    return SimpleNamespace(
        X=X,
        transformer=transformer,
        F=transformer.fit_transform(X),
        K=KERNEL(X, engine="array"),
        dtype=request.param,
        limit=20 * np.sqrt(tolerances.EPS[request.param]),
    )


def test_landmarks_are_signals_that_were_given(features):
    indices = features.transformer.landmark_indices_
    assert (features.transformer.signals_ == features.X[indices]).all()


def test_features_have_the_kernel_s_dtype(features):
    n_landmarks = len(features.transformer.landmark_indices_)
    assert features.F.dtype == features.dtype and features.F.shape == (20, n_landmarks)


def test_products_of_features_with_those_of_landmarks_are_the_kernel(features):
    differences = np.abs(features.F @ features.F.T - features.K)
    assert differences[features.transformer.landmark_indices_].max() <= features.limit


def test_features_of_a_fit_are_those_of_a_transformation(features):
    again = features.transformer.transform(features.X[::-1])[::-1]
    assert np.abs(again - features.F).max() <= features.limit


def test_the_residual_is_that_of_the_trace(features):
    rest = features.K - features.F.astype(float) @ features.F.T
    share = np.trace(rest) / np.trace(features.K)
    assert abs(features.transformer.residual_ - share) <= features.limit and share < 0.2


def test_landmarks_are_the_same_in_each_fit(rng):
    """By default; other seeds have others."""
    X, _ = waves(rng, 30, 2)
    first, again, other = (
        LandmarkFeatures(KERNEL, 6, **seed).fit(X).landmark_indices_.tolist()
        for seed in ({}, {}, {"random_state": 1})
    )
    assert first == again != other


def test_landmarks_of_a_seed_are_those_of_earlier_versions():
    """Models that are fitted anew have the landmarks that they had."""
    X = np.array([[np.sin((k + 1) * np.arange(12.0) / 4 + k)] for k in range(30)])
    for seed, landmarks in ((0, [11, 22, 21, 29, 5, 24]), (1, [20, 12, 24, 25, 6, 8])):
        features = LandmarkFeatures(KERNEL, 6, random_state=seed).fit(X)
        assert features.landmark_indices_.tolist() == landmarks


def test_landmarks_that_others_explain_are_not_taken(rng, recwarn):
    """Without a warning: the features are exact."""
    X = np.tile(rng.standard_normal((6, 1, 9)), (2, 1, 1))
    F = LandmarkFeatures(SignalKernel(depth=2, engine="array")).fit_transform(X)
    assert F.shape == (12, 6) and not recwarn
    assert_within(F @ F.T, KERNEL(X, engine="array"), tolerances.ROUTES)


def test_signals_without_a_landmark_are_refused():
    with pytest.raises(ValueError, match="kernel is 0 at all signals"):
        LandmarkFeatures(SignalKernel(depth=2, engine="array")).fit(np.zeros((4, 1, 5)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kernel": "rbf"}, "expected a rescntk.Kernel"),
        ({"n_landmarks": 0}, "n_landmarks is 0"),
        ({"kernel": SignalKernel(dtype="float16")}, "dtype is 'float16', expected one of"),
    ],
)
def test_wrong_parameters_are_refused(changes, says, rng):
    with pytest.raises(ValueError, match=says):
        LandmarkFeatures(**changes).fit(rng.standard_normal((5, 1, 6)))


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (rk.__version__, 0),
        (f"{rk.__version__}.99", 0),
        ("0.0.7", 1),
        ("99.1.0", 1),
        ("(unknown)", 1),
    ],
)
def test_models_of_other_versions_warn(version, told, rng, monkeypatch):
    """A warning names both versions where the first two numbers differ."""
    X = rng.standard_normal((5, 1, 6))
    matrix = KernelMatrix().fit(X)
    monkeypatch.setattr(base, "__version__", version)
    file = pickle.dumps(matrix)
    monkeypatch.undo()
    if version == "(unknown)":
        file = file.replace(b"_rescntk_version", b"_another_version")
    loaded = f"and is loaded by rescntk {rk.__version__}: "
    says = f"this KernelMatrix was saved by rescntk {version}, {loaded}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = pickle.loads(file)
    assert [says in str(warning.message) for warning in caught] == [True] * told
    assert (again.transform(X) == matrix.transform(X)).all()
