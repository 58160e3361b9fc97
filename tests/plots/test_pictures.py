"""Pictures draw the numbers, and lines can be told apart."""

import io
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import rescntk as rk
from rescntk import plots
from rescntk.theory import conditioning, depth, learning, multisphere
from tests import families, tolerances
from tests.families import powers
from tests.helpers import assert_within, run

ScalarFormatter = pytest.importorskip("matplotlib.ticker").ScalarFormatter


def lines(ax):
    """Return lines by label and colour, of a picture that renders, with labels and a legend."""
    ax.figure.savefig(io.BytesIO())
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    return {line.get_label().strip() + line.get_color(): line for line in ax.get_lines()}


def texts(of):
    return [text.get_text() for text in (of.texts if hasattr(of, "texts") else of)]


def condition_numbers(depths=(1, 3, 10, 30, 300), kind="gpk", signals=slice(None)):
    """Return condition numbers of kernels on 20 signals, or some of them."""
    X = multisphere.sample(20, 6, 8, rng=0)[signals]
    return conditioning.compare(rk.Network(1), X, depths, kind=kind, head="trace")


@pytest.fixture(scope="module")
def gpk_table():
    return condition_numbers()


@pytest.fixture
def gpk_axes(gpk_table):
    return plots.condition_numbers(gpk_table, plots.figure((4, 3)).subplots())


def test_a_picture_is_drawn_into_the_axes_that_are_given(gpk_table):
    ax = plots.figure((4, 3)).subplots()
    assert plots.condition_numbers(gpk_table, ax) is ax


OF_KERNEL = {"cnn": ("CGPK (no skip connections)", "#0072B2"), "resnet": ("ResCGPK", "#D55E00")}


@pytest.mark.parametrize("name", OF_KERNEL)
def test_condition_numbers_and_their_bounds_are_drawn(name, gpk_table, gpk_axes):
    """NaN, which has no place, where a bound does not exist."""
    (label, colour), drawn = OF_KERNEL[name], lines(gpk_axes)
    columns = {
        "condition_number": label,
        "lower": "lower bound",
        "improved": "improved upper bound",
    }
    for column, line in columns.items():
        values = gpk_table.column(f"{name}.{column}")
        values = np.where(np.isfinite(values), values, np.nan)
        np.testing.assert_array_equal(drawn[line + colour].get_ydata(), values)


@pytest.mark.parametrize("name", OF_KERNEL)
def test_the_asymptote_is_drawn_where_it_is_finite(name, gpk_table, gpk_axes):
    found = lines(gpk_axes)["asymptote: the leading term" + OF_KERNEL[name][1]].get_ydata()
    law = gpk_table.column(f"{name}.asymptote")
    np.testing.assert_array_equal(found, law[np.isfinite(law)])


def test_each_kernel_has_a_band_where_the_upper_bound_exists(gpk_axes):
    assert len(gpk_axes.collections) == 2


def test_a_legend_names_each_kind_of_line_once(gpk_axes):
    """Two kernels, three lines, the band."""
    entries = texts(gpk_axes.get_legend())
    assert len(entries) == len(set(entries)) == 6


def test_a_title_tells_the_signals_unless_one_is_given(gpk_table, gpk_axes):
    assert "20 signals, 6 channels × 8 pixels" in gpk_axes.get_title()
    assert plots.condition_numbers(gpk_table, title="mine").get_title() == "mine"


def test_tangent_kernels_have_their_names_and_a_limit():
    entries = texts(plots.condition_numbers(condition_numbers((1, 10), "ntk")).get_legend())
    assert entries[:2] == ["CNTK (no skip connections)", "ResCNTK"] and "limit" in entries


@pytest.mark.parametrize("signals", [[0, 1, 2, 3, 0], [0, 0, 0]], ids=["one twice", "one alone"])
def test_infinite_condition_numbers_are_drawn_at_the_top(signals):
    """Signals that are there twice make singular matrices."""
    drawn = lines(plots.condition_numbers(condition_numbers((1, 3), signals=signals)))
    assert np.isnan(drawn["ResCGPK#D55E00"].get_ydata()).all()
    assert (drawn["infinite: singular up to rounding#D55E00"].get_ydata() == 0.95).all()


@pytest.mark.parametrize(
    ("output", "names", "column"),
    [
        (None, None, 0),
        (2, None, 2),
        (None, np.array(["a", "b", "c"]), 0),
        ("c", np.array(["a", "b", "c"]), 2),
        (1, np.array([2, 3, 1]), 2),
    ],
)
def test_contributions(output, names, column):
    """Each half step between time points has the colour of the share of the nearer one."""
    shares, half = np.random.default_rng(0).standard_normal((2, 3, 4)), [0, 1, 1, 2, 2, 3]
    intercept = np.array([9.0, 0, 0])  # it prefers "a"
    model = SimpleNamespace(contributions=lambda X: shares, intercept_=intercept, classes_=names)
    X, k = [np.arange(8.0).reshape(2, 4), np.ones((2, 4))], column
    start = "prediction"
    if names is not None:
        start = f"predicted {names[0]}: decision for class {names[column]}:"
    panels = plots.contributions(model, X, output)
    assert panels.shape == (2, 2)
    for row, share, x in zip(panels, shares, X, strict=True):
        row[0].figure.savefig(io.BytesIO())
        assert [ax.get_ylabel() for ax in row] == ["channel 0", "channel 1"]
        for ax, channel in zip(row, x, strict=True):
            (line,) = ax.collections
            np.testing.assert_array_equal(line.get_array(), share[k][half])
            assert tuple(line.get_segments()[3][1]) == (2.0, channel[2])
            assert line.get_clim()[1] == -line.get_clim()[0] == abs(shares[:, k]).max()
        total = f"{share[k].sum() + intercept[k]:.3g} = contributions ".replace("-", "−")
        assert row[0].get_title().startswith(start) and total in row[0].get_title()
        assert not row[1].get_title()


def test_contributions_have_the_names_of_channels_of_tables():
    pd = pytest.importorskip("pandas")
    X, given = np.random.default_rng(0).standard_normal((3, 2, 4)), []
    model = SimpleNamespace(intercept_=[0.0], classes_="ab")
    model.contributions = lambda signals: given.append(signals) or [np.ones((1, 4))] * 3
    names = pd.MultiIndex.from_product([["left", "right"], range(4)])
    wide = pd.DataFrame(X.reshape(3, 8), columns=names)
    tables = [pd.DataFrame(x.T, columns=["left", "right"]) for x in X]
    for form in (wide, tables):
        panels = plots.contributions(model, form)
        assert (np.array(given[-1]) == X).all()
        assert [[ax.get_ylabel() for ax in row] for row in panels] == [["left", "right"]] * 3
        end = panels[1, 1].collections[0].get_segments()[-1][-1]
        assert tuple(end) == (3, X[1, 1, 3])
    for wrong in (wide[names[[0, 4, 1, 5, 2, 6, 3, 7]]], [tables[0], tables[1][["right", "left"]]]):
        with pytest.raises(
            ValueError, match="X has columns of channels of .* in turn|X has tables"
        ):
            plots.contributions(model, wrong)


def test_contributions_to_the_first_of_two_classes():
    """Contributions to the second class have the other sign, with usual ones subtracted or not."""
    shares, X = np.random.default_rng(0).standard_normal((2, 1, 4)), np.ones((2, 1, 4))
    model = SimpleNamespace(contributions=lambda X: shares, intercept_=np.array([0.25]))
    model.median_contributions, model.classes_ = lambda: shares.mean(axis=0), [5, 7]
    for usual in (True, False):
        of_second = plots.contributions(model, X, 7, subtract_median=usual)
        assert "blue: class 5, orange: class 7" in of_second[0].figure.axes[-1].get_ylabel()
        of_first = plots.contributions(model, X, 5, subtract_median=usual)
        assert "blue: class 7, orange: class 5" in of_first[0].figure.axes[-1].get_ylabel()
        for pair in zip(of_first, of_second, shares, strict=True):
            first, second = (ax.collections[0].get_array() for ax in pair[:2])
            np.testing.assert_array_equal(first, -second)
            centre = shares.mean(axis=0) if usual else 0.0
            np.testing.assert_array_equal(second, (pair[2] - centre)[0][[0, 1, 1, 2, 2, 3]])
            decision = pair[2].sum() + 0.25
            start = f"predicted {7 if decision > 0 else 5}: decision for class "
            for ax, label, sign in ((pair[0], 5, -1), (pair[1], 7, 1)):
                value = f"{sign * decision:.3g}".replace("-", "−")
                assert ax.get_title().startswith(f"{start}{label}: {value} = contributions")


@pytest.mark.slow
def test_contributions_have_the_names_of_time_points_of_tables():
    """At integer places; a table of a list has names of its own, and other signals have numbers."""
    pd, pl = map(pytest.importorskip, ("pandas", "polars"))
    rng = np.random.default_rng(0)
    model = SimpleNamespace(intercept_=[0.0], classes_="ab")
    model.contributions = lambda signals: [np.ones((1, 4))] * 2
    days = pd.date_range("2026-03-30", periods=4, name="day")
    times = [0.0, 0.5, 1.0, 1.5]
    two = pd.MultiIndex.from_product([["left", "right"], days], names=["side", "day"])
    other = pd.MultiIndex.from_tuples([*two[:4], *(("right", k) for k in range(4))])
    X = rng.standard_normal((2, 8))
    plain, apart = X[:, :4], pd.DataFrame(X, columns=other)
    tables = [pd.DataFrame(X.reshape(2, 4, 2)[k], index=days + k * days.freq) for k in (0, 1)]
    shown = [[f"{day} 00:00:00" for day in ("2026-03-30", "2026-03-31", "2026-04-01")]] * 2
    for form, expected, label in (
        (pd.DataFrame(X[:, :4], columns=times), [["0", "0.5", "1"]] * 2, "time point"),
        (pl.DataFrame(X[:, :4], schema=["a", "b", "c", "d"]), [["a", "b", "c"]] * 2, "time point"),
        (pd.DataFrame(X, columns=two), shown, "day"),
        (tables, [shown[0], [*shown[0][1:], "2026-04-02 00:00:00"]], "day"),
        (apart, [None] * 2, "time point"),
        (plain, [None] * 2, "time point"),
    ):
        panels = np.reshape(plots.contributions(model, form), (2, -1))
        panels[0, 0].figure.savefig(io.BytesIO())
        for row, names in zip(panels, expected, strict=True):
            for ax in row:
                write = ax.xaxis.get_major_formatter()
                if names is None:
                    assert isinstance(write, ScalarFormatter)
                    continue
                assert [write(k, 0) for k in (0, 1, 2)] == names
                assert write(0.5, 0) == write(4, 0) == write(-1, 0) == ""
        assert panels[-1, -1].get_xlabel() == label
        assert len(panels[0, 0].get_xticks()) <= 9


def test_limit_distances():
    check = partial(depth.check_convergence, kind="ntk", head="trace", depths=powers(10))
    found = [families.resnet(1.0), families.resnet(1.0, readout=False), families.huang_ffnet()]
    reports = [check(family) for family in (*found, found[0].__call__)]  # the last predicts nothing
    ax = plots.limit_distances(*reports)
    points = [line for line in ax.get_lines() if line.get_linestyle() == "None"]
    laws = [line for line in ax.get_lines() if line.get_linestyle() != "None"]
    assert len(points) == len({line.get_marker() for line in points}) == 4 and len(laws) == 3
    for line, report in zip(points, reports, strict=True):
        name = "complement" if report.prediction.undefined else "distance"
        assert (line.get_xdata() == powers(10)).all()
        assert (line.get_ydata() == report.column(name)).all()
        (name,) = [text for text in ax.texts if text.get_color() == line.get_color()][:1]
        assert report.verdict in name.get_text() and name.get_position()[1] >= 0
    heights = [text.get_position()[1] for text in ax.texts if text.get_text()]
    assert max(heights) < 1 and np.diff(heights).max() < -0.149  # none over another
    names = texts(ax.texts)
    assert any("exponent 1.000 ± " in name and "predicted $L^{-1}$" in name for name in names)
    for line, report in zip(laws[:2], reports[:2], strict=True):
        y, (p, last) = line.get_ydata(), (report.prediction.exponent, report.rows[-1].distance)
        assert_within(y, last * (np.array(powers(10)) / 1024) ** -p, tolerances.ROUTES, unit=y)
    mine = plots.figure((4, 3)).subplots()
    assert plots.limit_distances(check(families.resnet(1000.0)), ax=mine) is mine  # powers are 0
    mine.figure.savefig(io.BytesIO())


def test_depth_and_width():
    """Lines of families are at the widths where their variance is the square of the deviation."""
    depths, widths, name = (1, 10, 100), np.geomspace(100, 10**5, 200).astype(int), "α = 1"
    networks = {name: rk.Network(1), "normalized": rk.Network(1, norm=True)}
    found = {of: depth.relative_variance(net, depths, widths) for of, net in networks.items()}
    ax = plots.depth_and_width(depths, widths, found, deviation=0.1)
    for line, of in zip(ax.get_lines(), networks, strict=True):
        assert line.get_label() == of and (line.get_xdata() == depths).all()
        at = np.round(line.get_ydata()).astype(int)
        for row, width in enumerate(at):
            (variance,) = depth.relative_variance(networks[of], depths, (width,))[row]
            of_rounding = 1 / 200  # of a width above 100, and of the line between widths
            assert abs(variance / 0.01 - 1) <= 2 * of_rounding
    few = plots.depth_and_width(depths, widths[:9], {name: found[name][:, :9]})
    assert np.isnan(few.get_lines()[0].get_ydata()[-1])
    mine = plots.figure((4, 3)).subplots()
    assert plots.depth_and_width(depths, widths, found, ax=mine) is mine
    mine.figure.savefig(io.BytesIO())


PAIR, SIGNALS = [[[1.0]], [[-1.0]]], np.ones((1, 1, 4))
COMPARED = conditioning.compare(rk.Network(1), PAIR, (1, 2), kind="gpk", head="trace")


@pytest.mark.parametrize(
    ("draw", "arguments", "says"),
    [
        (plots.condition_numbers, (COMPARED, 3), "^ax is 3, expected matplotlib Axes, or None"),
        (plots.condition_numbers, (3,), "comparison is 3, expected a result of conditioning"),
        (plots.limit_distances, ("report",), "a report is 'report', expected a result of d"),
        (plots.limit_distances, (), "reports is empty"),
        (plots.depth_and_width, ((2, 1), (1, 2), {}), "depths is .2, 1., expected two or more inc"),
        (plots.depth_and_width, ((1, 2), (1, 2), 3), "variances is 3, expected names and arrays"),
        (plots.depth_and_width, ((1, 2), (1, 2), np.eye(2)), "variances is array.*, expected name"),
        (plots.depth_and_width, ((1, 2), (1, 2), {"a": [1]}), "variances of 'a' has shape .1,., e"),
        (plots.depth_and_width, ((1, 2), (1, 2), {"a": np.zeros((2, 2))}), "of 'a' has 0 or less"),
        (plots.depth_and_width, ((1, 2), (1, 2), {"a": np.ones((2, 2))}), "rows that do not fall"),
        (plots.learning_curve, (3,), "predicted is 3, expected a result of learning.curve"),
        (plots.view_weights, (3,), "model is 3, expected a fitted Residual"),
        (plots.contributions, (rk.ResCNTK(2), SIGNALS), "^model is .*, expected"),
    ],
)
def test_wrong_arguments_are_named(draw, arguments, says):
    with pytest.raises(ValueError, match=says):
        draw(*arguments)


def test_pyplot_is_left_alone():
    """A library must not choose a backend or leave figures open."""
    code = "import sys; from rescntk import plots; plots.figure((4, 3)).subplots();"
    assert run(f"{code} print('matplotlib.pyplot' in sys.modules)").strip() == "False"


def test_view_weights():
    View = pytest.importorskip("rescntk.learn").View
    views = np.empty(3, dtype=object)
    views[:] = [View(), View(head="trace"), View(time=1.0)]
    columns = {"weight": np.array([0.3, 0.0, 0.7]), "error": np.array([0.1234, 1, 0.2])}
    ax = plots.view_weights(SimpleNamespace(views_={"view": views} | columns))
    assert [bar.get_width() for bar in ax.patches] == [0.7, 0.3]
    assert texts(ax.get_yticklabels()) == ["View(time=1.0)", "View()"]
    assert ax.texts[1].get_text() == "error 0.123"
    assert ax.yaxis_inverted()  # the greatest weight is on top


def test_learning_curves():
    x = np.random.default_rng(0).standard_normal((40, 6))
    K, sizes = x @ x.T, (2, 4, 6, 20)
    found = {str(r): learning.pool_curve(K, x[:, 0], sizes, r, noise=0.1) for r in (0.0, 1.0)}
    drawn = lines(plots.learning_curve(found))
    for (name, table), colour in zip(found.items(), ("#0072B2", "#D55E00"), strict=True):
        errors = table.column("test_error")
        expected = np.where(np.isinf(errors), np.nan, errors)
        np.testing.assert_array_equal(drawn[name + colour].get_ydata(), expected)
    assert np.isinf(found["0.0"].column("test_error")).any()


TWO_SIGNALS = np.ones((2, 1, 4))
CONTRIBUTIONS = np.random.default_rng(0).standard_normal((2, 1, 4))
"""To the decisions of `TWO_SIGNALS`, (n_cases, n_outputs, n_timepoints)."""

MEDIANS = 3 * CONTRIBUTIONS.mean(axis=0)


def model_of(classes):
    """Return what `plots.contributions` reads of a classifier, or of a regressor: None."""
    return SimpleNamespace(
        contributions=lambda X: CONTRIBUTIONS,
        median_contributions=lambda: MEDIANS,
        intercept_=[0.0],
        classes_=classes,
    )


@pytest.fixture
def decision_axes():
    """Return the axes of the first signal, less the usual contributions."""
    options = {"y": ["b", "a"], "subtract_median": True}
    return plots.contributions(model_of("ab"), TWO_SIGNALS, **options)[0]


def test_a_title_has_the_true_and_the_predicted_class(decision_axes):
    predicted = "ab"[int(CONTRIBUTIONS[0].sum() > 0)]
    assert decision_axes.get_title().startswith(f"true b, predicted {predicted}: ")


def test_a_scale_of_colours_names_both_classes(decision_axes):
    scale = decision_axes.figure.axes[-1]
    assert "blue: class a, orange: class b" in scale.get_ylabel()


def test_colours_are_contributions_less_usual_ones(decision_axes):
    less = (CONTRIBUTIONS[0] - MEDIANS)[0]
    colours = decision_axes.collections[0].get_array()
    assert_within(colours, less[[0, 1, 1, 2, 2, 3]], tolerances.ROUTES)


def test_a_title_adds_usual_contributions_to_the_decision(decision_axes):
    decision, usual = CONTRIBUTIONS[0].sum(), MEDIANS.sum()
    less = (CONTRIBUTIONS[0] - MEDIANS).sum()
    total = f"{decision:.3g} = contributions {less:.3g} + usual {usual:.3g}".replace("-", "−")
    assert total in decision_axes.get_title()


@pytest.mark.parametrize("name", ["$x_{$", "\udcff"])
def test_names_of_classes_that_are_no_formulas_are_drawn(name):
    panels = plots.contributions(model_of(["b", name]), TWO_SIGNALS, y=["b", name])
    panels[0].figure.savefig(io.BytesIO())


@pytest.mark.parametrize(
    ("classes", "wrong", "says"),
    [
        ("ab", {"output": 0}, r"output is 0, expected one of \['a', 'b'\]"),
        ("ab", {"output": TWO_SIGNALS}, "(?s)output is .*, expected one of"),
        (None, {"output": 1}, "output is 1, expected an integer below 1"),
        (None, {"output": "a"}, "output is 'a', expected an integer"),
        ("ab", {"y": ["b"]}, r"y has shape \(1,\), expected \(2,\)"),
        ("ab", {"subtract_median": TWO_SIGNALS}, "(?s)subtract_median is .*, expected True or"),
        (None, {"y": ["b", "a"]}, r"y has dtype <U1, expected real numbers \(2,\)"),
    ],
)
def test_wrong_outputs_and_labels_of_contributions_are_refused(classes, wrong, says):
    with pytest.raises(ValueError, match=says):
        plots.contributions(model_of(classes), TWO_SIGNALS, **wrong)
