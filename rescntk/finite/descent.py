"""Steps of an optimizer: the network itself, or the network linearized at its start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..network import Network
from .forward import outputs_of_groups
from .parameters import Parameters

Trained = dict[str, Any]
"""Layers of the trained parts, by the name of the part."""


class Task(NamedTuple):
    """A network at its start, and the signals and targets that it is trained on."""

    network: Network
    head: str
    params: Parameters
    groups: tuple[Any, ...]
    """Training signals of each length."""
    targets: np.ndarray
    """(n_cases,) or (n_cases, n_outputs), in the order of the groups."""


OutputsOf = Callable[[Network, str, Parameters, Trained, tuple[Any, ...]], jax.Array]
"""Outputs from network, head, parameters at the start, trained parts and signals."""


def trained_parts(network: Network, params: Parameters) -> Trained:
    """Return the trained parts of the parameters by their names, as far as they have weights."""
    parts = {part: getattr(params, part) for part in network.trained}
    return {part: layers for part, layers in parts.items() if layers is not None}


def plain_outputs(
    network: Network, head: str, params: Parameters, trained: Trained, groups: tuple[Any, ...]
) -> jax.Array:
    """Return f(x; θ), the outputs of the network."""
    return outputs_of_groups(network, head, params.replace(**trained), groups)


def linearized_outputs(
    network: Network, head: str, params: Parameters, trained: Trained, groups: tuple[Any, ...]
) -> jax.Array:
    """Return f(x; θ₀) + ∂f/∂θ (θ − θ₀), the outputs of the linearized network (Lee et al. 2019).

    θ₀ are the parameters at the start.
    """
    start = trained_parts(network, params)
    move = jax.tree.map(lambda now, then: now - then, trained, start)
    outputs = partial(plain_outputs, network, head, params, groups=groups)
    values, change = jax.jvp(lambda parts: outputs(parts), (start,), (move,))
    return values + change


class Descent:
    """A network on its way down the loss ½ Σ (f(x_i) − y_i)²."""

    def __init__(
        self, task: Task, optimizer: optax.GradientTransformation, outputs: OutputsOf
    ) -> None:
        self.task = task
        self.trained = trained_parts(task.network, task.params)
        self._memory = optimizer.init(self.trained)
        self._rule = (outputs, optimizer.update, task.network, task.head)

    def outputs(self, groups: tuple[Any, ...]) -> np.ndarray:
        """Return the outputs of signals now, in the order of the groups."""
        outputs, _, network, head = self._rule
        return np.asarray(_evaluate(outputs, network, head, self.task.params, self.trained, groups))

    def advance(self, batches: np.ndarray) -> np.ndarray:
        """Take one step for each row of `batches`; return the losses before the steps."""
        self.trained, self._memory, losses = _advance(
            *self._rule,
            self.task.params,
            self.trained,
            self._memory,
            self.task.groups,
            self.task.targets,
            batches,
        )
        return np.asarray(losses)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _evaluate(
    outputs: OutputsOf,
    network: Network,
    head: str,
    params: Parameters,
    trained: Trained,
    groups: tuple[jax.Array, ...],
) -> jax.Array:
    return outputs(network, head, params, trained, groups)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _advance(
    outputs: OutputsOf,
    update: Any,
    network: Network,
    head: str,
    params: Parameters,
    trained: Trained,
    memory: Any,
    groups: tuple[jax.Array, ...],
    targets: jax.Array,
    batches: jax.Array,
) -> tuple[Trained, Any, jax.Array]:
    """Take one step for each row of `batches` (n_steps, batch_size), batch_size 0 for all.

    `update` is the function of an optimizer of optax, and `memory` is the optimizer's state.
    """
    targets = jnp.asarray(targets)

    def step(state: tuple[Trained, Any], chosen: jax.Array) -> tuple[Any, jax.Array]:
        now, memory = state
        everything = chosen.shape == (0,)
        signals = groups if everything else (jnp.asarray(groups[0])[chosen],)
        goals = targets if everything else targets[chosen]

        def loss(parts: Trained) -> jax.Array:
            return 0.5 * jnp.sum((outputs(network, head, params, parts, signals) - goals) ** 2)

        value, gradient = jax.value_and_grad(loss)(now)
        updates, memory = update(gradient, memory, now)
        return (optax.apply_updates(now, updates), memory), value

    (trained, memory), losses = jax.lax.scan(step, (trained, memory), batches)
    return trained, memory, losses


def draw_batches(key: jax.Array, n_cases: int, size: int | None, steps: int) -> np.ndarray:
    """Return the signals of each step, (steps, size); (steps, 0) stands for all signals.

    Every signal has its turn before any has its next; the order is drawn anew each time.
    """
    if size is None:
        return np.empty((steps, 0), np.int32)
    passes = -(-steps * size // n_cases)
    permute = partial(jax.random.permutation, x=n_cases)
    orders = [np.asarray(permute(own)) for own in jax.random.split(key, passes)]
    return np.concatenate(orders)[: steps * size].reshape(steps, size)


def check_losses(losses: np.ndarray, start: int) -> None:
    """Say so if a loss of the steps from `start` on is not finite, naming the step."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        raise FloatingPointError(
            f"the loss is {losses[bad[0]]} before step {start + bad[0] + 1}, expected finite "
            f"losses: a smaller learning rate, below 2/λ_max of finite.ntk for gradient descent"
        )
