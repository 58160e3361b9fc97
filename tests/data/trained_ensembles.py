"""Write trained_ensembles.npz: means and covariances of neural-tangents 0.6.5, in float64.

    pip install neural-tangents==0.6.5 jax==0.4.35 jaxlib==0.4.35 tf2jax==0.3.6
    python tests/data/trained_ensembles.py

`gradient_descent_mse_ensemble` trains a convolutional ResNet, all of its layers, on two targets.
Its loss is the mean of squares: a time here is y.size times a time of `rescntk.regression`.
"""

from pathlib import Path

import jax
import numpy as np
from neural_tangents import predict, stax

jax.config.update("jax_enable_x64", True)


def conv(size, std=1.0):
    return stax.Conv(1, (size,), padding="CIRCULAR", W_std=std, b_std=None)


def layer(size):
    branch = stax.serial(conv(size), stax.Relu(), conv(3, 0.5 * 2**0.5))
    return stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), branch), stax.FanInSum())


head = [stax.GlobalAvgPool(), stax.Dense(1, W_std=1.0, b_std=None)]
kernel = stax.serial(conv(1), layer(1), layer(3), layer(3), *head)[2]
rng = np.random.default_rng(0)
X, Z = rng.standard_normal((2, 5, 2, 6))
Z, y, times = Z[:3], rng.standard_normal((5, 2)), np.array([0.0, 0.7, 20.0, np.inf])
of = predict.gradient_descent_mse_ensemble(kernel, np.moveaxis(X, 1, -1), y)
found = [of(t, np.moveaxis(Z, 1, -1), "ntk", compute_cov=True) for t in y.size * times[:-1]]
found.append(of(None, np.moveaxis(Z, 1, -1), "ntk", compute_cov=True))
mean, covariance = (np.array(part) for part in zip(*found, strict=True))
arrays = {"X": X, "Z": Z, "y": y, "times": times, "mean": mean, "covariance": covariance}
np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)
