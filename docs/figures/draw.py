"""Draw the figures of the guide: ``python docs/figures/draw.py`` writes them beside this file.

The code on pages that saves figures is run here as it stands. The other
figures are functions of this script: their signals are aeon's bundled training sets, no test signal
is seen but by `pooling`. The script takes about two minutes of processor time; names draw some
figures or pages.
"""

import re
import shutil
import sys
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import rescntk as rk
from rescntk import datasets, plots, regression
from rescntk.checks.values import HEADS, KINDS
from rescntk.plots.style import COLOURS, MARKERS, add_title_and_legend
from rescntk.theory import conditioning, depth, locality, multisphere

HERE = Path(__file__).parent

LINES = ("-", "--", "-.")
"""Line styles, told apart in grey."""

SETS = ("GunPoint", "ArrowHead", "ItalyPowerDemand", "BasicMotions", "JapaneseVowels")
"""Training sets of 36 to 270 signals. The first three have one channel."""

RIDGES = np.logspace(-5, 1, 13)
"""Penalties, in units of the kernel's diagonal; each kernel gets the penalty of least error."""

DEPTHS = (1, 2, 4, 8, 16, 32)
FILTERS = (1, 3, 5, 9, 17, 31)
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
INPUT_FILTERS = (1, 3, 5, 9, 17)
DILATIONS = (1, 2, 4, 8)


def chooser() -> Any:
    """Draw the questions that lead to an estimator or a kernel."""
    figure = plots.figure((7.2, 4.6))
    ax = figure.subplots()
    ax.axis("off")
    ax.set(xlim=(0, 100), ylim=(0, 58))
    question, call = "#EAF2F8", "#FBE9DD"
    nodes = {
        "start": (50, 55, "What do you need?", question),
        "early": (9, 38, "Early\nClassifier", call),
        "class": (30, 38, "ResidualKernel\nClassifier", call),
        "number": (53, 38, "ResidualKernel\nRegressor", call),
        "matrix": (84, 38, "For which use?", question),
        "size": (31, 21, "More than 1000 signals?", question),
        "call": (70, 21, "ResCNTK(…)(X)", call),
        "learn": (92, 21, "KernelMatrix,\nSignalKernel", call),
        "few": (12, 4, 'views="fast" first,\nthen "default"', call),
        "many": (44, 4, "the same: it uses\nlandmarks by itself", call),
        "stored": (80, 4, "stored.gram,\nLandmarkFeatures", call),
    }
    arrows = (
        ("start", "early", "a class,\nearly"),
        ("start", "class", "a class"),
        ("start", "number", "a number"),
        ("start", "matrix", "a kernel matrix"),
        ("class", "size", ""),
        ("number", "size", ""),
        ("size", "few", "no"),
        ("size", "many", "yes"),
        ("matrix", "call", "one call"),
        ("matrix", "learn", "scikit-learn"),
        ("call", "stored", "too large for memory"),
    )
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "medium"}
    for one, other, label in arrows:
        (x, y), (u, v, text) = nodes[one][:2], nodes[other][:3]
        top = v + (2.8 if "\n" in text else 1.5)  # of the box
        ax.annotate("", (u, top), (x, y), arrowprops={"arrowstyle": "-|>", "color": "0.35"})
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.text((x + u) / 2, (y + top) / 2, label, bbox=paper, **centred)
    for x, y, text, colour in nodes.values():
        style = {"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": "0.35"}
        ax.text(x, y, text, bbox=style, **centred)
    return figure


def heads() -> Any:
    """Draw a bump and the same bump shifted, and their kernel for each head over the shift."""
    d, width, shifts = 64, 4.0, np.arange(-28, 29)
    pixel = (np.arange(d) + d // 2) % d - d // 2  # distance from pixel 1 along the ring
    distance = (pixel - shifts[:, None] + d // 2) % d - d // 2
    X = np.exp(-0.5 * (distance / width) ** 2)[:, None]
    figure = plots.figure((8.4, 4.2))
    signals, kernels = figure.subplots(1, 2)
    for shift, colour, line in ((0, COLOURS[0], "-"), (12, COLOURS[1], "--")):
        bump = X[list(shifts).index(shift), 0]
        signals.plot(shifts, bump[shifts], line, color=colour, label=f"shifted by {shift}")
    signals.set(xlabel="distance from pixel 1 (time points)", ylabel="signal")
    add_title_and_legend(signals, 2, "A bump, and the bump shifted by 12")
    for head, colour, marker in zip(HEADS, COLOURS, MARKERS, strict=False):
        kernel = rk.ResCNTK(5, input_filter_size=9, head=head, normalized=True)
        values = kernel(X[list(shifts).index(0)][None], X)[0]
        style = {"marker": marker, "markevery": 4, "markersize": 4}
        kernels.plot(shifts, values, color=colour, label=f'"{head}"', **style)
    kernels.set(xlabel="shift (time points)", ylabel="kernel of signal and shifted signal")
    kernels.set_ylim(-0.02, 1.05)
    add_title_and_legend(kernels, 3, 'The head "gap" sees no shift, "trace" does')
    return figure


def pooling() -> Any:
    """Draw condition numbers and test errors of kernels over the width of pooled windows."""
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8)
    gun = [datasets.load_labelled("GunPoint", split) for split in ("train", "test")]
    sets = {
        "GunPoint, 50 signals of 150 points": (*gun[0], *gun[1], 9, (1, 2, 4, 8, 16, 32, 64, 150)),
        "digits, 100 images of 8 × 8 pixels": (
            images[:100],
            digits[:100],
            images[897:],
            digits[897:],
            1,
            range(1, 9),
        ),
    }
    figure = plots.figure((8.4, 5.6))
    figure.suptitle("Kernels of pooled windows, from trace (1) to GAP (all pixels)")
    for column, (title, (X, y, X_new, y_new, first, widths)) in zip(
        figure.subplots(2, 2, sharex="col").T, sets.items(), strict=True
    ):
        network, Y = rk.Network(3, input_filter_size=first), 2.0 * (y[:, None] == np.unique(y)) - 1
        for kind, colour, marker in zip(KINDS, COLOURS, MARKERS, strict=False):
            numbers, wrong = [], []
            for width in widths:
                kernel = rk.Kernel(network, kind, width, normalized=True)
                K = kernel(X)
                numbers.append(conditioning.condition_number(K))
                left_out = regression.leave_one_out(K, Y, RIDGES)
                best = RIDGES[(left_out**2).mean(axis=(1, 2)).argmin()]
                decisions = kernel(X_new, X) @ regression.ridge(K, Y, best)
                wrong.append((np.unique(y)[decisions.argmax(axis=1)] != y_new).mean())
            print(title, kind, np.round(numbers), np.round(wrong, 4))
            style = {"color": colour, "marker": marker, "markersize": 4, "label": kind.upper()}
            for ax, values in zip(column, (numbers, wrong), strict=True):
                ax.plot(widths, values, **style)
        column[0].set(yscale="log", xscale="log", ylabel="condition number")
        column[1].set(xlabel="width of windows (pixels)", ylabel="test error", ylim=(0, None))
        column[1].set_xticks(widths, [f"{width}" for width in widths])
        column[1].minorticks_off()
        for ax, text in zip(column, (title, None), strict=True):
            add_title_and_legend(ax, 2, text)
            ax.get_legend().remove()
    lines, names = column[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def fields() -> Any:
    """Draw effective receptive fields of tangent kernels, one parameter changed at a time."""
    base = rk.Network(8)
    panels = {
        "depth": {f"{depth} layers": base.replace(depth=depth) for depth in (2, 8, 32)},
        "filter_size": {f"{q} pixels": base.replace(filter_size=q) for q in (3, 5, 9)},
        "alpha, skip": {
            "α = 0.3": base.replace(alpha=0.3),
            "α = 1": base,
            "no skips": base.replace(skip=False),
        },
        "dilation, 4 layers": {
            "1": base.replace(depth=4),
            "1, 2, 4, 8": base.replace(depth=4, dilation=(1, 2, 4, 8)),
        },
    }
    figure = plots.figure((8.4, 6.4))
    figure.suptitle("How far a pixel of the output sees, for settings of a network")
    axes = figure.subplots(2, 2, sharey=True)
    for ax, (title, networks) in zip(axes.flat, panels.items(), strict=True):
        for (name, network), colour, line in zip(networks.items(), COLOURS, LINES, strict=False):
            field = locality.effective_receptive_field(network, 61, kind="ntk", normalized=True)
            field = np.fft.fftshift(field)  # the output pixel in the middle
            ax.plot(np.arange(61) - 30, field, linestyle=line, color=colour, label=name)
        ax.set_title(title, fontsize="medium")
        ax.set(xlim=(-25, 25), ylim=(0, 0.46), xlabel="distance (pixels)")
        add_title_and_legend(ax, 1)
        ax.legend(fontsize="small", frameon=False, loc="upper right")
    for ax in axes[:, 0]:
        ax.set_ylabel("weight of a pixel's energy")
    return figure


def settings() -> Any:
    """Draw leave-one-out errors, relative to the default's, as one parameter changes at a time."""
    panels = {
        "depth": ("layers", DEPTHS),
        "filter_size": ("pixels", FILTERS),
        "alpha": ("α", ALPHAS),
        "input_filter_size": ("pixels", INPUT_FILTERS),
        "dilation": ("pixels from tap to tap", DILATIONS),
        "kind, head": ("", range(4)),
    }
    figure = plots.figure((8.4, 9.0))
    figure.suptitle("Leave-one-out error relative to the default, as one hyperparameter changes")
    axes = figure.subplots(3, 2, sharey="row")
    for name, colour, marker in zip(SETS, COLOURS, MARKERS, strict=False):
        found = errors(name)
        print(name, {setting: values.round(3).tolist() for setting, values in found.items()})
        for ax, (setting, (_, values)) in zip(axes.flat, panels.items(), strict=True):
            line = "" if setting == "kind, head" else "-"
            style = {"linestyle": line, "marker": marker, "markersize": 4}
            relative = found[setting] / found["filter_size"][FILTERS.index(3)]
            ax.plot(values, relative, color=colour, label=name, **style)
    for ax, (setting, (unit, values)) in zip(axes.flat, panels.items(), strict=True):
        ax.set_title(setting, fontsize="medium")
        ax.set(xlabel=unit, yscale="log")
        ax.set_yticks((0.5, 1, 2, 4, 8, 16), ("½", "1", "2", "4", "8", "16"))
        ax.axhline(1.0, color="0.3", linewidth=0.8)
        add_title_and_legend(ax, 5)
        ax.get_legend().remove()
        if setting == "kind, head":
            ax.set_xticks(values, ["gpk\ngap", "ntk\ngap", "gpk\ntrace", "ntk\ntrace"])
        else:
            ax.set_xscale("log")
            ax.set_xticks(values, [f"{value:g}" for value in values])
            ax.minorticks_off()
    for ax, highest in zip(axes[:, 0], (2, 6, 16), strict=True):
        ax.set(ylabel="error / error of the default", ylim=(0.5, highest))
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False)
    return figure


def errors(name: str) -> dict[str, np.ndarray]:
    """Return the errors of one training set, for each setting of the panels.

    An error is the mean square of the targets ±1 left out, relative to the targets' variance. The
    base is a normalized ResCNTK of depth 3 with GAP; signals of one channel have an input filter
    of 9 pixels.
    """
    X, y = datasets.load_labelled(name)
    X = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    Y = 2.0 * (y[:, None] == np.unique(y)) - 1
    base = rk.Network(3, input_filter_size=9 if X.shape[1] == 1 else 1)

    def error(K: np.ndarray) -> float:
        left_out = regression.decompose(K).leave_one_out(Y, RIDGES, intercept=True)
        return float((left_out**2).mean(axis=(1, 2)).min() / Y.var(axis=0).mean())

    def kernels(network: rk.Network, **options: Any) -> list[float]:
        options = {"kinds": ("ntk",), "depths": (network.depth,), "normalized": True} | options
        return [error(K) for matrices in rk.gram(network, X, **options) for K in matrices]

    def changed(setting: str, values: Any) -> np.ndarray:
        return np.concatenate([kernels(base.replace(**{setting: value})) for value in values])

    both = {"kinds": KINDS}
    return {
        "depth": np.array(kernels(base.replace(depth=max(DEPTHS)), depths=DEPTHS)),
        "filter_size": changed("filter_size", FILTERS),
        "alpha": changed("alpha", ALPHAS),
        "input_filter_size": changed("input_filter_size", INPUT_FILTERS),
        "dilation": changed("dilation", DILATIONS),
        "kind, head": np.array(kernels(base, **both) + kernels(base, head="trace", **both)),
    }


def biases() -> Any:
    """Draw normalized kernels over depth for several biases, and their limits over the bias."""
    X, depths = multisphere.sample(2, 4, 5, rng=0), [2**k for k in range(3, 12)]
    figure = plots.figure((8.4, 4.2))
    layers, limits = figure.subplots(1, 2)

    def without(bias: float, layers: int) -> rk.Network:
        return rk.Network(layers, skip=False, bias=bias)

    def with_skips(bias: float, layers: int) -> rk.Network:
        return rk.Network(layers, alpha=layers**-0.5, bias=bias)

    for bias, colour, marker in zip((0.0, 0.1, 0.3, 1.0), COLOURS, MARKERS, strict=False):
        for family, line in ((with_skips, "--"), (without, "-")):
            found = depth.check_convergence(
                partial(family, bias), X, kind="gpk", head="trace", depths=depths
            )
            label = f"$σ_b$ = {bias:g}" if family is without else None
            style = {"color": colour, "marker": marker, "markersize": 4, "label": label}
            layers.plot(found.column("depth"), found.column("complement"), line, **style)
    beyond = np.array([500.0, 10000.0])
    laws = (9 / 2, "9π²/2 L$^{-2}$", (2700, 8e-6)), (9 / 8, "9π²/8 L$^{-2}$", (350, 4e-7))
    for constant, label, place in laws:
        layers.plot(beyond, constant * np.pi**2 / beyond**2, ":", color="0.3", linewidth=1)
        layers.annotate(label, place)
    layers.set(xlabel="layers L", ylabel="1 − normalized GPK", xscale="log", yscale="log")
    add_title_and_legend(layers, 2, "Solid: no skips; dashed: skips, α = L$^{-1/2}$")
    steps = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
    for kind, colour, marker in zip(KINDS, COLOURS, MARKERS, strict=False):
        values = []
        for bias in steps:
            found = depth.check_convergence(
                partial(with_skips, bias), X, kind=kind, head="trace", depths=depths
            )
            K = found.column("off_diagonal")[-3:]
            # Layers are steps of Euler's method: its errors of L^-1 and L^-2 are taken away.
            values.append((8 * K[2] - 6 * K[1] + K[0]) / 3)
        style = {"color": colour, "marker": marker, "markersize": 4}
        limits.plot(steps, values, label=f"with skips, {kind.upper()}", **style)
    limits.axhline(1.0, color=COLOURS[0], linestyle=":", label="without skips, GPK")
    limits.axhline(4 / 7, color=COLOURS[1], linestyle=":", label="without skips, NTK ($σ_b$ > 0)")
    limits.set(xlabel="$σ_b$", ylabel="limit of the normalized kernel", ylim=(0.0, 1.05))
    add_title_and_legend(limits, 2, "Limits at infinite depth")
    return figure


def phases() -> Any:
    """Draw what 50 layers leave of the distance of two signals, over α and the bias."""
    alphas, sigmas = np.geomspace(0.1, 3.0, 41), np.linspace(0.0, 3.0, 31)
    X = multisphere.sample(2, 4, 8, rng=0)
    options: dict[str, Any] = {"head": "trace", "kinds": ("gpk",), "normalized": True}
    left, layers = np.empty((31, 41)), []
    for column, alpha in enumerate(alphas):
        layers.append(depth.mode_scales(rk.Network(50, alpha=alpha), 8).rows[1].scale)
        for row, bias in enumerate(sigmas):
            (K,) = rk.gram(rk.Network(50, alpha=alpha, bias=bias), X, **options)
            left[row, column] = 1.0 - K[0, 1]
    figure = plots.figure((6.4, 4.6))
    ax = figure.subplots()
    image = ax.pcolormesh(alphas, sigmas, np.log10(left), cmap="cividis", shading="gouraud")
    levels = (-2.5, -2.0, -1.5, -1.0, -0.5)
    ax.contour(
        alphas, sigmas, np.log10(left), levels, colors="white", linewidths=0.6, linestyles="-"
    )
    for scale in (3, 5, 10, 30, 100):
        place = np.exp(np.interp(-scale, -np.array(layers), np.log(alphas)))
        ax.axvline(place, color="white", linestyle="--", linewidth=1)
        ax.annotate(f"ξ = {scale}", (place * 1.03, 2.8), color="white", fontsize="small")
    ax.set(xscale="log", xlabel="α", ylabel="$σ_b$")
    ax.set_xticks((0.1, 0.3, 1, 3), ("0.1", "0.3", "1", "3"))
    ax.minorticks_off()
    ax.set_title("What 50 layers leave of two signals' distance", fontsize="medium")
    figure.colorbar(image, label="log$_{10}$ (1 − normalized GPK)")
    return figure


def run_page(path: Path) -> None:
    """Run the code of a page in an empty folder, and put its figures beside this file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.S | re.M)
    with TemporaryDirectory() as folder, chdir(folder):
        exec("\n".join(blocks), {"__name__": "__main__"})
        for figure in Path().glob("*.png"):
            shutil.move(figure, HERE / figure.name)


if __name__ == "__main__":
    chosen = sys.argv[1:]
    for draw in (chooser, heads, pooling, fields, settings, biases, phases):
        if not chosen or draw.__name__ in chosen:
            draw().savefig(HERE / f"{draw.__name__}.png")
    for path in (HERE.parents[1] / "README.md", *sorted(HERE.parent.glob("[agt]*/*.md"))):
        if path.stem in chosen or (not chosen and ".savefig(" in path.read_text("utf-8")):
            run_page(path)
