"""Families of the papers' networks over depth, increasing depths, and pairs of a kernel matrix."""

import numpy as np

from rescntk import literature
from rescntk.theory.depth import Family


def powers(last):
    """Return the depths 8, 16, …, 2^last."""
    return tuple(2**k for k in range(3, last + 1))


SHORT = powers(11)


def pairs(A):
    """Return the entries of a matrix (n, n) above its diagonal."""
    return A[np.triu_indices(len(A), 1)]


def resnet(gamma, filter_size=3, *, readout=True):
    network = literature.barzilai_resnet(1, filter_size)
    return Family(network if readout else network.replace(trained=("inner", "outer")), gamma)


def resnet_fixed(alpha=1.0, filter_size=3):
    return Family(literature.barzilai_resnet(1, filter_size, alpha))


def cnn(filter_size=3):
    return Family(literature.barzilai_cnn(1, filter_size))


def huang_resnet(gamma=1.0):
    return Family(literature.huang_resnet(1), gamma)


def huang_ffnet():
    return Family(literature.huang_ffnet(1))
