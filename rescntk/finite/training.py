r"""Training of finite networks: gradient descent, Adam and any other optimizer of optax.

The loss is :math:`\frac12 \sum_i (f(x_i) - y_i)^2`, as in theorem 5 of Tirer et al. 2022 and in
the kernel's gradient flow: a learning rate means the same in all three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from ..checks.messages import shown
from ..checks.values import (
    check_choice,
    check_positive,
    check_positive_integer,
    check_shape,
    is_sequence,
)
from ..network import Network
from .forward import Signals, check_signals, outputs
from .kernels import Parts, ntk, trained_parts
from .parameters import Parameters, precision


@dataclass(frozen=True)
class Training:
    """A trained network, and R records of its training."""

    params: Parameters
    """Parameters after the last step."""
    steps: np.ndarray
    """(R,), steps taken before each record: 0 first, all steps last."""
    loss: np.ndarray
    """(R,), ½ Σ (f(x_i) − y_i)² over the training signals."""
    outputs: np.ndarray | None = None
    """(R, n_cases)"""
    test_outputs: np.ndarray | None = None
    """(R, m_cases), of the test signals."""
    kernel_change: np.ndarray | None = None
    """(R,), ‖Θ̂_t − Θ̂_0‖_F of the tangent kernels of the training signals."""
    initial_kernel: np.ndarray | None = None
    """Θ̂_0 of the training signals, as from ``finite.ntk``."""
    path_length: np.ndarray | None = None
    """(R,), Σ ‖θ_j − θ_{j−1}‖₂ of the trained weights over the steps so far."""


State: TypeAlias = tuple[Parts, optax.OptState, jax.Array | None]
"""The trained parts, the optimizer's memory, and the path's length if it is recorded."""


def train(
    network: Network,
    params: Parameters,
    X: ArrayLike,
    y: ArrayLike,
    optimizer: optax.GradientTransformation | float,
    steps: int,
    *,
    head: str | int = "gap",
    Z: ArrayLike | None = None,
    record: Iterable[str] = ("outputs",),
    every: int | None = None,
) -> Training:
    r"""Train the parts ``network.trained`` of a finite network on ½ Σ (f(x_i) − y_i)².

    Parameters
    ----------
    network, params, X, head
        As for ``finite.apply``; the parameters stay as they are.
    y : array, (n_cases,)
        Targets.
    optimizer : float, or optimizer of optax
        A float is the learning rate of plain gradient descent: ``optax.sgd(rate)``.
    steps : int
        Each step sees all signals.
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Test signals, whose outputs are recorded.
    record : iterable of str, default ("outputs",)
        Beside the loss: "outputs", "kernel", the change of the tangent kernel, and "path", the
        length of the weights' path (Tirer et al. 2022, theorem 5, second line).
    every : int, optional
        Steps from one record to the next; by default about 50 records in all.

    Returns
    -------
    Training
        Parameters after the last step, and records on the way.

    Raises
    ------
    ValueError
        As for ``finite.apply``.
    FloatingPointError
        If a recorded loss is NaN or infinite, naming the step.

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
    signals = check_signals(network, params, X, head)
    sets = {"outputs": signals}
    if Z is not None:
        sets["test_outputs"] = check_signals(network, params, Z, head, "Z")
    targets = check_shape(y, "y", (len(signals),)).astype(params.readout.dtype)
    steps = check_positive_integer(steps, "steps")
    names = record if is_sequence(record) else (record,)
    chosen = {check_choice(name, "record", ("outputs", "kernel", "path")) for name in names}
    every = -(-steps // 50) if every is None else check_positive_integer(every, "every")
    rule = _as_optimizer(optimizer)
    columns = defaultdict[str, list[np.ndarray | float]](list)
    initial: np.ndarray | None = None
    with precision(params.readout.dtype):
        parts = trained_parts(network, params)
        path = jnp.zeros(()) if "path" in chosen else None
        state = parts, rule.init(parts), path
        for step in (*range(0, steps, every), steps):
            now = params._replace(**state[0])
            outputs_of = {of: np.asarray(outputs(network, head, now, S)) for of, S in sets.items()}
            with np.errstate(over="ignore"):
                loss = 0.5 * float(((outputs_of["outputs"] - targets) ** 2).sum())
            if not np.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} after step {step}, expected finite losses: a smaller "
                    "learning rate, below 2/λ_max of finite.ntk for gradient descent, or smaller "
                    "signals and targets"
                )
            columns["steps"].append(step)
            columns["loss"].append(loss)
            for of, f in outputs_of.items() if "outputs" in chosen else ():
                columns[of].append(f)
            if "kernel" in chosen:
                kernel = ntk(network, now, X, head=head)
                initial = kernel if initial is None else initial
                columns["kernel_change"].append(float(np.linalg.norm(kernel - initial)))
            if state[2] is not None:
                columns["path_length"].append(float(state[2]))
            number = min(every, steps - step)
            state = _advance(rule.update, network, head, params, state, signals, targets, number)
    records = {name: np.array(values) for name, values in columns.items()}
    return Training(now, initial_kernel=initial, **records)


def _as_optimizer(optimizer: object) -> optax.GradientTransformation:
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if isinstance(optimizer, int | float | np.number):
        return _descent(check_positive(optimizer, "optimizer"))
    raise ValueError(f"optimizer is {shown(optimizer)}, expected a learning rate or one of optax")


@lru_cache
def _descent(rate: float) -> optax.GradientTransformation:
    """Return one object for each rate: JAX compiles the steps of each object once."""
    return optax.sgd(rate)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    update: optax.TransformUpdateFn,
    network: Network,
    head: str | int,
    params: Parameters,
    state: State,
    X: Signals,
    targets: jax.Array,
    number: int,
) -> State:
    """Return the state after a number of steps."""

    def loss(parts: Parts) -> jax.Array:
        f = outputs(network, head, params._replace(**parts), X)
        return 0.5 * jnp.sum((f - targets) ** 2)

    def step(_: int, state: State) -> State:
        parts, memory, path = state
        updates, memory = update(jax.grad(loss)(parts), memory, parts)
        if path is not None:
            path = path + jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(updates)))
        return optax.apply_updates(parts, updates), memory, path

    return jax.lax.fori_loop(0, number, step, state)
