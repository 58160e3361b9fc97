"""The classification benchmark: the same signals for everybody, and honest verdicts."""

import os
import subprocess
import sys
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


def test_draws_are_disjoint_balanced_and_reproducible():
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    for size in (2, 5, 12):
        train, test = classification.draw_signals(y, size, draw=3)
        again, _ = classification.draw_signals(y, size, draw=3)
        other, _ = classification.draw_signals(y, size, draw=4)
        assert (train == again).all()
        assert (train != other).any()
        assert len(train) == size == len(set(train))
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        counts = np.unique(y[train], return_counts=True)[1]
        assert len(counts) == min(size, 3)
        assert counts.max() - counts.min() <= 1


def test_no_method_can_be_right_more_often_than_the_ceiling(monkeypatch):
    # With eight classes of ten, five training signals show five: 45 of the 75 others are of these.
    y = np.repeat(np.arange(8), 5)
    monkeypatch.setattr(classification_methods, "signals", lambda name: (None, y, None, y))
    assert classification.ceilings("eight classes") == {
        5: pytest.approx(0.6),
        10: 1.0,
        20: 1.0,
        50: 1.0,
    }


def rows(ours, rocket, neighbour, seconds):
    methods = {"rescntk": ours, "MiniRocket": rocket, "1-NN MSM": neighbour}
    return [
        {"method": m, "set": s, "accuracy": a[i], "warm_seconds": 1.0, "cold_seconds": seconds}
        for m, a in methods.items()
        for i, s in enumerate(classification.SETS)
    ]


def test_verdicts():
    good = classification.table(rows([0.95] * 8, [0.95] * 4 + [1.0] * 4, [0.9] * 8, 60.0))
    assert good.count(": met.") == 4
    assert "missed" not in good
    assert "**1.000**" in good
    behind = good.splitlines()[-1]
    assert "take that one" in behind
    assert [s in behind for s in classification.SETS] == [False] * 4 + [True] * 4
    assert behind.count("by 0.050") == 4


def test_verdicts_say_by_how_much():
    bad = classification.table(rows([0.85] * 8, [0.9] * 8, [0.86] * 8, 120.0))
    assert "met." not in bad
    amounts = ("missed by 0.050", "missed by 0.010", "missed by 4.", "missed by 1.0 minutes")
    for line, amount in zip(bad.splitlines()[-5:-1], amounts, strict=True):
        assert amount in line
    # A tie, one of whose sides has been in a file, which keeps six digits.
    assert "on 8 of 8 sets" in classification.table(
        rows([6 / 7] * 8, [0.857143] * 8, [0.8] * 8, 1.0)
    )
    assert "asked half: missed by 1." in classification.table(
        rows([0.9] * 8, [0.9] * 3 + [1.0] * 5, [0.8] * 8, 1.0)
    )


def test_compiling_is_what_the_first_process_takes_longer():
    given = rows([0.9] * 8, [0.9] * 8, [0.8] * 8, 2.0)
    for row in given:
        if row["method"] == "rescntk" and row["set"] in classification.FIRST_SETS.values():
            row["first_seconds"] = {"ItalyPowerDemand": 5.5, "BasicMotions": 33.0}[row["set"]]
    line = next(x for x in classification.table(given).splitlines() if "| compiling" in x)
    header = classification.table(given).splitlines()[0].split(" | ")
    cells = dict(zip(header[1:], line.split(" | ")[1:], strict=True))
    assert cells == {"1-NN MSM": "–", "MiniRocket": "–", "rescntk |": "31 s |"}


@pytest.mark.parametrize("method", ["ridge, flat", "SVM-RBF, flat"])
def test_flat_methods_learn(method, rng):
    X = rng.standard_normal((40, 2, 10))
    y = np.repeat(["a", "b"], 20)
    X[:20] += 1.5
    model = classification.METHODS[method](0).fit(X[::2], y[::2])
    assert np.mean(model.predict(X[1::2]) == y[1::2]) > 0.9


def test_results_survive_the_file(tmp_path):
    path = tmp_path / "results" / "table.csv"
    row = {"method": "1-NN DTW", "set": "GunPoint", "accuracy": 0.8125, "chosen": "{}"}
    classification_report.write(path, [row], "accuracy")
    (there,) = classification_report.read(path)
    assert {k: v for k, v in there.items() if v is not None} == row
    assert set(there) == set(classification_report.COLUMNS["accuracy"])
    judged = {"set": "GunPoint", "spread": False, "depth": 4, "kind": "ntk", "penalty": 1e-6}
    classification_report.write(path, [judged | {"max_length": None, "error": 0.25}], "search")
    (there,) = classification_report.read(path)
    assert there == judged | {"max_length": None, "error": 0.25}
    assert there["spread"] is False
    assert isinstance(there["depth"], int)
    assert classification_report.read(tmp_path / "none.csv") == []


class Small(classification.Workers):
    """Workers on small made-up sets; notes what they are asked, and whether they compile."""

    def __init__(self, folder):
        super().__init__(folder)
        self.asked = []
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((12, 1, 20)), np.repeat(["a", "b"], 6)
        X[:6] += 1.0
        for name in ("GunPoint", "ItalyPowerDemand"):
            (folder / name).mkdir()
            for part, values in zip(classification.PARTS, (X, y, X, y), strict=True):
                np.save(folder / name / f"{part}.npy", values)

    def ask(self, method, name, kind, cache=None):
        answer = super().ask(method, name, kind, cache)
        self.asked.append((name, kind, answer["compiled"] > 0))
        return answer


def test_the_first_process_alone_compiles(tmp_path):
    """Ours compiles into an empty cache once; cold seconds are those of the next processes."""
    pytest.importorskip("numba")
    workers = Small(tmp_path)
    path = tmp_path / "results.csv"
    sets = ("GunPoint", "ItalyPowerDemand")
    table = classification.gather(workers, path, "accuracy", ["rescntk"], sets, False)
    assert workers.asked == [
        ("ItalyPowerDemand", "cold", True),
        ("GunPoint", "accuracy", False),
        ("ItalyPowerDemand", "accuracy", False),
    ]
    one, two = classification_report.read(path)
    assert one["first_seconds"] is None
    assert two["first_seconds"] > two["cold_seconds"] > two["warm_seconds"] > 0
    assert [row["accuracy"] for row in table] == [one["accuracy"], two["accuracy"]]
    judged = classification_report.read(tmp_path / "results_search.csv")
    assert {row["set"] for row in judged} == set(sets)
    assert all(row["error"] > 0 for row in judged)

    # What is in the file is kept, and cold seconds alone are measured again.
    workers.asked.clear()
    classification.gather(workers, path, "accuracy", ["rescntk"], sets, False)
    assert workers.asked == []
    classification.gather(workers, path, "cold", ["rescntk"], sets[:1], False)
    again = classification_report.read(path)
    assert again[0]["cold_seconds"] != one["cold_seconds"]
    assert again[0] | {"cold_seconds": 0} == one | {"cold_seconds": 0}
    assert again[1] == two


def test_workers_do_not_import_what_only_reads(tmp_path):
    """Reading the sets takes aeon, whose import must not count as anybody's time."""
    Small(tmp_path)
    script = (
        "import sys, classification as c; c.compiled = lambda: 0; "
        f"c.once('ridge, flat', {str(tmp_path / 'GunPoint')!r}); "
        "sys.exit(any(name.split('.')[0] in ('aeon', 'rescntk') for name in sys.modules))"
    )
    environment = dict(os.environ) | {"BENCHMARK_START": "0"}
    folder = Path(classification.__file__).parent
    run = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment)
    assert run.returncode == 0


def test_a_worker_that_always_compiles_is_refused(tmp_path):
    class Forgetful(Small):
        def ask(self, method, name, kind, cache=None):
            return {"compiled": 1, "cold_seconds": 1.0}

    with pytest.raises(RuntimeError, match="compiles the same code every time"):
        Forgetful(tmp_path).measure("rescntk", "GunPoint", "accuracy")


def test_methods_and_sets_are_told_apart_in_pictures():
    assert len(set(classification_report.MARKS.values())) == len(classification_methods.METHODS)
    assert len(set(classification_report.COLOURS.values())) == len(classification_methods.METHODS)


# -- what limits our classifier


def candidate(error, **others):
    defaults = {
        "max_length": 16,
        "spread": False,
        "standardize": False,
        "slopes": False,
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


def test_the_price_of_a_part_is_the_least_error_without_it():
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
        for view in ({"standardize": True, "head": "trace"}, {"slopes": True, "filter_size": 5})
    ]
    found = list(classification_limits.matrices(judged, X))
    assert sorted(map(str, judged)) == sorted(str(row) for row, _ in found)
    for row, K in found:
        view = View(**{key: row[key] for key in classification_limits.VIEW})
        network = Network(row["depth"], row["filter_size"], input_filter_size=1)
        kernel = Kernel(network, row["kind"], row["head"], row["normalized"])
        expected = kernel(view.fit(X)(X))
        assert np.abs(K - expected).max() <= ROUTES * np.abs(expected).max()


def test_judging_is_by_the_training_signals(rng):
    """With a linear kernel, refitting without each signal; test labels play no part in errors."""
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
    """As the classifier's own: the second of two heads and kinds; what was not searched counts."""
    common = {"filter_size": 9, "input_filter_size": 9, "normalized": True, "slopes": True}
    kernels = [
        candidate(
            0.0, depth=depth, kind=kind, head=head, standardize=False, spread=spread, **common
        )
        for depth in (1, 2, 4)
        for kind in ("gpk", "ntk")
        for head in ("gap", "trace")
        for spread in (False, True)
    ]
    (index,) = np.flatnonzero(classification_limits.middle(kernels))
    values = {key: kernels[index][key] for key in ("depth", "kind", "head", "spread")}
    assert values == {"depth": 2, "kind": "ntk", "head": "gap", "spread": True}


def test_limits_from_files_to_report(tmp_path, monkeypatch, rng):
    """All of it on a made-up set where only GAP can win, which is what the report has to say."""
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
        depth=(1, 2), filter_size=3, input_filter_size=1, standardize=False, slopes=False
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
