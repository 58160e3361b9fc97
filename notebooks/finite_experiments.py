"""Experiments with finite networks at the papers' size, as data in finite_experiments.json.

    python notebooks/finite_experiments.py --paper theorem_4 figure_8

repeats runs with their stored settings, minutes each, and stores their results and seconds of
processor time. Notebooks draw what is stored, and run the same functions at small sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import experiments
import numpy as np
from experiments import ADAM, SGD, SLOW_ADAM, kernel_regime, practical

RESULTS = Path(__file__).with_suffix(".json")

EXPERIMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "figure_1b": partial(kernel_regime, 6, 0.5),
    "figure_1c": partial(kernel_regime, 10, 0.05),
    "figure_1b_other_rate": partial(kernel_regime, 6, 0.05),
    "figure_1c_other_rate": partial(kernel_regime, 10, 0.5),
    "figure_3a": partial(practical, ADAM, 6),
    "figure_3b": partial(practical, SGD, 6),
    "figure_3c": partial(practical, SGD, 10),
    "figure_8": partial(practical, SLOW_ADAM, 20),
    "figure_8_epochs": partial(practical, SLOW_ADAM, 20),
    "figure_9": partial(practical, SLOW_ADAM, 20, scalar=True),
} | {
    name: getattr(experiments, name)
    for name in (
        "figure_1a", "theorem_5", "theorem_4", "deep_regression", "trained_fields",
        "trained_responses", "training_speed", "trained_ensemble", "half_times",
    )
}  # fmt: skip


def stored(name: str) -> dict[str, Any]:
    """Return the stored run of an experiment: "settings", "seconds", "result"."""
    return dict(json.loads(RESULTS.read_text())[name])


def main() -> None:
    """Repeat experiments, and write each result when it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--paper", nargs="+", choices=EXPERIMENTS, required=True, metavar="NAME")
    for name in parser.parse_args().paper:
        start, settings = time.process_time(), stored(name)["settings"]
        result = _rounded(EXPERIMENTS[name](**settings))
        entry = {"settings": settings, "seconds": round(time.process_time() - start)}
        print(f"{name}: {entry['seconds']} s of processor time", flush=True)
        everything = json.loads(RESULTS.read_text()) | {name: entry | {"result": result}}
        temporary = RESULTS.with_suffix(".tmp")
        temporary.write_text(json.dumps(everything) + "\n")
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
