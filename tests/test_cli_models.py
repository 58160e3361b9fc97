"""The commands fit, predict and report, run as a user runs them."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from rescntk import __main__ as cli
from rescntk import datasets

pytest.importorskip("sklearn")


def run(command):
    """Return the exit status of a command without spaces in its arguments."""
    return cli.main(command.split())


def test_fit_and_predict(tmp_path, monkeypatch, capsys):
    """Signals and labels from all kinds of files; what a model says is what the estimator says."""
    import joblib

    from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
    from rescntk.learn.fitted_pass import FittedPass

    monkeypatch.chdir(tmp_path)
    y = np.array(["slow", "fast"])[np.arange(20) % 2]
    X = np.sin(np.arange(16) * np.where(y == "slow", 0.3, 0.9)[:, None, None])
    X = X + 0.3 * np.random.default_rng(0).standard_normal((20, 2, 16))
    numbers = X[:, 0, :8].sum(axis=1)
    np.save("X.npy", X)
    np.savez("both.npz", X=X, y=numbers)
    Path("y.txt").write_text("\ufeff" + "\n".join(y) + "\n \n")
    Path("y.csv").write_text("\n".join(y[1:]))
    rows = [
        f"{i},{c},{t},{float(x)!r},{y[i]}\n" for (i, c, t), x in np.ndenumerate(X) if t < 16 - i % 2
    ]
    header = "\ufeffcase_id,dim_id,reading_id,value,label\n"
    Path("long.csv").write_text((header + "".join(rows[::-1])).replace(",", " , "))
    read, labels = datasets.read_labelled("long.csv")
    assert [x.shape[1] for x in read] == [15, 16] * 10 and (labels == y[::-1]).all()
    assert (read[1] == X[18]).all()

    assert run("fit X.npy --labels y.txt -o M.joblib --effort fast") == 0
    model = ResidualKernelClassifier(effort="fast").fit(X, y)
    calls, matrix = [], FittedPass.matrix
    monkeypatch.setattr(FittedPass, "matrix", lambda *given: calls.append(given) or matrix(*given))
    assert run("predict M.joblib both.npz --array X -o Y.csv") == 0
    assert len(calls) == np.count_nonzero(model.passes_["weight"])  # each kernel once
    said = "written: Y.csv, label, probability and novelty of 20 signals\n"
    assert capsys.readouterr().out.endswith(said)
    with open("Y.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["label"] for row in found] == model.predict(X).tolist()
    chances = [float(row["probability"]) for row in found]
    np.testing.assert_allclose(chances, model.predict_proba(X).max(axis=1), rtol=1e-6)
    np.testing.assert_allclose([float(r["novelty"]) for r in found], model.novelty(X), rtol=1e-6)
    command = "fit both.npz --array X --labels-array y --regression -o R.joblib --effort 0.01"
    assert run(command) == 0
    capsys.readouterr()
    assert run("predict R.joblib both.npz --array X --labels-array y") == 0
    out, err = capsys.readouterr()
    assert out.startswith("value,deviation,novelty\n") and err.startswith("score ")
    one = ResidualKernelRegressor(effort=1e-6).fit(X, numbers)
    assert float(out.splitlines()[1].split(",")[0]) == pytest.approx(one.predict(X)[0], rel=1e-4)
    assert run("fit long.csv -o L.joblib --effort fast") == 0
    numbers = np.stack([numbers, -numbers], axis=1)
    joblib.dump(ResidualKernelRegressor(effort="fast").fit(X, numbers), "M2.joblib")
    assert run("predict M2.joblib X.npy") == 0
    header, first = capsys.readouterr().out.splitlines()[-21:-19]
    assert header == "value_1,value_2,deviation_1,deviation_2,novelty"
    assert float(first.split(",")[0]) == pytest.approx(-float(first.split(",")[1]))
    digits = np.arange(20) % 2
    texts = digits.astype(str)
    reals = digits.astype(float)
    others = (digits, reals, reals.astype(str), digits.astype("S"))
    for fitted, known in ((digits, texts), *((texts, other) for other in others), (reals, texts)):
        joblib.dump(ResidualKernelClassifier(effort="fast").fit(X, fitted), "D.joblib")
        np.save("digits.npy", known)
        assert run("predict D.joblib X.npy --labels digits.npy") == 0
        assert "score 1.000 on 20 signals" in capsys.readouterr().err
    assert run("report D.joblib X.npy digits.npy -o D.html") == 0
    assert "<td>1.000 (0.839 to 1.000)</td>" in Path("D.html").read_text()

    whole = Path("M.joblib").read_bytes()
    Path("cut.joblib").write_bytes(whole[:1000])
    Path("other.joblib").write_bytes(
        whole.replace(b"rescntk.learn.average", b"rescntk.learn.unknown")
    )
    joblib.dump(ResidualKernelClassifier(), "unfitted.joblib")
    joblib.dump(
        ResidualKernelClassifier(effort="fast").fit(X, np.array(["\udcff", "b"] * 10)),
        "surrogate.joblib",
    )
    del (lacking := joblib.load("M.joblib")).offsets_
    joblib.dump(lacking, "lacks.joblib")
    Path("wide.csv").write_text("a,b\n4,5\n")
    Path("u.txt").write_text("1.5\n" * 19 + "1_0.8\n")
    Path("blank.txt").write_text("a\n \nb\n")
    for wrong, message in (
        ("fit X.npy -o N.joblib", "X.npy has no labels, expected them in --labels FILE"),
        ("fit X.npy --labels y.txt -o M.joblib", "M.joblib, which exists, expected a new"),
        ("fit wide.csv -o W.joblib", "columns a, b, expected a row for each time"),
        ("fit X.npy --labels y.txt -o M.pkl", "expected a name that ends in .joblib"),
        ("predict y.txt X.npy", "y.txt is not a readable .txt file"),
        ("predict lacks.joblib X.npy", "lacks.joblib has a model that is damaged, not fitted, or"),
        ("report lacks.joblib X.npy y.txt -o N.html", "lacks.joblib has a model that is damaged"),
        ("predict unfitted.joblib X.npy", "unfitted.joblib has a model that is damaged, not fitte"),
        ("predict cut.joblib X.npy", "cut.joblib is not a readable .joblib file"),
        ("predict other.joblib X.npy", "other.joblib is not a readable .joblib file: No module na"),
        ("predict surrogate.joblib X.npy -o N.csv", r"the label '\udcff', expected labels in utf-"),
        ("predict X.npy M.joblib", "model is X.npy, expected a .joblib file, then signals"),
        ("fit X.npy --labels blank.txt -o N.joblib", "blank.txt is not a readable .txt file: li"),
        ("fit X.npy --labels y.txt -o N.joblib --effort 10s", "effort is '10s', expected one of"),
        ("fit X.npy --labels y.txt -o no/N.joblib", "expected a folder that is there"),
        ("fit X.npy --labels y.csv -o N.joblib", "labels of shape (19,), expected (20,): a l"),
        ("fit X.npy --labels X.npy -o N.joblib", "X.npy has labels of shape (20, 2, 16), expected"),
        ("predict Y.csv X.npy --overwrite -o Y.csv", "output is Y.csv, an input, expected another"),
        ("predict Y.csv X.npy --overwrite --labels y.csv -o y.csv", "output is y.csv, an input"),
        ("fit X.npy --labels y.txt --groups y.csv -o N.joblib", "y.csv has groups of shape (19,)"),
        ("fit X.npy --labels y.txt --labels-array y -o N.joblib", "y.txt is not a .npz file of"),
        ("fit X.npy --labels y.txt --regression -o N.joblib", "labels are texts, expected num"),
        ("fit X.npy --labels u.txt --regression -o N.joblib", "expected numeric targets: '1_0.8'"),
    ):
        capsys.readouterr()
        assert run(wrong) == 2
        assert message in capsys.readouterr().err


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Signals of two classes, of 30 and 10; a gap in a row of a wide table; labels with headers."""
    monkeypatch.chdir(tmp_path)
    y = np.repeat(["slow", "fast"], [30, 10])
    X = np.sin(np.arange(16) * np.where(y == "slow", 0.3, 0.9)[:, None])
    X = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    header = ",".join(["label", *(f"t{k}" for k in range(16))])
    lines = [",".join([label, *map(repr, map(float, x))]) for label, x in zip(y, X, strict=True)]
    Path("wide.csv").write_text("\n".join([header, *lines]))
    cells = lines[5].split(",")
    gone = ",".join([*cells[:4], "", *cells[5:]])
    Path("gaps.csv").write_text("\n".join([header, *lines[:5], gone, *lines[6:]]))
    np.save("X.npy", X[:, None])
    Path("y.txt").write_text("\n".join(["Class", *y]))
    Path("wrong.txt").write_text("\n".join(["slow", *y[1:]]))
    return X[:, None], y


def test_options_of_fit(files, capsys):
    import joblib

    from rescntk.learn import ResidualKernelClassifier

    X, y = files
    options = "--effort fast --class-weight balanced --standardize each --threads 1"
    assert run(f"fit gaps.csv -o M.joblib {options} --missing interpolate") == 0
    model = joblib.load("M.joblib")
    settings = {"class_weight": "balanced", "standardize": "each", "missing": "interpolate"}
    expected = ResidualKernelClassifier(effort="fast", **settings, n_jobs=1)
    gaps = X.copy()
    gaps[5, 0, 3] = np.nan
    expected.fit(gaps, y)
    assert {**model.get_params(), "verbose": 0} == expected.get_params()
    assert (model.decision_function(gaps) == expected.decision_function(gaps)).all()
    assert run("predict M.joblib gaps.csv -o Y.csv --threads 2") == 0
    people = np.arange(40) // 5
    Path("people.txt").write_text("group\n" + "\n".join(map(str, people)))
    assert run("fit wide.csv -o G.joblib --effort fast --groups people.txt --threads 1") == 0
    expected = ResidualKernelClassifier(effort="fast", n_jobs=1).fit(X, y, groups=people)
    assert joblib.load("G.joblib").best_score_error_ == expected.best_score_error_
    assert run("fit wide.csv -o T.joblib --effort fast --standardize true") == 0
    assert joblib.load("T.joblib").standardize is True
    for wrong, message in (
        ("gaps.csv -o N.joblib", "1 missing value, NaN (first in case 5, channel 0, time point 3)"),
        ("wide.csv -o N.joblib --class-weight even", "class_weight is 'even', expected None, 'ba"),
        ("wide.csv -o N.joblib --standardize all", "standardize is 'all', expected True, False or"),
        ("wide.csv -o N.joblib --missing drop", "missing is 'drop', expected one of 'refuse', 'i"),
        ("wide.csv -o N.joblib --threads 0", "n_jobs is 0, expected None, a positive number"),
    ):
        capsys.readouterr()
        assert run(f"fit {wrong}") == 2
        assert message in capsys.readouterr().err
    np.save("numbers.npy", np.arange(40.0))
    both = "fit X.npy -o N.joblib --labels numbers.npy --regression --class-weight balanced"
    assert run(both) == 2 and "--class-weight is given with --reg" in capsys.readouterr().err


def test_report(files, capsys, monkeypatch):
    pytest.importorskip("jinja2")
    import joblib

    from rescntk.learn.fitted_pass import FittedPass

    assert run("fit X.npy --labels y.txt -o M.joblib --effort fast") == 0
    calls, matrix = [], FittedPass.matrix
    monkeypatch.setattr(
        FittedPass, "matrix", lambda *given: calls.append(len(given[1])) or matrix(*given)
    )
    capsys.readouterr()
    assert run("report M.joblib X.npy y.txt -o R.html") == 0
    assert capsys.readouterr().out == "written: R.html, about 40 signals\n"
    page = Path("R.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "M.joblib on X.npy" in page
    n_passes = np.count_nonzero(joblib.load("M.joblib").passes_["weight"])
    assert calls.count(40) == n_passes and sum(calls) <= 46 * n_passes  # 6 signals have shares
    odd = os.fsdecode(b"$x_{$\xff.npy")  # a formula without an end, and a byte that is no text
    np.save(odd, files[0])
    assert run(f"report M.joblib {odd} y.txt -o R3.html") == 0
    assert "M.joblib on $x_{$\\udcff.npy" in Path("R3.html").read_text(encoding="utf-8")
    assert run("report M.joblib wide.csv -o R2.html") == 0  # the file has labels
    Path("days.txt").write_text("group\n" + "Monday\nTuesday\n" * 20)
    command = "report M.joblib X.npy y.txt -o G.html --groups days.txt"
    assert run(f"{command} --prevalence slow=0.9,fast=0.1 --cost fast=5") == 0
    page = Path("G.html").read_text()
    assert "<td>Tuesday</td><td>20</td>" in page and "cost of a signal" in page
    assert "accuracy at the given prevalence" in page
    for wrong, message in (
        ("M.joblib X.npy -o N.html", "X.npy has no labels, expected them in LABELS"),
        ("M.joblib X.npy y.txt -o R.html", "R.html, which exists, expected a new name"),
        ("M.joblib X.npy y.txt -o R.pdf", "expected a name that ends in .html"),
        ("X.npy M.joblib y.txt -o N.html", "model is X.npy, expected a .joblib file"),
        ("M.joblib X.npy X.npy -o N.html", "labels of shape (40, 1, 16), expected (40,)"),
    ):
        assert run(f"report {wrong}") == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("report M.joblib X.npy y.txt -o N.html --cost slow=1,slow=2")
    assert "'slow=1,slow=2' is not a list of different classes" in capsys.readouterr().err
