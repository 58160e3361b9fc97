"""GAP of two signals of any lengths from its definition, pixel pair by pixel pair.

No rows, no seams, no distances: dictionaries of covariances of single pixel pairs (j, j'), in
40-digit arithmetic. A tap k of a filter moves the pair to ((j + k) mod d, (j' + k) mod d').
"""

from tests.oracles.definition import dual_of
from tests.oracles.numbers import mp


def _mean(values, lengths, size, step):
    """Return the mean over a filter's taps at every pixel pair."""
    d, other = lengths
    taps = [step * (k - size // 2) for k in range(size)]
    return {
        (j, k): mp.fsum(values[(j + tap) % d, (k + tap) % other] for tap in taps) / size
        for j, k in values
    }


def pixel_pairs(network, x, z):
    """Return (gpk, ntk) of the last layer: dictionaries of pixel pairs, of mpf."""
    channels, *_ = x.shape
    scale = mp.mpf(1) / channels if network.input_scale is None else mp.mpf(network.input_scale)
    dual = dual_of(network)
    c_v, c_w, alpha = (mp.mpf(value) for value in (network.c_v, network.c_w, network.alpha))
    strength, keep = (alpha**2 * c_v, 1) if network.skip else (c_v, 0)
    trained = {
        part: int(part in network.trained) for part in ("input", "inner", "outer", "readout")
    }
    pairs = {"xx": (x, x), "zz": (z, z), "xz": (x, z)}
    lengths = {name: (one.shape[1], other.shape[1]) for name, (one, other) in pairs.items()}
    F, T = {}, {}
    for name, (one, other) in pairs.items():
        products = {
            (j, k): scale
            * mp.fsum(mp.mpf(a) * mp.mpf(b) for a, b in zip(one[:, j], other[:, k], strict=True))
            for j in range(one.shape[1])
            for k in range(other.shape[1])
        }
        F[name] = _mean(products, lengths[name], network.input_filter_size, 1)
        T[name] = {pair: trained["input"] * value for pair, value in F[name].items()}
    for layer in range(network.depth):
        step = network.dilation if isinstance(network.dilation, int) else network.dilation[layer]
        size = 1 if layer == 0 else network.filter_size
        S = {name: _mean(F[name], lengths[name], size, step) for name in pairs}
        for name in pairs:
            own, other = (S[side * 2] for side in name)
            inside = _mean(T[name], lengths[name], size, step)
            K, tangent = {}, {}
            for (j, k), value in S[name].items():
                K[j, k], slope = dual(c_w * value, c_w * own[j, j], c_w * other[k, k])
                T_g = trained["inner"] * c_w * value + c_w * inside[j, k]
                tangent[j, k] = trained["outer"] * K[j, k] + slope * T_g
            K, tangent = (
                _mean(values, lengths[name], network.outer_filter_size, step)
                for values in (K, tangent)
            )
            F[name] = {pair: keep * F[name][pair] + strength * K[pair] for pair in K}
            T[name] = {pair: keep * T[name][pair] + strength * tangent[pair] for pair in K}
    readout = mp.mpf(network.readout_scale)
    gpk = {name: {pair: readout * value for pair, value in F[name].items()} for name in pairs}
    ntk = {
        name: {
            pair: readout * (value + trained["readout"] * F[name][pair])
            for pair, value in T[name].items()
        }
        for name in pairs
    }
    return gpk, ntk


def gap(network, x, z):
    """Return, for both kinds, K(x, z) and √(K(x, x) K(z, z)) of the trace: the terms' size."""
    results = []
    for kernel in pixel_pairs(network, x, z):
        value = mp.fsum(kernel["xz"].values()) / (x.shape[1] * z.shape[1])
        sizes = [
            mp.fsum(kernel[name][j, j] for j in range(signal.shape[1])) / signal.shape[1]
            for name, signal in (("xx", x), ("zz", z))
        ]
        own = [
            mp.fsum(kernel[name].values()) / signal.shape[1] ** 2
            for name, signal in (("xx", x), ("zz", z))
        ]
        results.append((value, mp.sqrt(own[0] * own[1]), mp.sqrt(sizes[0] * sizes[1])))
    return results
