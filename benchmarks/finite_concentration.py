"""Finite networks against the exact kernels: slope −½, and means within their standard errors.

    python benchmarks/finite_concentration.py [--quick]

The sweep goes over every system of the papers, heads, activations, filter sizes, skip connections
and frozen parts. Results go to finite_concentration.json and .md. An interrupted sweep goes on
where it was left.

Each row has two bars. The slope is −½ within 3 of its standard errors. Every entry of the mean
over samples is within 3 standard errors of the kernel. A few of some hundred rows miss by chance.
They are repeated with another seed and four times the samples, which has to pass.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import harness
import jax
import numpy as np
import pandas as pd
from harness import Row

import rescntk as rk
from rescntk import finite, literature
from rescntk.finite.sampling import features_kernel, summarize
from rescntk.validation import HEADS, KINDS, PARTS

WIDTHS, SAMPLES, SIGNALS, CHANNELS, LENGTH, DEPTH = (32, 128, 512), 48, 3, 2, 5, 3
BAR, GAP, NTK = 3.0, ("gap",), ("ntk",)

Case = tuple[rk.Network, tuple[int, ...], tuple[str, ...], tuple[str, ...]]
"""A network, pixels of each signal, and the heads and kinds measured with the same draws."""


def cases() -> dict[str, Case]:
    equal, single = (LENGTH,) * SIGNALS, (1,) * SIGNALS
    papers = {
        "ResNet (Barzilai)": literature.barzilai_resnet(DEPTH, alpha=0.8),
        "CNN (Barzilai)": literature.barzilai_cnn(DEPTH),
        "CNN, one convolution a layer (Geifman)": literature.geifman_cnn(DEPTH),
        "ResNet, one convolution a layer (Barzilai, app. G)": literature.one_convolution_resnet(
            DEPTH
        ),
    }
    fully_connected = {
        "ResNet (Tirer)": literature.tirer_resnet(DEPTH, 0.5, 1.2, 0.9),
        "MLP (Tirer)": literature.tirer_mlp(DEPTH, 1.3),
        "ResNet (Huang)": literature.huang_resnet(DEPTH, 0.5),
        "FFNet (Huang)": literature.huang_ffnet(DEPTH),
    }
    systems: dict[str, Case] = {name: (net, equal, HEADS, KINDS) for name, net in papers.items()}
    systems |= {name: (net, single, GAP, KINDS) for name, net in fully_connected.items()}
    for skip, prefix in ((True, "skips"), (False, "no skips")):
        for activation in ("relu", "erf"):
            for q in (1, 3, 5):
                network = rk.Network(DEPTH, q, skip=skip, activation=activation)
                systems[f"{prefix}, {activation}, q = {q}"] = network, equal, HEADS, KINDS
        for frozen in (False, True):
            for part in PARTS:
                trained = tuple(p for p in PARTS if (p == part) != frozen)
                network = rk.Network(DEPTH, 3, skip=skip, trained=trained)
                systems[f"{prefix}, trained: {', '.join(trained)}"] = network, equal, GAP, NTK
    window = rk.Network(DEPTH, 3, outer_filter_size=7, input_filter_size=3, input_scale=0.7)
    systems["skips, input window 3, outer filter 7"] = window, equal, GAP, KINDS
    dilated = rk.Network(DEPTH, 3, dilation=(1, 2, 4))
    systems["skips, dilated, signals of 5, 3 and 8 pixels"] = dilated, (5, 3, 8), GAP, KINDS
    return systems


def measure(case: Case, seed: int, n: int) -> dict[str, Row]:
    network, lengths, heads, kinds = case
    rng = np.random.default_rng(0)
    X: Any = [rng.standard_normal((CHANNELS, length)) for length in lengths]
    X = np.stack(X) if len(set(lengths)) == 1 else X
    kernels = {
        width: sample(case, X, jax.random.fold_in(jax.random.key(seed), width), width, n)
        for width in WIDTHS
    }
    results = {}
    for head in heads:
        exact = rk.gram(network, X, head=head)._asdict()
        for kind in kinds:
            sampled = {width: np.array(kernels[width][head, kind]) for width in WIDTHS}
            results[f"{head}; {kind}"] = result_of(summarize(exact[kind], sampled), n)
    return results


def sample(case: Case, X: Any, key: Any, width: int, n: int) -> dict[Any, list[np.ndarray]]:
    """Return n kernels by head and kind; all of them share the weights below the readout."""
    network, lengths, heads, kinds = case
    kernels: dict[Any, list[np.ndarray]] = {(h, k): [] for h in heads for k in kinds}
    for draw in jax.random.split(key, n):
        trace = finite.init(
            draw, network, CHANNELS, width, n_timepoints=lengths[0], dtype="float32"
        )
        pixel = trace.replace(readout=finite.Layer(trace.readout.weights[0]), n_timepoints=None)
        for head in heads:
            params = trace if head == "trace" else pixel
            if "gpk" in kinds:
                kernels[head, "gpk"].append(features_kernel(network, params, X, head))
            if "ntk" in kinds:
                kernels[head, "ntk"].append(finite.ntk(network, params, X, head=head))
    return kernels


def result_of(table: finite.Concentration, n: int) -> Row:
    """Return slope, its error, and how far the mean is from the kernel in standard errors."""
    z = table.deviations[np.triu_indices(SIGNALS)]
    return {
        "samples": n,
        "relative_error": table.column("relative_error").tolist(),
        "slope": table.slope,
        "slope_error": table.slope_error,
        "largest_deviation": float(np.abs(z).max()),
        "rms_deviation": float(np.sqrt((z**2).mean())),
    }


def passes(result: Row) -> bool:
    """Return whether a result meets the bar; NaN does not."""
    slope = abs(result["slope"] + 0.5) <= BAR * result["slope_error"]
    return bool(slope and result["largest_deviation"] <= BAR)


def table(results: dict[str, dict[str, Row]]) -> str:
    measured = {
        f"{name}; {row}": entry for name in cases() for row, entry in results.get(name, {}).items()
    }
    first = pd.DataFrame([entry["first"] for entry in measured.values()])
    final = pd.DataFrame([[*entry.values()][-1] for entry in measured.values()])
    deviation = np.sqrt((first["rms_deviation"] ** 2).mean())
    slope = np.sqrt((((first["slope"] + 0.5) / first["slope_error"]) ** 2).mean())
    met, met_at_last = (int(rows.apply(passes, axis=1).sum()) for rows in (first, final))
    cells = [
        (
            f"{'↻ ' if label == 'repeated' else ''}{name}",
            f"{result['relative_error'][-1]:.4f}",
            f"{result['slope']:.3f} ± {result['slope_error']:.3f}",
            f"{result['largest_deviation']:.1f}",
        )
        for name, entry in measured.items()
        for label, result in entry.items()
    ]
    return harness.page(
        "# Finite networks against the exact kernels",
        f"Written by `python benchmarks/finite_concentration.py`. Widths {WIDTHS}, {SAMPLES} "
        f"networks of each, {SIGNALS} signals of {CHANNELS} channels and {LENGTH} pixels (1 pixel "
        f"for fully connected systems), depth {DEPTH}.",
        f"- Rows that meet the bar at once: {met} of {len(first)}.\n"
        f"- After repeating the others with another seed and {4 * SAMPLES} networks: "
        f"{met_at_last} of {len(final)}.\n"
        f"- Root mean square of all deviations, in standard errors: {deviation:.2f} "
        "(expected: 1.02, that of Student's t with 47 degrees of freedom).\n"
        f"- Root mean square of the slopes' distances from −1/2, in standard errors: "
        f"{slope:.2f} (expected: about 1).",
        "Error: root mean square of ‖K̂ − K‖/‖K‖ at the largest width. Deviation: largest entry of "
        "|mean − kernel| in standard errors. ↻: the repetition.",
        harness.table(("network; head; kernel", "error", "slope", "deviation"), cells),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    samples, results = 4 if asked.quick else SAMPLES, harness.load(path, {})
    # Compiling takes longer than sampling at these widths.
    jax.config.update("jax_disable_most_optimizations", True)
    for seed, (name, case) in enumerate(cases().items()):
        if name in results or (asked.quick and seed):
            continue
        rows = {row: {"first": first} for row, first in measure(case, seed, samples).items()}
        missed = [row for row, entry in rows.items() if not passes(entry["first"])]
        again = measure(case, 10_000 + seed, 4 * samples) if missed else {}
        for row in missed:
            rows[row]["repeated"] = again[row]
        results[name] = rows
        harness.save(path, results)
        harness.say(f"{name}: {len(rows) - len(missed)} of {len(rows)} at once")


if __name__ == "__main__":
    harness.script(__doc__, "finite_concentration.json", measure_all, table)
