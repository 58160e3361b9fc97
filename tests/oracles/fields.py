"""Effective receptive fields from their definition, in exact fractions.

At x = z and j = j' a ReLU network's covariances are linear in the pixels' energies. The forward
recursion is run on one pixel's energy after another, and read at the output pixel.
"""

from fractions import Fraction


def _box(row, q, step=1):
    """Mean over taps k of row[j + step k], indices modulo d."""
    taps = [step * k for k in range(-(q // 2), q // 2 + 1)]
    return [sum(row[(j + k) % len(row)] for k in taps) / q for j in range(len(row))]


def weights(network, d):
    """Return (gpk, ntk), lists of d Fractions."""
    alpha, c_v, c_w = (Fraction(v) for v in (network.alpha, network.c_v, network.c_w))
    strength = alpha**2 if network.skip else Fraction(1)
    keep = 1 if network.skip else 0
    t, i, o, r = (int(part in network.trained) for part in ("input", "inner", "outer", "readout"))
    fields = [], []
    for pixel in range(d):
        F = _box([Fraction(int(j == pixel)) for j in range(d)], network.input_filter_size)
        T = [t * f for f in F]
        for layer in range(1, network.depth + 1):
            q, steps = 1 if layer == 1 else network.filter_size, network.dilation
            step = steps if isinstance(steps, int) else steps[layer - 1]
            S = [c_w * s for s in _box(F, q, step)]
            T_g = [i * s + c_w * b for s, b in zip(S, _box(T, q, step), strict=True)]
            K = [c_v / 2 * s for s in S]  # E[relu(u)²] is half the variance, E[step(u)²] half
            source = [o * k + c_v / 2 * g for k, g in zip(K, T_g, strict=True)]
            boxes = (_box(branch, network.outer_filter_size, step) for branch in (K, source))
            F, T = (
                [keep * old + strength * new for old, new in zip(state, box, strict=True)]
                for state, box in zip((F, T), boxes, strict=True)
            )
        scale = Fraction(network.readout_scale)
        fields[0].append(scale * F[0])
        fields[1].append(scale * (T[0] + r * F[0]))
    return fields


def squared_width(weights):
    """Return Σ i² w_i / Σ w_i, pixel i being i or i − d away, whichever is nearer."""
    d = len(weights)
    return sum(min(i, d - i) ** 2 * w for i, w in enumerate(weights)) / sum(weights)
