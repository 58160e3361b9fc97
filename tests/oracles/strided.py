"""Networks of ReLU with strides, layer by layer from their definition."""

import numpy as np

KNOWN_FIELDS = {
    "depth", "filter_size", "outer_filter_size", "skip", "alpha", "c_v", "c_w", "bias", "trained",
}  # fmt: skip
"""The fields of a network that stand in the formulas below, with one value for all layers."""


def check_fields(network):
    """Raise a KeyError if other fields of a network have values other than their defaults."""
    default = type(network)(network.depth)
    for name, value in vars(network).items():
        has_meaning = name in KNOWN_FIELDS and (name == "trained" or not isinstance(value, tuple))
        if not has_meaning and value != getattr(default, name):
            raise KeyError(f"the strided definition does not know {name} {value!r}")


def strided(network, X, stride, kind):
    """Return kernels at pixel pairs of a ReLU network with strides, (n, n, pixels, pixels)."""
    check_fields(network)

    def box(A, q):
        taps = range(-(q // 2), q // 2 + 1)
        return sum(np.roll(A, (-k, -k), (2, 3)) for k in taps) / q

    parts, bias = network.parts, network.bias**2
    F = np.einsum("icj,kcl->ikjl", X, X) / X.shape[1]
    T = parts.input * F
    for layer in range(1, network.depth + 1):
        q = 1 if layer == 1 else network.filter_size
        S = network.c_w * box(F, q) + bias
        own = np.sqrt(np.einsum("iijj->ij", S))
        g = own[:, None, :, None] * own[None, :, None, :]
        angle = np.arccos(np.clip(S / g, -1, 1))
        k0 = 1 - angle / np.pi
        K = network.c_v / 2 * g * (np.sin(angle) / np.pi + k0 * np.cos(angle))
        inside = parts.inner * S + network.c_w * box(T, q)
        branch = parts.outer * K + network.c_v / 2 * k0 * inside
        scale, q = network.alpha**2, network.outer_filter_size
        F = network.skip * F + scale * (box(K, q) + bias)
        T = network.skip * T + scale * (box(branch, q) + parts.outer * bias)
        F, T = (A[:, :, ::stride, ::stride] for A in (F, T))
    return F if kind == "gpk" else T + parts.readout * F
