"""Numbers of 40 digits: gmpy2's, or mpmath's, which are several times slower, without gmpy2."""

from contextlib import contextmanager

import mpmath

try:
    import gmpy2
except ImportError:  # on a machine for the GPU's tests alone
    gmpy2 = None

DIGITS = 40


class _Gmpy2:
    """The part of mpmath's contexts that the oracles use, with gmpy2's numbers."""

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
