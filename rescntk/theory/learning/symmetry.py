r"""Kernels that do not see what a group of symmetries does to signals.

The mean of a kernel over a group is the kernel of training on all transformed copies
(``docs/theory/changed_kernels.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from ...checks.messages import shown
from ...checks.values import check_kernel, check_signals, is_sequence
from ..tools.argument_checks import Map

_MOST_ELEMENTS = 5040
"""Most elements of a group, all permutations of seven channels: each costs a kernel matrix."""

_INVARIANT = 2e-5
"""Largest change of an invariant kernel, relative to its diagonal: float32 errs by 5e-6."""


def symmetrized(kernel: Map, group: Iterable[Map]) -> Map:
    r"""Return the mean of a kernel over a group, :math:`K_G(x, z) = |G|^{-1} \sum_g K(x, g z)`.

    Regression with :math:`K_G` and the penalty :math:`\delta/|G|` on n signals is regression with K
    and the penalty δ on all :math:`n\,|G|` transformed copies (Gerken and Kessel 2024; Misof,
    Kessel and Gerken 2024).

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function that returns matrices ``kernel(X)``, ``kernel(X, Z)``. It
        has :math:`K(g x, g z) = K(x, z)`: every kernel of the library for the sign and permuted
        channels, those of all heads but "equivariant" for shifts and time reversal.
    group : iterable of callables
        Functions of signals, from (n_cases, n_channels, n_timepoints) to the same shape, each
        signal by itself. All their products are the group, 5040 at most. The identity need not be
        given.

    Returns
    -------
    callable
        ``K_G(X)`` and ``K_G(X, Z)``, which take arrays of signals or images.

    Raises
    ------
    ValueError
        If `kernel` cannot be called or `group` has no functions. The returned function raises it
        if the functions do not generate a group, or change the kernel of the first two signals.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory.learning import symmetrized
    >>> def reverse(X):
    ...     return X[:, :, ::-1]
    >>> K = symmetrized(rk.ResCNTK(2, head="trace"), [reverse, np.negative])
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 8))
    >>> bool(np.allclose(K(X, reverse(-X)), K(X)))
    True
    """
    check_kernel(kernel)
    generators = tuple(group) if is_sequence(group) else ()
    if not generators or not all(map(callable, generators)):
        raise ValueError(f"group is {shown(group)}, expected one or more functions of signals")
    return partial(_mean_over_group, kernel, generators)


def _mean_over_group(
    kernel: Map, generators: tuple[Map, ...], X: np.ndarray, Z: np.ndarray | None = None
) -> np.ndarray:
    """Return K_G of signals X and Z."""
    X = check_signals(X, "X", images=True)
    right = X if Z is None else check_signals(Z, "Z", images=True)
    few = X[:2]
    unmoved = np.asarray(kernel(few))
    bar = _INVARIANT * float(unmoved.diagonal().max())
    for number, g in enumerate(generators):
        if not np.abs(np.asarray(kernel(_transformed(g, few))) - unmoved).max() <= bar:
            raise ValueError(
                f"group has a function that changes the kernel, number {number}: expected "
                f"K(g x, g z) = K(x, z), as of heads 'trace' and 'gap' for time reversal"
            )
    words = _elements(generators, X.shape[1:])
    total = np.zeros((len(X), len(right)))
    for word in words:
        moved = right
        for number in word:
            moved = _transformed(generators[number], moved)
        total += np.asarray(kernel(X, moved))
    total /= len(words)
    return 0.5 * (total + total.T) if Z is None else total


def _elements(generators: tuple[Map, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the group as words: the numbers of generators in the order in which they act.

    Elements are told apart by what they do to one random signal. A set of signals that functions
    map into itself, one to one, is permuted by them: they generate a group.
    """
    start = np.random.default_rng(0).standard_normal((1, *shape))
    words, signals, known = [tuple[int, ...]()], [start], {start.tobytes()}
    images: list[set[bytes]] = [set() for _ in generators]
    for word, signal in zip(words, signals, strict=True):  # both lists grow
        for number, g in enumerate(generators):
            with np.errstate(over="ignore"):  # of functions that are no symmetries
                moved = _transformed(g, signal)
            key = moved.tobytes()
            if key in images[number]:
                raise ValueError(
                    f"group has a function that is not one to one, number {number}: expected "
                    f"symmetries such as time reversal, the sign, or a permutation of channels"
                )
            images[number].add(key)
            if key not in known:
                known.add(key)
                words.append((*word, number))
                signals.append(moved)
        if len(words) > _MOST_ELEMENTS:
            raise ValueError(
                f"group has more than {_MOST_ELEMENTS} elements, expected a finite group"
            )
    return words


def _transformed(g: Map, X: np.ndarray) -> np.ndarray:
    """Return what a function makes of signals, in their shape."""
    moved = np.ascontiguousarray(g(X), dtype=np.float64)
    if moved.shape != X.shape:
        raise ValueError(
            f"group has a function that makes shape {moved.shape} of {X.shape}, expected the same"
        )
    return moved
