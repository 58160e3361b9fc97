"""How much a fit computes: views and landmarks for a number of signals."""

import re

import numpy as np
import pytest

from rescntk.learn import ResidualKernelClassifier, View
from rescntk.learn.ensemble import budget
from rescntk.learn.ensemble.settings import Settings
from rescntk.learn.views.defaults import (
    CLASSIFIER_DEFAULTS,
    COVARIANCES,
    REGRESSOR_DEFAULTS,
    with_savings,
)
from rescntk.learn.views.suitable import suitable_views
from tests.learn.cases import ONE_VIEW, waves
from tests.learn.estimators import fitted_views

SIZES = np.unique(np.geomspace(1001, 40_000, 30).astype(int))


def chosen(n, views="default", channels=1, length=64, **parameters):
    """Return the views of n signals, and the number of their landmarks."""
    X = np.broadcast_to(np.sin(np.arange(length)), (n, channels, length))
    settings = Settings(views, **parameters)
    suitable = budget.chosen_views(settings, CLASSIFIER_DEFAULTS, X)
    pipelines = suitable.pipelines
    landmarks = budget.draw_landmarks(settings, pipelines, X, np.random.RandomState(0))
    m = n if landmarks is None else len(landmarks)
    return suitable.views, m, budget._work(pipelines, X, m)


@pytest.mark.parametrize("views", ["default", "fast"])
@pytest.mark.parametrize("length", [1, 8, 64, 5000])
def test_a_thousand_signals_of_ten_channels_have_all_views_and_landmarks(views, length):
    for channels in (1, 10):
        given, m, _ = chosen(1000, views, channels, length)
        covariances = () if channels == 1 else (COVARIANCES,)
        assert tuple(given) == CLASSIFIER_DEFAULTS[views] + covariances and m == 1000


@pytest.mark.parametrize("views", ["default", "fast"])
@pytest.mark.parametrize("length", [24, 256])
def test_no_signal_more_changes_the_work_much(views, length):
    """Two percent more signals neither: 1.6 is allowed on both sides of a number of signals."""
    works = [chosen(n, views, length=length)[2] for n in np.geomspace(1000, 4000, 70).astype(int)]
    assert np.abs(np.diff(np.log(works))).max() < np.log(1.6)


@pytest.mark.parametrize("views", ["default", "fast"])
@pytest.mark.parametrize("length", [24, 256])
def test_more_signals_have_no_more_views(views, length):
    """All signals are landmarks as far as the budget goes, then fewer and fewer, to a least one."""
    rows = [chosen(n, views, length=length) for n in SIZES]
    assert (np.diff([len(given) for given, _, _ in rows]) <= 0).all()
    some = [m for n, (_, m, _) in zip(SIZES, rows, strict=True) if m < n]
    assert (np.diff(some) <= 0).all() and some[-1] == budget.LEAST_LANDMARKS
    for _, m, work in rows:
        assert work <= budget._BUDGETS[views] or m == budget.LEAST_LANDMARKS
        assert m <= budget.MOST_LANDMARKS


def test_many_channels_count_as_more_signals():
    """A tenth of the channels, above ten."""
    work = [chosen(60, channels=channels)[2] for channels in (2, 10, 200)]
    assert work[0] == work[1] and work[2] > 10 * work[1]


def test_signals_of_many_channels_have_fewer_fine_points():
    """As if there were a tenth of the channels more signals, above ten channels."""
    view = View(length="fine")
    shape = 100, 40, 3000
    points = view.pipeline(np.zeros(shape)).n_points
    assert points == view.pipeline(np.zeros((400, 1, 3000))).n_points
    assert points < view.pipeline(np.zeros((100, 10, 3000))).n_points


@pytest.mark.parametrize("defaults", [CLASSIFIER_DEFAULTS, REGRESSOR_DEFAULTS])
@pytest.mark.parametrize("views", ["default", "fast"])
def test_savings_save_work(defaults, views):
    """Of long signals, each a part; views stay different, and other views stay."""
    X = np.zeros((2000, 1, 512))
    lists = list(with_savings(defaults[views]))
    assert lists[0] == defaults[views] and len(lists) > 2
    work = [sum(pipeline.work for pipeline in suitable_views(each, X).pipelines) for each in lists]
    assert (np.diff(work) < 0).all()
    for each in lists:
        assert len(set(each)) == len(each)


def test_given_numbers_of_landmarks_are_drawn():
    assert chosen(5000, n_landmarks=70)[1] == 70
    assert chosen(5000, [View()], n_landmarks=7000)[1] == 5000


def test_landmarks_are_drawn_within_the_budget_of_a_fit(rng, monkeypatch):
    X, y = waves(rng, 60, 2, length=4)
    monkeypatch.setattr(budget, "LEAST_LANDMARKS", 20)
    monkeypatch.setitem(budget._BUDGETS, "default", 7e4)
    model = ResidualKernelClassifier(**ONE_VIEW, random_state=0).fit(X, y)
    (view,) = fitted_views(model)
    m = len(view.landmarks)
    work = [budget._work([view.pipeline], X, k) for k in (m, m + 1)]
    assert 20 < m < 60 and work[0] <= 7e4 < work[1]


@pytest.mark.parametrize("n", [20, 400])
def test_a_fit_that_takes_long_warns(n, rng, monkeypatch):
    """Counted on paper: of 20 signals most of the work is kernels, of 400 solving is more."""
    X, y = waves(rng, n, 2, length=4)
    pairs, pixel_pairs, layers, solving = n * n / 2, 4 * 4, 2, n / 8
    work = pairs * (pixel_pairs * layers + solving)
    monkeypatch.setattr(budget, "_WORK_THAT_WARNS", 1e3)
    says = f"this fit computes {work:.0e} pixel pairs times layers"
    with pytest.warns(UserWarning, match=re.escape(says)):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y)


def test_a_fit_without_room_in_memory_is_refused(rng, monkeypatch):
    X, y = waves(rng, 20, 2, length=4)
    monkeypatch.setattr("rescntk.memory._ALWAYS_FREE", 0)
    monkeypatch.setattr("rescntk.memory.free_bytes", lambda: 4000.0)
    with pytest.raises(MemoryError, match="a fit of 20 signals with 20 landmarks and 1 views"):
        ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
