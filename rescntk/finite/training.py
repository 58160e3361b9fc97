r"""Training of finite networks: gradient descent, SGD, Adam and any other optimizer of optax.

The loss is :math:`\frac12 \sum_i (f(x_i) - y_i)^2` over a batch, as in theorem 5 of Tirer et al.
2022 and in ``regression.Decomposition.flow``: a learning rate means the same in all three.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..network import Network
from ..validation import check_choice, check_depth, check_positive, check_targets
from .batches import Batch, as_batch
from .descent import Descent, Task, check_losses, draw_batches, linearized_outputs, plain_outputs
from .forward import check_arguments, check_batch, check_layers
from .parameters import Parameters
from .precision import as_key, precision
from .records import RECORDS, Records, Training


def train(
    network: Network,
    params: Parameters,
    X: Any,
    y: Any,
    optimizer: Any,
    steps: int,
    *,
    head: str = "gap",
    Z: Any = None,
    batch_size: int | None = None,
    key: Any = 0,
    record: Iterable[str] = ("outputs",),
    every: int | None = None,
) -> Training:
    r"""Train the parts ``network.trained`` of a finite network on ½ Σ (f(x_i) − y_i)².

    Parameters
    ----------
    network : Network
    params : Parameters
        From ``finite.init`` with the same network; they stay as they are.
    X : array, (n_cases, n_channels, n_timepoints)
        Training signals; for the head "gap" also a list of arrays of different lengths.
    y : array, (n_cases,) or (n_cases, n_outputs)
        Targets.
    optimizer : float, or optimizer of optax
        A float is the learning rate of plain gradient descent; ``optax.sgd(rate)`` is the same.
    steps : int
        Number of steps.
    head : {"equivariant", "trace", "gap"}, default "gap"
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Test signals, whose outputs are recorded.
    batch_size : int, optional
        Signals of each step, drawn without replacement until all had their turn. The default
        is all: full-batch gradient descent.
    key : key of ``jax.random``, or int, default 0
        Source of the batches.
    record : iterable of str, default ("outputs",)
        Of "outputs", "kernel" (the change of the tangent kernel) and "linearized" (the distance
        to the linearized network, at about three times the cost of a step). The loss always is.
    every : int, optional
        Steps from one record to the next; by default about 50 records in all.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        For arguments that are not as described or do not belong together.
    FloatingPointError
        If a loss is NaN or infinite, naming the step.
    MemoryError
        If the layers of a batch take more than the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> X, y = np.random.default_rng(0).standard_normal((4, 2, 8)), np.array([1.0, 0, 0, -1])
    >>> trained = finite.train(network, finite.init(0, network, 2, 64), X, y, 0.05, steps=50)
    >>> bool(trained.loss[-1] < trained.loss[0]), trained.outputs.shape
    (True, (51, 4))
    """
    check_arguments(network, params, head)
    steps = check_depth(steps, "steps")
    batch = as_batch(X, "X", params.dtype)
    check_batch(batch, "X", params, head)
    test = None if Z is None else as_batch(Z, "Z", params.dtype)
    if test is not None:
        check_batch(test, "Z", params, head)
    targets = _check_y(y, batch, params)
    size = _check_batch_size(batch_size, batch)
    check_layers(network, params, batch, kept=network.depth, n_cases=size)
    chosen = tuple(check_choice(name, "record", RECORDS) for name in record)
    every = -(-steps // 50) if every is None else check_depth(every, "every")
    key = as_key(key)
    with precision(params.dtype):
        task = Task(network, head, params, batch.arrays, targets[batch.places])
        rule = as_optimizer(optimizer)
        runs = [Descent(task, rule, plain_outputs)]
        if "linearized" in chosen:
            runs.append(Descent(task, rule, linearized_outputs))
        batches = draw_batches(key, batch.n_cases, size, steps)
        records = Records(task, batch, test, chosen)
        records.take(0, runs)
        losses = []
        for start in range(0, steps, every):
            stop = min(start + every, steps)
            chunks = [run.advance(batches[start:stop]) for run in runs]
            losses.append(chunks[0])
            check_losses(chunks[0], start)
            records.take(stop, runs)
    return records.result(np.concatenate(losses))


def as_optimizer(optimizer: Any) -> optax.GradientTransformation:
    """Return an optimizer of optax: gradient descent where `optimizer` is a number."""
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if isinstance(optimizer, int | float | np.number):
        return _gradient_descent(check_positive(optimizer, "optimizer"))
    raise ValueError(
        f"optimizer is {optimizer!r}, expected a learning rate or an optimizer of optax"
    )


def _gradient_descent(rate: float) -> optax.GradientTransformation:
    """Return gradient descent, with the rate as its state: JAX compiles steps once for all rates.

    ``optax.sgd(rate)`` takes the same steps, and is compiled for each rate.
    """
    return optax.GradientTransformation(lambda parts: jnp.asarray(rate), _step_down)


def _step_down(gradient: Any, rate: jax.Array, parts: Any = None) -> tuple[Any, jax.Array]:
    """Return the step −rate · gradient, and the state of the optimizer: the rate."""
    return jax.tree.map(lambda g: -rate.astype(g.dtype) * g, gradient), rate


def _check_y(y: Any, batch: Batch, params: Parameters) -> np.ndarray:
    """Return the targets in the shape of the network's outputs, or say what is wrong with them."""
    targets = check_targets(y, batch.n_cases)
    outputs = () if params.n_outputs is None else (params.n_outputs,)
    if targets.shape[1:] != outputs:
        raise ValueError(
            f"y has shape {targets.shape}, expected {(batch.n_cases, *outputs)} as params has "
            f"{params.n_outputs or 1} output{'s' if params.n_outputs else ' without an axis'}"
        )
    return targets.astype(params.dtype)


def _check_batch_size(batch_size: Any, batch: Batch) -> int | None:
    """Return the size of the batches, None for all signals, or say what is wrong with it."""
    if batch_size is None:
        return None
    size = check_depth(batch_size, "batch_size")
    if size > batch.n_cases:
        raise ValueError(f"batch_size is {size}, expected at most {batch.n_cases}, all signals")
    if len(batch.groups) > 1:
        raise ValueError(
            f"batch_size is {size} with signals of lengths {batch.lengths}, expected None: "
            f"batches are drawn from signals of one length"
        )
    return size
