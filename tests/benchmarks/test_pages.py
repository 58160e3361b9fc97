"""The benchmarks' scripts: pages of committed results, problems, and parts at small sizes."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
pytest.importorskip("aeon")
pytest.importorskip("jax")
pytest.importorskip("zarr")
pytest.importorskip("distributed")
import accuracy
import constants
import cpu
import early
import harness
import images
import left_out
import many_signals
import other_views
import pandas as pd
import ratios
import regression
import robustness
import scale
import ucr
import uea
from classification_methods import draw_signals, on_all_points, signals
from harness import RESULTS

from tests.tolerances import ROUTES, STANDARD_ERRORS

pytestmark = pytest.mark.slow


PAGES = {
    "accuracy.json": accuracy.table,
    "constants.csv": constants.table,
    "cpu.json": cpu.table,
    "cpu_intel.json": cpu.table,
    "early.csv": early.text,
    "images.json": images.text,
    "left_out.csv": left_out.table,
    "many_signals.csv": many_signals.table,
    "other_views.csv": other_views.table,
    "regression.csv": regression.report,
    "robustness.csv": robustness.table,
    "scale.json": scale.text,
    "ucr.csv": ucr.table,
    "uea.csv": uea.table,
}


@pytest.mark.parametrize("name", PAGES)
def test_results_give_their_page(name, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # of the machine that measured
    path = RESULTS / name
    assert PAGES[name](harness.load(path)) == path.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize("measure", ucr.MEASURES)
def test_other_measures_are_of_sets_and_methods_of_accuracies(measure):
    """Log losses are of all official splits; the other measures and means are of 39 sets."""
    accuracy, other = ucr.peers(), ucr.peers(measure)
    assert {*other.columns} == {*accuracy.columns} and not other.isna().any(axis=None)
    of_all = {"official": accuracy, "mean of 30": accuracy, "mean of 10": other}
    sets = {splits: {*of["set"][of["splits"] == splits]} for splits, of in of_all.items()}
    assert sets["mean of 10"] == sets["mean of 30"] and len(sets["mean of 30"]) == 39
    official = {*other["set"][other["splits"] == "official"]}
    assert official == (sets["official"] if measure == "log_loss" else sets["mean of 30"])
    assert len(sets["official"]) == 58 and sets["mean of 30"] < sets["official"]


@pytest.mark.parametrize(
    ("part", "ours", "of_hc2", "won"), [("test", 0.320, 0.360, 28), ("choose", 0.442, 0.476, 9)]
)
def test_mean_log_losses_and_sets_won(part, ours, of_hc2, won):
    """Means over sets of measured and published log losses, without the script's functions."""
    about = pd.read_csv(RESULTS.parent / "ucr_peers.csv").drop_duplicates("set").set_index("set")
    peers = pd.read_csv(RESULTS.parent / "ucr_peers_log_loss.csv").query("splits == 'official'")
    rows = pd.read_csv(RESULTS / "ucr.csv").query("method == 'rescntk' and seed == 0")
    rows = rows[rows["set"].map(about["part"]) == part].set_index("set")["log_loss"]
    peers = peers.set_index("set").drop(columns="splits").loc[rows.index]
    assert round(rows.mean(), 3) == ours and round(peers["HC2"].mean(), 3) == of_hc2
    assert sum(rows < peers["HC2"]) == won and (peers.mean() > ours).all()
    page = (RESULTS / "ucr.md").read_text(encoding="utf-8")
    (line,) = [x for x in page.splitlines() if x.startswith(f"| log loss, {part} (")]
    assert f"| **{ours:.3f}** |" in line and f"| {of_hc2:.3f} |" in line and line.endswith("| 1 |")
    assert f"| log loss, {part} | rescntk {ours:.3f} |" in page
    assert f"| {won} to {len(rows) - won} |" in page


def test_left_out_log_losses_are_near_those_of_folds():
    """Ratio of mean log losses, and of each set, without the script's functions."""
    rows = pd.read_csv(RESULTS / "left_out.csv")
    assert rows["set"].nunique() == 14 and (rows["folds"] <= 10).all()
    losses = rows.groupby("set")[["log_loss_left_out", "log_loss_folds"]].mean()
    pooled = losses["log_loss_left_out"].mean() / losses["log_loss_folds"].mean()
    of_splits = 0.15  # single sets differ by up to a fifth
    assert abs(pooled - 1) < of_splits
    lines = (RESULTS / "left_out.md").read_text(encoding="utf-8").splitlines()
    (line,) = [x for x in lines if x.startswith("| **mean**")]
    assert f"| {pooled:.3f} |" in line
    ratios = losses["log_loss_left_out"] / losses["log_loss_folds"]
    guide = (RESULTS.parents[1] / "docs/guide/classification.md").read_text(encoding="utf-8")
    assert f"is {pooled:.3f} of that of folds" in guide
    assert f"On a set it is {ratios.min():.2f} to {ratios.max():.2f} of it" in guide


def test_left_out_scores_of_like_and_of_other_signals():
    """The guide's means over sets, of random splits and of the archive's own."""
    rows = pd.read_csv(RESULTS / "ucr.csv").query("method == 'rescntk'")
    parts = pd.read_csv(RESULTS.parent / "ucr_peers.csv").drop_duplicates("set")
    tested = rows["set"].isin(parts.loc[parts["part"] == "test", "set"])
    page = (RESULTS.parents[1] / "docs/guide/classification.md").read_text(encoding="utf-8")
    for of, count in ((rows["seed"] > 0, 25), ((rows["seed"] == 0) & tested, 36)):
        means = rows[of].groupby("set")[["left_out", "accuracy"]].mean()
        left_out, new = (f"{mean:.3f}"[1:] for mean in means.mean())
        assert len(means) == count
        assert f"of {count} UCR sets its mean is {left_out}, and {new} on" in page or (
            f"splits of {count} sets {left_out}, and {new}" in page
        )


def test_seconds_of_the_guide_are_measured():
    rows = pd.read_csv(RESULTS / "ucr.csv").query("seed == 0")
    about = pd.read_csv(RESULTS.parent / "ucr_peers.csv").drop_duplicates("set").set_index("set")
    guide = RESULTS.parents[1] / "docs/guide"
    page = (guide / "speed.md").read_text(encoding="utf-8")
    fits = rows.pivot(index="set", columns="method", values="fit_seconds")
    of_default = rows.query("method == 'rescntk'").set_index("set")["predict_seconds"]
    for name in ("CBF", "Car", "DistalPhalanxOutlineCorrect", "EthanolLevel"):
        n, n_test, length = about.loc[name, ["n_train", "n_test", "length"]]
        default, fast = fits.loc[name, ["rescntk", "rescntk, fast"]]
        one = 1000 * of_default[name] / n_test
        assert f"| {name} | {n} | {length} | {default:.1f} | {fast:.1f} | {one:.0f} |" in page
    ratios = fits["rescntk, fast"] / fits["rescntk"]
    least, most = (f"{ratio:.2f}"[1:] for ratio in (ratios.min(), ratios.max()))
    words = (guide / "classification.md").read_text(encoding="utf-8")
    assert f"takes {least} to {most} of the time for fits" in words


@pytest.mark.filterwarnings("ignore:The least populated class", "ignore:Number of classes")
def test_left_out_signals_and_folds(monkeypatch, rng):
    """The only signal of a class does not count. Folds are as many as the largest class has."""
    y = np.repeat([0, 1, 2, 3], [1, 6, 5, 4])
    X = np.sin(np.arange(60) * (0.2 + 0.1 * y[:, None, None])) + rng.normal(0, 0.3, (16, 1, 60))
    monkeypatch.setattr(ucr, "signals", lambda name, seed: (X, y, X, y))
    (row,) = left_out.measure("of four classes", 0)
    counts = {label: np.sum(y == label) for label in y}
    assert sorted(counts.values())[0] == 1 and max(counts.values()) == row["folds"] == 6
    model = harness.call_by_name(left_out.OUR_CLASSIFIER, random_state=0).fit(X, y)
    of_truth = [
        proba[list(model.classes_).index(label)]
        for proba, label in zip(model.left_out_proba_, y, strict=True)
        if counts[label] > 1
    ]
    assert len(of_truth) == 15
    assert row["log_loss_left_out"] == pytest.approx(-np.log(of_truth).mean(), rel=ROUTES)


def test_normalized_views_have_kernels_of_normalized_networks(rng):
    """The view's kernel is the mean of both kernels of such a network, at what the view shows."""
    import rescntk as rk

    X = rng.standard_normal((6, 1, 200)).cumsum(axis=2)
    plain = other_views.VIEWS[other_views.PLAIN]
    for name, depth in (("normalized, depth 2", 2), ("normalized, depth 8", 8)):
        views = other_views.VIEWS[name]
        assert [view.linear for view in views] == [view.linear for view in plain]
        of_networks = [view for view in views if not view.linear and view.head == "gap"]
        view, seen = of_networks[-1].pipeline(X).fit_and_transform(X, np.ones(len(X)))
        network = view.kernel.network
        assert network.norm and network.depth == depth
        kernels = [rk.Kernel(network, kind, normalized=True)(seen) for kind in ("gpk", "ntk")]
        options = {"engine": "auto", "dtype": "float64", "threads": 1}
        np.testing.assert_allclose(
            view.kernel.matrix(seen, None, options), np.mean(kernels, axis=0), rtol=ROUTES
        )


def test_classes_of_noise_are_less_certain():
    """The guide's numbers of novelty, computed without the script's functions."""
    rows = pd.read_csv(RESULTS / "robustness.csv")
    used, unused = (rows[rows["method"] == f"novelty {how}"] for how in ("used", "unused"))
    means = [of.groupby("condition")[["certainty", "log_loss"]].mean() for of in (used, unused)]
    (noise, noise_unused), (near, near_unused) = (
        [mean.loc[condition, column] for mean in means]
        for condition, column in (("white noise", "certainty"), ("noise 0.1", "log_loss"))
    )
    page = (RESULTS.parents[1] / "docs/guide/classification.md").read_text(encoding="utf-8")
    assert (
        used["set"].nunique() == 6
        and f"{noise:.2f}, and would be {noise_unused:.2f} without" in page
    )
    assert f"the log loss is {near:.3f}, and would be {near_unused:.3f} without" in page
    assert abs(np.diff([mean.loc["clean", "log_loss"] for mean in means])) < 0.001


def test_normalized_networks_gain_next_to_nothing_as_views():
    """The numbers of the page of results, computed without the script's functions."""
    rows = pd.read_csv(RESULTS / "other_views.csv").query("seed == 0")
    losses = rows.pivot_table(index="set", columns="views", values="log_loss")
    page = (RESULTS.parents[1] / "docs/project/results.md").read_text(encoding="utf-8")
    for depth, told in ((2, "two layers"), (4, "four")):
        both = losses[[f"normalized, depth {depth}", "default views"]].dropna()
        changed, plain = both.mean()
        told = f"{len(both)} sets with {told} {changed:.3f}, and {plain:.3f} with the default"
        assert told in page, told


def test_holms_steps():
    """p-values of ten differences: a, e .002; b .004; c .027, above .05/3; d, f .43."""
    sizes = np.arange(1.0, 11)
    signs = [np.where(np.isin(sizes, few), -1, 1) for few in ([], [1], [1, 2, 3], [10, 9])]
    scores = pd.DataFrame({name: -sizes * s for name, s in zip("abcd", signs, strict=True)})
    scores = scores.assign(**{ucr.OURS: 0.0, "e": sizes, "f": sizes * signs[3]})
    assert ucr.significant_differences(scores) == (["a", "b"], ["e"])
    assert ucr.significant_differences(scores[[ucr.OURS, "d"]]) == ([], [])


PUBLISHED = 1e-4
"""Published errors have five digits, relatively half a unit of the last one and more."""


@pytest.mark.parametrize("name", ["Covid3Month", "CardanoSentiment"])
def test_published_errors_are_of_the_same_signals_and_splits(name):
    """The nearest neighbour of the official split has the published error."""
    X, y, Z, truth = signals(name)
    distances = np.linalg.norm(X[:, None] - Z, axis=(2, 3))
    error = np.sqrt(np.mean((y[distances.argmin(axis=0)] - truth) ** 2))
    assert error == pytest.approx(regression.peers()["1NN-ED"]["official", name], rel=PUBLISHED)


def test_the_table_of_ratios_has_the_cases_of_the_script():
    lines = (RESULTS / "ratios.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ratios.cases())


def test_splits_and_draws():
    """The first split is the official one; draws are disjoint, balanced and of the right size."""
    splits = regression.splits(10, 7, 3)
    assert list(splits[0][0]) == list(range(7)) and len({tuple(train) for train, _ in splits}) == 4
    for train, test in splits:
        assert len(train) == 7 and sorted([*train, *test]) == list(range(10))
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    for size in (2, 5, 12):
        train, test = draw_signals(y, size, draw=3)
        assert len(train) == size and sorted([*train, *test]) == list(range(60))
        counts = np.unique(y[train], return_counts=True)[1]
        assert len(counts) == min(size, 3) and np.ptp(counts) <= 1


def test_rows_are_kept_and_become_a_page(tmp_path):
    keys = [{"method": "ridge, flat", "set": name} for name in ("plant 1", "plant 2")]
    path = tmp_path / "results.csv"
    harness.measure_missing(path, keys, robustness.measure)
    rows = harness.read_rows(path)
    assert len(rows) == 10 and (rows["seconds"] > 0).all() and (rows["accuracy"] > 0.3).all()
    harness.measure_missing(path, keys, None)  # what is in the file is kept
    assert harness.read_rows(path).equals(rows)
    of_set = rows.assign(set=rows["set"].replace("plant 2", "GunPoint"))
    ours = of_set.assign(method="rescntk", accuracy=0.5, log_loss=0.25)
    page = robustness.table(pd.concat([ours, of_set]))
    for line in ("eight sets, clean | 0.5", "plants, drift | 0.5", "noise 0.1 | 0.25"):
        assert f"| {line}" in page


@pytest.mark.filterwarnings("ignore:error is 0.05")  # no label is early
def test_a_bound_of_one_fit_is_that_of_a_fit():
    """The script's bound, of the fit without one, is what `EarlyClassifier(error=…)` has."""
    from rescntk.learn import EarlyClassifier

    X, y, Z, truth = early.signals("ItalyPowerDemand", 0)
    assert len(Z) == early.MOST and len(X) == 67
    Z, truth = Z[:200], truth[:200]
    *_, bound = early.ours(X, y, Z, truth)
    model = EarlyClassifier(error=bound["error"], random_state=0).fit(X, y)
    right, times = model.predict(Z) == truth, model.predict_times(Z)
    assert bound["early"] == np.mean(times < 24) > 0.2 and bound["accuracy"] == right.mean()
    assert bound["early_error"] == np.mean(~right[times < 24])


def test_early_errors_above_their_bound():
    """What the guide says of all splits, without the script's functions."""
    rows = pd.read_csv(RESULTS / "early.csv")
    rows = rows[rows["error"].notna() & (rows["early"] > 0)]
    above = rows[rows["early_error"] > rows["error"]]
    page = (RESULTS.parents[1] / "docs/guide/early.md").read_text(encoding="utf-8")
    assert len(above) == 1 and above["early_error"].round(3).item() == 0.056
    pairs = f"Of {len(rows)} pairs of a split and a bound that have early labels"
    assert f"{pairs}, one exceeds its bound: .056 for .05" in page


def test_every_part_of_many_signals_runs_once(tmp_path, monkeypatch):
    """A second run measures nothing; another machine's numbers are not mixed in."""
    from sklearn.linear_model import RidgeClassifier

    # In place of MiniRocket, which takes 20 seconds to compile.
    flat = "aeon.classification.convolution_based.MiniRocketClassifier"
    monkeypatch.setattr(flat, lambda random_state, n_jobs: on_all_points(RidgeClassifier()))
    arguments, path = ["--quick", "--out", str(tmp_path)], tmp_path / "scale.json"
    scale.main(arguments)
    report = harness.load(path)
    assert {row["part"] for row in report["rows"]} == set(scale.PARTS)
    solved = scale.rows(report, "conjugate_gradients")[0]
    assert solved["residual"] <= 1e-5 and solved["products"] < solved["products_without"]
    assert "| landmarks | 40 | 8 |" in (tmp_path / "scale.md").read_text()
    monkeypatch.setattr(scale, "PARTS", {})
    scale.main(arguments)
    assert harness.load(path) == report
    path.write_text(json.dumps(report | {"machine": {"cores": 0}}))
    with pytest.raises(SystemExit, match="another machine"):
        scale.main(arguments)


def test_problems_are_what_they_say():
    """Noise has the training signals' deviations, drifts are constant, weak states rise less."""
    X = np.random.default_rng(9).standard_normal((50, 2, 40)) * [[1], [9]]
    seen = dict(robustness.conditions(X, np.arange(50) % 2, 0 * X))
    for size in robustness.LEVELS:
        found = seen[f"noise {size:g}"].std(axis=(0, 2))
        assert found == pytest.approx([size, 9 * size], rel=STANDARD_ERRORS / np.sqrt(2 * 2000))
    moves = seen["drift"] / X.std(axis=(0, 2))[:, None]
    np.testing.assert_allclose(np.abs(moves), 0.5, rtol=ROUTES)
    assert (np.ptp(moves, axis=(0, 2)) <= ROUTES).all()
    for name, plant in robustness.PLANTS.items():
        X, y, Z, _ = robustness.problem(name)
        assert X.shape == (100, 8, 60) and Z.shape == (200, 8, 60) and (np.bincount(y) == 20).all()
        rise = np.abs(X[:, :, 50:].mean(axis=2) - X[:, :, :9].mean(axis=2))
        ratio, sampling = rise[y == 3, 4:6].mean() / rise[y == 0, 4:6].mean(), 0.2  # of 20 signals
        assert abs(ratio - plant.attenuation) < sampling


def test_comments_on_constants_have_the_measured_numbers():
    """Comments in rescntk/learn have them in the order of their values."""
    rows = pd.read_csv(RESULTS / "constants.csv")
    means = rows.groupby(["constant", "value", "condition"])[["accuracy", "log_loss"]].mean()
    file, in_use = RESULTS.parents[1] / "rescntk/learn/ensemble/weights.py", ("in use", 0.0)
    errors = [("_ERROR_POWER", 0.0), in_use, ("_ERROR_POWER", 12.0)]
    lines = [
        *(("log_loss", condition, errors) for condition in ("noise 0.05", "drift")),
        ("accuracy", "noise 0.05", [("_NOVELTY_POWER", 2.0), in_use]),
        ("accuracy", "noise 0.1", [("_NOVELTY_POWER", 2.0), in_use, ("_NOVELTY_POWER", 4.0)]),
        ("accuracy", "drift", [("_LEVEL_POWER", 0.0), in_use]),
    ]
    comments = " ".join(file.read_text(encoding="utf-8").split())
    for measure, condition, values in lines:
        numbers = [means.loc[(*value, condition), measure] for value in values]
        texts = [f"{number:.3f}"[1:] for number in numbers]
        assert re.search(r"[^.]*?".join(map(re.escape, texts)), comments), texts


def test_ranks_on_thousands_of_signals():
    """The guide's ranks among methods and seconds, without the script's functions."""
    rows = harness.load(RESULTS / "many_signals.csv")
    rows = rows[rows["n"] == 0].pivot(index="set", columns="method")
    page = (RESULTS.parents[1] / "docs/guide/large_data.md").read_text(encoding="utf-8")
    endings = {1: "st", 2: "nd", 3: "rd"}
    for measure, sign in (("accuracy", 1), ("log_loss", -1)):
        peers = ucr.peers(measure).query("splits == 'official'").set_index("set")
        scores = sign * peers.drop(columns=ucr.ABOUT, errors="ignore").loc[rows.index]
        better = scores.gt(sign * rows[measure, "rescntk"], axis=0).sum(axis=1)
        ranks = [
            f"{rank}{endings.get(rank, 'th')} on {name}" for name, rank in (1 + better).items()
        ]
        assert all(rank in page for rank in ranks)
    for method in ("rescntk", "MiniRocket"):
        seconds = rows["fit_seconds", method]
        assert f"{seconds.min():.0f} to {seconds.max():.0f} s" in page


def test_the_picture_of_many_signals_has_each_measurement():
    rows = harness.load(RESULTS / "many_signals.csv")
    figure = many_signals.picture(rows)
    drawn = sum(len(line.get_xdata()) for ax in figure.axes for line in ax.lines)
    of_ladder = rows[rows["n"] > 0]
    measures = ["accuracy", "log_loss", "fit_seconds"]
    expected = of_ladder.groupby(["set", "method", "n"])[measures].mean()
    assert drawn == expected.notna().to_numpy().sum()
