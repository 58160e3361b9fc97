"""Classes as targets of regression, and the weights with which their cases count."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...checks.messages import shown, warn
from ...checks.values import check_nonnegative
from .cases import Cases
from .signals import exponents_of

_LEAST_CLASS_WEIGHT = 1e-100
"""Least positive weight of a class, in units of the largest: however much larger another is, it and
its squares stay positive in float64."""

ClassWeight: TypeAlias = dict[Hashable, float] | str | None
"""The parameter `class_weight`: weights by label, "balanced", or None."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTargets:
    """The classes of cases as targets of regression, and the weights with which cases count."""

    classes: np.ndarray
    """The labels of the classes that have cases, in order, (n_classes,)."""
    class_indices: np.ndarray
    """The index of the class of each case, (n_cases,)."""
    class_weights: np.ndarray
    """The weights of the classes, (n_classes,): all 1 if they are equal."""
    case_weights: np.ndarray
    """The weights of the cases without those of their classes, (n_cases,)."""
    score_weights: np.ndarray
    """`case_weights` of cases that the left-out score counts, and 0 for others, (n_cases,).

    It does not count the only case, or group, of a class: when that is left out, no training signal
    has the class, and the error says nothing about a kernel.
    """

    @property
    def signs(self) -> np.ndarray:
        """The targets, (n_cases, n_outputs): 1 for the class of a case, and −1 for others.

        Two classes have one output, for the second class.
        """
        signs = 2.0 * (self.class_indices[:, None] == np.arange(len(self.classes))) - 1.0
        return signs[:, 1:] if len(self.classes) == 2 else signs

    @property
    def coverage_weights(self) -> np.ndarray:
        """The weights of the cases times those of their classes, (n_cases,).

        On signals drawn with these weights, sets contain the right class as often as requested.
        """
        return self.class_weights[self.class_indices] * self.case_weights

    @property
    def error_weights(self) -> np.ndarray:
        """The `coverage_weights` of cases that the score counts, and 0 for others, (n_cases,)."""
        return self.class_weights[self.class_indices] * self.score_weights

    @property
    def has_class_weights(self) -> bool:
        """Whether the weights of the classes differ."""
        return bool(np.ptp(self.class_weights) > 0)


def weights_of_labels(class_weight: ClassWeight, labels: np.ndarray) -> np.ndarray:
    """Return the weight of each of some labels.

    The weights of a dictionary, and 1 for labels that it does not name, are divided by a power of
    two. Without a dictionary all weights are 1.
    The weights of "balanced" depend on cases: `targets_of_classes` computes them.
    """
    label_list = labels.tolist()
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return np.ones(len(label_list))
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight is {shown(class_weight)}, expected None, 'balanced' or a dict"
        )
    checked = {
        label: check_nonnegative(weight, f"class_weight of {shown(label)}")
        for label, weight in class_weight.items()
    }
    # A fold of cross-validation may lack a class: `targets_of_classes` warns of it.
    unknown = [label for label in class_weight if label not in label_list]
    if unknown and any(label not in class_weight for label in label_list):
        raise ValueError(
            f"class_weight has keys {shown(unknown)}, expected some of {shown(label_list)}"
        )
    weights = np.array([checked.get(label, 1.0) for label in label_list])
    relative = np.maximum(np.ldexp(weights, -exponents_of(weights)), _LEAST_CLASS_WEIGHT)
    return np.where(weights > 0, relative, 0.0)


def targets_of_classes(cases: Cases, labels: np.ndarray, class_weight: ClassWeight) -> ClassTargets:
    """Return the targets of cases, whose `y` are indices of labels.

    Only labels with a case are classes of the targets. A single class is refused, and a warning
    names the weights of labels without cases.
    """
    present, class_indices = np.unique(cases.y[:, 0], return_inverse=True)
    classes = labels[present].tolist()
    if len(classes) < 2:
        raise ValueError(f"y has one class, {shown(classes)}, expected several of positive weight")
    if isinstance(class_weight, dict):
        lost = [label for label, weight in class_weight.items() if weight and label not in classes]
        if lost:
            warn(f"class_weight has keys {shown(lost)}, which no signal of positive weight has")
    if class_weight == "balanced":
        class_weights = 1.0 / np.bincount(class_indices, cases.weights)
    else:
        class_weights = weights_of_labels(class_weight, labels)[present]
    pairs = np.unique(np.column_stack([class_indices, cases.groups]), axis=0)
    n_groups = np.bincount(pairs[:, 0])  # number of groups of each class
    return ClassTargets(
        classes=labels[present],
        class_indices=class_indices,
        class_weights=class_weights if np.ptp(class_weights) > 0 else np.ones(len(present)),
        case_weights=cases.weights,
        score_weights=np.where(n_groups[class_indices] > 1, cases.weights, 0.0),
    )
