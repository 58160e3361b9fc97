"""Families of networks against the papers' networks."""

from fractions import Fraction

import pytest

import rescntk as rk
from rescntk.theory import families, limits


def test_families_are_the_papers():
    for n in (1, 5, 64):
        assert families.resnet(0.75, 5)(n) == rk.literature.barzilai_resnet(n, 5, n**-0.75)
        assert families.resnet_fixed(0.5)(n) == rk.literature.barzilai_resnet(n, 3, 0.5)
        assert families.cnn(5)(n) == rk.literature.barzilai_cnn(n, 5)
        assert families.huang_resnet(0.6)(n) == rk.literature.huang_resnet(n, 0.6)
        assert families.huang_ffnet()(n) == rk.literature.huang_ffnet(n)
    quarters = families.resnet(Fraction(3, 4), 5)
    assert (quarters.name, quarters(64)) == ("ResNet, α = L^-0.75", families.resnet(0.75, 5)(64))
    assert families.resnet(1.0, readout=False)(3).trained == ("inner", "outer")
    assert families.resnet(0.0).predict("gpk").rate == "L^-2"
    assert limits.decaying(rk.Network(1), 0.0, "gpk").rate == "L^-2"
    assert limits.Prediction(0.25).rate == "unknown"
    assert families.resnet(0.0, readout=False).name == "ResNet, α = 1, readout frozen"


def test_refusals():
    for make, says in (
        (lambda: families.resnet(-1), "gamma is -1, expected a finite number of at least 0"),
        (lambda: families.decaying(3, 1.0), "network is 3, expected a rescntk.Network"),
        (lambda: families.decaying(rk.Network(1, skip=False), 1.0), "no skip connections"),
        (lambda: families.fixed(3), "network is 3, expected a rescntk.Network"),
        (lambda: families.resnet(1.0)(0), "depth is 0"),
        (lambda: families.fixed(rk.Network(1), 3), "name is 3, expected a string"),
        (lambda: families.resnet(1.0, readout="frozen"), "readout is 'frozen', expected True or F"),
        (lambda: families.cnn().predict("nngp"), "kind is 'nngp'"),
    ):
        with pytest.raises(ValueError, match=says):
            make()
