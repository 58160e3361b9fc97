"""Records of a training: outputs, losses, kernels and linearized networks along the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .batches import Batch
from .descent import Descent, Task, check_losses
from .parameters import Parameters
from .tangent import ntk_of_batches

RECORDS = ("outputs", "kernel", "linearized")
"""Quantities that ``finite.train`` can record beside the loss."""


@dataclass(frozen=True)
class Training:
    """A trained network, and R records of the way there."""

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
    """(R, n_cases) or (R, n_cases, n_outputs), outputs of the training signals."""
    test_outputs: np.ndarray | None = None
    """(R, m_cases) or (R, m_cases, n_outputs), outputs of the test signals."""
    kernel_change: np.ndarray | None = None
    """(R,), ‖Θ̂_t − Θ̂_0‖_F of the tangent kernels of the training signals."""
    initial_kernel: np.ndarray | None = None
    """Θ̂_0 of the training signals, as from ``finite.ntk``."""
    linearized_distance: np.ndarray | None = None
    """(R,), largest distance between f and f_lin over the training and the test signals.

    The linearized network is trained for itself: same start, same optimizer, same batches.
    Infinite from where the linearized network has diverged.
    """


class Records:
    """Takes records of a training."""

    def __init__(
        self, task: Task, batch: Batch, test: Batch | None, chosen: tuple[str, ...]
    ) -> None:
        self._task, self._batch, self._test, self._chosen = task, batch, test, chosen
        self._columns: dict[str, list[Any]] = {}
        self._kernel: np.ndarray | None = None
        self._params = self._best = task.params

    def take(self, step: int, runs: list[Descent]) -> None:
        """Record the network, the first of `runs`, and its distance to the second if any."""
        task, network = self._task, runs[0]
        self._params = task.params.replace(**network.trained)
        f = network.outputs(task.groups)
        loss = 0.5 * float(((f - task.targets) ** 2).sum())
        check_losses(np.array([loss]), step)
        if loss < min(self._columns.get("loss", [np.inf])):
            self._best = self._params
        self._add(steps=step, loss=loss)
        others = None if self._test is None else network.outputs(self._test.arrays)
        if "outputs" in self._chosen:
            self._add(outputs=f[self._batch.order])
            if self._test is not None and others is not None:
                self._add(test_outputs=others[self._test.order])
        if "kernel" in self._chosen:
            kernel = ntk_of_batches(task.network, self._params, self._batch, None, task.head)
            self._kernel = kernel if self._kernel is None else self._kernel
            self._add(kernel_change=float(np.linalg.norm(kernel - self._kernel)))
        if "linearized" in self._chosen:
            distance = np.abs(f - runs[1].outputs(task.groups)).max()
            if self._test is not None and others is not None:
                there = np.abs(others - runs[1].outputs(self._test.arrays)).max()
                distance = max(distance, there)
            self._add(linearized_distance=float(np.nan_to_num(distance, nan=np.inf)))

    def result(self, batch_losses: np.ndarray) -> Training:
        """Return all records."""
        columns = {name: np.array(values) for name, values in self._columns.items()}
        return Training(
            params=self._params,
            best=self._best,
            batch_losses=batch_losses,
            initial_kernel=self._kernel,
            **columns,
        )

    def _add(self, **values: Any) -> None:
        for name, value in values.items():
            self._columns.setdefault(name, []).append(value)
