"""Lists of signals of different lengths are taken where the guide says so."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import (
    KernelMatrix,
    LandmarkFeatures,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    View,
    ViewTransformer,
)
from tests.learn.cases import ONE_VIEW, ignores_scores, waves


@pytest.fixture
def lists(rng, tmp_path):
    """Signals of three lengths, what is fitted to them, and a folder."""
    X, y = waves(rng, 16, 2, channels=2)
    X, kernel = [x[:, : 20 + k % 3] for k, x in enumerate(X)], rk.ResCNTK(2, normalized=True)
    return SimpleNamespace(
        X=X,
        y=y,
        kernel=kernel,
        folder=tmp_path / "gram",
        classifier=ResidualKernelClassifier(**ONE_VIEW).fit(X, y),
        regressor=ResidualKernelRegressor(**ONE_VIEW).fit(X, 1.0 * y),
        machine=make_pipeline(KernelMatrix(kernel), SVC(kernel="precomputed")),
        process=GaussianProcessRegressor(SignalKernel(n_channels=2)),
    )


REFUSING = View(head="trace"), View(head="equivariant"), View(standardize="point")


def stored_gram(s):
    pytest.importorskip("zarr")
    return rk.stored.gram(s.folder, s.kernel.network, s.X, progress=False).ntk[:]


def jax_gram(s):
    pytest.importorskip("jax")
    return rk.jax.gram(s.kernel.network, s.X)


def searched(s):
    search = GridSearchCV(s.classifier, {"penalty": [0.1, 1]}, cv=2)
    return search.fit(s.X, s.y).predict(s.X)


ROWS_OF_LISTS = {
    "kernels with the head": [
        lambda s: s.kernel(s.X),
        lambda s: s.kernel.prepare(s.X)(s.X),
        lambda s: s.kernel.paired(s.X, s.X),
        lambda s: s.kernel.diag(s.X),
    ],
    "kernels with other heads": [
        lambda s: s.kernel.replace(head="trace")(s.X),
        lambda s: s.kernel.replace(head="equivariant")(s.X),
    ],
    "`gram`": [
        lambda s: rk.gram(s.kernel.network, s.X).ntk,
        lambda s: rk.pixel_shares(s.kernel.network, s.X, s.X),
        stored_gram,
    ],
    "`pixel_pairs`": [lambda s: rk.pixel_pairs(s.kernel.network, s.X), jax_gram],
    "views with the head": [
        lambda s: ViewTransformer(View(standardize="signal")).fit_transform(s.X),
        lambda s: ViewTransformer(View(standardize="channel")).fit_transform(s.X),
    ],
    "views with other heads": [lambda s, v=v: ViewTransformer(v).fit(s.X) for v in REFUSING],
    "predictions": [
        lambda s: s.classifier.predict(s.X),
        lambda s: s.classifier.predict_proba(s.X),
        lambda s: s.classifier.predict_set(s.X),
        lambda s: s.classifier.novelty(s.X),
        lambda s: s.regressor.predict(s.X, return_std=True)[1],
        lambda s: s.regressor.predict_interval(s.X, 0.8)[0],
    ],
    "contributions": [
        lambda s: s.classifier.contributions(s.X),
        lambda s: s.regressor.contributions(s.X),
        lambda s: s.classifier.contributions(s.X, of="channels"),
    ],
    "median contributions": [
        lambda s: s.classifier.median_contributions(),
        lambda s: s.regressor.median_contributions(),
    ],
    "`KernelMatrix`": [
        lambda s: KernelMatrix(s.kernel).fit_transform(s.X),
        lambda s: LandmarkFeatures(s.kernel).fit_transform(s.X),
    ],
    "scikit-learn's splits": [
        lambda s: s.machine.fit(s.X, s.y).predict(s.X),
        lambda s: cross_val_score(s.classifier, s.X, s.y, cv=2),
        searched,
    ],
    "scikit-learn's Gaussian": [lambda s: s.process.fit(s.X, 1.0 * s.y)],
    "images": [lambda s: s.kernel([x[:, :, None] for x in s.X])],
}
"""Calls by the first words of a row of the page's table, which stand in no other row."""


def rows_of_lists():
    """Return the rows of the page's table: what, and whether it takes lists."""
    page = (Path(__file__).parents[2] / "docs/guide/signals.md").read_text("utf-8")
    (table,) = re.findall(r"\| what \|.*\n\|.*\n((?:\|.*\n)+)", page)
    cells = (line.strip("| ").split(" | ") for line in table.splitlines())
    return {what: answer.startswith("yes") for what, answer in cells}


def test_the_page_has_a_row_for_each_kind_of_call():
    rows = [[row for row in rows_of_lists() if row.startswith(words)] for words in ROWS_OF_LISTS]
    assert all(len(found) == 1 for found in rows) and len(rows) == len(rows_of_lists())


@pytest.mark.slow
@ignores_scores  # of eight signals
@pytest.mark.parametrize(
    ("words", "call"),
    [
        pytest.param(words, call, id=f"{words}-{k}")
        for words, calls in ROWS_OF_LISTS.items()
        for k, call in enumerate(calls)
    ],
)
def test_lists_are_taken_where_the_page_says(words, call, lists):
    """Calls that take no lists refuse them, or return None."""
    (takes,) = (answer for row, answer in rows_of_lists().items() if row.startswith(words))
    try:
        found = call(lists)
    except ValueError:
        found = None
    assert (found is not None) == takes
    assert not takes or all(np.isfinite(part).all() for part in found)


@ignores_scores  # of eight signals
def test_estimators_leave_out_views_that_refuse_lists(lists):
    model = ResidualKernelClassifier([*REFUSING, View()], dtype="float64").fit(lists.X, lists.y)
    notes = model.views_["note"]
    assert all("different lengths" in note for note in notes[:3]) and not notes[3]
