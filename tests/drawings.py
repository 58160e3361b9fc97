"""Lines of a picture, for tests of plots."""

import io


def lines(ax):
    """Return lines by label and colour."""
    return {line.get_label().strip() + line.get_color(): line for line in ax.get_lines()}


def looks(lines):
    """Return the different looks of lines."""
    return {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}


def drawn(ax, count):
    """Return the first `count` lines, which must differ in their looks; the picture renders."""
    lines = ax.get_lines()[:count]
    assert len(looks(lines)) == count
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_legend()
    ax.figure.savefig(io.BytesIO())
    return lines


def closed(line):
    """Return whether the line goes once around the circle, and ends where it began."""
    x, y = line.get_data()
    return x[0] == -1 and x[-1] == 1 and y[0] == y[-1]
