"""The depth checker: its routes, reports and refusals."""

import csv

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import depth, multisphere
from rescntk.theory.limits import Family, Prediction
from tests import families
from tests.families import SHORT, pairs, powers

pytestmark = pytest.mark.slow

X3, G = multisphere.sample(3, 3, 4, 0), np.random.default_rng(0).standard_normal((3, 2, 3))


def test_float32_signals_are_on_the_multisphere():
    X = multisphere.sample(5, 4, 5, rng=0).astype(np.float32)
    assert depth.check(families.resnet(1.0), X, depths=SHORT).verdict == depth.AGREES


def test_vectors_need_no_multisphere(rng):
    """Theorem 6 of Huang et al. is about all vectors; of one channel signs are left."""
    Z = rng.standard_normal((4, 3, 1))
    free, projected = (
        depth.check(families.huang_ffnet(), V, depths=SHORT) for V in (Z, multisphere.project(Z))
    )
    assert np.abs(free.column("distance") - projected.column("distance")).max() <= 1e-14
    signs = rng.choice([-1.0, 1.0], (5, 1, 6))
    for family in (families.resnet(1.0), families.cnn()):
        assert depth.check(family, signs, depths=SHORT).verdict != depth.CONTRADICTS


def test_two_signals_are_one_pair():
    X = multisphere.sample(2, 3, 4, rng=0)
    assert depth.check(families.resnet(1.0), X, depths=SHORT).verdict == depth.AGREES
    linear = families.resnet(1.0).predict("ntk", X)
    wrong = depth.check(families.resnet(0.5), X, depths=SHORT, prediction=linear)
    assert wrong.verdict == depth.CONTRADICTS


def test_limits_as_people_write_them():
    X = multisphere.sample(3, 3, 4, rng=0)
    for limit in (np.float32(0.25), 0.25, (0.75 * np.eye(3) + 0.25).tolist()):
        law = Prediction(limit, 1.0, log_power=1)
        assert depth.check(families.cnn(), X, depths=SHORT, prediction=law).verdict == depth.AGREES


@pytest.mark.usefixtures("each_gram_once")
@pytest.mark.parametrize(
    ("c_v", "constant", "ntk", "wrong"), [(2.0, 9 / 8, 4 / 7, 1 / 4), (2.2, 9 / 2, 1 / 4, 4 / 7)]
)
def test_biases_at_infinite_depth(c_v, constant, ntk, wrong):
    """The phases of docs/theory/biases.md; the constant and the limit of the other one fail."""
    X, q = multisphere.sample(2, 3, 4, rng=0), 0.5 if c_v == 2.0 else 1.0

    def check(kind, *law):
        def family(layers):
            return rk.Network(layers, skip=False, bias=0.3, c_v=c_v)

        prediction = Prediction(*law, correction=q)
        return depth.check(family, X, depths=powers(13), kind=kind, prediction=prediction)

    ones = check("gpk", 1.0, 2.0)
    assert ones.verdict == depth.AGREES
    L = ones.column("depth")
    law = ones.column("distance") * L**2 / np.pi**2  # and corrections like L^-q
    rest = (2**q * law[1:] - law[:-1]) / (2**q - 1)
    assert abs(rest[-1] - constant) <= 0.05 * constant
    right = check("ntk", ntk, *((0.5, 0) if c_v == 2.0 else (1.0, 1)))
    assert right.verdict == (depth.AGREES if c_v == 2.0 else depth.OPEN)
    assert abs(right.rows[-1].slope - (0.5 if c_v == 2.0 else 0.95)) <= 0.03
    assert check("ntk", wrong, 1.0).verdict == depth.CONTRADICTS


def test_signals_off_the_multisphere_take_the_general_kernels(rng):
    """ReLU kernels normalized do not see a factor: both routes have the same numbers."""
    X = multisphere.sample(4, 3, 4, rng=0)
    family, ladder = families.resnet(1.0), powers(8)
    on, off = (depth.check(family, Z, depths=ladder) for Z in (X, 2 * X))
    assert np.abs(on.column("distance") - off.column("distance")).max() <= 1e-13
    erf = Family(rk.Network(1, activation="erf", trained=("inner", "outer")), 1.0)
    for report in (
        off,
        depth.check(family, rng.standard_normal((4, 2, 5)), depths=ladder, kind="gpk"),
        depth.check(families.resnet(0.5), rng.standard_normal((3, 2, 4)), depths=ladder),
        depth.check(erf, X, depths=ladder),
    ):
        assert report.verdict == depth.AGREES


def test_progress_is_shown(capfd):
    depth.check(families.cnn(), depths=powers(10), progress=True)
    assert "15.4k/15.4k" in capfd.readouterr().err  # 15 pairs, 1024 layers


def test_reports_are_reproducible_and_complete(tmp_path):
    reports = [depth.check(families.resnet(0.75), depths=SHORT, rng=7) for _ in range(2)]
    assert str(reports[0]) == str(reports[1])
    report = reports[0]
    assert [row.depth for row in report] == list(SHORT)
    report.write_csv(tmp_path / "limits.csv")
    with open(tmp_path / "limits.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in depth.Row._fields:
        column = [float(row[name]) for row in rows]
        assert np.array_equal(column, report.column(name), equal_nan=True)
    text = str(report)
    assert f"{report.reason}\nverdict: {report.verdict}: " in text
    assert f"exponent of the distance is {report.exponent}, predicted 0.5" in report.reason
    table = text.splitlines()[2 : 4 + len(SHORT)]
    assert len({len(line) for line in table}) == 1
    with pytest.raises(ValueError, match="column is 'kappa'"):
        report.column("kappa")


def test_rows_are_what_they_say():
    X = multisphere.sample(5, 3, 4, rng=0)
    report = depth.check(families.resnet(1.0), X, depths=powers(8), kind="gpk")
    limit = pairs(multisphere.dot_products(X).mean(axis=2))
    previous = None
    for row in report:
        K = pairs(rk.ResCGPK(row.depth, alpha=1 / row.depth, head="trace", normalized=True)(X))
        assert abs(row.off_diagonal - K.mean()) <= 1e-14
        assert abs(row.complement - (1 - K).mean()) <= 1e-14
        assert abs(row.distance - np.sqrt(np.mean((K - limit) ** 2))) <= 1e-14
        if previous is not None:
            assert abs(row.slope - np.log2(previous.distance / row.distance)) <= 1e-12
        previous = row


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"family": 3}, "family is 3, expected a function"),
        ({"family": lambda n: n}, "network is 8, expected a rescntk.Network"),
        ({"depths": (1, 2, 4)}, r"depths is \(1, 2, 4\), expected at least 6, each at least 1.25"),
        ({"depths": (8, 16, 32, 64, 65, 128)}, "64, 65, 128.*, expected at least 6, each at least"),
        ({"depths": (8, 16, 32, 64, 128, 16)}, "64, 128, 16.*, expected at least 6, each at least"),
        ({"depths": 5}, "depths is 5"),
        ({"engine": "slow"}, "engine is 'slow'"),
        ({"X": X3, "rng": "seed"}, "rng is 'seed', expected a NumPy Generator, an integer of at l"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": "mean"}, "head is 'mean'"),
        ({"X": np.ones((3, 4))}, r"X has shape \(3, 4\)"),
        ({"X": X3[:1]}, "X has 1 case, expected at least 2"),
        ({"X": np.stack([G[0], 0 * G[0], G[1]])}, "a signal whose kernel with itself is 0"),
        ({"family": lambda n: rk.Network(5)}, "returns a network of depth 5, expected 8"),
        (
            {"family": lambda n: rk.Network(n, input_scale=0)},
            "expected a positive input_scale: kernels are 0",
        ),
        (
            {"X": X3, "prediction": Prediction(np.eye(4))},
            r"limit has shape \(4, 4\), expected \(3, 3\)",
        ),
        ({"X": X3, "prediction": Prediction(np.triu(np.ones((3, 3))))}, "not symmetric"),
        ({"prediction": 0.25}, "prediction is 0.25, expected a Prediction"),
    ],
)
def test_refusals(options, says):
    options = {"family": families.resnet(1.0), "depths": powers(8), **options}
    with pytest.raises(ValueError, match=says):
        depth.check(options.pop("family"), options.pop("X", None), **options)
