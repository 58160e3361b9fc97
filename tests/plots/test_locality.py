"""Pictures of receptive fields: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature, plots
from rescntk.theory import locality

pytest.importorskip("matplotlib")


def drawn_lines(ax):
    return [line for line in ax.get_lines() if len(line.get_xdata())]


def named_lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


@pytest.mark.parametrize("d", [1, 12, 31, 100])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_picture_of_fields(d, logarithmic):
    given = {"CNN": literature.barzilai_cnn(4), "ResNet": rk.Network(4, alpha=0.5)}
    ax = plots.receptive_fields(given, d, title="mine", logarithmic=logarithmic)
    lines, named = drawn_lines(ax), named_lines(ax)
    for i, (name, network) in enumerate(given.items()):
        line, markers = lines[2 * i : 2 * i + 2]
        assert markers.get_marker() == named[name].get_marker()
        assert line.get_linestyle() == named[name].get_linestyle()
        assert line.get_color() == markers.get_color() == named[name].get_color()
        for kind, drawn in (("gpk", line), ("ntk", markers)):
            field = locality.effective_receptive_field(network, d, kind, normalized=True)
            x, y = drawn.get_xdata(), drawn.get_ydata()
            assert (np.nan_to_num(y) == field[x % d]).all()
            assert (np.isnan(y) == (field[x % d] == 0)).all()
            assert sorted(x % d) == list(range(d))
    start, step = lines[1].get_markevery()
    assert d // 2 in range(start, d, step)
    # Told apart without colours.
    assert len({named[name].get_marker() for name in given}) == 2
    assert len({named[name].get_linestyle() for name in given}) == 2
    assert "lines: Gaussian process kernels" in named
    assert ax.get_yscale() == ("log" if logarithmic else "linear")
    assert ax.get_title() == "mine" and ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    ax.figure.savefig(io.BytesIO())
    plain = plots.receptive_fields(given, d, explain=False)
    assert [text.get_text() for text in plain.get_legend().get_texts()] == list(given)


def test_pictures_of_results():
    """Results give the same picture as the networks they were computed from."""
    networks = {"CNN": literature.barzilai_cnn(4), "ResNet": rk.Network(4, alpha=0.5)}
    found = {name: locality.fields(network, 12) for name, network in networks.items()}
    families = {"CNN": literature.barzilai_cnn, "ResNet": rk.Network(1, alpha=0.5)}
    widths = {name: locality.widths(family, (1, 3, 10)) for name, family in families.items()}
    for one, other in (
        (plots.receptive_fields(found), plots.receptive_fields(networks, 12)),
        (plots.receptive_field_widths(widths), plots.receptive_field_widths(families, (1, 3, 10))),
    ):
        for line, same in zip(drawn_lines(one), drawn_lines(other), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), same.get_xdata())
            np.testing.assert_array_equal(line.get_ydata(), same.get_ydata())
    with pytest.raises(ValueError, match="n_timepoints is None"):
        plots.receptive_fields(networks)


def test_picture_of_widths():
    families = {
        "CNN": literature.barzilai_cnn,
        "ResNet": rk.Network(1, alpha=0.5),
        "decaying": lambda depth: literature.barzilai_resnet(depth, alpha=1 / depth),
        "no convolution": literature.tirer_mlp,
    }
    depths = (1, 3, 10)
    axes = plots.figure((5, 4)).subplots()
    ax = plots.receptive_field_widths(families, iter(depths), axes)
    assert ax is axes
    drawn, named = drawn_lines(ax), named_lines(ax)
    for name, family in families.items():
        w = locality.widths(family, depths)
        law, gpk, ntk = [line for line in drawn if line.get_color() == named[name].get_color()]
        for line, values in ((law, w.law), (gpk, w.gpk), (ntk, w.ntk)):
            assert (line.get_xdata() == depths).all() and (line.get_ydata() == values).all()
        assert gpk.get_linestyle() == named[name].get_linestyle()
        assert ntk.get_marker() == named[name].get_marker()
        assert law.get_linewidth() > gpk.get_linewidth() and law.get_zorder() <= gpk.get_zorder()
    assert len({named[name].get_linestyle() for name in list(families)[:3]}) == 3
    reaches = [line.get_ydata() for line in drawn if line.get_linestyle() == ":"]
    assert len(reaches) == 2  # three families have the same, and one none
    assert (reaches[0] == [1, 5, 19]).all()
    ax.figure.savefig(io.BytesIO())


@pytest.mark.parametrize("nothing", [{}, [rk.Network(1)], None])
def test_pictures_of_nothing(nothing):
    with pytest.raises(ValueError, match="networks is .*, expected a mapping of names"):
        plots.receptive_fields(nothing, 5)
    with pytest.raises(ValueError, match="families is .*, expected a mapping of names"):
        plots.receptive_field_widths(nothing, (1, 2))
