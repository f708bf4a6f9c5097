#!/usr/bin/env python3
"""PyTorch on the shapes of a qr_bench result: torch_peer.py IN.json OUT.json [--peer_limit=SECONDS]. Needs a GPU and PyTorch.

geqrf: torch.geqrf; orgqr: torch.linalg.householder_product; qr: torch.linalg.qr. Timed as qr_bench does: CUDA events, fresh inputs in
turn, the first run of each not counted."""

import argparse
import json
import statistics

import torch

OPERATIONS = {
    "geqrf": ("torch.geqrf", torch.geqrf),
    "orgqr": ("torch.linalg.householder_product", torch.linalg.householder_product),
    "qr": ("torch.linalg.qr", torch.linalg.qr),
}
DTYPES = {"f32": torch.float32, "f64": torch.float64}
EPS = {"f32": 2.0**-24, "f64": 2.0**-53}
SLOW = 0.5  # seconds: run once
FIELDS = ("op", "dtype", "batch", "m", "n", "precision", "floor_us")


def seconds_of(work):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    result = work()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3, result


def inputs_of(op, dtype, batch, m, n):
    a = torch.randn(batch, m, n, dtype=DTYPES[dtype], device="cuda")
    return torch.geqrf(a) if op == "orgqr" else (a,)


def batches_of(row):
    """At least four, and twice the L2 cache's size if 16 are enough."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    size = row["batch"] * row["m"] * row["n"] * DTYPES[row["dtype"]].itemsize
    return min(max(2 * l2 // size + 1, 4), 16)


def expected_seconds(row):
    """From a few matrices: PyTorch takes most of these one by one."""
    batch = min(row["batch"], 4)
    work = OPERATIONS[row["op"]][1]
    arguments = inputs_of(row["op"], row["dtype"], batch, row["m"], row["n"])
    work(*arguments)
    return seconds_of(lambda: work(*arguments))[0] * row["batch"] / batch


def quality(row, arguments, result):
    """qr_bench's residual and orthogonality, worst of up to eight matrices."""
    scale = row["m"] * EPS[row["dtype"]]
    worst = [0.0, 0.0]
    for i in sorted({round(x) for x in torch.linspace(0, row["batch"] - 1, 8).tolist()}):
        one = [x[i].double() for x in arguments]
        if row["op"] == "orgqr":
            q = result[i].double()
            residual = (q - torch.linalg.householder_product(*one)).norm(dim=0)
        else:
            x, y = (part[i].double() for part in result)
            q, r = (torch.linalg.householder_product(x, y), x[: row["n"]].triu()) if row["op"] == "geqrf" else (x, y)
            residual = (r - q.T @ one[0]).norm(dim=0) / one[0].norm(dim=0)
        identity = torch.eye(row["n"], dtype=torch.float64, device="cuda")
        values = residual.max() / scale, (q.T @ q - identity).abs().sum(dim=0).max() / scale
        worst = [max(w, v.item()) for w, v in zip(worst, values, strict=True)]
    return worst


def measure(row, limit):
    name, work = OPERATIONS[row["op"]]
    result_row = {field: row[field] for field in FIELDS} | {"impl": name, "us": None, "residual": None, "orthogonality": None, "spread": None}
    expected = expected_seconds(row)
    if expected > limit:
        return result_row | {"note": f"not run: expected {expected:.3g} s > limit {limit:g} s"}
    batches = [inputs_of(row["op"], row["dtype"], row["batch"], row["m"], row["n"]) for _ in range(batches_of(row))]
    warm_up, result = seconds_of(lambda: work(*batches[0]))
    count = 1 if warm_up > SLOW else int(min(max(0.3 / warm_up, 9), 50))
    for batch in batches[1:] if count > 1 else []:
        work(*batch)
    times = sorted(seconds_of(lambda: work(*batches[i % len(batches)]))[0] for i in range(count))
    residual, orthogonality = quality(row, batches[0], result)
    median = statistics.median(times)
    result_row |= {"us": 1e6 * median, "residual": residual, "orthogonality": orthogonality,
                   "spread": (times[count * 9 // 10] - times[count // 10]) / median}
    return result_row | ({"note": "one run"} if count == 1 else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--peer_limit", type=float, default=5)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    with open(arguments.input) as file:
        shapes = [row for row in json.load(file)["rows"] if row["impl"] == "factord" and row["op"] in OPERATIONS]
    rows = []

    def write():
        with open(arguments.output, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file)

    write()
    for shape in shapes:
        rows.append(measure(shape, arguments.peer_limit))
        print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
        write()


if __name__ == "__main__":
    main()
