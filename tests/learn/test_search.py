"""rescntk.learn: each choice of the search against one made by hand; options where they go."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.svm import SVC

import rescntk as rk
from rescntk.learn import (
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    estimators,
    readouts,
    search,
    views,
)
from tests import tolerances
from tests.learn.test_estimators import QUICK, bordered, waves

VIEW = ("max_length", "spread", "standardize", "slopes", "constant")


def rows(model):
    """Return the candidates of a fitted model, each as a dictionary."""
    table = model.search_results_
    return [
        {name: column[i].item() for name, column in table.items() if column.dtype != object}
        | {name: column[i] for name, column in table.items() if column.dtype == object}
        for i in range(len(table["error"]))
    ]


def gram_of(row, X, alpha=1.0):
    """Return a candidate's kernel matrix from its parameters."""
    signals = views.View(**{name: row[name] for name in VIEW}).fit(X)(X)
    network = rk.Network(
        row["depth"], row["filter_size"], input_filter_size=row["input_filter_size"], alpha=alpha
    )
    return rk.Kernel(network, row["kind"], row["head"], row["normalized"])(signals)


def refitted(K, Y, penalty):
    """Return the decision at each case of ridge regression on the others; the unit is K's."""
    decisions = np.empty(Y.shape)
    for i in range(len(K)):
        rest = np.delete(np.arange(len(K)), i)
        part = K[np.ix_(rest, rest)]
        own = penalty * K.diagonal().mean() / part.diagonal().mean()
        coefficients, intercepts = bordered(part, Y[rest], own)
        decisions[i] = K[i, rest] @ coefficients + intercepts
    return decisions


# -- which kernel, which penalty


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_choice_by_hand(rng, alpha):
    """All kernels and penalties by refits; the score by refits that are chosen fold by fold."""
    X, y = waves(rng, 20, 2, length=8, channels=2)
    X = X + 0.3 * rng.standard_normal(X.shape)
    X[:, 1] += 1.0
    penalties = (1e-1, 1e-3, 1e1)
    model = ResidualKernelClassifier(
        depth=(2, 1),
        filter_size=3,
        input_filter_size=(1, 3),
        slopes=False,
        penalty=penalties,
        alpha=alpha,
        readout="ridge",
        random_state=5,
    ).fit(X, y)
    Y, table = readouts.one_against_rest(y, 2), rows(model)
    assert len(table) == 2 * 2 * 2 * 2 * 2 * 2  # depth, window, standardize, head, kind, normalized
    every = []
    for row in table:
        K = gram_of(row, X, alpha)
        decisions = [refitted(K, Y, penalty) for penalty in penalties]
        errors = [np.mean((d - Y) ** 2) for d in decisions]
        assert row["error"] == pytest.approx(min(errors), rel=1e-7)
        assert row["penalty"] == penalties[np.argmin(errors)]
        every += decisions
    assert {row["penalty"] for row in table} == set(penalties)  # each is somebody's best
    best = min(table, key=lambda row: row["error"])
    assert model.best_error_ == best["error"]
    for name, value in model.best_params_.items():
        assert value == best.get(name, "ridge")
    assert model.kernel_.network.alpha == alpha

    folds = np.random.RandomState(5).permutation(20) % 10
    blind = np.empty(Y.shape)
    for fold in range(10):
        others = folds != fold
        chosen = min(every, key=lambda d: np.mean((d - Y)[others] ** 2))
        blind[~others] = chosen[~others]
    assert model.best_score_ == np.mean((blind[:, 0] > 0) == y)
    sharpness, _ = readouts.calibrate(blind, y)
    assert model.sharpness_ == pytest.approx(sharpness, rel=1e-5)
    optimistic, _ = readouts.calibrate(
        min(every, key=lambda d: np.mean((d - Y) ** 2)), y
    )  # what selected is not what is reported
    assert abs(model.sharpness_ / optimistic - 1) > 1e-3


@pytest.mark.parametrize("normalized", [False, True, (False, True)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_is_trained_is_what_predicts(rng, normalized, dtype):
    """The matrix judged is that of the kernel kept, normalized by the same formula."""
    X, y = waves(rng, 10, 2)
    model = ResidualKernelClassifier(normalized=normalized, dtype=dtype, **QUICK)
    Y, counted = readouts.one_against_rest(y, 2), np.ones(10, dtype=bool)
    found = model._search(X, Y, counted, 99, np.random.RandomState(0))
    assert len(found.finalists) == len(found.candidates)
    for entry in found.finalists:
        K = entry.kernel(entry.signals, dtype=dtype)
        scale = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        assert np.abs((entry.K - K) / scale).max() <= 4 * tolerances.EPS[dtype]


def test_standardize_where_it_must_win(rng):
    """The class is in a channel a thousand times weaker than another one's level and noise."""
    X, y = waves(rng, 20, 2, channels=2)
    X[:, 1] = 1000.0 + 1000.0 * rng.standard_normal((20, X.shape[2]))
    model = ResidualKernelClassifier(readout="ridge", **QUICK).fit(X, y)
    table = model.search_results_
    with_it, without = (
        table["error"][table["standardize"] == flag].min() for flag in (True, False)
    )
    assert with_it < 0.5 * without
    assert model.best_params_["standardize"] is True or model.best_params_["standardize"] == 1
    assert ResidualKernelClassifier(standardize=False, **QUICK).fit(X, y).view_.scaler is None


def test_nearly_standard_signals_are_not_standardized_again(rng):
    """The rule of five percent, on both sides."""
    X = rng.standard_normal((50, 2, 40))
    X = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    for mean, ratio, standard in ((0.04, 1.04, True), (0.06, 1.0, False), (0.0, 1.06, False)):
        Z = X * np.array([1.0, ratio])[:, None] + mean * ratio
        assert views.is_standard(Z) == standard
        assert views.is_standard(7.0 * Z) == standard


# -- from coarse to fine, by prescribed errors


def fake_search(monkeypatch, n_timepoints, errors, finalists=2, **space):
    """Search where a view's error is prescribed: ``errors(view)``."""
    judged = []

    def judge(space, source, X, Y, counted, blind, options):
        judged.append(source.view)
        values = dict.fromkeys((field for field in search.Candidate.__annotations__), None)
        values |= vars(source.view) | {"error": errors(source.view)}
        yield search.Finalist(search.Candidate(**values), source, *[None] * 5)

    monkeypatch.setattr(search, "_judge", judge)
    defaults = estimators._ResidualKernel._space(
        ResidualKernelClassifier(
            **{
                "depth": 1,
                "filter_size": 3,
                "input_filter_size": 1,
                "head": "gap",
                "standardize": False,
                "slopes": False,
            }
            | space
        )
    )
    X, counted = np.zeros((2, 1, n_timepoints)), np.ones(2, dtype=bool)
    found = search.search(
        defaults,
        X,
        np.zeros((2, 1)),
        counted=counted,
        folds=np.arange(2),
        finalists=finalists,
        options={},
    )
    return judged, found


@pytest.mark.parametrize(
    ("errors", "last"),
    [
        ((1.0, 1.0, 0.1, 0.1), 32),  # the second length is always tried
        ((1.0, 0.951, 0.1, 0.1), 32),
        ((1.0, 0.949, 0.95, 0.1), 64),
        ((1.0, 0.949, 0.90, 0.1), 128),
        ((0.0, 0.0, 0.0, 0.0), 32),
    ],
)
def test_when_finer_is_worth_it(monkeypatch, errors, last):
    lengths = (16, 32, 64, 128)
    prescribed = dict(zip(lengths, errors, strict=True))
    judged, _ = fake_search(
        monkeypatch,
        128,
        lambda view: prescribed[view.max_length],
        max_length=(64, 16, 128, 32),  # in any order
        spread=False,
    )
    assert [view.max_length for view in judged] == [n for n in lengths if n <= last]


def test_only_the_last_lengths_finalists_go_on(monkeypatch):
    """Of two kernels one improves: the other, a finalist still, is not refined from afar."""

    def errors(view):
        if view.spread:
            return {16: 0.9, 32: 2.0, 64: 2.0}[view.max_length]
        return {16: 1.0, 32: 0.5, 64: 0.4}[view.max_length]

    judged, found = fake_search(monkeypatch, 100, errors, max_length=(16, 32, 64))
    # At 32 spread lost; its 0.9 at 16 is among the best two, and has had its finer version.
    assert [(view.max_length, view.spread) for view in judged] == [
        (16, False),
        (16, True),
        (32, True),
        (32, False),
        (64, False),
    ]
    assert [entry.candidate.error for entry in found.finalists] == [0.4, 0.5]


def test_nothing_is_spread_without_blocks(monkeypatch):
    """At a length that signals fit, a view with spread and one without are the same one."""
    judged, _ = fake_search(monkeypatch, 100, lambda view: 1.0 / view.max_length)
    assert [(view.max_length, view.spread) for view in judged] == [(128, False)]  # fit at once
    judged, _ = fake_search(
        monkeypatch, 200, lambda view: 1.0 / view.max_length, max_length=(128, 256, None)
    )
    assert [(view.max_length, view.spread) for view in judged] == [
        (128, False),
        (128, True),
        (256, False),
    ]


def test_lengths_with_equal_blocks_are_one(monkeypatch):
    judged, _ = fake_search(
        monkeypatch,
        256,
        lambda view: 0.0 if view.max_length is None else 1.0 / view.max_length,
        max_length=(128, 130, 200, 255, None, 300),
        spread=False,
    )
    assert [view.max_length for view in judged] == [128, 300]  # blocks of 2, and of 1


def test_no_matrix_is_computed_twice_on_the_way(rng, monkeypatch):
    """No two Gram matrices are proportional, over all lengths, with signals that fit the last."""
    grams = []

    def kept(network, X, **options):
        matrices = rk.gram(network, X, **options)
        grams.append(np.stack(matrices).ravel())
        return matrices

    monkeypatch.setattr(search, "gram", kept)
    X = rng.standard_normal((14, 1, 40)).cumsum(axis=2)
    y = np.arange(14) % 2
    X[y == 1] += 3 * np.sin(1.5 * np.arange(40))
    options = QUICK | {"head": "gap", "finalists": 8, "readout": "ridge", "standardize": False}
    model = ResidualKernelClassifier(max_length=(20, 40, 80), **options).fit(X, y)
    lengths, spread = (model.search_results_[name] for name in ("max_length", "spread"))
    assert set(lengths[spread]) == {20}
    assert 40 in lengths  # it was reached
    unit = np.array([gram / np.linalg.norm(gram) for gram in grams])
    cosines = unit @ unit.T - np.eye(len(unit))
    assert cosines.max() < 1 - 1e-9


def test_spread_is_scaled_only_where_there_are_blocks(rng):
    X = 5.0 * rng.standard_normal((4, 2, 10)) + 1.0
    assert (views.View(10, spread=True).fit(X)(X) == X).all()
    seen = views.View(5, spread=True).fit(X)(X)
    np.testing.assert_allclose(np.sqrt(np.mean(seen**2, axis=(0, 2))), 1.0)


def test_the_constant_is_as_large_as_the_signals(rng):
    X = 5.0 * rng.standard_normal((4, 2, 10)) + 1.0
    seen = views.View(constant=True).fit(X)(X)
    assert (seen[:, :2] == X).all()
    np.testing.assert_allclose(seen[:, 2], np.sqrt(np.mean(X**2)))


# -- the score


def test_blind_decisions_by_hand(rng):
    """Fold by fold the best of all readouts on the other folds' counted cases."""
    n, outputs = 23, 3
    Y, residuals = rng.standard_normal((n, outputs)), rng.standard_normal((17, n, outputs))
    folds, counted = rng.integers(0, 4, n), rng.uniform(size=n) > 0.2
    blind = search.Blind(Y, folds, counted)
    for part in np.split(residuals, [2, 3, 9]):
        blind.consider(part)
    choices = set()
    for fold in range(4):
        others = (folds != fold) & counted
        choice = min(range(17), key=lambda c: np.sum(residuals[c][others] ** 2))
        choices.add(choice)
        inside = folds == fold
        assert (blind.decisions[inside] == (Y - residuals[choice])[inside]).all()
    assert len(choices) > 1


def test_noise_scores_as_noise():
    """On labels that mean nothing the score is chance; the decisions that selected are not."""
    scores, optimistic = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((20, 1, 12)), rng.permutation(np.arange(20) % 2)
        model = ResidualKernelClassifier(readout="ridge", **QUICK).fit(X, y)
        scores.append(model.best_score_)
        best = rows(model)[np.argmin(model.search_results_["error"])]
        decisions = refitted(gram_of(best, X), readouts.one_against_rest(y, 2), best["penalty"])
        optimistic.append(np.mean((decisions[:, 0] > 0) == y))
    error = tolerances.STANDARD_ERRORS * 0.5 / np.sqrt(12 * 20)
    assert abs(np.mean(scores) - 0.5) <= error
    assert np.mean(optimistic) > np.mean(scores) + 0.03


def test_singletons_count_in_no_score(rng):
    """Cases alone in their class cannot be right when they are left out: they say nothing."""
    X, y = waves(rng, 30, 2)
    plain = ResidualKernelClassifier(**QUICK).fit(X[:24], y[:24])
    y[24:] = 10 + np.arange(6)
    X[24:] = rng.standard_normal((6, 1, 24))
    model = ResidualKernelClassifier(**QUICK).fit(X, y)
    assert plain.best_score_ == model.best_score_ == 1.0
    Y = readouts.one_against_rest(np.unique(y, return_inverse=True)[1], 8)
    table = rows(model)
    every = [
        readouts.RidgePath(gram_of(row, X), Y).residuals(10.0**-k)
        for row in table
        for k in range(-1, 7)
    ]
    folds = np.random.RandomState(0).permutation(30) % 10
    counted = np.arange(30) < 24
    blind = search.Blind(Y, folds, counted)
    blind.consider(np.stack(every))
    sharpness, _ = readouts.calibrate(
        blind.decisions[:24], np.unique(y, return_inverse=True)[1][:24]
    )
    assert model.sharpness_ == pytest.approx(sharpness, rel=1e-3)

    alone = ResidualKernelClassifier(**QUICK).fit(X[:6], np.arange(6))
    assert np.isnan(alone.best_score_) and alone.sharpness_ == 1.0
    assert (alone.predict_proba(X[:6]).argmax(axis=1) == alone.predict(X[:6])).all()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("n", [10, 40])
def test_the_ceiling_of_probabilities(classes, n):
    """Where all is right and alike, a case has the rule of succession's (n + 1)/(n + 2)."""
    labels = np.arange(n) % classes
    decisions = readouts.one_against_rest(labels, classes)
    sharpness, losses = readouts.calibrate(decisions, labels)
    chances = readouts.probabilities(decisions, sharpness)
    # A minimum to √eps of its width.
    np.testing.assert_allclose(chances[np.arange(n), labels], (n + 1) / (n + 2), rtol=1e-4)
    smallest = 1 / (n + 2) / (classes - 1)
    np.testing.assert_allclose(chances.min(), smallest, rtol=1e-3)
    entropy = -((n + 1) / (n + 2) * np.log((n + 1) / (n + 2)) + np.log(smallest) / (n + 2))
    np.testing.assert_allclose(losses, entropy, rtol=1e-6)


def test_regressors_score_is_blind(rng):
    X, y = rng.standard_normal((15, 1, 6)), rng.standard_normal(15)
    model = ResidualKernelRegressor(**QUICK).fit(X, y)
    assert model.best_error_ == model.search_results_["error"].min()
    Y = (y - y.mean())[:, None] / y.std()
    residuals = [
        readouts.RidgePath(gram_of(row, X), Y).residuals(estimators._PENALTIES)
        for row in rows(model)
    ]
    blind = search.Blind(Y, np.random.RandomState(0).permutation(15) % 10, np.ones(15, dtype=bool))
    blind.consider(np.concatenate(residuals))
    expected = 1 - np.mean((blind.decisions - Y) ** 2)
    assert model.best_score_ == pytest.approx(expected, rel=1e-6)
    assert model.best_score_ < 1 - model.best_error_ - 1e-3


# -- readouts: which one


def finalists_of(matrices, Y, penalty=1e-2):
    """Return what a search would have found: these matrices, best first."""
    entries = []
    for K in matrices:
        values = dict.fromkeys(search.Candidate.__annotations__) | {"penalty": penalty}
        candidate = search.Candidate(**values)
        path = readouts.RidgePath(K, Y)
        entries.append(search.Finalist(candidate, None, None, None, None, K, path))
    return search.Found([], entries, np.zeros(Y.shape))


def halves(n, folds=4):
    names = np.arange(n) // 2 % folds
    return [(np.flatnonzero(names != f), np.flatnonzero(names == f)) for f in range(folds)]


def crowd(rng, n=48):
    """Two classes by their sign, and easy cases far out that drag ridge regression along."""
    labels = np.arange(n) % 2
    x = np.where(labels == 1, 1.0, -1.0) * rng.uniform(0.3, 1.0, n)
    x[1::6] *= 10.0
    return x, labels


def test_machines_win_where_ridge_is_dragged_along(rng):
    """On a linear kernel; the first finalist is noise, so that it takes the second one."""
    x, labels = crowd(rng)
    Y, good = readouts.one_against_rest(labels, 2), np.outer(x, x) + 1.0
    noise = rng.standard_normal((48, 60))
    model = ResidualKernelClassifier()
    folds, costs = halves(48), (1e-3, 100.0, 1.0)
    for matrices, place in (((good,), 0), ((noise @ noise.T, good), 1)):
        found = finalists_of(matrices, Y)
        choice = model._machines(found, Y, labels, costs, folds, or_ridge=True)
        assert choice.finalist is found.finalists[place]
        assert choice.parameters["readout"] == "svm"
        C = choice.parameters["C"]
        machine = SVC(kernel="precomputed", C=C).fit(good / good.diagonal().mean(), labels)
        decisions = machine.decision_function(good / good.diagonal().mean())
        np.testing.assert_allclose(choice.readout(good)[:, 0], decisions, atol=1e-8)
    # The other way round ridge on a good kernel is not beaten by machines on noise.
    features = rng.standard_normal((48, 5)) + labels[:, None]
    found = finalists_of((features @ features.T + 1.0, noise @ noise.T), Y)
    assert model._machines(found, Y, labels, costs, folds, or_ridge=True) is None
    assert model._machines(found, Y, labels, costs, folds, or_ridge=False) is not None


def test_machines_by_hand(rng):
    """Choice and blind decisions from scikit-learn's machines, fold by fold."""
    n = 48
    labels = rng.permutation(np.arange(n) % 2)
    features = rng.standard_normal((2, n, 5)) + 0.3 * labels[:, None]
    matrices, Y = [F @ F.T + 1.0 for F in features], readouts.one_against_rest(labels, 2)
    folds, costs = halves(n), (0.01, 0.1, 1.0, 10.0)
    found = finalists_of(matrices, Y)
    choice = ResidualKernelClassifier()._machines(found, Y, labels, costs, folds, or_ridge=False)
    held, losses = {}, {}
    for (place, K), C in product(enumerate(matrices), costs):
        K, decisions = K / K.diagonal().mean(), np.empty((n, 1))
        for rest, fold in folds:
            # The unit is that of the cases that are fitted.
            own = K[np.ix_(rest, rest)].diagonal().mean()
            machine = SVC(kernel="precomputed", C=C).fit(K[np.ix_(rest, rest)] / own, labels[rest])
            decisions[fold, 0] = machine.decision_function(K[np.ix_(fold, rest)] / own)
        held[place, C], losses[place, C] = decisions, readouts.calibrate(decisions, labels)[1]
    place, C = min(losses, key=lambda key: losses[key].mean())
    assert choice.finalist is found.finalists[place]
    assert choice.parameters == {"readout": "svm", "C": C}
    picked = set()
    for rest, fold in folds:
        key = min(losses, key=lambda key: losses[key][rest].mean())
        picked.add(key)
        np.testing.assert_allclose(choice.decisions[fold], held[key][fold], atol=1e-8)
    assert len(picked) > 1


def test_machines_must_be_better_by_a_standard_error(rng, monkeypatch):
    """Prescribed losses: ridge's 1; the machines' less by a gain of mean 0.1 and a spread."""
    n = 16
    labels = np.arange(n) % 2
    Y, signs = readouts.one_against_rest(labels, 2), np.where(np.arange(n) // 2 % 2 == 0, 1.0, -1.0)
    model, found = ResidualKernelClassifier(), finalists_of([np.eye(n) + 0.1 * np.outer(Y, Y)], Y)
    for spread, wins in ((0.38, True), (0.42, False)):  # 0.1 = 0.4/√16

        def calibrate(decisions, labels, spread=spread):
            ridge = (decisions == 7.0).all()
            return 1.0, np.ones(n) if ridge else 0.9 - spread * signs

        def held_out(K, Y, folds, fit):
            return np.full(Y.shape, 7.0 if fit.func is readouts.ridge else 3.0)

        monkeypatch.setattr(estimators, "calibrate", calibrate)
        monkeypatch.setattr(estimators, "held_out", held_out)
        choice = model._machines(found, Y, labels, (1.0,), halves(n), or_ridge=True)
        assert (choice is not None) == wins


def test_the_estimator_takes_the_machine(rng):
    """End to end: strength tells the classes apart, and some of the stronger are very strong."""
    y = np.arange(60) % 2
    strength = np.where(y == 1, 0.85, 0.45) + 0.15 * rng.uniform(-1, 1, 60)
    strength[1::6] *= 3.0
    X = strength[:, None, None] * np.ones((1, 4))
    options = QUICK | {"normalized": False, "standardize": False, "head": "trace"}
    both = ResidualKernelClassifier(**options).fit(X[:40], y[:40])
    assert both.best_params_["readout"] == "svm"
    ridge = ResidualKernelClassifier(readout="ridge", **options).fit(X[:40], y[:40])
    assert both.score(X[40:], y[40:]) == 1.0
    assert both.best_score_ >= ridge.best_score_


# -- options reach what they are for


def test_random_state_draws_the_folds(rng, monkeypatch):
    drawn = []
    held_out, searched = readouts.held_out, search.search

    def spy_on_folds(K, Y, folds, fit):
        drawn.append([tuple(fold) for _, fold in folds])
        return held_out(K, Y, folds, fit)

    def spy_on_search(*arguments, **options):
        drawn.append(options["folds"].tolist())
        return searched(*arguments, **options)

    monkeypatch.setattr(estimators, "held_out", spy_on_folds)
    monkeypatch.setattr(estimators, "search", spy_on_search)
    X, y = waves(rng, 16, 2)
    runs = []
    for state in (0, 0, 1):
        drawn.clear()
        ResidualKernelClassifier(random_state=state, readout="svm", cv=4, **QUICK).fit(X, y)
        runs.append((drawn[0], drawn[1]))
        assert len(drawn[1]) == 4
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0] and runs[0][1] != runs[2][1]


@pytest.mark.parametrize("model", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_engine_dtype_and_threads_are_passed_on(model, rng, monkeypatch):
    options = {"engine": "reference", "dtype": "float32", "threads": 2}
    passes, calls = [], []
    original = rk.Kernel.__call__

    def gram(*arguments, **named):
        passes.append({name: named[name] for name in options})
        return rk.gram(*arguments, **named)

    def call(self, *arguments, **named):
        calls.append(named)
        return original(self, *arguments, **named)

    monkeypatch.setattr(search, "gram", gram)
    monkeypatch.setattr(rk.Kernel, "__call__", call)
    X, y = waves(rng, 10, 2)
    fitted = model(**options, **QUICK).fit(X, y)
    assert passes and all(named == options for named in passes)
    assert not calls  # fitting computes nothing twice
    fitted.predict(X)
    assert calls == [options]


def test_float32_decisions(rng):
    """They are those of the matrix in float32, to the last bit, and not those in float64."""
    X, y = waves(rng, 14, 3)
    model = ResidualKernelClassifier(dtype="float32", readout="ridge", penalty=0.1, **QUICK)
    seen = model.fit(X, y).view_(X)
    K32, K64 = (model.kernel_(seen, model.signals_, dtype=d) for d in ("float32", "float64"))
    assert (model.decision_function(X) == model.readout_(K32.astype(np.float64))).all()
    assert (model.decision_function(X) != model.readout_(K64)).any()
    own = model.kernel_(seen, dtype="float32")  # and it was trained on float32, too
    Y = readouts.one_against_rest(y, 3)
    found = readouts.RidgePath(own, Y).fit(model.best_params_["penalty"])
    # Errors of eps relative to K, solved with a tenth of it.
    bar = 10 * 14 * tolerances.EPS["float32"] * np.abs(found.coefficients).max()
    assert np.abs(model.readout_.coefficients - found.coefficients).max() <= bar


@pytest.mark.parametrize("readout", ["ridge", "svm"])
def test_progress(readout, rng, capsys):
    """A line a pass, one when the search is done, one a readout that is compared, the choice."""
    X, y = waves(rng, 12, 2)
    ResidualKernelClassifier(verbose=1, readout=("ridge", readout), cv=2, **QUICK).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("[4/4] signals, length <= 128, filters 5 and 3, gap: ")
    assert lines[4].startswith("32 kernels from 4 passes over 12 signals: ")
    starts = {
        "ridge": ["chosen: "],
        "svm": ["svm: cross-entropy", "ridge: cross-entropy", "chosen"],
    }
    assert len(lines) == 5 + len(starts[readout])
    assert all(map(str.startswith, lines[5:], starts[readout]))
    ResidualKernelRegressor(verbose=1, **QUICK).fit(X, y)
    assert "chosen: " in capsys.readouterr().out.splitlines()[5]
    ResidualKernelClassifier(**QUICK).fit(X, y)
    assert not capsys.readouterr().out


# -- leaving one out


def test_left_out_keeps_the_unit_of_all(rng):
    """Exactly the refit with the penalty in all signals' unit, whatever the diagonal is."""
    X = rng.standard_normal((14, 1, 10))
    X[3] *= 30
    K, Y = rk.ResCNTK(2, head="trace")(X), rng.standard_normal((14, 2))
    for penalty in (1e-3, 0.1, 1.0):
        found = readouts.RidgePath(K, Y).left_out(penalty)
        np.testing.assert_allclose(found, refitted(K, Y, penalty), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("normalized", [False, True])
def test_left_out_against_refitting_everything(rng, normalized):
    """Scales, the constant's level and the unit of the rest alone: a change of order 1/n."""
    n = 24
    X, y = waves(rng, n, 2, channels=2)
    X = X * np.exp(0.3 * rng.standard_normal((n, 1, 1))) + 0.5 * rng.standard_normal(X.shape)
    options = QUICK | {"standardize": True, "constant": True, "depth": 2, "kind": "ntk"}
    model = ResidualKernelClassifier(
        normalized=normalized, readout="ridge", penalty=0.1, **options
    ).fit(X, y)
    best = rows(model)[np.argmin(model.search_results_["error"])]
    Y, view = readouts.one_against_rest(y, 2), model.view_.view
    errors = np.empty(n)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        fitted = view.fit(X[rest])
        K = model.kernel_(fitted(X), fitted(X[rest]))
        readout = readouts.ridge(K[rest], Y[rest], best["penalty"])
        errors[i] = (readout(K[[i]])[0, 0] - Y[i, 0]) ** 2
    # A unit or a variance of 23 cases instead of 24 is another one by about 2/24.
    assert model.best_error_ == pytest.approx(errors.mean(), rel=2 / n)


def test_penalties_below_rounding_are_refused(rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match=r"numerically singular.*a larger ridge"):
        ResidualKernelClassifier(penalty=1e-18, **QUICK).fit(X.repeat(2, axis=0), y.repeat(2))


def test_float32_clips_what_rounding_made_negative(rng):
    """Signals that nearly coincide, in float32: eigenvalues below 0 do no harm."""
    X = rng.standard_normal((6, 1, 8)).repeat(3, axis=0)
    X = X + 1e-6 * rng.standard_normal(X.shape)
    K = rk.ResCNTK(2, head="trace")(X, dtype="float32")
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-9
    Y = rng.standard_normal((18, 1))
    path = readouts.RidgePath(K, Y)
    assert path.spectrum.eigenvalues.min() == 0.0
    penalty = 1e-6
    inverse = np.linalg.norm(path.fit(penalty).coefficients * path.unit)
    assert inverse <= 2 * np.linalg.norm(Y) / penalty


# -- parameters


def test_cv_of_one_fold_is_refused(rng):
    X, y = waves(rng, 10, 2)
    for readout in ("svm", "ridge", ("ridge", "svm")):
        with pytest.raises(ValueError, match="cv is 1, expected at least 2 folds"):
            ResidualKernelClassifier(cv=1, readout=readout, **QUICK).fit(X, y)


@pytest.mark.parametrize("normalized", [False, True])
def test_float32_matrices_keep_their_rounding_errors(normalized):
    """Matrices of signals on a line have no eigenvalues but rounding errors, float32's here."""
    y = np.arange(20) % 2
    for seed in range(3):
        phase = np.random.default_rng(seed).uniform(0, 6, (20, 1, 1))
        X = np.sin(np.arange(40) * (0.4 + 0.5 * y)[:, None, None] + phase)
        model = ResidualKernelClassifier(
            depth=1, filter_size=3, input_filter_size=1, head="gap", normalized=normalized,
            standardize=False, slopes=False, dtype="float32",
        )  # fmt: skip
        assert np.isfinite(model.fit(X, y).decision_function(X)).all()
