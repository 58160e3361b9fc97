"""neural-tangents as a worker: runs in its own environment, one JSON request a line.

A request has the keys "head", "depth", "filter_size", "d", "channels", "n", "m" and "seed". The
answer has "seconds", the time of one call on warmed-up, compiled code, and "gpk" and "ntk", the
first two rows and columns of both kernels.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def main(dtype):
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    from neural_tangents import stax

    def network(head, depth, filter_size):
        """Return the kernels of Barzilai et al.'s ResNet with α = 1, all layers trained."""

        def conv(size, std):
            return stax.Conv(1, (size,), padding="CIRCULAR", W_std=std, b_std=None)

        layers = [conv(1, 1.0)]
        for layer in range(depth):
            branch = stax.serial(
                conv(filter_size if layer else 1, 1.0), stax.Relu(), conv(filter_size, 2**0.5)
            )
            layers += [stax.FanOut(2), stax.parallel(stax.Identity(), branch), stax.FanInSum()]
        layers.append(stax.GlobalAvgPool() if head == "gap" else stax.Flatten())
        layers.append(stax.Dense(1, W_std=1.0, b_std=None))
        return jax.jit(stax.serial(*layers)[2], static_argnames=("get",))

    kernels, warm = {}, set()
    print(json.dumps({"ready": jax.__version__}), flush=True)
    for line in sys.stdin:
        r = json.loads(line)
        key = (r["head"], r["depth"], r["filter_size"])
        kernel = kernels.setdefault(key, None) or network(*key)
        kernels[key] = kernel
        rng = np.random.default_rng(r["seed"])
        X, Z = (rng.standard_normal((k, r["channels"], r["d"])) for k in (r["n"], r["m"]))
        X, Z = (np.ascontiguousarray(a.swapaxes(1, 2), dtype=dtype) for a in (X, Z))

        def call(kernel=kernel, X=X, Z=Z):
            return [np.asarray(a) for a in kernel(X, Z, get=("nngp", "ntk"))]

        try:
            if (*key, X.shape, Z.shape) not in warm:
                call()
                warm.add((*key, X.shape, Z.shape))
            start = time.perf_counter()
            gpk, ntk = call()
            seconds = time.perf_counter() - start
        except Exception as error:  # out of memory, as JAX reports it
            print(json.dumps({"error": str(error).splitlines()[0][:200]}), flush=True)
            continue
        corner = {"gpk": gpk[:2, :2].tolist(), "ntk": ntk[:2, :2].tolist()}
        print(json.dumps({"seconds": seconds} | corner), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
