"""`Arguments`, the checked arguments of a call for kernels.

`check_arguments` checks each argument but the name of the engine, which `engines.choose` checks.
`call.mean_of_normalized`, whose caller has checked the signals, makes `Arguments` without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import Batch, images_as_signals, pixel_shape
from ..checks.messages import shown
from ..checks.values import (
    HEADS,
    check_batches,
    check_depths,
    check_dtype,
    check_flag,
    check_kinds,
    check_positive_integer,
)
from ..engines import ENGINES
from ..engines.heads import check_head, pooled_head
from ..engines.layer.constants import check_growth
from ..engines.request import Request
from ..network import PER_LAYER_FIELDS, Network, check_network
from ..network.parts import Layer
from .prepared import PreparedKernel, PreparedSignals


@dataclass(frozen=True)
class Arguments:
    """The checked arguments of a call for the kernels of one network, with one head."""

    request: Request
    """The request to the engine. Its depths increase, and its dtype is the working precision."""
    X: Batch
    """The left signals. The pixels of an image are stored as those of a signal, line by line."""
    Z: Batch | None
    """The right signals, or None if they are X. For shares they are set even if they are X."""
    pixel_shape: tuple[int, ...]
    """The shape of the pixels: (d,) for signals, (h, w) for images."""
    depths: tuple[int, ...]
    """The depths in the order in which the caller gave them."""
    dtype: np.dtype
    """The dtype of the results."""
    normalized: bool
    """Whether the kernels are normalized."""
    engine: str
    """The name that the caller gave."""
    progress: bool
    """Whether a progress bar is shown."""
    prepared: PreparedSignals | None
    """The prepared signals that the caller gave as Z, or None."""


def check_arguments(
    network: Network,
    X: Any,
    Z: Any = None,
    *,
    head: str | int = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    depths: Iterable[int] | None = None,
    normalized: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
    heads: tuple[str, ...] = HEADS,
    shares: bool = False,
    paired: bool = False,
    names: tuple[str, str] = ("X", "Z"),
) -> Arguments:
    """Return the arguments of a call, or raise a ValueError that names the argument.

    X and Z are arrays or lists of arrays. Z may also be None, `PreparedSignals` or a
    `PreparedKernel`. `heads` are the names of heads that the call accepts, besides pooled heads.
    `shares` is explained in `Request`, and `paired` and `names` in `check_batches`.
    """
    check_kernel_network(network)
    kinds = check_kinds(kinds)
    depths = (network.depth,) if depths is None else check_depths(depths)
    sorted_depths = tuple(sorted(set(depths)))
    result_dtype = np.dtype(check_dtype(dtype))
    _check_depth_and_tangent_kernel(network, kinds, sorted_depths[-1], result_dtype)
    prepared = _prepared_signals(Z)
    if prepared is not None:  # where Z is X itself, the kernel matrix is symmetric (check_batches)
        Z = X if prepared.is_same(X) and not paired else prepared.batch
    head = check_head(head, heads)
    batches = check_batches(X, Z, head, paired, names)
    shape = pixel_shape(batches[0])
    X, Z = map(images_as_signals, batches)
    request = Request(
        network=network,
        head=pooled_head(head, shape),
        kinds=kinds,
        depths=sorted_depths,
        # Activations that are not homogeneous are computed in float64 (docs/theory/deficits.md).
        dtype=result_dtype.name if network.homogeneous else "float64",
        threads=None if threads is None else check_positive_integer(threads, "threads"),
        shares=shares,
        # An image of one line, or of one column, is a signal.
        line_pixels=shape[1] if len(shape) == 2 and min(shape) > 1 else 1,
    )
    if prepared is not None:
        prepared.check_call(request, result_dtype.name)
    return Arguments(
        request=request,
        X=X,
        Z=X if Z is None and shares else Z,
        pixel_shape=shape,
        depths=depths,
        dtype=result_dtype,
        normalized=check_flag(normalized, "normalized"),
        engine=engine,
        progress=check_flag(progress, "progress"),
        prepared=prepared,
    )


def _prepared_signals(Z: object) -> PreparedSignals | None:
    """Return the prepared signals that a caller gave as Z, or None if Z is something else."""
    signals = Z.signals if isinstance(Z, PreparedKernel) else Z
    return signals if isinstance(signals, PreparedSignals) else None


def check_kernel_network(network: object) -> None:
    """Raise a ValueError if `network` is not a `Network` that the engine "array" knows.

    This engine knows all fields and activations that a kernel may have. Other engines may refuse
    some of them.
    """
    fields = ENGINES["array"].known_fields
    check_network(network, fields, activations=None, per_layer=PER_LAYER_FIELDS)


@lru_cache(maxsize=64)
def _check_depth_and_tangent_kernel(
    network: Network, kinds: tuple[str, ...], deepest: int, dtype: np.dtype
) -> None:
    """Raise a ValueError if some depth has no layer, or if the NTK is too small for the dtype."""
    _check_number_of_layers(network, deepest)
    if "ntk" not in kinds:
        return
    layers = [network.layer(k) for k in range(1, (1 if network.is_uniform else deepest) + 1)]
    _check_branch_gains(network, layers, dtype)
    _check_input_tangent_kernel(network, layers, deepest, dtype)


def _check_number_of_layers(network: Network, deepest: int) -> None:
    """Raise a ValueError if a field of the network has no value for the deepest layer."""
    for name in sorted(PER_LAYER_FIELDS):
        values = network.values_of(name)
        if 1 < len(values) < deepest:
            raise ValueError(
                f"network has {name} {shown(values)}, and depths has {deepest}: expected "
                f"depths of at most {len(values)}, or one {name} for all layers"
            )


def _check_branch_gains(network: Network, layers: list[Layer], dtype: np.dtype) -> None:
    """Raise a ValueError if only branches are trained, and their gains are too small.

    The tangent kernel is then as small as the largest gain.
    """
    least, gain = _least_tangent_kernel(dtype), max(layer.branch_gain for layer in layers)
    if network.parts.initial == 0 and 0 < gain < least:
        raise ValueError(
            f"network has the branch gain {gain:.3g} and trains "
            f"only {' and '.join(network.trained)}, expected a gain of at least {least:.2g}: "
            f"{dtype.name} does not resolve this tangent kernel for smaller gains"
        )


def _check_input_tangent_kernel(
    network: Network, layers: list[Layer], deepest: int, dtype: np.dtype
) -> None:
    """Raise a ValueError if only the input is trained, and layers make its kernel too small.

    With biases, homogeneous layers whose growth is below 1 are not divided by it.
    """
    if network.trained != ("input",) or network.norm or not network.has_bias:
        return
    if not network.homogeneous:
        return
    least = _least_tangent_kernel(dtype)
    logs = [math.log(check_growth(layer)) for layer in layers]
    growth = math.exp(math.fsum(logs) / len(logs))
    if growth < 1.0 and deepest * math.log(growth) < math.log(least):
        most = int(math.log(least) / math.log(growth))
        raise ValueError(
            f"network has biases, trains the input alone, and has {deepest} layers, expected "
            f"at most {most}: each multiplies its tangent kernel by at most {growth:.3g}, "
            f"and {dtype.name} does not resolve smaller ones"
        )


def _least_tangent_kernel(dtype: np.dtype) -> float:
    """Return the smallest tangent kernel, relative to the signals, that a dtype resolves.

    Numbers below the normal ones are rounded to multiples of eps times the smallest normal number.
    This is 2^-32 eps of the result, so that 2^32 such roundings add up to one unit of eps.
    """
    return 2**32 * float(np.finfo(dtype).tiny)
