"""Pictures of receptive fields: what is drawn are the numbers, and can be told apart."""

import io

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature, plots
from rescntk.theory import locality

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(("d", "logarithmic"), [(1, False), (12, True), (100, False)])
def test_picture_of_fields(d, logarithmic):
    given = {"CNN": literature.barzilai_cnn(4), "ResNet": rk.Network(4, alpha=0.5)}
    ax = plots.receptive_fields(given, d, title="mine", logarithmic=logarithmic)
    lines = [line for line in ax.get_lines() if len(line.get_xdata())]
    named = {line.get_label(): line for line in ax.get_lines()}
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
    found = {name: locality.fields(network, d) for name, network in given.items()}
    plain = plots.receptive_fields(found, explain=False)  # results instead of networks
    assert [text.get_text() for text in plain.get_legend().get_texts()] == list(given)
    for line, same in zip(ax.get_lines(), plain.get_lines()[:6], strict=False):
        np.testing.assert_array_equal(line.get_xydata(), same.get_xydata())


@pytest.mark.parametrize("nothing", [{}, [rk.Network(1)], None])
def test_nothing_to_draw(nothing):
    with pytest.raises(ValueError, match="networks is .*, expected a mapping of names"):
        plots.receptive_fields(nothing, 5)
    with pytest.raises(ValueError, match="n_timepoints is None"):
        plots.receptive_fields({"one": rk.Network(1)})
