"""Pictures of convergence over depth: what is drawn are the numbers."""

import io

import pytest

from rescntk import plots
from rescntk.theory import (
    depth,
    families,
)

pytest.importorskip("matplotlib")

LADDER = [2**k for k in range(3, 11)]


def test_limit_distances():
    reports = [
        depth.check(families.resnet(1.0), depths=LADDER),
        depth.check(families.resnet(1.0, readout=False), depths=LADDER),
        depth.check(families.huang_ffnet(), depths=LADDER),
        depth.check(families.resnet(0.5), depths=LADDER),
        depth.check(families.resnet(1.0).network, depths=LADDER),
    ]
    ax = plots.limit_distances(*reports)
    points = [line for line in ax.get_lines() if line.get_linestyle() == "None"]
    laws = [line for line in ax.get_lines() if line.get_linestyle() != "None"]
    assert len(points) == 5
    assert len({line.get_marker() for line in points}) == 5
    for line, report in zip(points, reports, strict=True):
        name = "spread" if report.prediction is None else "distance"
        assert (line.get_xdata() == LADDER).all()
        assert (line.get_ydata() == report.column(name)).all()
        assert report.verdict in line.get_label()
    assert "exponent 1.000 ± " in points[0].get_label()
    assert ax.get_ylabel() == (
        "distance from the predicted limit (rms over pairs) or "
        "spread of the pairs (standard deviation)"
    )
    labels = [line.get_label().strip() for line in laws]
    constant = f"{reports[0].predicted_constant:.4g}"
    assert labels == [
        f"predicted: {constant} $L^{{-1}}$",
        "predicted rate $L^{-1}$, through the last",
        r"predicted: 0.375 $\log L$ $L^{-1}$",
        "predicted rate $L^{-1}$, through the last",
    ]
    assert (laws[0].get_ydata() == reports[0].column("predicted")).all()
    assert laws[1].get_ydata()[-1] == reports[1].column("distance")[-1]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    mine = plots.figure((4, 3)).subplots()
    assert plots.limit_distances(reports[0], ax=mine) is mine
    # A law that two share is one line.
    quarter = depth.check(families.cnn(1), depths=LADDER)
    assert len(plots.limit_distances(reports[2], quarter).get_lines()) == 3
    ax.figure.savefig(io.BytesIO())


def test_limit_profiles():
    curves = [depth.profile(f, (1, 30), n_points=9) for f in (families.cnn(), families.resnet(0.5))]
    curves[1] = curves[1]._replace(limit=None)
    picture = plots.limit_profiles(*curves)
    first, second = picture.axes
    assert [line.get_label() for line in first.get_lines()] == ["$L$ = 1", "$L$ = 30", "limit"]
    assert (first.get_lines()[1].get_ydata() == curves[0].values[1]).all()
    assert len(second.get_lines()) == 2  # without a limit
    styles = [line.get_linestyle() for line in first.get_lines()]
    assert len(set(styles)) == 3  # told apart in grey
    assert first.get_ylabel() and first.get_xlabel() and first.get_title()
    picture.savefig(io.BytesIO())


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="profiles is empty"):
        plots.limit_profiles()
    with pytest.raises(ValueError, match="reports is empty"):
        plots.limit_distances()
