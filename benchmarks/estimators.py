"""What the estimators promise beside accuracy: little harm by drift, shares, short answers.

    python benchmarks/estimators.py [--part PART …] [--quick]

drift: half a deviation on each channel's level, up or down, of new signals: simulated plants, and
the test parts of the eight sets. bursts: whether the largest share of a decision lies on the burst
that decides. occlusion: the same question to signals of GunPoint, which nobody made: each window
in turn becomes a straight line. latency: one prediction of one signal. All take half an hour of a
core.
"""

import time
import warnings
from functools import partial
from typing import Any

import harness
import numpy as np
import simulated
from classification_methods import FAST, OUR_CLASSIFIER, OURS, SETS, signals
from harness import Row

EFFORTS = {FAST: "fast", OURS: "default"}
SEEDS = 12
"""Draws of bursts."""

DRAWS = 2
"""Draws of a plant's signals."""

DIRECTIONS = 3
"""Draws of the directions in which levels drift, for each draw of signals."""

WINDOW = 15
"""Time points of GunPoint, of 150, that become a straight line."""

SIZES = (50, 200, 800)
"""Training signals of the predictions that are timed."""


def fitted(method: str, X: Any, y: Any) -> Any:
    return harness.make(OUR_CLASSIFIER, effort=EFFORTS[method], n_jobs=1).fit(X, y)


def judged(model: Any, Z: np.ndarray, truth: np.ndarray) -> Row:
    """Return the accuracy, with the weights of errors only in addition, and whether it warns."""
    from rescntk.learn import DriftWarning

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        right = float(model.score(Z, truth))
    decisions = np.tensordot(model._weights, model._at(Z)[0], 1)
    places = decisions.argmax(axis=1) if decisions.shape[1] > 1 else (decisions[:, 0] > 0) * 1
    warned = any(issubclass(each.category, DriftWarning) for each in found)
    errors_only = float(np.mean(model.classes_[places] == truth))
    return {"accuracy": right, "errors only": errors_only, "warned": float(warned)}


def drift(quick: bool) -> list[Row]:
    """Return accuracies without and with drift, means over the draws."""
    problems: dict[str, list[simulated.Problem]] = {
        f"plant {k}": [
            simulated.drawn(partial(simulated.steps, plant=plant), seed, 100, 200)
            for seed in range(1 if quick else DRAWS)
        ]
        for k, plant in enumerate(simulated.PLANTS, 1)
    }
    problems |= {name: [signals(name)] for name in SETS}
    rows = []
    for name in ("plant 1", SETS[0]) if quick else problems:
        for method in [*EFFORTS][: 1 if quick else None]:
            clean, moved = [], []
            for seed, problem in enumerate(problems[name]):
                model = fitted(method, *problem[:2])
                clean.append(judged(model, *problem[2:]))
                for k in range(DIRECTIONS):
                    shifted = simulated.drifted(problem, DIRECTIONS * seed + k)
                    moved.append(judged(model, *shifted[2:]))
            rows.append({"problem": name, "method": method, "clean": clean, "drift": moved})
            harness.say(name, method)
    return rows


def bursts(quick: bool) -> list[Row]:
    """Return, for each draw, shares of new signals that are right, and on whose burst a share is.

    The largest share, by magnitude, of the class that is answered.
    """
    rows = []
    for name, burst in simulated.BURSTS.items():
        for method in EFFORTS:
            for seed in range(1 if quick else SEEDS):
                rng = np.random.default_rng(seed)
                X, y, places = simulated.bursts(rng, 100, burst)
                model = fitted(method, X[:60], y[:60])
                found, answers = model.contributions(X[60:]), model.predict(X[60:])
                outputs = answers if found.shape[1] > 1 else np.zeros(40, int)
                largest = np.abs(found[np.arange(40), outputs]).argmax(axis=1) - places[60:]
                hits, right = (largest >= 0) & (largest < burst.width), answers == y[60:]
                by_class = [float(hits[y[60:] == k].mean()) for k in np.unique(y)]
                row = {"signals": name, "method": method, "seed": seed, "right": right.mean()}
                rows.append(row | {"on the burst": hits.mean(), "by class": by_class})
        if quick:
            break
        harness.say(name)
    return rows


def occlusion(quick: bool) -> list[Row]:
    """Return how often the window of the largest share is the window whose loss costs most."""
    X, y, Z, truth = signals("GunPoint")
    Z, truth, rows = Z[: 6 if quick else 60], truth[: 6 if quick else 60], []
    for method in EFFORTS:
        model = fitted(method, X, y)
        decisions = model.decision_function(Z)
        losses = []
        for start in range(0, Z.shape[2], WINDOW):
            changed, end = Z.copy(), start + WINDOW
            ends = Z[:, :, [max(start - 1, 0), min(end, Z.shape[2] - 1)]]
            ramp = np.linspace(0, 1, WINDOW)
            changed[:, :, start:end] = ends[:, :, :1] * (1 - ramp) + ends[:, :, 1:] * ramp
            losses.append((decisions - model.decision_function(changed)) * np.sign(decisions))
        place = np.abs(model.contributions(Z)[:, 0]).argmax(axis=1) // WINDOW
        order = np.argsort(-np.array(losses), axis=0)
        first = [float(np.mean((order[:k] == place).any(axis=0))) for k in (1, 3)]
        row = {"method": method, "signals": len(Z), "windows": len(losses)}
        row |= {"right": float(np.mean(model.predict(Z) == truth))}
        rows.append(row | {"costs most": first[0], "among three": first[1]})
    return rows


def latency(quick: bool) -> list[Row]:
    """Return milliseconds of a prediction of one signal of 60 points, and the model's megabytes."""
    import pickle

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = rng.standard_normal((n, 1, 60)), np.arange(n) % 2
        X[y == 1, 0] += np.sin(np.arange(60) / 4)
        return X, y

    rng, rows = np.random.default_rng(0), []
    new = drawn(20)[0]
    for n in SIZES[: 1 if quick else None]:
        model, taken = fitted(FAST, *drawn(n)), []
        model.predict(new[:1])
        for k in range(3 if quick else 100):
            start = time.process_time()
            model.predict(new[k % 20 : k % 20 + 1])
            taken.append(1e3 * (time.process_time() - start))
        size = len(pickle.dumps(model)) / 1e6
        rows.append({"training signals": n, "ms": float(np.median(taken)), "MB": size})
    return rows


# -- tables


def mean(rows: list[Row], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def text(report: Row) -> str:
    """Return the page of the results."""
    drifts = {(row["problem"], row["method"]): row for row in report["drift"]}
    names = dict.fromkeys(name for name, _ in drifts)
    kinds = [("clean", "accuracy"), ("clean", "errors only")]
    kinds += [("drift", "accuracy"), ("drift", "errors only")]
    heads = ("", ", errors only", ", drift", ", drift, errors only")

    def means(name: str) -> list[float]:
        rows = [drifts[name, method] for method in EFFORTS if (name, method) in drifts]
        return [mean(row[when], what) for row in rows for when, what in kinds]

    found = {name: means(name) for name in names}
    found["**eight sets**"] = np.mean([found[name] for name in names if name in SETS], axis=0)
    batches = [
        [each["warned"] for (name, _), row in drifts.items() for each in row[when]
         if when == "drift" or name in SETS]
        for when in ("clean", "drift")
    ]  # fmt: skip
    plants = [name for name in names if name not in SETS]
    worst = min(each["accuracy"] for (name, _), row in drifts.items() if name in plants
                for each in row["drift"])  # fmt: skip
    lines = []
    for name in dict.fromkeys(row["signals"] for row in report["bursts"]):
        cells: list[str] = []
        for method in EFFORTS:
            own = [r for r in report["bursts"] if (r["signals"], r["method"]) == (name, method)]
            hits = "on the burst"
            classes = np.mean([row["by class"] for row in own], axis=0)
            cells += [f"{mean(own, 'right'):.3f}", f"{mean(own, hits):.3f}"]
            cells += [f"{min(row[hits] for row in own):.2f}", f"{min(classes):.2f}"]
        lines.append((name, *cells))
    parts = ("right", "on the burst", "worst draw", "worst class")
    return harness.page(
        "# Drift, shares and the time of one prediction",
        "## Drift",
        harness.table(
            ("signals", *(method + head for method in EFFORTS for head in heads)),
            [(name, *(f"{x:.3f}" for x in values)) for name, values in found.items()],
        ),
        "Accuracies. The level of each channel moves by half a deviation, up or down: means of "
        f"{DIRECTIONS} draws of directions. Plants: benchmarks/simulated.py, eight sensors, 100 "
        f"training and 200 new signals, {DRAWS} draws. Eight sets: their test parts. “Errors "
        "only”: passes keep the weights of their leave-one-out errors at all signals.",
        f"The worst draw of a plant has {worst:.3f}. As unlike were named {sum(batches[0]):.0f} of "
        f"{len(batches[0])} test parts, and {np.mean(batches[1]):.0%} of the batches with drift.",
        "## Whether the largest share lies on the burst",
        harness.table(
            ("bursts in noise", *(f"{method}: {part}" for method in EFFORTS for part in parts)),
            lines,
        ),
        f"40 new signals after 60 training signals, means of {SEEDS} draws: decisions that are "
        "right, and signals whose largest share, by magnitude, lies on the burst. “Worst class”: "
        "the mean over draws of the class with the least.",
        "## Whether shares tell what occlusion costs",
        harness.rows_table([
            {name: f"{x:.2f}" if isinstance(x, float) else x for name, x in row.items()}
            for row in report["occlusion"]
        ], (0,)),
        f"GunPoint: test signals, of which each window of {WINDOW} time points was replaced by a "
        "straight line. “Costs most”: the window of the largest share is the window whose loss "
        "costs the decision most. “Among three”: or second or third.",
        "## One prediction",
        harness.table(
            ("training signals", "ms", "MB"),
            [(row["training signals"], f"{row['ms']:.1f}", f"{row['MB']:.2f}")
             for row in report["latency"]],
            (),
        ),
        'Median processor time of `predict` of one signal of 60 time points, `effort="fast"`, one '
        "thread, and the model's file.",
    )  # fmt: skip


def main() -> None:
    path, report = harness.measured(__doc__, "estimators.json", drift, bursts, occlusion, latency)
    harness.publish(path, text(report))


if __name__ == "__main__":
    main()
