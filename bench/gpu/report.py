#!/usr/bin/env python3
"""report.py PREFIX FILE.json... [--command=TEXT]: the rows of all files as PREFIX.json, one row a line, and as tables in PREFIX.md: our
time, its ratio to the floor, and how many times longer each peer takes. Facts other than rows are the first file's, with what later
ones add, and this machine's driver and clocks."""

import argparse
import math
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tables import facts, merged, number, size, table, write  # noqa: E402

OURS = "factord"


def machine():
    if not shutil.which("nvidia-smi"):
        return {}
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader", "-i", "0"]
    driver, sm, memory = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip().split(", ")
    return {"driver": driver, "highest clocks": f"SM {sm}, memory {memory}"}


def shape(row):
    return f"{row['batch']:,} × {size(row)}"


def peer_cell(row, ours):
    if row is None:
        return ""
    if row["us"] is None:
        return row.get("note", "–")
    ratio = f" (**{row['us'] / ours['us']:.3g}×**)" if ours["us"] else ""
    return number(row["us"]) + ratio


def group(rows):
    """Of one operation and type."""
    cases, peers = {}, []
    for row in rows:
        cases.setdefault((row["batch"], row["m"], row["n"]), {})[row["impl"]] = row
        if row["impl"] != OURS and row["impl"] not in peers:
            peers.append(row["impl"])
    header = ["batch", f"{OURS} µs", "spread", "floor µs", "over floor", "residual", "orthogonality", *peers]
    body = []
    for case in cases.values():
        ours = case.get(OURS)
        if ours is None:
            continue
        over = ours["us"] / ours["floor_us"] if ours["us"] else None
        spread = "–" if ours["spread"] is None else f"{100 * ours['spread']:.0f} %"
        body.append([shape(ours), number(ours["us"]), spread, number(ours["floor_us"]), number(over), number(ours["residual"]),
                     number(ours["orthogonality"]), *(peer_cell(case.get(peer), ours) for peer in peers)])
    lines = [table(header, body)]
    for peer in peers:
        ratios = [case[peer]["us"] / case[OURS]["us"] for case in cases.values()
                  if OURS in case and peer in case and case[peer]["us"] and case[OURS]["us"]]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"\n{peer}: {mean:.3g} times our time, geometric mean over {len(ratios)} shapes.")
    return "\n".join(lines)


def report(data, name):
    parts = [f"""# QR on one {data['device']}

{facts(data)}

Device times in µs, medians of at least nine runs after a warm-up (one run where a run takes more than half a second); fresh inputs
and poisoned outputs in turn; peers in the same process (PyTorch: another, right after). In brackets: how many times our time. Spread: (90th
percentile − 10th) / median. Residual and orthogonality: LAPACK's ratios, worst of up to eight matrices; the contract's bound is 30. Of R alone ("r"):
|RᵀR − AᵀA| in the same unit, entry by entry over the columns' norms; the floor is the bytes alone."""]
    if any(row["op"] != "r" for row in data["rows"]):
        parts.append(f"![What part of the roofline each square shape reaches; bench/gpu/plot draws it]({name}-roofline.svg)")
    groups = {}
    for row in data["rows"]:
        groups.setdefault((row["op"], row["dtype"], row["precision"]), []).append(row)
    for (op, dtype, precision), rows in groups.items():
        parts.append(f"## {op}, {dtype}, {precision}\n\n{group(rows)}")
    return "\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--command")
    arguments = parser.parse_args()
    data = merged(arguments.files)
    if arguments.command:
        data |= machine() | {"command": arguments.command}
    write(arguments.prefix, data, report(data, arguments.prefix.name))


if __name__ == "__main__":
    main()
