"""Experiments with finite networks: the papers' figures, at the papers' size or a fast one.

    python notebooks/finite_experiments.py --paper theorem_4 figure_8
    python notebooks/finite_experiments.py --paper --missing
    python notebooks/finite_experiments.py --fast

Each experiment is a function of its settings, and returns numbers and lists: experiments_tirer,
experiments_huang, experiments_barzilai, experiments_lee. The notebooks finite_networks and
beyond_the_kernel_regime run the fast settings. With --paper, results go to
finite_experiments.json beside this script, with settings and seconds of processor time.
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

import numpy as np
from experiments_barzilai import trained_fields, trained_responses, training_speed
from experiments_huang import deep_regression, theorem_4
from experiments_lee import trained_ensemble
from experiments_tirer import ADAM, SGD, SLOW_ADAM, figure_1a, kernel_regime, practical, theorem_5

RESULTS = Path(__file__).with_suffix(".json")


class Experiment(NamedTuple):
    """A function of its settings, with fast settings and stored ones."""

    measure: Callable[..., dict[str, Any]]
    fast: dict[str, Any]
    """Seconds of processor time: for the notebooks."""
    paper: dict[str, Any]
    """The paper's settings where a paper names them and an hour suffices, else smaller ones."""


SMALL_1 = {"width": 64, "n_networks": 2, "steps": 200}
OTHER_1 = {"width": 256, "n_networks": 2, "steps": 1000}
SMALL_3 = {"width": 64, "n_networks": 2, "steps": 500}
PAPER_3 = {"width": 500, "n_networks": 30, "steps": 1000}
PAPER_8 = {"width": 500, "n_networks": 5, "steps": 1000}
PAPER_1B = {"width": 2000, "n_networks": 5, "steps": 5000}
PAPER_1C = {"width": 2000, "n_networks": 3, "steps": 10000}
LONG = {"width": 128, "n_networks": 5, "steps": 20000}

EXPERIMENTS = {
    "figure_1a": Experiment(
        figure_1a, {"width": 512, "n_samples": 10}, {"width": 2000, "n_samples": 30}
    ),
    "figure_1b": Experiment(partial(kernel_regime, 6, 0.5), SMALL_1, PAPER_1B),
    "figure_1c": Experiment(partial(kernel_regime, 10, 0.05), SMALL_1, PAPER_1C),
    "figure_1b_other_rate": Experiment(partial(kernel_regime, 6, 0.05), SMALL_1, OTHER_1),
    "figure_1c_other_rate": Experiment(partial(kernel_regime, 10, 0.5), SMALL_1, OTHER_1),
    "theorem_5": Experiment(
        theorem_5,
        {"widths": [32, 128], "n_networks": 3, "steps": 60},
        {"widths": [32, 64, 128, 256, 512], "n_networks": 8, "steps": 200},
    ),
    "figure_3a": Experiment(partial(practical, ADAM, 6), SMALL_3, PAPER_3),
    "figure_3b": Experiment(partial(practical, SGD, 6), SMALL_3, PAPER_3),
    "figure_3c": Experiment(partial(practical, SGD, 10), SMALL_3, PAPER_3),
    "figure_8": Experiment(partial(practical, SLOW_ADAM, 20), SMALL_3, PAPER_8),
    "figure_8_epochs": Experiment(
        partial(practical, SLOW_ADAM, 20), {"width": 64, "n_networks": 2, "steps": 5000}, LONG
    ),
    "figure_9": Experiment(partial(practical, SLOW_ADAM, 20, scalar=True), SMALL_3, PAPER_8),
    "theorem_4": Experiment(
        theorem_4,
        {"widths": [32, 128], "depths": [2, 8], "n_samples": 12},
        {"widths": [32, 64, 128, 256], "depths": [2, 8, 32], "n_samples": 32},
    ),
    "deep_regression": Experiment(
        deep_regression,
        {"depth": 20, "width": 128, "n_networks": 2, "steps": 200},
        {"depth": 50, "width": 256, "n_networks": 4, "steps": 300},
    ),
    "trained_fields": Experiment(
        trained_fields,
        {"width": 64, "n_networks": 2, "steps": 100},
        {"width": 256, "n_networks": 8, "steps": 200},
    ),
    "trained_responses": Experiment(
        trained_responses,
        {"width": 64, "n_networks": 2, "steps": 150},
        {"width": 128, "n_networks": 10, "steps": 200},
    ),
    "training_speed": Experiment(
        training_speed,
        {"width": 128, "depths": [2], "n_networks": 2},
        {"width": 256, "depths": [2, 4, 8, 16], "n_networks": 3},
    ),
    "trained_ensemble": Experiment(
        trained_ensemble,
        {"width": 64, "n_networks": 10, "steps": [20, 200]},
        {"width": 512, "n_networks": 30, "steps": [20, 400]},
    ),
}


def fast(name: str, changes: Mapping[str, dict[str, Any]]) -> Any:
    """Return the result of an experiment with its fast settings, which `changes` may replace."""
    experiment = EXPERIMENTS[name]
    return experiment.measure(**experiment.fast | changes.get(name, {}))


def stored(name: str) -> dict[str, Any]:
    """Return the stored run of an experiment: "settings", "seconds", "result"."""
    return dict(_stored()[name])


def main() -> None:
    """Run experiments, and write each result when it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--paper", action="store_true", help="the stored sizes: minutes each")
    size.add_argument("--fast", action="store_true", help="the notebooks' sizes, not written")
    parser.add_argument(
        "--missing", action="store_true", help="leave out what is stored with the same settings"
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; all by default")
    arguments = parser.parse_args()
    for name in arguments.names or EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        settings = experiment.paper if arguments.paper else experiment.fast
        if arguments.missing and _stored().get(name, {}).get("settings") == settings:
            continue
        start = time.process_time()
        result = experiment.measure(**settings)
        seconds = time.process_time() - start
        print(f"{name}: {seconds:.0f} s of processor time", flush=True)
        if arguments.paper:
            entry = {"settings": settings, "seconds": round(seconds), "result": _rounded(result)}
            temporary = RESULTS.with_suffix(".tmp")
            temporary.write_text(json.dumps(_stored() | {name: entry}, indent=None) + "\n")
            os.replace(temporary, RESULTS)


def _stored() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


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
