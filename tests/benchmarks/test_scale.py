"""The benchmark of many signals: every part at small sizes, resumed, reported."""

import json

import pytest

for name in ("zarr", "distributed", "aeon", "sklearn"):
    pytest.importorskip(name)
import harness  # noqa: E402
import scale  # noqa: E402
from classification_methods import on_flat  # noqa: E402

pytestmark = pytest.mark.slow


def flat(random_state, n_jobs):
    """Return a stand-in for MiniRocket, which takes 20 seconds to compile."""
    from sklearn.linear_model import RidgeClassifier

    return on_flat(RidgeClassifier())


def test_every_part_runs_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("aeon.classification.convolution_based.MiniRocketClassifier", flat)
    scale.main(["--quick", "--out", str(tmp_path)])
    path = tmp_path / "scale.json"
    report = harness.load(path)
    assert {row["part"] for row in report["rows"]} == set(scale.PARTS)
    solved = scale.rows(report, "conjugate_gradients")[0]
    assert solved["residual"] <= 1e-5 and solved["products"] < solved["products_without"]
    text = (tmp_path / "scale.md").read_text()
    assert "| landmarks | 40 | 8 |" in text
    # A second run measures nothing; another machine's numbers are not mixed in.
    monkeypatch.setattr(scale, "PARTS", {})
    scale.main(["--quick", "--out", str(tmp_path)])
    assert harness.load(path) == report
    path.write_text(json.dumps(report | {"machine": {"cores": 0}}))
    with pytest.raises(SystemExit, match="another machine"):
        scale.main(["--quick", "--out", str(tmp_path)])


def test_problems():
    X, y = scale.cylinder_bell_funnel(3000, seed=0)
    means = [X[y == k, 0].mean(axis=0) for k in range(3)]
    assert all(abs(mean[:16]).max() < 0.3 for mean in means)  # no event before its start
    # A bell rises to its end, a funnel falls from its start.
    assert means[1][34] + 1 < means[2][34] and means[2][70] + 1 < means[1][70]
