"""Write the kernels of neural-tangents 0.6.5, in float64, into neural_tangents*.npz.

    pip install neural-tangents==0.6.5 jax==0.4.35 jaxlib==0.4.35 tf2jax==0.3.6
    python tests/data/kernels_of_peers.py

A file has the parameters of its networks (`meta`), signals X and Z of each, and their kernels. This
program reads the first two and computes the kernels anew. A file that does not exist is drawn.
"""

import json
from pathlib import Path

import jax
import numpy as np
from neural_tangents import stax

jax.config.update("jax_enable_x64", True)

FOLDER = Path(__file__).parent
FILES = ("", "_biases", "_images", "_gelu", "_pooled", "_norm")
ACTIVATIONS = {"relu": stax.Relu, "erf": stax.Erf, "gelu": stax.Gelu}


def kernel_of(meta, shape):
    """Return the kernel function of a network on signals or images (n, *pixels, channels)."""

    def conv(size, std, b_std=0.0):
        """Return a circular convolution. Skip connections need all layers of one width."""
        window = (size,) * (len(shape) - 2)
        return stax.Conv(shape[-1], window, padding="CIRCULAR", W_std=std, b_std=b_std or None)

    inner = meta["filter_size"]
    outer = meta.get("outer_filter_size", inner)
    alpha, bias = (meta["alpha"] if meta["skip"] else 1.0), meta.get("bias", 0.0)
    activation = ACTIVATIONS[meta.get("activation", "relu")]
    layers = []
    for layer in range(meta["depth"]):
        norm = [stax.LayerNorm(axis=-1, eps=0)] if meta.get("norm") else []
        branch = stax.serial(
            *norm,
            conv(inner if layer else 1, meta["c_w"] ** 0.5, bias),
            activation(),
            conv(outer, alpha * meta["c_v"] ** 0.5, alpha * bias),
        )
        if meta["skip"]:
            sides = stax.parallel(stax.Identity(), branch)
            branch = stax.serial(stax.FanOut(2), sides, stax.FanInSum())
        layers.append(branch)
    pools, head = [stax.Flatten()], meta["head"]
    if head == "gap":
        pools = [stax.GlobalAvgPool()]
    elif head != "trace":
        pools.insert(0, stax.AvgPool((head,) * (len(shape) - 2), padding="CIRCULAR"))
    first = conv(1, 1.0)[2]
    rest = stax.serial(*layers, *pools, stax.Dense(1, W_std=1.0, b_std=None))[2]

    def kernel(X, Z):
        given = first(X, Z)
        return rest(given if meta.get("train_input") else given.replace(ntk=0.0 * given.ntk))

    return kernel


def drawn(rng, name):
    """Return the parameters of ten networks, and their signals.

    They are of erf and GELU with biases, or of ReLU with pooled heads, half of them of images.
    """
    several, arrays, pooled = [], {}, name == "_pooled"
    for k in range(10):
        meta = {
            "depth": int(rng.integers(1, 6)),
            "filter_size": int(rng.choice([1, 3, 5])),
            "outer_filter_size": int(rng.choice([1, 3])),
            "skip": bool(rng.integers(2)),
            "alpha": round(float(rng.uniform(0.1, 1.3)), 3),
            "c_v": round(float(rng.uniform(0.6, 2.2)), 3),
            "c_w": round(float(rng.uniform(0.5, 2.0)), 3),
            "bias": float(rng.choice([0.0, 0.3, 1.0])),
            "head": ("gap", "trace")[k % 2],
            "activation": "gelu" if k < 7 else "erf",
            "train_input": bool(rng.integers(2)),
        }
        shape = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        if pooled:
            shape = (*shape[:1], *(int(n) for n in rng.integers(4, 9, size=1 + k % 2)))
            meta |= {
                "activation": "relu",
                "bias": 0.0,
                "head": int(rng.integers(2, min(shape[1:]))),
            }
        several.append(meta)
        arrays[f"X{k}"], arrays[f"Z{k}"] = (rng.standard_normal((n, *shape)) for n in (3, 2))
    return several, arrays


for number, name in enumerate(FILES):
    file = FOLDER / f"neural_tangents{name}.npz"
    if file.exists():
        stored = dict(np.load(file))
        networks, arrays = json.loads(str(stored.pop("meta"))), stored
    else:
        networks, arrays = drawn(np.random.default_rng(number), name)
    for k, meta in enumerate(networks):
        X, Z = (np.moveaxis(arrays[f"{side}{k}"], 1, -1) for side in "XZ")
        found = kernel_of(meta, X.shape)(X, Z)
        for kind, K in (("gpk", np.array(found.nngp)), ("ntk", np.array(found.ntk))):
            if f"{kind}{k}" in arrays:
                change = np.abs(K - arrays[f"{kind}{k}"]).max() / np.abs(K).max()
                if change > 1e-12:
                    print(f"{file.name}: {kind} of network {k} changes by {change:.1e}")
            arrays[f"{kind}{k}"] = K
    np.savez_compressed(file, meta=json.dumps(networks), **arrays)
