"""What the plots of the benchmarks share. Needs matplotlib."""

import matplotlib
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "factord"  # the same file for the same figures


def save(path, draw, title, height):
    """Draws draw(figure) into an SVG, 11 inches wide and `height` high."""
    figure = Figure(figsize=(11, height), layout="constrained")
    draw(figure)
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, metadata={"Date": None})


def logarithmic(axes, ns):
    """Both axes by powers of two, the horizontal one marked at `ns`."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(ns, [str(n) for n in ns])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
