"""Claims about the bits of kernels of two batches, which hold on every engine."""

from typing import NamedTuple

import numpy as np

import rescntk as rk
from rescntk.checks.values import KINDS
from tests import tolerances


def relative(A, B, own, other):
    """Return the largest |A − B| over √(K(x,x) K(z,z)); 0 where A equals B."""
    size = np.sqrt(own[:, None] * other[None, :])
    difference = np.abs(A - B)
    return float(np.where(difference == 0, 0.0, difference / np.where(size > 0, size, 1.0)).max())


def assert_semidefinite(K, dtype="float64"):
    eigenvalues = np.linalg.eigvalsh(np.asarray(K, np.float64))
    slack = tolerances.DEFINITE * tolerances.EPS[dtype] * len(K)
    assert eigenvalues[0] >= -slack * max(eigenvalues[-1], 0.0)


def take(X, places):
    return [X[k] for k in places] if isinstance(X, list) else X[list(places)]


def copied(X):
    return [x.copy() for x in X] if isinstance(X, list) else X.copy()


class Batches(NamedTuple):
    """A kernel's matrix of two batches, with what its claims compare it with."""

    kernel: rk.Kernel
    X: list | np.ndarray
    Z: list | np.ndarray
    options: dict
    K: np.ndarray

    @property
    def both(self):
        if isinstance(self.X, list) or isinstance(self.Z, list):
            return [*self.X, *self.Z]
        return np.concatenate([self.X, self.Z])

    def of(self, X, Z=None, **more):
        return self.kernel(X, Z, **self.options, **more)


def turned(case):
    """K(z, x) = K(x, z): both signals decide which one is left."""
    return [(case.of(case.Z, case.X).T, case.K)]


def batches_around(case):
    """Each pair in one matrix of all signals, which is symmetric."""
    n, whole, again = len(case.X), case.of(case.both), case.of(case.both, copied(case.both))
    return [(whole, whole.T), (whole[:n, n:], case.K), (again, whole)]


def diagonals_and_pairs(case):
    """K(x, x) and K(x_i, z_i) have the same bits without the matrix."""
    whole, again = case.of(case.both), case.of(case.both, copied(case.both))
    pairs = case.kernel.paired(case.both, case.both[::-1], **case.options)
    own = case.kernel.diag(case.both, **case.options)
    return [(own, whole.diagonal()), (pairs, again[:, ::-1].diagonal())]


def one_signal(case):
    """Return one signal beside one, or a list beside all: lists of one length are arrays."""
    if isinstance(case.both, list):
        again = case.of(case.both, copied(case.both))
        return [(case.of(case.X[-1:], case.both)[0], again[len(case.X) - 1])]
    return [(case.of(case.X[-1:], case.Z[:1])[0, 0], case.K[-1, 0])]


def prepared_signals(case):
    """Tables are kept: the second call finds the tables of the first."""
    kept = case.kernel.prepare(case.Z, **case.options)
    found = [(kept(case.X, threads=threads), case.K) for threads in (1, 2)]
    return [*found, (kept(case.Z), case.of(case.Z))]


def orders_and_threads(case):
    order = np.arange(len(case.X))[::-1]
    return [(case.of(take(case.X, order), case.Z, threads=2), case.K[order])]


def images_of_one_line(case):
    lines = case.of(case.X[:, :, None], case.Z[:, :, None])
    return [(lines, case.K), (case.of(case.X[..., None], case.Z[..., None]), case.K)]


def kinds_of_grams(case):
    """Both kinds of one pass, in both orders."""
    kernel = case.kernel
    options = {"head": kernel.head, "normalized": kernel.normalized, **case.options}
    grams = [
        rk.gram(kernel.network, case.X, case.Z, kinds=asked, **options)
        for asked in (KINDS, KINDS[::-1])
    ]
    return [(getattr(gram, kernel.kind), case.K) for gram in grams]


CLAIMS = (
    turned,
    batches_around,
    diagonals_and_pairs,
    one_signal,
    prepared_signals,
    orders_and_threads,
    images_of_one_line,
    kinds_of_grams,
)


def applies(claim, X, Z):
    """Return whether a claim says something of the kernels of these batches."""
    if claim is images_of_one_line:
        return not isinstance(X, list) and not isinstance(Z, list) and X.ndim == 3
    return True


def assert_holds(claim, engine, kernel, dtype, X, Z):
    """Assert that a claim, which applies, holds to the last bit."""
    assert applies(claim, X, Z)
    options = {"engine": engine, "dtype": dtype}
    comparisons = claim(Batches(kernel, X, Z, options, kernel(X, Z, **options)))
    assert comparisons
    for found, expected in comparisons:
        assert found.dtype == expected.dtype and (found == expected).all()
