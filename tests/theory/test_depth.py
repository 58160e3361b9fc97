"""The depth checker: its routes, reports and refusals."""

import csv

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import depth, families, multisphere
from rescntk.theory.prediction import Prediction
from tests.ladders import SHORT, pairs, powers

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
    assert free.forgets is True
    assert np.abs(free.column("distance") - projected.column("distance")).max() <= 1e-14
    signs = rng.choice([-1.0, 1.0], (5, 1, 6))
    for family in (families.resnet(1.0), families.cnn()):
        assert depth.check(family, signs, depths=SHORT).verdict != depth.CONTRADICTS


def test_two_signals_are_one_pair():
    X = multisphere.sample(2, 3, 4, rng=0)
    report = depth.check(families.resnet(1.0), X, depths=SHORT)
    assert (report.verdict, report.forgets) == (depth.AGREES, None)
    linear = families.resnet(1.0).predict("ntk")
    wrong = depth.check(families.resnet(0.5), X, depths=SHORT, prediction=linear)
    assert wrong.verdict == depth.CONTRADICTS


def test_predictions_as_people_write_them():
    X = multisphere.sample(3, 3, 4, rng=0)
    for limit in (np.float32(0.25), 0.25, (0.75 * np.eye(3) + 0.25).tolist()):
        report = depth.check(families.cnn(), X, depths=SHORT, prediction=limit)
        assert (report.verdict, report.forgets) == (depth.AGREES, True)
    windows = rk.Network(1, 3, input_filter_size=3, trained=("inner", "outer"))
    report = depth.check(families.decaying(windows, 1.0), X, depths=powers(8))
    assert report.prediction is None


@pytest.mark.parametrize(
    ("c_v", "constant", "ntk", "other"), [(2.0, 9 / 8, 4 / 7, 1 / 4), (2.2, 9 / 2, 1 / 4, 4 / 7)]
)
def test_biases_at_infinite_depth(c_v, constant, ntk, other):
    """The phases of docs/theory/biases.md; the constant and the limit of the other one fail."""
    X = multisphere.sample(2, 3, 4, rng=0)

    def check(kind, *prediction, **law):
        def family(layers):
            return rk.Network(layers, skip=False, bias=0.3, c_v=c_v)

        law["correction"] = 0.5 if c_v == 2.0 else 1.0
        told = Prediction(*prediction, **law)
        return depth.check(family, X, depths=powers(12), kind=kind, prediction=told).verdict

    assert check("gpk", 1.0, exponent=2.0, constant=constant * np.pi**2) == depth.AGREES
    assert check("gpk", 1.0, exponent=2.0, constant=(5.625 - constant) * np.pi**2) != depth.AGREES
    assert check("ntk", ntk) == depth.AGREES
    assert check("ntk", other) == depth.CONTRADICTS


def test_signals_off_the_multisphere_take_the_general_kernels(rng):
    """ReLU kernels normalized do not see a factor: both routes have the same numbers."""
    X = multisphere.sample(4, 3, 4, rng=0)
    family, ladder = families.resnet(1.0), powers(8)
    on, off = (depth.check(family, Z, depths=ladder) for Z in (X, 2 * X))
    assert off.route == "normalized kernel matrices"
    assert np.abs(on.column("distance") - off.column("distance")).max() <= 1e-13
    erf = families.decaying(rk.Network(1, activation="erf", trained=("inner", "outer")), 1.0)
    for report in (
        off,
        depth.check(family, rng.standard_normal((4, 2, 5)), depths=ladder, kind="gpk"),
        depth.check(families.resnet(0.5), rng.standard_normal((3, 2, 4)), depths=ladder),
        depth.check(erf, X, depths=ladder),
    ):
        assert report.verdict == depth.AGREES


def test_progress_is_shown(capfd, monkeypatch):
    monkeypatch.setattr("rescntk.progress._FIRST_PAUSE", 0.0)
    depth.check(families.cnn(), depths=powers(10), progress=True)
    assert "15360/15360 pair-layers" in capfd.readouterr().err  # 15 pairs, 1024 layers


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
    assert f"exponent {report.exponent}, predicted 0.5: agrees; an error of up to" in text
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
        assert abs(row.spread - K.std()) <= 1e-14
        assert abs(row.distance - np.sqrt(np.mean((K - limit) ** 2))) <= 1e-14
        assert abs(row.largest - np.abs(K - limit).max()) <= 1e-14
        if previous is not None:
            old, before = previous
            assert abs(row.step - np.sqrt(np.mean((K - old) ** 2))) <= 1e-14
            assert abs(row.slope - np.log2(before.distance / row.distance)) <= 1e-12
        previous = K, row


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"family": 3}, "family is 3, expected a function"),
        ({"family": lambda n: n}, "network is 8, expected a rescntk.Network"),
        ({"depths": (1, 2, 4)}, r"depths is \(1, 2, 4\), expected at least 6 of them: an exp"),
        (
            {"depths": (8, 16, 32, 64, 65, 128)},
            "depths has 64 and then 65, expected each at least 1.",
        ),
        ({"depths": (8, 16, 32, 64, 128, 16)}, "depths has 128 and then 16, expected each"),
        ({"depths": 5}, "depths is 5"),
        ({"tolerance": -0.1}, "tolerance is -0.1, expected a finite number of at least 0"),
        ({"engine": "slow"}, "engine is 'slow'"),
        ({"X": X3, "rng": "seed"}, "rng is 'seed', expected a NumPy Generator, an integer of at l"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": "mean"}, "head is 'mean'"),
        ({"X": np.ones((3, 4))}, r"X has shape \(3, 4\)"),
        ({"X": X3[:1]}, "X has 1 case, expected at least 2"),
        ({"X": X3[:2], "family": rk.Network}, "expected at least 3: without a prediction"),
        ({"X": np.stack([G[0], 0 * G[0], G[1]])}, "a signal whose kernel with itself is 0"),
        ({"family": lambda n: rk.Network(5)}, "returns a network of depth 5, expected 8"),
        (
            {"family": lambda n: rk.Network(n, input_scale=0)},
            "no limit: expected a positive input_s",
        ),
        ({"X": X3[[0, 1, 2, 1]]}, "the same signal as cases 1 and 3, expected different"),
        ({"X": 2 * X3, "family": families.cnn()}, "which the prediction .* requires"),
        ({"X": X3, "prediction": np.eye(4)}, r"limit has shape \(4, 4\), expected \(3, 3\)"),
        ({"X": X3, "prediction": np.triu(np.ones((3, 3)))}, "not symmetric"),
        ({"prediction": 2.0}, "limit is 2.0, expected a correlation"),
        ({"prediction": "dot"}, "limit has dtype <U3, expected .* a number, a Kernel"),
        ({"prediction": True}, "limit is True, expected a correlation"),
        ({"prediction": [[1.0], [1.0, 2.0]]}, "limit is not a rectangular array"),
    ],
)
def test_refusals(options, says):
    options = {"family": families.resnet(1.0), "depths": powers(8), **options}
    with pytest.raises(ValueError, match=says):
        depth.check(options.pop("family"), options.pop("X", None), **options)
