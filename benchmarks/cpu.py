"""Engines for the CPU against neural-tangents, side by side in one run on the same inputs.

    python benchmarks/cpu.py [--quick]

The peer lives in an environment of its own, which the script makes: neural-tangents does not run
on later versions of JAX. For each case every contestant first looks for the batch at which it is
fastest per pair. Then all contestants take turns, and medians over the turns are compared.

The script writes to benchmarks/results/: cpu.json; cpu.md, the table; cpu.png, the cost against
each size.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import harness
import numpy as np
import scaling

import rescntk as rk

HERE = Path(__file__).parent
PEER = ["neural-tangents==0.6.5", "jax==0.4.35", "jaxlib==0.4.35", "tf2jax==0.3.6"]
DEPTH, CHANNELS = 5, 4
TRAINED = ("input", "inner", "outer", "readout")  # what neural-tangents can do
CASES = [(head, d, q) for head in ("gap", "trace") for d in (32, 100, 200) for q in (3, 9)]
BATCHES = {"gap": (1, 2, 4, 8, 16, 32), "trace": (16, 64, 128, 256)}
OUR_BATCHES = {"gap": (16, 32, 96, 256), "trace": (128, 512, 1024)}
DTYPES = ("float64", "float32")
LONGEST_CALL = 4.0
"""Longest expected time of a call, in seconds; larger batches are not tried.

A larger value tries larger batches, and takes longer. Chosen: at 4 s time grows with the number
of pairs, so that larger batches are no faster per pair.
"""

PEER_SECONDS = 3600.0
"""Seconds of a peer's call, compilation included, before it counts as failed."""


class Peer:
    """A running neural-tangents worker of one precision."""

    def __init__(self, python: Path, dtype: str) -> None:
        options = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.worker = harness.Worker([python, HERE / "peer.py", dtype], PEER_SECONDS, **options)

    def __call__(self, case: tuple, batch: int, seed: int = 0) -> dict:
        return self.worker.ask(request(case, batch, seed), PEER_SECONDS)


class Ours:
    """An engine of the library, in one precision."""

    def __init__(self, engine: str, dtype: str) -> None:
        self.engine, self.dtype = engine, dtype

    def __call__(self, case: tuple, batch: int, seed: int = 0) -> dict:
        r = request(case, batch, seed)
        rng = np.random.default_rng(seed)
        X, Z = (rng.standard_normal((k, CHANNELS, r["d"])) for k in (batch, batch))
        network = rk.Network(DEPTH, r["filter_size"], trained=TRAINED)
        start = time.perf_counter()
        gpk, ntk = rk.gram(network, X, Z, head=r["head"], engine=self.engine, dtype=self.dtype)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "gpk": gpk[:2, :2], "ntk": ntk[:2, :2]}


def request(case: tuple, batch: int, seed: int) -> dict:
    head, d, q = case
    size = {"d": d, "channels": CHANNELS, "n": batch, "m": batch, "seed": seed}
    return {"head": head, "depth": DEPTH, "filter_size": q} | size


def peer_python() -> Path:
    """Return the Python of the peer's environment, made if it is not there."""
    folder = HERE / ".peer"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "installed").exists():
        print("making the peer's environment …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEER], check=True)
        (folder / "installed").touch()
    return python


def best_batch(contestant: Peer | Ours, case: tuple, batches: tuple[int, ...]) -> int:
    """Return the batch with the least time for a pair."""
    found: dict[int, float] = {}
    for batch in batches:
        if found and min(found.values()) * batch**2 > LONGEST_CALL:
            break
        try:
            seconds = [contestant(case, batch)["seconds"] for _ in range(2)]
        except ChildProcessError:  # out of memory
            break
        found[batch] = min(seconds) / batch**2
    return min(found, key=found.__getitem__)


def race(contestants: dict[str, Peer | Ours], case: tuple, rounds: int) -> dict:
    """Return median nanoseconds a pair, batches and the largest disagreement in one case."""
    batches = {
        name: best_batch(who, case, (BATCHES if isinstance(who, Peer) else OUR_BATCHES)[case[0]])
        for name, who in contestants.items()
    }

    def turn(name: str) -> float:
        who, batch = contestants[name], batches[name]
        who(case, batch)  # not timed: other contestants have cooled the caches
        return who(case, batch)["seconds"] / batch**2

    turns = {name: lambda name=name: turn(name) for name in contestants}
    times = harness.interleaved(turns, rounds)
    same = {name: contestant(case, 2, seed=1) for name, contestant in contestants.items()}
    first = next(iter(same.values()))
    worst = {
        name: max(
            float(np.abs(np.divide(answer[kind], first[kind]) - 1).max()) for kind in ("gpk", "ntk")
        )
        for name, answer in same.items()
    }
    return {
        "case": dict(zip(("head", "d", "filter_size"), case, strict=True)),
        "batch": batches,
        "ns_per_pair": {name: 1e9 * float(np.median(t)) for name, t in times.items()},
        "relative_difference": worst,
    }


def peak_memory(engine: str) -> float:
    """Return MB above the imports at the peak of a 500 x 500 GAP Gram, d = 100, GPK and NTK."""
    X = np.random.default_rng(0).standard_normal((500, CHANNELS, 100))
    rk.gram(rk.Network(DEPTH), X[:2, :, :4], engine=engine)  # imports what it needs
    before = harness.peak_megabytes()
    rk.gram(rk.Network(DEPTH), X, engine=engine)
    return harness.peak_megabytes() - before


def table(report: dict) -> str:
    """Return the report as Markdown."""
    m, rows = report["machine"], []
    for row in report["cases"]:
        ns = row["ns_per_pair"]
        peers = [ns[f"peer {dtype}"] for dtype in DTYPES]
        for engine in report["engines"]:
            ours = [ns[f"{engine} {dtype}"] for dtype in DTYPES]
            rows.append(
                (
                    *row["case"].values(),
                    *(f"{value / 1e3:.4g}" for value in peers),
                    engine,
                    *(f"{value / 1e3:.4g}" for value in ours),
                    *(f"{min(peers) / value:.2f}" for value in ours),
                )
            )
    header = (
        "head", "d", "q", "peer float64", "peer float32", "engine", *DTYPES,
        "gain float64", "gain float32",
    )  # fmt: skip
    peaks = ", ".join(f"{engine} {peak:.0f} MB" for engine, peak in report["peak_mb"].items())
    lines = [
        "# Speed on the CPU against neural-tangents",
        "",
        f"GPK and NTK of a ResNet, depth {DEPTH}, {CHANNELS} channels, per pair of `gram(X, Z)`. "
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}; "
        f"neural-tangents 0.6.5 on JAX {report['jax']}. Medians of {report['rounds']} interleaved "
        f"rounds, each at its best batch; {m['date']}.",
        "",
        "Columns: microseconds; gain: how many times faster than the better peer.",
        "",
        *harness.table(header, rows, left=(0, 5)),
        "",
        *scaling.lines(report),
        "",
        f"Peak memory above the imports, 500 × 500 GAP Gram, d = 100: {peaks}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, no files written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", metavar="ENGINE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak_memory(options.peak))
        return
    rounds = 2 if options.quick else options.rounds
    engines = [name for name, state in rk.engines.available().items() if state is True]
    python = peer_python()
    contestants: dict[str, Peer | Ours] = {f"peer {dtype}": Peer(python, dtype) for dtype in DTYPES}
    jax = contestants["peer float64"].worker.version
    contestants |= {f"{e} {dtype}": Ours(e, dtype) for e in engines for dtype in DTYPES}
    today = {"system": platform.system(), "date": datetime.date.today().isoformat()}
    report = {
        "machine": harness.machine() | today,
        "jax": jax,
        "engines": engines,
        "depth": DEPTH,
        "channels": CHANNELS,
        "rounds": rounds,
        "cases": [],
    }
    for case in CASES:
        report["cases"].append(race(contestants, case, rounds))
        harness.say(report["cases"][-1])
    report["peak_mb"] = {e: harness.apart(__file__, "--peak", e) for e in engines}
    report |= scaling.measure(engines)
    print(table(report))
    if not options.quick:
        harness.save(harness.RESULTS / "cpu.json", report)
        (harness.RESULTS / "cpu.md").write_text(table(report))
        scaling.draw(report, harness.RESULTS / "cpu.png")


if __name__ == "__main__":
    main()
