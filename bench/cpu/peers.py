#!/usr/bin/env python3
"""NumPy and PyTorch's CPU side on the cases of a cpu_qr_bench result: peers.py IN.json OUT.json. Timed as there: in turn, repetition
by repetition, inputs written anew before each, a first round not counted. Row-major; results are allocated in the call, as a caller's
are. Where the case has two threads: on one, and on two where a matrix is large enough for theirs, which work inside one matrix.

geqrf: numpy.linalg.qr(mode="raw"), torch.geqrf; orgqr: torch.linalg.householder_product; ormqr: torch.ormqr; qr: numpy.linalg.qr,
torch.linalg.qr. NumPy computes float32 in float64."""

import argparse
import json
import pathlib
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

OPERATIONS = {
    "geqrf": {"NumPy": lambda a: np.linalg.qr(a, mode="raw"), "PyTorch": torch.geqrf},
    "orgqr": {"PyTorch": torch.linalg.householder_product},
    "ormqr": {"PyTorch": lambda v, tau, c: torch.ormqr(v, tau, c, transpose=True)},
    "qr": {"NumPy": np.linalg.qr, "PyTorch": torch.linalg.qr},
}
DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
FIELDS = ("op", "dtype", "alone", "threads", "count", "m", "n")
# As in qr_bench.cc.
SECONDS = 0.3
FEWEST_ROUNDS, MOST_ROUNDS = 5, 31
SETTLE = 0.04
LARGE = 256 * 256  # entries, from which the libraries' own threads may help


def normal(random, shape, dtype):
    values = random.standard_normal(shape)
    return (values + 1j * random.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else values).astype(dtype)


def inputs_of(case):
    """The operation's arguments, for all matrices of the case."""
    random = np.random.default_rng(20261130)
    a = normal(random, (case["count"], case["m"], case["n"]), DTYPES[case["dtype"]])
    if case["op"] in ("geqrf", "qr"):
        return [a]
    v, tau = (x.numpy() for x in torch.geqrf(torch.from_numpy(a)))
    return [np.ascontiguousarray(x) for x in ([v, tau] if case["op"] == "orgqr" else [v, tau, a])]


class Implementation:
    def __init__(self, case, name, inputs, threads):
        self.name = name + (" 1 thread" if threads < case["threads"] else "")
        self.case, self.threads = case, threads
        self.work = OPERATIONS[case["op"]][name]
        self.inputs, self.copies = inputs, [np.empty_like(x) for x in inputs]
        arguments = [torch.from_numpy(x) for x in self.copies] if name == "PyTorch" else self.copies
        self.calls = list(zip(*arguments, strict=True)) if case["alone"] else [arguments]

    def seconds(self):
        if self.case["alone"] and self.case["threads"] > 1:
            time.sleep(SETTLE)
        for copy, values in zip(self.copies, self.inputs, strict=True):
            copy[...] = values
        torch.set_num_threads(self.threads)
        with threadpool_limits(self.threads, user_api="blas"):
            start = time.perf_counter()
            for arguments in self.calls:
                self.work(*arguments)
            return time.perf_counter() - start


def measure(ours):
    case = {field: ours[field] for field in FIELDS}
    inputs = inputs_of(case)
    counts = {1, case["threads"]} if case["m"] * case["n"] >= LARGE else {1}
    implementations = [Implementation(case, name, inputs, threads) for threads in sorted(counts) for name in OPERATIONS[case["op"]]]
    first_round = sum(implementation.seconds() for implementation in implementations)
    rounds = min(max(int(SECONDS / first_round), FEWEST_ROUNDS), MOST_ROUNDS)
    times = [[implementation.seconds() for implementation in implementations] for _ in range(rounds)]
    for implementation, column in zip(implementations, zip(*times, strict=True), strict=True):
        us = [1e6 * seconds / case["count"] for seconds in sorted(column)]
        median = us[rounds // 2]
        yield case | {"impl": implementation.name, "us": median, "min": us[0], "max": us[-1], "repetitions": rounds,
                      "gflops": ours["gflops"] * ours["us"] / median}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    for ours in json.loads(arguments.input.read_text())["rows"]:
        if ours["impl"] != "factord":
            continue
        for row in measure(ours):
            print(f"{row['op']}/{row['dtype']}/{'alone' if row['alone'] else 'batch'}/{row['m']}x{row['n']}/{row['threads']}  "
                  f"{row['impl']:20} {row['us']:12.4f} us", flush=True)
            rows.append({key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()})
    blas = np.show_config(mode="dicts")["Build Dependencies"]["lapack"]
    facts = {"NumPy": f"{np.__version__} with {blas['name']} {blas['version']}",
             "PyTorch": f"{torch.__version__} with MKL" if torch.backends.mkl.is_available() else torch.__version__}
    arguments.output.write_text(json.dumps(facts | {"rows": rows}))


if __name__ == "__main__":
    main()
