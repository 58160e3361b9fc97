"""Families of the papers' networks over depth, for tests of limits."""

from rescntk import literature
from rescntk.theory.limits import Family


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
