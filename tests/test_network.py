"""Network: a value. Equal, hashable, frozen, printable."""

import dataclasses
import pickle

import numpy as np
import pytest

import rescntk as rk


def test_defaults_are_the_papers():
    network = rk.Network(5)
    assert (network.filter_size, network.outer_filter_size, network.input_filter_size) == (3, 3, 1)
    assert (network.skip, network.alpha, network.c_v, network.c_w) == (True, 1.0, 2.0, 1.0)
    assert network.trained == ("inner", "outer", "readout")
    assert network.input_scale is None


def test_is_a_value():
    network = rk.Network(5, outer_filter_size=3, trained=["readout", "outer", "inner"])
    assert network == rk.Network(5)
    assert hash(network) == hash(rk.Network(np.int64(5), alpha=np.float32(1)))
    assert network != rk.Network(5, alpha=0.5)
    assert rk.Network(5, skip=False, alpha=0.5) == rk.Network(5, skip=False)
    assert eval(repr(network), vars(rk)) == network
    assert pickle.loads(pickle.dumps(network)) == network
    with pytest.raises(dataclasses.FrozenInstanceError):
        network.depth = 7
    with pytest.raises(TypeError):
        rk.Network(5, 3, 3)  # what follows the filter size goes by name


def test_replace():
    network = rk.Network(5, alpha=0.5)
    assert network.replace(depth=7) == rk.Network(7, alpha=0.5)
    assert network.replace(filter_size=5) == rk.Network(5, 5, alpha=0.5)
    assert rk.Network(5, outer_filter_size=1).replace(filter_size=5).outer_filter_size == 1
    assert network.replace(filter_size=5, outer_filter_size=3).outer_filter_size == 3
    assert network.depth == 5


def test_kernels_are_values_too():
    kernel = rk.ResCNTK(5, head="trace", alpha=0.5)
    assert kernel == rk.Kernel(rk.Network(5, alpha=0.5), "ntk", "trace")
    assert hash(kernel) == hash(rk.ResCNTK(5, head="trace", alpha=0.5))
    assert eval(repr(kernel), vars(rk)) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.replace(depth=7, head="gap") == rk.ResCNTK(7, alpha=0.5)
    assert kernel.replace(kind="gpk") == rk.ResCGPK(5, head="trace", alpha=0.5)
    assert rk.CNTK(5) == rk.Kernel(rk.Network(5, skip=False), "ntk", "gap")
    assert rk.CGPK(5, 7, "trace", True) == rk.Kernel(
        rk.Network(5, 7, skip=False), "gpk", "trace", True
    )
    assert rk.ResCGPK(5, input_filter_size=9).network.input_filter_size == 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.kind = "gpk"


def test_grams_travel_between_processes():
    results = rk.gram(rk.Network(2), np.ones((2, 1, 3)))
    copied = pickle.loads(pickle.dumps(results))
    assert (copied.ntk == results.ntk).all()
