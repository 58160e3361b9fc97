"""The kernels from their definition, pixel pair by pixel pair, in 40-digit arithmetic.

Numbers are gmpy2's, or mpmath's, which are several times slower, in NumPy object arrays. The
singularity of κ0 at correlation 1 costs half of the digits, which leaves enough.
"""

import math
from contextlib import contextmanager
from functools import partial

import mpmath
import numpy as np

try:
    import gmpy2
except ImportError:  # on a machine for the GPU's tests alone
    gmpy2 = None

DIGITS = 40


class _Gmpy2:
    """The part of mpmath's contexts that is used here, with gmpy2's numbers."""

    def __init__(self, digits):
        self.sqrt, self.acos, self.asin = gmpy2.sqrt, gmpy2.acos, gmpy2.asin
        self._exact = str, int, type(gmpy2.mpfr())
        gmpy2.get_context().precision = mpmath.libmp.dps_to_prec(digits)

    @property
    def pi(self):
        return gmpy2.const_pi()

    def mpf(self, value):
        if isinstance(value, mpmath.ctx_mp_python._mpf):  # of any context
            p, q = mpmath.libmp.to_rational(value._mpf_)
            return gmpy2.mpfr(p) / q
        return gmpy2.mpfr(value if isinstance(value, self._exact) else float(value))

    def fsum(self, values):
        return gmpy2.fsum(list(values))

    @contextmanager
    def workdps(self, digits):
        precision = mpmath.libmp.dps_to_prec(digits)
        with gmpy2.context(gmpy2.get_context(), precision=precision):
            yield


def _mpmath(digits):
    context = mpmath.mp.clone()
    context.dps = digits
    return context


mp = _Gmpy2(DIGITS) if gmpy2 else _mpmath(DIGITS)
"""Numbers and functions, named as in mpmath."""

_mpf = np.frompyfunc(mp.mpf, 1, 1)


def _relu(s, a, b):
    """Return E[relu relu] and E[step step] at the covariance s and the variances a and b."""
    g = mp.sqrt(a * b)
    rho = min(max(s / g, mp.mpf(-1)), mp.mpf(1)) if g > 0 else mp.mpf(0)
    angle = mp.pi - mp.acos(rho)
    return g * (mp.sqrt(1 - rho**2) + angle * rho) / (2 * mp.pi), angle / (2 * mp.pi)


def _erf(s, a, b):
    """Return the same for erf (Williams 1997)."""
    m = (1 + 2 * a) * (1 + 2 * b)
    return 2 / mp.pi * mp.asin(2 * s / mp.sqrt(m)), 4 / mp.pi / mp.sqrt(m - 4 * s**2)


def _gelu(s, a, b):
    """Return the same for GELU, by Stein's lemma in its first form."""
    p, q, g = 1 + a, 1 + b, mp.sqrt(a * b)
    joint = mp.mpf(1) / 4 + mp.asin(s / mp.sqrt(p * q)) / (2 * mp.pi)  # E[Φ(u)Φ(v)]
    rest = (g - s) * (g + s)  # a b − s²
    d = 1 + a + b + rest  # p q − s²
    density = 1 / (2 * mp.pi * mp.sqrt(d))  # E[φ(u)φ(v)]
    K = s * joint + density * (a * (b + rest) / p + s**2 / q)
    return K, joint + density * s * (1 / p + 1 / q + 1 / d)


def dual_of(network):
    """Return E[σσ] and E[σ'σ'] of covariance and variances; leaky: s u + (1 − s) relu(u)."""
    dual = {"relu": _relu, "erf": _erf, "gelu": _gelu}[network.activation]
    slope = mp.mpf(network.negative_slope)

    def leaky(s, a, b):
        K, K_dot = dual(s, a, b)
        return slope * s + (1 - slope) ** 2 * K, slope + (1 - slope) ** 2 * K_dot

    return leaky if slope else dual


def _once(dual):
    """Return `dual` with a memory: it is symmetric in the variances, as are most arguments."""
    known = {}

    def look_up(s, a, b):
        key = (s, *sorted((a, b)))
        if key not in known:
            known[key] = dual(s, a, b)
        return known[key]

    return look_up


def _box(A, sides, q, step=1):
    """Return the means over taps k of A[:, j + step k, j' + step k]; `sides` are (d,) or (h, w)."""
    shape, axes = A.shape, len(sides)
    A = A.reshape(-1, *sides, *sides)
    for axis in range(1, 1 + axes):
        taps = [step * k for k in range(-(q // 2), q // 2 + 1)]
        A = sum(np.roll(A, (-k, -k), (axis, axis + axes)) for k in taps) / mp.mpf(q)
    return A.reshape(shape)


def pixel_pairs(X, network):
    """Return {depth: (gpk, ntk)} of all depths, each (n, n, d, d); images have d = h·w pixels."""
    left, right = np.triu_indices(len(X))  # P(z, x) is the transpose of P(x, z)

    def whole(P):
        square = np.empty((len(X), *X.shape[:1], *P.shape[1:]), dtype=object)
        square[right, left], square[left, right] = P.swapaxes(1, 2), P
        return square

    of_depths = of_pairs(X, network, left, right)
    return {depth: tuple(map(whole, kinds)) for depth, kinds in of_depths.items()}


KNOWN_FIELDS = frozenset(
    [
        "depth",
        "filter_size",
        "outer_filter_size",
        "input_filter_size",
        "dilation",
        "skip",
        "alpha",
        "activation",
        "negative_slope",
        "bias",
        "c_v",
        "c_w",
        "readout_scale",
        "input_scale",
        "trained",
        "norm",
    ]
)
"""The fields of a network that stand in the formulas below."""


def refuse_other_fields(network, known_fields, oracle):
    """Raise a KeyError if a network has fields that are not known to an oracle with this name."""
    if unknown := vars(network).keys() - known_fields:
        raise KeyError(f"{oracle} does not know {unknown}")


def of_pairs(X, network, left, right):
    """Return the same of pairs (X[left], X[right]), which have each signal with itself."""
    refuse_other_fields(network, KNOWN_FIELDS, "the definition")
    sides = X.shape[2:]
    X = X.reshape(*X.shape[:2], -1)
    dual = np.frompyfunc(_once(dual_of(network)), 3, 2)
    readout = mp.mpf(network.readout_scale)
    scale = mp.mpf(1) / X.shape[1] if network.input_scale is None else mp.mpf(network.input_scale)
    X = _mpf(X)
    F = np.array([np.dot(X[i].T, X[k]) * scale for i, k in zip(left, right, strict=True)])
    F = _box(F, sides, network.input_filter_size)
    T = F * (1 if "input" in network.trained else 0)
    results = {}
    for layer in range(1, network.depth + 1):
        F, T = after_layer(network, layer, F, T, (left, right), sides, dual)
        ntk = T + F if "readout" in network.trained else T
        results[layer] = F * readout, ntk * readout
    return results


def after_layer(network, layer, F, T, pairs, sides, dual):
    """Return F and T, (n_pairs, d, d), after a layer from those before it."""
    left, right = pairs
    itself = np.flatnonzero(left == right)
    itself = itself[np.argsort(left[itself])]
    of_layer = partial(layer_value, network, layer)
    box = partial(_box, sides=sides, step=of_layer("dilation"))
    inner = partial(box, q=1 if layer == 1 else of_layer("filter_size"))
    outer = partial(box, q=of_layer("outer_filter_size"))
    alpha, c_v, c_w, bias = map(mp.mpf, map(of_layer, ("alpha", "c_v", "c_w", "bias")))
    skip, read, tangent_read = of_layer("skip"), F, T
    branch_scale = alpha**2 if skip else 1
    if network.norm:
        roots = root(F[itself].diagonal(axis1=1, axis2=2))
        sizes = roots[left, :, None] * roots[right, None, :]
        read, tangent_read = quotient(F, sizes), quotient(T, sizes)
    S = c_w * inner(read) + bias**2
    variance = S[itself].diagonal(axis1=1, axis2=2)
    K, K_dot = dual(S, variance[left, :, None], variance[right, None, :])
    T_g = c_w * inner(tangent_read) + (S if "inner" in network.trained else 0)
    branch = c_v * outer(K) + bias**2
    tangent = c_v * outer(K_dot * T_g) + (branch if "outer" in network.trained else 0)
    T = (T if skip else 0) + branch_scale * tangent
    F = (F if skip else 0) + branch_scale * branch
    return F, T


def layer_value(network, layer, name):
    """Return a layer's value of a field that has one for all layers, or one for each."""
    value = getattr(network, name)
    return value[layer - 1] if isinstance(value, tuple) else value


root = np.frompyfunc(mp.sqrt, 1, 1)
quotient = np.frompyfunc(lambda a, b: a / b if b else mp.mpf(0), 2, 1)


def pools(width, sides):
    """Return which pixels each circular pool has, (d, d): `width` pixels along each axis."""
    pixels, rows = np.arange(math.prod(sides)).reshape(sides), []
    for first in np.ndindex(*sides):
        places = ((k + np.arange(min(width, n))) % n for k, n in zip(first, sides, strict=True))
        rows.append(np.isin(pixels.ravel(), pixels[np.ix_(*places)]))
    return np.array(rows, dtype=int)


def head(P, name, sides=None):
    """Apply a head to the last two axes, the pixels of `sides`. An integer is a pool's width."""
    if isinstance(name, int):  # the mean over pools of the means over their pixel pairs
        inside = pools(name, sides or P.shape[-1:])
        pairs = P * (inside.T @ inside).astype(object)
        return pairs.sum(axis=(-2, -1)) / mp.mpf(int(len(inside) * inside[0].sum() ** 2))
    if name == "equivariant":
        return P[..., 0, 0]
    if name == "trace":
        return np.trace(P, axis1=-2, axis2=-1) / P.shape[-1]
    if name == "gap":
        return P.sum(axis=(-2, -1)) / mp.mpf(P.shape[-1] ** 2)
    raise NotImplementedError(f"the definition has no head {name!r}")


def gap_of_lengths(network, x, z):
    """Return, for both kinds, K(x, z) of GAP, √(K(x, x) K(z, z)), and this root of the trace."""
    # Signals are repeated up to one length: rings of pixels do not see where they begin again.
    length = math.lcm(x.shape[1], z.shape[1])
    X = np.stack([np.tile(signal, length // signal.shape[1]) for signal in (x, z)])
    results = []
    for kernel in pixel_pairs(X, network)[network.depth]:
        gap, trace = head(kernel, "gap"), head(kernel, "trace")
        sizes = (mp.sqrt(K[0, 0] * K[1, 1]) for K in (gap, trace))
        results.append((gap[0, 1], *sizes))
    return results


def errors(computed, exact, own):
    """Return the largest |ΔK| / √(own(x) own(z)) of a Gram matrix; NaN stays NaN, 0/0 is 0."""
    found = np.zeros(computed.shape)
    for (i, k), value in np.ndenumerate(computed):
        size, difference = mp.sqrt(own[i] * own[k]), abs(mp.mpf(float(value)) - exact[i, k])
        found[i, k] = float(difference / size) if size > 0 else (np.inf if difference else 0.0)
    return found.max()
