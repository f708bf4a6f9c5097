#!/usr/bin/env python3
"""plot.py PREFIX: PREFIX.json of bench/gpu/run as PREFIX-roofline.svg: what part of the roofline each square shape
reaches, the floor's time over ours. Needs matplotlib; bench/gpu/plot brings it."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from plots import logarithmic, save  # noqa: E402

STYLES = {("geqrf", "f32"): ("C0", "o"), ("geqrf", "f64"): ("C1", "o"), ("orgqr", "f32"): ("C0", "x"), ("orgqr", "f64"): ("C1", "x")}


def ours(data):
    return [row for row in data["rows"] if row["impl"] == "factord" and row["us"] and row["precision"] == "strict"]


def part(row):
    return row["floor_us"] / row["us"]


def draw(data):
    rows = [row for row in ours(data) if row["m"] == row["n"]]

    def draw_on(figure):
        axes = figure.subplots()
        for (op, dtype), (color, mark) in STYLES.items():
            points = [row for row in rows if (row["op"], row["dtype"]) == (op, dtype)]
            axes.plot([row["n"] for row in points], [part(row) for row in points], mark, color=color, label=f"{op} {dtype}")
            if (op, dtype) == ("geqrf", "f32"):
                for row in points:
                    axes.annotate(f"{row['batch']:,}", (row["n"], part(row)), textcoords="offset points", xytext=(5, 3), fontsize="x-small")
        axes.axhline(1, color="black", linewidth=1)
        logarithmic(axes, sorted({row["n"] for row in rows}))
        axes.set_yscale("log", base=10)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("n, matrices n × n (small figures: how many)")
        axes.set_ylabel("achieved over roofline")
        axes.legend(fontsize="small")

    return draw_on


def main():
    prefix = pathlib.Path(sys.argv[1])
    data = json.loads(prefix.with_name(f"{prefix.name}.json").read_text())
    save(prefix.with_name(f"{prefix.name}-roofline.svg"), draw(data), f"{data['device']}, {data['date']}; floor: {data['floor']}", height=5)


if __name__ == "__main__":
    main()
