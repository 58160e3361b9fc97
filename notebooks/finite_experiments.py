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
from pathlib import Path
from typing import Any

import numpy as np

import experiments

RESULTS = Path(__file__).with_suffix(".json")


def stored(name: str) -> dict[str, Any]:
    """Return the stored run of an experiment: "settings", "seconds", "result"."""
    return dict(json.loads(RESULTS.read_text())[name])


def main() -> None:
    """Repeat experiments, and write each result when it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = json.loads(RESULTS.read_text())
    parser.add_argument("--paper", nargs="+", choices=names, required=True, metavar="NAME")
    for name in parser.parse_args().paper:
        start, settings = time.process_time(), stored(name)["settings"]
        result = _rounded(getattr(experiments, name)(**settings))
        entry = {"settings": settings, "seconds": round(time.process_time() - start)}
        print(f"{name}: {entry['seconds']} s of processor time", flush=True)
        everything = json.loads(RESULTS.read_text()) | {name: entry | {"result": result}}
        temporary = RESULTS.with_suffix(".tmp")
        temporary.write_text(json.dumps(everything) + "\n")
        os.replace(temporary, RESULTS)


def _rounded(value: Any) -> Any:
    """Return a result as JSON has it: numbers with four digits, null for NaN."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


if __name__ == "__main__":
    main()
