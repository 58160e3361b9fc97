"""Experiments with finite networks: the papers' figures, at a fast size or at the stored one.

    python notebooks/finite_experiments.py --paper theorem_4 figure_8

measures them at the stored size, minutes each, and writes finite_experiments.json beside this
script, with settings and seconds of processor time. Without names it measures all. Notebooks draw
what is stored, and run the fast settings.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import experiments as own
import numpy as np

RESULTS = Path(__file__).with_suffix(".json")


class Experiment(NamedTuple):
    """A function of its settings, with fast settings and stored ones."""

    measure: Callable[..., dict[str, Any]]
    fast: dict[str, Any]
    """Seconds of processor time: for the notebooks."""
    paper: dict[str, Any]
    """The paper's settings where a paper names them and an hour suffices, else smaller ones."""


def trained(width: int, n_networks: int, steps: int) -> dict[str, int]:
    """Return the settings of most experiments."""
    return {"width": width, "n_networks": n_networks, "steps": steps}


FAST_1, FAST_3, OTHER, PAPER_8 = (
    trained(*settings) for settings in ((64, 2, 200), (64, 2, 500), (256, 2, 1000), (500, 5, 1000))
)
EXPERIMENTS = {
    "figure_1a": Experiment(
        own.figure_1a, {"width": 512, "n_samples": 10}, {"width": 2000, "n_samples": 30}
    ),
    "theorem_5": Experiment(
        own.theorem_5,
        {"widths": [32, 128], "n_networks": 3, "steps": 60},
        {"widths": [32, 64, 128, 256, 512], "n_networks": 8, "steps": 200},
    ),
    "theorem_4": Experiment(
        own.theorem_4,
        {"widths": [32, 128], "depths": [2, 8], "n_samples": 12},
        {"widths": [32, 64, 128, 256], "depths": [2, 8, 32], "n_samples": 32},
    ),
    "deep_regression": Experiment(
        own.deep_regression,
        {"depth": 20} | trained(128, 2, 200),
        {"depth": 50} | trained(256, 4, 300),
    ),
    "training_speed": Experiment(
        own.training_speed,
        {"width": 128, "depths": [2], "n_networks": 2},
        {"width": 256, "depths": [2, 4, 8, 16], "n_networks": 3},
    ),
    "trained_ensemble": Experiment(
        own.trained_ensemble,
        {"width": 64, "n_networks": 10, "steps": [20, 200]},
        {"width": 512, "n_networks": 30, "steps": [20, 400]},
    ),
} | {
    name: Experiment(measure, fast, paper)
    for name, measure, fast, paper in (
        ("figure_1b", partial(own.kernel_regime, 6, 0.5), FAST_1, trained(2000, 5, 5000)),
        ("figure_1c", partial(own.kernel_regime, 10, 0.05), FAST_1, trained(2000, 3, 10000)),
        ("figure_1b_other_rate", partial(own.kernel_regime, 6, 0.05), FAST_1, OTHER),
        ("figure_1c_other_rate", partial(own.kernel_regime, 10, 0.5), FAST_1, OTHER),
        ("figure_3a", partial(own.practical, own.ADAM, 6), FAST_3, trained(500, 30, 1000)),
        ("figure_3b", partial(own.practical, own.SGD, 6), FAST_3, trained(500, 30, 1000)),
        ("figure_3c", partial(own.practical, own.SGD, 10), FAST_3, trained(500, 30, 1000)),
        ("figure_8", partial(own.practical, own.SLOW_ADAM, 20), FAST_3, PAPER_8),
        (
            "figure_8_epochs",
            partial(own.practical, own.SLOW_ADAM, 20),
            trained(64, 2, 5000),
            trained(128, 5, 20000),
        ),
        ("figure_9", partial(own.practical, own.SLOW_ADAM, 20, scalar=True), FAST_3, PAPER_8),
        ("trained_fields", own.trained_fields, trained(64, 2, 100), trained(256, 8, 200)),
        ("trained_responses", own.trained_responses, trained(64, 2, 150), trained(128, 10, 200)),
        ("half_times", own.half_times, trained(32, 1, 120) | {"systems": ["ResNet"]}, trained(256, 4, 780)),
    )
}


def fast(name: str, changes: Mapping[str, dict[str, Any]]) -> Any:
    """Return the result of an experiment with its fast settings, which `changes` may replace."""
    experiment = EXPERIMENTS[name]
    return experiment.measure(**experiment.fast | changes.get(name, {}))


def stored(name: str) -> dict[str, Any]:
    """Return the stored run of an experiment: "settings", "seconds", "result"."""
    return dict(json.loads(RESULTS.read_text())[name])


def main() -> None:
    """Run experiments, and write each result when it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--paper", nargs="*", choices=EXPERIMENTS, required=True, metavar="NAME")
    for name in parser.parse_args().paper or EXPERIMENTS:
        settings, start = EXPERIMENTS[name].paper, time.process_time()
        result = EXPERIMENTS[name].measure(**settings)
        seconds = round(time.process_time() - start)
        print(f"{name}: {seconds} s of processor time", flush=True)
        entry = {"settings": settings, "seconds": seconds, "result": _rounded(result)}
        temporary = RESULTS.with_suffix(".tmp")
        everything = json.loads(RESULTS.read_text()) | {name: entry}
        temporary.write_text(json.dumps(everything, indent=None) + "\n")
        os.replace(temporary, RESULTS)


def _rounded(value: Any) -> Any:
    """Return a result as JSON has it: numbers with four digits, null for NaN."""
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(own) for own in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


if __name__ == "__main__":
    main()
