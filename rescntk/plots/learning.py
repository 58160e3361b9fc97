"""Pictures of rescntk.learn: kernel matrices, errors of a search, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, SIZE, figure, finish


def gram_matrix(K: np.ndarray, labels: np.ndarray, ax: Any = None, label: str = "kernel") -> Any:
    """Draw a kernel matrix sorted by class, with lines between the classes.

    Parameters
    ----------
    K : ndarray, (n_cases, n_cases)
    labels : array-like, (n_cases,)
    ax : matplotlib Axes, optional
        Axes to draw on; the default is a new figure.
    label : str, default "kernel"
        Title of the colour bar.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import plots
    >>> X = np.random.default_rng(0).standard_normal((6, 1, 8))
    >>> ax = plots.gram_matrix(rk.ResCNTK(2, normalized=True)(X), ["b", "a", "b", "a", "a", "b"])
    """
    K, labels = np.asarray(K), np.asarray(labels)
    if K.ndim != 2 or K.shape != (len(labels), len(labels)):
        raise ValueError(
            f"K has shape {K.shape}, expected ({len(labels)}, {len(labels)}): a row and a "
            f"column for each of the labels"
        )
    if ax is None:
        ax = figure((5.6, 5.0)).subplots()
    order = np.argsort(labels, kind="stable")
    names, counts = np.unique(labels, return_counts=True)
    image = ax.imshow(K[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.85)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color="white", linewidth=0.6)
        ax.axvline(end - 0.5, color="white", linewidth=0.6)
    middles = ends - counts / 2 - 0.5
    ax.set(xticks=middles, yticks=middles, xlabel="class", ylabel="class")
    ax.set_xticklabels(names)
    ax.set_yticklabels(names)
    ax.tick_params(length=0)
    return ax


def search_errors(results: Mapping[str, np.ndarray], ax: Any = None) -> Any:
    """Draw the least leave-one-out error over depth, a line for each head and kind.

    Parameters
    ----------
    results : mapping
        ``search_results_`` of a classifier or regressor. Among kernels of the same depth, head
        and kind the least error is drawn.
    ax : matplotlib Axes, optional
        Axes to draw on; the default is a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> results = {"depth": np.array([1, 2]), "head": np.array(["gap", "gap"]),
    ...            "kind": np.array(["gpk", "gpk"]), "error": np.array([0.3, 0.2])}
    >>> ax = plots.search_errors(results)
    """
    if ax is None:
        ax = figure(SIZE).subplots()
    depths = np.unique(results["depth"])
    pairs = product(np.unique(results["head"]), np.unique(results["kind"]))
    for (head, kind), colour, marker in zip(pairs, COLOURS, MARKERS, strict=False):
        errors = []
        for depth in depths:
            chosen = (
                (results["head"] == head) & (results["kind"] == kind) & (results["depth"] == depth)
            )
            errors.append(results["error"][chosen].min(initial=np.inf))
        label = f"{head}, {kind.upper()}"
        line = "--" if kind == "gpk" else "-"
        ax.plot(depths, errors, line, marker=marker, color=colour, label=label)
    ax.set(xlabel="depth (layers)", ylabel="squared error, left out", xticks=depths)
    finish(ax, 2)
    return ax


def parity(y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, ax: Any = None) -> Any:
    """Draw predictions against the truth, with intervals of 1.96 standard deviations.

    Parameters
    ----------
    y, mean, deviation : array-like, (n_cases,)
        The truth, predictive means and standard deviations.
    ax : matplotlib Axes, optional
        Axes to draw on; the default is a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import plots
    >>> ax = plots.parity([1.0, 2.0], [1.1, 1.9], [0.1, 0.1])
    """
    y, mean, deviation = (np.asarray(values, dtype=np.float64) for values in (y, mean, deviation))
    if ax is None:
        ax = figure((5.2, 5.0)).subplots()
    style = {"markersize": 4, "linewidth": 0.9, "color": BLUE}
    ax.errorbar(y, mean, 1.96 * deviation, fmt="o", label="mean, 95 % interval", **style)
    ends = np.array([min(y.min(), mean.min()), max(y.max(), mean.max())])
    ax.plot(ends, ends, "-", color="0.4", linewidth=0.9, label="truth", zorder=0)
    ax.set(xlabel="truth", ylabel="prediction", aspect="equal")
    finish(ax, 2)
    return ax
