"""Stored Grams have the values of one call in memory; what is read of them, and products."""

import shutil

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.helpers import assert_within
from tests.stored.grams import BLOCK, NET, assert_same, compute, lists, signals, stored


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1, {"kinds": "ntk"}),
        (BLOCK, {"normalized": True, "head": "trace"}),
        (BLOCK, {"normalized": True, "head": 4}),
        (2 * BLOCK + 3, {"depths": (3, 1)}),
    ],
)
def test_values_are_those_of_one_call(path, computed, n, options):
    """Half of a symmetric matrix is computed, and no block is computed twice."""
    blocks = -(-n // BLOCK)
    for _ in range(2):
        assert_same(compute(path, signals(n), **options), signals(n), **options)
        assert len(computed()) == blocks * (blocks + 1) // 2


IMAGES = signals(9).reshape(9, 2, 2, 4)


@pytest.mark.parametrize(
    ("X", "Z", "options"),
    [
        pytest.param(signals(BLOCK + 3), signals(3, seed=1), {"depths": (1, 2)}, id="rectangle"),
        pytest.param(lists(2 * BLOCK + 1), None, {"normalized": True}, id="lists"),
        pytest.param(lists(BLOCK + 1), lists(5), {"normalized": True}, id="rectangle of lists"),
        pytest.param(IMAGES, None, {}, id="images"),
        pytest.param(IMAGES, IMAGES[:2], {}, id="rectangle of images"),
    ],
)
def test_rectangles_lists_and_images_have_the_values_of_one_call(path, X, Z, options):
    assert_same(compute(path, X, Z, **options), X, Z, **options)


def test_a_rectangle_has_blocks_of_both_sides(path):
    K = compute(path, signals(BLOCK + 3), signals(3, seed=1), depths=(1, 2))
    assert K.ntk.chunks == (1, BLOCK, 3)


def test_a_description_in_words_reads_no_block(path):
    K = compute(path, signals(3))
    for folder in ("gpk", "ntk"):
        shutil.rmtree(path / folder)
    assert repr(K) == f"StoredGram({str(path)!r}, shape=(3, 3), kinds=['gpk', 'ntk'])"


def test_turned_images_are_other_signals(path):
    compute(path, IMAGES)
    with pytest.raises(ValueError, match="X shape is .* there, .* here"):
        compute(path, IMAGES.swapaxes(2, 3))


def test_calls_with_equal_arguments_of_other_types_are_equal(path):
    K = compute(path, signals(3), dtype=np.float64, kinds=iter(["gpk"]), depths=iter([2]))
    assert (K.gpk[0] == rk.gram(NET, signals(3)).gpk).all()
    assert compute(path, signals(3), dtype="float64", kinds=["gpk"], depths=[2]).complete


def test_zeros_of_both_signs_are_one_signal(path):
    X = -signals(5) * (np.arange(8) > 0)
    assert_same(compute(path, X), X)
    assert_same(compute(path, X + 0.0), X)


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert compute("~/home.zarr", signals(3)).path == tmp_path.resolve() / "home.zarr"
    assert stored.open("~/home.zarr").complete


@pytest.fixture
def of_19_signals(path):
    """Return a stored matrix of three blocks, and the same matrix in memory."""
    X = signals(2 * BLOCK + 3)
    return compute(path, X, kinds="ntk"), rk.gram(NET, X, dtype="float32").ntk.astype(float)


def test_products_are_those_of_the_matrix(of_19_signals, rng):
    K, dense = of_19_signals
    V = rng.standard_normal((len(dense), 3))
    for v in (V, V[:, 0], V[:, :1]):
        assert_within(K @ v, dense @ v, tolerances.added_up(19), (np.abs(dense) @ np.abs(v)).max())


def test_equations_with_a_stored_matrix_are_solved(of_19_signals, rng):
    K, dense = of_19_signals
    V, residual = rng.standard_normal((len(dense), 3)), 1e-10
    found = regression.solve(K, V, 0.5, tolerance=residual)
    bar = residual * np.linalg.cond(dense + 0.5 * np.eye(len(dense)))
    assert_within(found, regression.ridge(dense, V, 0.5), bar)


def test_a_matrix_of_one_kernel_of_several(path):
    X, Z = signals(BLOCK + 1), signals(3, seed=1)
    several = compute(path, X, Z, depths=(1, 3))
    expected = rk.gram(NET, X, Z, depths=(1, 3), dtype="float32").gpk[1].astype(float)
    found = several.matrix("gpk", 3) @ Z[:, 0, 0]
    assert_within(found, expected @ Z[:, 0, 0], tolerances.added_up(3))


ONE, SEVERAL = {"kinds": "ntk"}, {"depths": (1, 3)}


@pytest.mark.parametrize(
    ("options", "read", "says"),
    [
        (ONE, lambda K: K.gpk, "kind is 'gpk', expected one of 'ntk'"),
        (ONE, lambda K: K @ np.ones(4), "[Dd]imension mismatch"),
        (
            SEVERAL,
            lambda K: K @ np.ones(3),
            r"has the kinds \['gpk', 'ntk'\]: give K.matrix\('gpk'\)",
        ),
        (SEVERAL, lambda K: K.matrix("ntk"), r"depth is None, expected one of \[1, 3\]"),
        (SEVERAL, lambda K: K.matrix("ntk", 2), r"depth is 2, expected one of \[1, 3\]"),
    ],
)
def test_readings_are_refused(path, options, read, says):
    K = compute(path, signals(3), **options)
    with pytest.raises(ValueError, match=says):
        read(K)
