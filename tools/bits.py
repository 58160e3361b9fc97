"""Write the bits of some 2,000 Grams, and tell which of them a change has changed.

    python tools/bits.py write FOLDER
    python tools/bits.py compare BEFORE AFTER

Networks and signals are drawn from seeds, so that each Gram has a name. Comparing tells, for each
kind of network, how many Grams differ, and by how much at most, relative to √(K(x, x) K(z, z)).
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rescntk as rk
from rescntk.checks.values import PARTS

N_NETWORKS = 240
HEADS = ("gap", "trace", "equivariant", 3, "pixels", "shares")
SIZES = (1, 3, 5, 9)


def drawn(seed: int) -> tuple[str, rk.Network, Any]:
    """Return the kind of a network, the network, and signals, of a seed."""
    rng = np.random.default_rng(seed)
    depth, kinds = int(rng.integers(1, 7)), []
    fields: dict[str, Any] = {"filter_size": int(rng.choice(SIZES))}

    def sometimes(kind: str, chance: float) -> bool:
        chosen = bool(rng.random() < chance)
        kinds.extend([kind] * chosen)
        return chosen

    def per_layer(kind: str, draw: Any) -> Any:
        return tuple(draw() for _ in range(depth)) if sometimes(kind, 0.2) else draw()

    fields["alpha"] = per_layer("alphas", lambda: float(10.0 ** rng.uniform(-2, 1.5)))
    fields["c_v"] = per_layer("c_v's", lambda: float(rng.choice([2.0, 1.0, 3.1])))
    fields["skip"] = (
        True if rng.random() < 0.6 else per_layer("skips", lambda: bool(rng.integers(2)))
    )
    if sometimes("bias", 0.3):
        fields["bias"] = per_layer("biases", lambda: float(rng.choice([0.0, 0.3, 2.0])))
    if sometimes("norm", 0.25):
        fields["norm"] = True
    if sometimes("leaky", 0.2):
        fields["negative_slope"] = float(rng.choice([0.2, 0.9, 1.0]))
    elif sometimes("smooth", 0.15):
        fields["activation"] = str(rng.choice(["erf", "gelu"]))
    if rng.random() < 0.3:
        fields["outer_filter_size"] = int(rng.choice(SIZES))
    if rng.random() < 0.3:
        fields["input_filter_size"] = int(rng.choice(SIZES))
    if rng.random() < 0.5:
        fields["trained"] = tuple(rng.permutation(PARTS)[: int(rng.integers(1, 5))].tolist())
    if np.max(fields["alpha"]) > 1.0:
        kinds.append("alpha above 1")
    shape: tuple[int, ...] = (5, int(rng.integers(1, 4)), int(rng.integers(4, 24)))
    if sometimes("images", 0.15):
        shape = (*shape[:2], 5, 6)
    X: Any = rng.standard_normal(shape)
    X[3] = X[0] + 1e-6 * X[3]  # nearly equal
    if len(shape) == 3 and sometimes("lists", 0.15):
        X = [x[:, : shape[2] - k % 3] for k, x in enumerate(X)]
    return " ".join(kinds) or "plain", rk.Network(depth, **fields), X


def grams() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each Gram and its values."""
    engines = [name for name, state in rk.engines.available().items() if state is True]
    for seed in range(N_NETWORKS):
        kind, network, X = drawn(seed)
        for engine in engines:
            for head in HEADS[seed % 2 :: 2] if not isinstance(X, list) else ("gap",):
                for dtype in ("float64", "float32"):
                    options = {"engine": engine, "dtype": dtype}
                    name = f"{kind}|{seed}|{'cpu' if engine == 'cpu' else 'array'}|{head}|{dtype}"
                    try:
                        yield name, np.stack(values_of(network, X, head, options))
                    except (ValueError, OverflowError) as error:
                        yield name, np.array(type(error).__name__)


def values_of(network: rk.Network, X: Any, head: str | int, options: Any) -> tuple[np.ndarray, ...]:
    """Return the kernels of both kinds, with a head or by pixels."""
    if head == "pixels":
        return tuple(rk.pixel_pairs(network, X[:2], **options))
    if head == "shares":
        return tuple(rk.pixel_shares(network, X[:3], **options))
    return tuple(rk.gram(network, X, head=head, **options))


def compare(before: Path, after: Path) -> None:
    """Print how many Grams of each kind differ, and by how much."""
    old, new = (np.load(folder / "bits.npz") for folder in (before, after))
    counts: dict[str, list[Any]] = defaultdict(lambda: [0, 0, 0.0, ""])
    for name in old.files:
        row = counts[name.split("|")[0]]
        row[0] += 1
        a, b = old[name], new[name]
        if a.tobytes() != b.tobytes():
            row[1] += 1
            difference = np.inf
            if a.shape == b.shape and a.dtype == b.dtype and a.dtype.kind == "f":
                difference = float(np.abs(a - b).max() / np.abs(a).max())
            row[2:] = max(row[2:], [difference, name])
    print(f"{len(old.files)} Grams, {sum(row[1] for row in counts.values())} differ")
    for kind, (n, differ, most, name) in sorted(counts.items()):
        if differ:
            print(f"{differ:5d} of {n:4d}  {most:8.1e}  {kind}  ({name})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("folders", nargs="+", type=Path)
    asked = parser.parse_args()
    if asked.action == "compare":
        compare(*asked.folders)
        return
    (folder,) = asked.folders
    os.makedirs(folder, exist_ok=True)
    arrays: dict[str, Any] = dict(grams())
    np.savez(folder / "bits.npz", **arrays)


if __name__ == "__main__":
    main()
