"""The report on the limits of our classifier: its tables, and the kernels behind them."""

import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import classification
import classification_limits
import classification_methods
import classification_report

from rescntk import Kernel, Network
from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.views import View
from tests.tolerances import ROUTES


def candidate(error, **others):
    defaults = {
        "max_length": 16,
        "block_statistics": False,
        "standardize": False,
        "first_differences": False,
        "constant": True,
        "filter_size": 3,
        "input_filter_size": 1,
        "head": "gap",
        "kind": "ntk",
        "depth": 1,
        "normalized": False,
        "penalty": 1e-3,
        "error": error,
    }
    assert set(others) <= set(defaults)
    return defaults | others


def test_the_price_of_a_value_is_the_least_error_with_it():
    judged = [
        candidate(0.4),
        candidate(0.3, depth=2),
        candidate(0.2, depth=2, head="trace"),
        candidate(0.25, head="trace", normalized=True),
        candidate(0.1, depth=2, head="trace", max_length=32),
    ]
    found = classification_limits.fixed(classification_limits.first_length(judged))
    errors = {key: row["error"] for key, row in found.items()}
    assert errors["head", "gap"] == 0.3
    assert errors["head", "trace"] == errors["depth", 2] == 0.2
    assert errors["depth", 1] == errors["normalized", True] == 0.25
    table = classification_limits.error_table({"GunPoint": judged})
    assert "| nothing: least error | 0.200 |" in table
    assert "| head gap | 1.50 |" in table
    assert "| depth 1 | 1.25 |" in table
    assert "| max length 32 | 0.50 |" in table
    (line,) = classification_limits.dearest({"GunPoint": judged})
    assert line == (
        "* GunPoint: head gap (+50 %), depth 1 (+25 %), normalized (+25 %); finer resolution -50 %."
    )


def test_matrices_are_those_of_the_kernels(rng):
    X = rng.standard_normal((5, 2, 14)) + 1
    judged = [
        candidate(0.1, kind=kind, depth=depth, normalized=normalized, **view)
        for kind, depth, normalized in (("ntk", 2, True), ("gpk", 1, False), ("ntk", 1, True))
        for view in (
            {"standardize": True, "head": "trace"},
            {"first_differences": True, "filter_size": 5},
        )
    ]
    found = list(classification_limits.matrices(judged, X))
    assert sorted(map(str, judged)) == sorted(str(row) for row, _ in found)
    for row, K in found:
        view = View(**{field.name: row[field.name] for field in fields(View)})
        network = Network(row["depth"], row["filter_size"], input_filter_size=1)
        kernel = Kernel(network, row["kind"], row["head"], row["normalized"])
        expected = kernel(view.fit(X)(X))
        assert np.abs(K - expected).max() <= ROUTES * np.abs(expected).max()


def test_judging_is_by_the_training_signals(rng):
    """A linear kernel, refitted without each signal; test labels do not change the errors."""
    x = rng.standard_normal((30, 2))
    y = np.where(x[:, 0] > 0, "b", "a")
    K, train, test = x @ x.T, np.arange(20), np.arange(20, 30)
    penalties = (1e-4, 0.1, 10.0)
    judged = classification_limits.judge(K, y, train, test, penalties)
    signs = np.where(y == "b", 1.0, -1.0)
    scale = np.mean(K.diagonal()[train])

    def refit(some, penalty):
        centre = x[some].mean(axis=0)
        centred = x[some] - centre
        inner = centred.T @ centred + penalty * scale * np.eye(2)
        slope = np.linalg.solve(inner, centred.T @ signs[some])
        return lambda z: signs[some].mean() + (z - centre) @ slope

    for penalty, (error, accuracy) in zip(penalties, judged, strict=True):
        squares = [
            (refit(np.setdiff1d(train, left), penalty)(x[left]) - signs[left]) ** 2
            for left in train
        ]
        assert error == pytest.approx(np.mean(squares), rel=1e-9)
        decisions = refit(train, penalty)(x[test])
        assert accuracy == np.mean((decisions > 0) == (y[test] == "b"))
    flipped = y.copy()
    flipped[test] = np.where(y[test] == "a", "b", "a")
    other = classification_limits.judge(K, flipped, train, test, penalties)
    assert other == [(error, pytest.approx(1 - accuracy)) for error, accuracy in judged]


def test_hindsight_is_not_judged_by_the_draws_that_it_saw():
    # Kernel 0 is good at even draws, kernel 1 at odd ones, kernel 2 is chosen by its errors.
    accuracies = np.array([[1.0, 0.5, 1.0, 0.5], [0.4, 1.0, 0.4, 1.0], [0.7, 0.7, 0.7, 0.8]])
    errors = np.array([[0.5] * 4, [0.4] * 4, [0.3, 0.3, 0.3, 0.6]])
    kernels = [candidate(0.0, depth=depth) for depth in (1, 2, 4)]
    study = classification_limits.Study(kernels, errors, accuracies, np.full(4, 0.9))
    assert study.chosen().tolist() == [0.7, 0.7, 0.7, 1.0]
    assert study.chosen(np.array([True, False, False])).tolist() == [1.0, 0.5, 1.0, 0.5]
    assert study.hindsight().tolist() == [0.4, 0.5, 0.4, 0.5]
    assert study.favourite()["depth"] == 1
    (line,) = classification_limits.split("GunPoint", {5: study})
    assert "5 training signals: MiniRocket is ahead by 0.125" in line
    assert "Choosing costs -0.325" in line
    assert "hindsight (NTK, gap, depth 1, filters 1 and 3, penalty 0.001), MiniRocket" in line
    assert line.endswith("is ahead by 0.450 ± 0.029.")


def test_the_middle_of_each_list():
    """The middle is the classifier's own: the second of two heads and kinds."""
    common = {
        "filter_size": 9,
        "input_filter_size": 9,
        "normalized": True,
        "first_differences": True,
    }
    kernels = [
        candidate(
            0.0,
            depth=depth,
            kind=kind,
            head=head,
            standardize=False,
            block_statistics=statistics,
            **common,
        )
        for depth in (1, 2, 4)
        for kind in ("gpk", "ntk")
        for head in ("gap", "trace")
        for statistics in (False, True)
    ]
    (index,) = np.flatnonzero(classification_limits.middle(kernels))
    values = {key: kernels[index][key] for key in ("depth", "kind", "head", "block_statistics")}
    assert values == {"depth": 2, "kind": "ntk", "head": "gap", "block_statistics": True}


def test_limits_from_files_to_report(tmp_path, monkeypatch, rng):
    """A made-up set where only GAP can win: the report says so."""
    monkeypatch.setattr(classification_limits, "STUDIED", {"GunPoint": (8,)})
    X = np.zeros((40, 1, 24))
    y = np.repeat(["a", "b"], 20)
    for i, place in enumerate(rng.integers(2, 20, 40)):
        X[i, 0, place : place + 3] = [1.0, 2.0, 1.0] if i < 20 else [2.0, -1.0, 2.0]
    X += 0.05 * rng.standard_normal(X.shape)
    parts = X[::2], y[::2], X[1::2], y[1::2]
    monkeypatch.setattr(classification_limits, "signals", lambda name: parts)
    methods = classification_methods.METHODS
    monkeypatch.setitem(methods, "MiniRocket", methods["ridge, flat"])
    model = ResidualKernelClassifier(
        depth=(1, 2), filter_size=3, input_filter_size=1, standardize=False, first_differences=False
    ).fit(*parts[:2])
    judged = {k: v.tolist() for k, v in model.search_results_.items()}
    classification.save_search(tmp_path / "classification.csv", "GunPoint", judged)
    with pytest.raises(SystemExit, match="no results yet for GunPoint"):
        classification_limits.main(tmp_path, ["GunPoint"])
    results = [
        {"method": m, "set": "GunPoint", "accuracy": a}
        for m, a in (("MiniRocket", 1.0), ("rescntk", 0.9))
    ]
    classification_report.write(tmp_path / "classification.csv", results, "accuracy")
    text = classification_limits.main(tmp_path, ["GunPoint"])
    assert (tmp_path / "classification_limits.md").read_text(encoding="utf-8") == text
    assert "| GunPoint | 20 | 10 | 2 | 1 × 24 | 0.900 | 1.000 | -2.0 of 20 |" in text
    assert "* GunPoint: head trace (+" in text
    lines = {
        line.split(" | ")[0]: line.split(" | ")[1] for line in text.splitlines() if " | " in line
    }
    assert lines["| head gap"].startswith("1.000 (1.00)")
    assert float(lines["| head trace"].split()[0]) < 0.9
    assert "| beyond the search: depth 4" in lines
    assert float(lines["| chosen, head gap"].split()[0]) > float(
        lines["| chosen, head trace"].split()[0]
    )
    assert "8 training signals: our classifier is ahead by" in text
