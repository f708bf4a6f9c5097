#!/usr/bin/env python3
"""report.py PREFIX FILE.json... [--command=TEXT]: the rows of all files as PREFIX.json, as tables and goals in PREFIX.md, and two plots:
PREFIX-ratio.svg, how many times longer LAPACKE takes, and PREFIX-rate.svg, GF/s."""

import argparse
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from plots import logarithmic, save  # noqa: E402
from tables import facts, merged, number, size, table, write  # noqa: E402

PEERS = ("LAPACKE", "MKL", "NumPy", "PyTorch")
ROW_MAJOR_PEERS = ("NumPy", "PyTorch")
DTYPES = ("f32", "f64", "c64", "c128")
OPERATIONS = {
    "geqrf": "A to reflectors and tau",
    "orgqr": "these to Q",
    "ormqr": "these and C (m × n) to Qᴴ C",
    "qr": "A to Q (reduced) and R",
}
CASE = ("op", "dtype", "alone", "threads", "m", "n")


class Case:
    """What was measured of one case, by implementation."""

    def __init__(self, rows):
        self.rows = {row["impl"]: row for row in rows}
        self.ours = self.rows["factord"]
        self.op, self.dtype, self.alone, self.threads, self.m, self.n = (self.ours[key] for key in CASE)

    def name(self):
        where = "alone" if self.alone else f"{self.ours['count']:,} at once"
        return f"{self.op} {self.dtype} {size(self.ours)}, {where}" + (f", {self.threads} threads" if self.threads > 1 else "")

    def best_of(self, peer):
        """By any of its calls and any number of threads."""
        rows = [row for name, row in self.rows.items() if name.startswith(peer)]
        return min(rows, key=lambda row: row["us"], default=None)

    def ratio(self, peer):
        """How many times our time it takes, in the layout that it takes; None where it was not measured."""
        row = self.best_of(peer)
        ours = self.rows["factord row-major" if peer in ROW_MAJOR_PEERS else "factord"]
        return row["us"] / ours["us"] if row else None

    def speedup(self):
        """Of the second thread."""
        return self.rows["factord 1 thread"]["us"] / self.ours["us"]


def cases_of(rows):
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in CASE), []).append(row)
    return [Case(group) for group in groups.values() if any(row["impl"] == "factord" for row in group)]


# ---- goals


@dataclasses.dataclass
class Goal:
    """At least `bar` at every case of this kind that was measured."""

    what: str
    bar: float
    holds_for: object
    value: object = lambda case: case.ratio("LAPACKE")


def square(low, high, **wanted):
    return lambda c: c.m == c.n and low <= c.n <= high and all(getattr(c, key) == value for key, value in wanted.items())


def goals():
    for dtype, bars in (("f32", (15, 10, 9, 6, 4, 2.3)), ("f64", (9, 6, 4, 3.3, 3, 2))):
        for op in ("geqrf", "orgqr"):
            for (low, high), bar in zip(((4, 8), (16, 16), (32, 32), (64, 64), (128, 128), (176, 1024)), bars, strict=True):
                sizes = f"{low}²" if low == high else f"{low}² to {high}²"
                yield Goal(f"{op} {dtype} {sizes}, batch, × LAPACKE", bar, square(low, high, op=op, dtype=dtype, alone=False, threads=1))
    for n, bar in ((8, 10), (32, 5), (256, 2)):
        yield Goal(f"geqrf c64 {n}², batch, × LAPACKE", bar, square(n, n, op="geqrf", dtype="c64", alone=False, threads=1))
    yield Goal("squares from 8², alone, × LAPACKE", 2, square(8, 1024, alone=True, threads=1))
    yield Goal("two threads over one, batches", 1.8, lambda c: c.threads == 2 and not c.alone, Case.speedup)
    yield Goal("two threads over one, from 512² alone", 1.8, square(512, 1024, threads=2, alone=True), Case.speedup)
    for peer in PEERS:
        yield Goal(f"every case, × {peer}", 1, lambda c, peer=peer: c.ratio(peer) is not None, lambda c, peer=peer: c.ratio(peer))


def goal_rows(cases):
    for goal in goals():
        measured = [(goal.value(case), case.name()) for case in cases if goal.holds_for(case)]
        if not measured:
            continue
        worst, name = min(measured)
        missed = sum(value < goal.bar for value, _ in measured)
        yield [goal.what, f"≥ {goal.bar:g}", f"**{worst:.3g}**", name, f"{len(measured) - missed} of {len(measured)}"]


# ---- tables


def peer_cell(case, peer):
    row = case.best_of(peer)
    if row is None:
        return ""
    how = row["impl"].removeprefix(peer).strip()
    return f"{number(row['us'])} (**{case.ratio(peer):.3g}×**)" + (f" {how}" if how else "")


def case_cells(case, peers):
    ours = case.ours
    spread = (ours["max"] - ours["min"]) / ours["us"]
    return [size(ours), f"{ours['count']:,}", number(ours["us"]), f"{100 * spread:.0f} %", number(ours["gflops"]),
            number(case.rows["factord row-major"]["us"]), *([f"{case.speedup():.2f}"] if case.threads > 1 else []),
            *(peer_cell(case, peer) for peer in peers)]


def case_table(cases):
    peers = [peer for peer in PEERS if any(case.best_of(peer) for case in cases)]
    header = ["m × n", "matrices", "factord µs", "spread", "GF/s", "row-major µs",
              *(["× one thread"] if cases[0].threads > 1 else []), *peers]
    return table(header, [case_cells(case, peers) for case in cases])


def report(data, cases, name):
    parts = [f"""# QR on the CPU: {data['cpu']}

{facts(data)}

µs a matrix, medians of at least five runs after one that is not counted; inputs are written anew before each run, untimed. Ours,
LAPACKE and MKL in one process, in turn, repetition by repetition; NumPy and PyTorch likewise in another, right after each operation. In brackets:
how many times our time in the same layout, column-major for LAPACKE and MKL, row-major for NumPy and PyTorch. Of a peer's ways the fastest counts: MKL
compact is its call for many small matrices, with what it takes to interleave them; with two threads, each is also run on one. *Batch*: about 8 MB at
once, beyond the L2 cache and within the L3 of most servers. *Alone*: a call a matrix, its input in cache where it fits. LAPACKE and MKL work in place, the others leave their input
as it is; NumPy and PyTorch allocate their results in the call; NumPy computes f32 in f64. GF/s: LAPACK's count, a complex operation as four. Spread:
(slowest − fastest) / median.

## Goals

{table(["at least, everywhere", "goal", "lowest", "where", "met by"], goal_rows(cases))}

![How many times longer LAPACKE takes]({name}-ratio.svg)

![GF/s]({name}-rate.svg)"""]
    groups = {}
    for case in cases:
        groups.setdefault((case.op, case.dtype, case.alone, case.threads), []).append(case)
    for (op, dtype, alone, threads), group in groups.items():
        kind = f"{'alone' if alone else 'batch'}, {'one thread' if threads == 1 else f'{threads} threads'}"
        parts.append(f"## {op} ({OPERATIONS[op]}), {dtype}, {kind}\n\n{case_table(group)}")
    return "\n\n".join(parts) + "\n"


# ---- plots


def squares(cases, op, dtype, alone):
    return sorted((c for c in cases if c.m == c.n and (c.op, c.dtype, c.alone, c.threads) == (op, dtype, alone, 1)), key=lambda c: c.n)


NS = [4, 8, 16, 32, 64, 128, 256, 512, 1024]


def plot_ratios(cases, figure):
    for axes, alone in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        for color, dtype in zip(("C0", "C1", "C2", "C3"), DTYPES, strict=True):
            for op, style in (("geqrf", "o-"), ("orgqr", "x--")):
                points = squares(cases, op, dtype, alone)
                axes.plot([c.n for c in points], [c.ratio("LAPACKE") for c in points], style, color=color, markersize=4, label=f"{op} {dtype}")
        axes.axhline(1, color="black", linewidth=1)
        logarithmic(axes, NS)
        axes.set_xlabel("n, matrices n × n")
        axes.set_title("each alone" if alone else "batches beyond the L2 cache")
    figure.axes[0].set_ylabel("LAPACKE's time / factord's, one thread")
    figure.axes[0].legend(ncols=2, fontsize="small")


def plot_rates(cases, figure):
    for axes, dtype in zip(figure.subplots(2, 2, sharex=True).flat, DTYPES, strict=True):
        points = squares(cases, "geqrf", dtype, alone=False)
        for name in dict.fromkeys(name for case in points for name in case.rows):
            measured = [case for case in points if name in case.rows]
            axes.plot([c.n for c in measured], [c.rows[name]["gflops"] for c in measured], "o-" if name.startswith("factord") else "x--",
                      markersize=4, label=name)
        logarithmic(axes, NS)
        axes.set_xlabel("n, matrices n × n")
        axes.set_title(f"geqrf {dtype}, batches, one thread")
        axes.set_ylabel("GF/s")
    figure.axes[0].legend(fontsize="small")


def plot(prefix, data, cases):
    title = f"{data['cpu']}, {data['instructions']}, {data['date']}"
    for name, draw, height in (("ratio", plot_ratios, 5), ("rate", plot_rates, 8)):
        save(prefix.with_name(f"{prefix.name}-{name}.svg"), lambda figure, draw=draw: draw(cases, figure), title, height)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--command")
    arguments = parser.parse_args()
    data = merged(arguments.files)
    if arguments.command:
        data["command"] = arguments.command
    cases = cases_of(data["rows"])
    write(arguments.prefix, data, report(data, cases, arguments.prefix.name))
    plot(arguments.prefix, data, cases)


if __name__ == "__main__":
    main()
