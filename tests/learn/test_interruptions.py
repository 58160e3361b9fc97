"""Fits that threads share or that end early: the number of BLAS threads, and the model before."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import rescntk.learn
from rescntk.learn import (
    EarlyClassifier,
    KernelMatrix,
    LandmarkFeatures,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    View,
    ViewTransformer,
)
from rescntk.learn.ensemble.blas import one_blas_thread
from tests.helpers import rarely
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, ignores_scores, waves
from tests.learn.estimators import ESTIMATORS


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_blas_has_one_thread_in_fits_and_its_own_number_after_them(rng, monkeypatch):
    """Also where fits of several Python threads overlap."""
    X, y = waves(rng, 24, 2)
    inside, barrier = [], threading.Barrier(3)

    def work(k):
        barrier.wait()
        time.sleep(0.02 * k)  # the first ends while others work
        return ResidualKernelClassifier(**FOUR_VIEWS, random_state=k).fit(X, y).predict(X)

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        assert before and set(before) <= {1, 2}
        eigh = scipy.linalg.eigh

        def watched(*arguments, **options):
            inside.append(blas_threads())
            return eigh(*arguments, **options)

        monkeypatch.setattr(scipy.linalg, "eigh", watched)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, [0, 1, 2] * 3))
        assert inside and all(set(found) == {1} for found in inside)
        assert blas_threads() == before


def test_a_number_of_blas_threads_that_others_set_during_a_fit_stays():
    if any(each.get("threading_layer") == "openmp" for each in threadpool_info()):
        pytest.skip("each Python thread may have its own number with OpenMP")
    with threadpool_limits(1, "blas"):
        with one_blas_thread():
            threadpool_limits(2, "blas")  # and no end
            inside = blas_threads()
        assert blas_threads() == inside


def test_blas_has_its_own_number_of_threads_after_a_fit_that_fails(rng, monkeypatch):
    monkeypatch.setattr(scipy.linalg, "eigh", lambda *_, **__: [][0])
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(IndexError):
            ResidualKernelClassifier(**ONE_VIEW).fit(*waves(rng, 24, 2))
        assert blas_threads() == before


TINY = [View(standardize="point", filter_size=3, depth=1, length=6)]
INTERRUPTED = {
    "classifier": (ResidualKernelClassifier(TINY), lambda model, X: model.predict_proba(X)),
    "regressor": (ResidualKernelRegressor(TINY), lambda model, X: model.predict(X)),
    "view": (ViewTransformer(TINY[0]), lambda model, X: model.transform(X)),
    "matrix": (KernelMatrix(), lambda model, X: model.transform(X)),
    "landmarks": (LandmarkFeatures(n_landmarks=4), lambda model, X: model.transform(X)),
    "early": (
        EarlyClassifier(ResidualKernelClassifier(TINY), n_prefixes=1, random_state=0),
        lambda model, X: model.predict_proba(X),
    ),
}


@cache
def is_of_estimators(file):
    """Return whether a file is one of `rescntk.learn`, but for blas.py, which has its own tests."""
    path = Path(file)
    return Path(rescntk.learn.__file__).parent in path.parents and path.name != "blas.py"


def each_line(call, at):
    """Call, and raise KeyboardInterrupt where a line of the estimators comes up first.

    `at` counts such lines from 0. Return how many there are.
    """
    seen = set()

    def trace(frame, event, argument):
        if not is_of_estimators(frame.f_code.co_filename):
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in seen:
            seen.add(place)
            if len(seen) == at + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return len(seen)


def test_every_estimator_is_interrupted():
    assert {type(model) for model, _ in INTERRUPTED.values()} == set(map(type, ESTIMATORS))


@ignores_scores  # of few signals
@pytest.mark.parametrize("every", [23, *rarely(1)])
@pytest.mark.parametrize(("model", "result"), INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_an_interrupted_fit_leaves_the_model_as_it_was_or_fits_it(model, result, every, rng):
    """At each line that a fit comes to: a model that was fitted to other signals, and a new one."""
    (X, y), (Z, z) = waves(rng, 10, 2, length=12), waves(rng, 12, 2, length=12, channels=2)
    blas, fitted = blas_threads(), clone(model).fit(X, y)
    expected, whole = result(fitted, X), result(clone(model).fit(Z, z), Z)
    count = each_line(lambda: clone(model).fit(Z, z), np.inf)
    for at in [*range(0, count, every), count - 1]:
        for start in (copy(fitted), clone(model)):
            before = dict(vars(start))
            with pytest.raises(KeyboardInterrupt):
                each_line(lambda start=start: start.fit(Z, z), at)
            if before.keys() == vars(start).keys() and all(
                vars(start)[name] is value for name, value in before.items()
            ):
                continue
            assert (result(start, Z) == whole).all()
    assert (result(fitted, X) == expected).all() and blas_threads() == blas
