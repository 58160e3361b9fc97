r"""Training of finite networks: gradient descent, SGD, Adam and any other optimizer of optax.

The loss is :math:`\frac12 \sum_i (f(x_i) - y_i)^2` over a batch, as in theorem 5 of Tirer et al.
2022 and in ``regression.Decomposition.flow``: a learning rate means the same in all three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..network import Network
from ..validation import (
    check_choice,
    check_depth,
    check_free_memory,
    check_positive,
    check_shape,
    is_sequence,
)
from .forward import Batch, check_layers, check_range, fitting_batch, outputs_of_lengths
from .tangent import ntk_of_batches
from .weights import Parameters, as_key, precision

RECORDS = ("outputs", "kernel")
"""Quantities that ``finite.train`` can record beside the loss."""

Trained = dict[str, Any]
"""Layers of the trained parts, by the name of the part."""


@dataclass(frozen=True)
class Training:
    """A trained network, and R records of its training."""

    params: Parameters
    """Parameters after the last step."""
    best: Parameters
    """Parameters of the record with the smallest loss."""
    steps: np.ndarray
    """(R,), steps taken before each record: 0 first, all steps last."""
    loss: np.ndarray
    """(R,), ½ Σ (f(x_i) − y_i)² over all training signals."""
    batch_losses: np.ndarray
    """(n_steps,), loss of each step's batch before the step."""
    outputs: np.ndarray | None = None
    """(R, n_cases) or (R, n_cases, n_outputs)"""
    test_outputs: np.ndarray | None = None
    """(R, m_cases) or (R, m_cases, n_outputs), of the test signals."""
    kernel_change: np.ndarray | None = None
    """(R,), ‖Θ̂_t − Θ̂_0‖_F of the tangent kernels of the training signals."""
    initial_kernel: np.ndarray | None = None
    """Θ̂_0 of the training signals, as from ``finite.ntk``."""


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
    network, params, X, head
        As for ``finite.apply``; the parameters stay as they are.
    y : array, (n_cases,) or (n_cases, n_outputs)
        Targets.
    optimizer : float, or optimizer of optax
        A float is the learning rate of plain gradient descent; ``optax.sgd(rate)`` is the same.
    steps : int
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Test signals, whose outputs are recorded.
    batch_size : int, optional
        Signals of each step, drawn without replacement in each epoch; by default all.
    key : key of ``jax.random``, or int, default 0
        Source of the batches.
    record : iterable of str, default ("outputs",)
        Beside the loss: "outputs", and "kernel", the change of the tangent kernel.
    every : int, optional
        Steps from one record to the next; by default about 50 records in all.

    Raises
    ------
    ValueError, MemoryError, OverflowError
        As for ``finite.apply``; for losses and records of all steps beyond the free memory.
    FloatingPointError
        If a loss is NaN or infinite, naming the step.

    See Also
    --------
    rescntk.regression.Decomposition.flow : The infinitely wide network beside it.
    init : Parameters of a random network.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> network = rk.Network(depth=2, filter_size=3)
    >>> X, y = np.random.default_rng(0).standard_normal((4, 2, 8)), np.array([1.0, 0, 0, -1])
    >>> params = rk.finite.init(0, network, n_channels=2, width=64)
    >>> rk.finite.train(network, params, X, y, 0.05, steps=50).outputs.shape
    (51, 4)
    """
    batch = fitting_batch(network, params, head, X)
    steps = check_depth(steps, "steps")
    sets = {"outputs": batch}
    if Z is not None:
        sets["test_outputs"] = fitting_batch(network, params, head, Z, "Z")
    shape = (batch.n_cases,) if params.n_outputs is None else (batch.n_cases, params.n_outputs)
    targets = check_shape(y, "y", f"{shape}, as params has outputs", lambda s: s == shape)
    size = _check_batch_size(batch_size, batch)
    check_layers(network, params, batch, network.depth, size)
    names = record if is_sequence(record) else (record,)
    chosen = tuple(check_choice(name, "record", RECORDS) for name in names)
    every = -(-steps // 50) if every is None else check_depth(every, "every")
    numbers = sum(batch.n_cases for batch in sets.values()) * (params.n_outputs or 1)
    records = (-(-steps // every) + 1) * numbers if "outputs" in chosen else 0
    drawn = 2 * 4 * (size or 0)  # places of signals, in one pass after another and then in a row
    check_free_memory(
        steps * (params.dtype.itemsize + drawn) + records * params.dtype.itemsize,
        f"steps is {steps}: a loss of each, {size or 0} places of signals, and records,",
        "give fewer steps, or records further apart (every)",
    )
    key, rule = as_key(key), as_optimizer(optimizer)
    goals = targets.astype(params.dtype)[np.concatenate(batch.places)]
    columns = defaultdict[str, list[Any]](list)
    initial_kernel: np.ndarray | None = None
    best, losses = params, list[np.ndarray]()
    with precision(params.dtype):
        update = optax.with_extra_args_support(rule).update
        parts = {part: getattr(params, part) for part in network.trained}
        parts = {part: layers for part, layers in parts.items() if layers is not None}
        state = parts, rule.init(parts)
        batches = draw_batches(key, batch.n_cases, size, steps)
        for step in (*range(0, steps, every), steps):
            now = params.replace(**state[0])
            outputs = {
                name: np.asarray(outputs_of_lengths(network, head, now, signals.arrays))
                for name, signals in sets.items()
            }
            loss = 0.5 * float(((outputs["outputs"] - goals) ** 2).sum())
            check_losses(np.array([loss]), step)
            for f in outputs.values():
                check_range(f, "outputs")
            if loss < min(columns["loss"], default=np.inf):
                best = now
            columns["steps"].append(step)
            columns["loss"].append(loss)
            if "outputs" in chosen:
                for name, f in outputs.items():
                    columns[name].append(f[sets[name].order])
            if "kernel" in chosen:
                kernel = ntk_of_batches(network, now, batch, None, head)
                initial_kernel = kernel if initial_kernel is None else initial_kernel
                columns["kernel_change"].append(float(np.linalg.norm(kernel - initial_kernel)))
            if step < steps:
                rows = batches[step : step + every]
                state, of_steps = _advance(
                    update, network, head, params, state, batch.arrays, targets=goals, batches=rows
                )
                losses.append(np.asarray(of_steps))
                check_losses(losses[-1], step)
    return Training(
        now,
        best,
        batch_losses=np.concatenate(losses),
        initial_kernel=initial_kernel,
        **{name: np.array(values) for name, values in columns.items()},
    )


def as_optimizer(optimizer: Any) -> optax.GradientTransformation:
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if isinstance(optimizer, int | float | np.number):
        rate = check_positive(optimizer, "optimizer")
        # The rate is the state: JAX compiles steps once for all rates, and optax.sgd for each.
        return optax.GradientTransformation(lambda parts: jnp.asarray(rate), _step_down)
    raise ValueError(
        f"optimizer is {optimizer!r}, expected a learning rate or an optimizer of optax"
    )


def _step_down(gradient: Any, rate: jax.Array, parts: Any = None) -> tuple[Any, jax.Array]:
    return jax.tree.map(lambda g: -rate.astype(g.dtype) * g, gradient), rate


def _check_batch_size(batch_size: Any, batch: Batch) -> int | None:
    if batch_size is None:
        return None
    size = check_depth(batch_size, "batch_size")
    if size > batch.n_cases:
        raise ValueError(f"batch_size is {size}, expected at most {batch.n_cases}, all signals")
    if len(batch.arrays) > 1:
        raise ValueError(
            f"batch_size is {size} with signals of lengths {batch.lengths}, expected None: "
            f"batches are drawn from signals of one length"
        )
    return size


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    update: Any,
    network: Network,
    head: str,
    params: Parameters,
    state: tuple[Trained, Any],
    arrays: tuple[jax.Array, ...],
    targets: jax.Array,
    batches: jax.Array,
) -> tuple[tuple[Trained, Any], jax.Array]:
    """Take one step for each row of `batches` (n_steps, batch_size), batch_size 0 for all."""
    targets = jnp.asarray(targets)

    def step(state: tuple[Trained, Any], chosen: jax.Array) -> tuple[Any, jax.Array]:
        now, memory = state
        everything = chosen.shape == (0,)
        signals = arrays if everything else (jnp.asarray(arrays[0])[chosen],)
        goals = targets if everything else targets[chosen]

        def loss(parts: Trained) -> jax.Array:
            f = outputs_of_lengths(network, head, params.replace(**parts), signals)
            return 0.5 * jnp.sum((f - goals) ** 2)

        value, gradient = jax.value_and_grad(loss)(now)
        updates, memory = update(gradient, memory, now, value=value, grad=gradient, value_fn=loss)
        return (optax.apply_updates(now, updates), memory), value

    return jax.lax.scan(step, state, batches)


def draw_batches(key: jax.Array, n_cases: int, size: int | None, steps: int) -> np.ndarray:
    """Return the signals of each step, (steps, size); (steps, 0) stands for all signals."""
    if size is None:
        return np.empty((steps, 0), np.int32)
    passes = -(-steps * size // n_cases)  # epochs
    permute = partial(jax.random.permutation, x=n_cases)
    orders = [np.asarray(permute(subkey)) for subkey in jax.random.split(key, passes)]
    return np.concatenate(orders)[: steps * size].reshape(steps, size)


def check_losses(losses: np.ndarray, start: int) -> None:
    """Raise a FloatingPointError if a loss of the steps after `start` is not finite."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        raise FloatingPointError(
            f"the loss is {losses[bad[0]]} before step {start + bad[0] + 1}, expected finite "
            f"losses: a smaller learning rate, below 2/λ_max of finite.ntk for gradient descent, "
            f"or smaller signals and targets"
        )
