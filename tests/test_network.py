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


def test_dilations():
    growing = rk.Network(3, dilation=[1, 2, np.int64(4)])
    assert growing.dilation == (1, 2, 4)
    assert hash(growing) == hash(rk.Network(3, dilation=(1, 2, 4)))
    assert eval(repr(growing), vars(rk)) == growing
    assert pickle.loads(pickle.dumps(growing)) == growing
    assert rk.Network(3, dilation=(2, 2, 2)) == rk.Network(3, dilation=2) != rk.Network(3)
    assert growing.replace(depth=2).dilation == (1, 2)
    assert rk.ResCNTK(3, dilation=(1, 2, 4)).replace(depth=1).network == rk.Network(1)
    assert growing.replace(depth=4, dilation=3) == rk.Network(4, dilation=3)
    assert growing.replace(alpha=0.5).dilation == (1, 2, 4)
    with pytest.raises(ValueError, match=r"dilation is \(1, 2, 4\), expected .* 5 of them"):
        growing.replace(depth=5)
    with pytest.raises(ValueError, match=r"depths has 4: expected depths of at most 3"):
        rk.gram(growing, np.ones((1, 1, 3)), depths=(1, 4))
    filters = list(rk.Network(2, 3, outer_filter_size=5, dilation=(2, 3)).filters())
    assert [list(window.taps) for window in filters] == [
        [0],
        [-4, -2, 0, 2, 4],
        [-3, 0, 3],
        [-6, -3, 0, 3, 6],
    ]
    for wrong in (0, -1, 1.5, True, "2", (), (1, 2), (1, 0, 2), None, (1, 2, 3.5)):
        with pytest.raises(ValueError, match="dilation is"):
            rk.Network(3, dilation=wrong)


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
