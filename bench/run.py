"""The CPU benchmarks, one after the other, as JSON and as tables: run.py BIN_FOLDER OUTPUT_PREFIX. See bench/run."""

import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

from tables import table

NUMPY_SHAPES = [(20000, 8), (1000, 32), (64, 128), (4, 512), (1, 1024)]


def output_of(*command, **kwargs):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kwargs).stdout


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    flags = re.search(r"flags\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1].split()
    vectors = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "sse2")
    return {
        "cpu": f"{cpu} ({vectors})",
        "cores": len(os.sched_getaffinity(0)),
        "commit": output_of("git", "rev-parse", "--short", "HEAD").strip(),
        "load_before": os.getloadavg()[0],
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
    }


def end_to_end(bin_folder):
    """(a) and (c): a request over [echo of as many bytes + the same work in process]."""
    lines = output_of(f"{bin_folder}/end_to_end_bench", "61").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@contextlib.contextmanager
def factord(bin_folder, *flags):
    command = [f"{bin_folder}/factord", "--listen=127.0.0.1:0", "--metrics_listen=", "--log_level=off", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


def batching(bin_folder, rounds=5):
    """(b): 64 clients with one 32x32 each, batching on and limited to 1, in turn."""
    results = {"batched": [], "single": []}
    for _ in range(rounds):
        for name, flags in (("batched", []), ("single", ["--max_batch_matrices=1"])):
            with factord(bin_folder, *flags) as address:
                results[name].append(json.loads(output_of(
                    f"{bin_folder}/factorctl", "bench", f"--server={address}", "--shape=32x32", "--dtype=f32", "--clients=64",
                    "--warmup=1s", "--duration=4s", "--json")))
    return results


def plots(bin_folder, prefix):
    """Latency against load (open loop, up to more than the machine can take) and throughput against batch size, as SVG and raw."""
    sweeps = {"load": ("--shape=32x32", "--clients=256", "--sweep=rate:1000,2000,4000,8000,12000,16000,20000"),
              "batch": ("--shape=32x32", "--clients=2", "--sweep=batch:1,10,100,1000,10000")}
    with factord(bin_folder) as address:
        return {name: json.loads(output_of(f"{bin_folder}/factorctl", "bench", f"--server={address}", *flags, "--warmup=1s", "--duration=4s",
                                           f"--plot={prefix}-{name}.svg", "--json"))
                for name, flags in sweeps.items()}


def engine(bin_folder):
    """(d): the engine and a plain loop of LAPACKE, interleaved, one thread."""
    text = output_of(f"{bin_folder}/engine_bench", "--benchmark_format=json", "--benchmark_repetitions=5",
                     "--benchmark_enable_random_interleaving=true", "--benchmark_report_aggregates_only=true",
                     "--benchmark_min_time=0.1")
    medians = {}
    for row in json.loads(text)["benchmarks"]:
        if row["aggregate_name"] == "median":
            path, _, shape = row["run_name"].removesuffix("/real_time").partition("f32/" if "f32/" in row["run_name"] else "f64/")
            dtype = "f32" if "f32/" in row["run_name"] else "f64"
            medians.setdefault((dtype, *map(int, shape.split("/"))), {})[path.strip("/")] = row["real_time"]
    return [{"dtype": dtype, "matrices": count, "n": n, **times} for (dtype, count, n), times in sorted(medians.items())]


def numpy_loop():
    """(d): a plain loop of numpy.linalg.qr, in a process of its own, with NumPy's own BLAS on one thread and free to choose
    its kernels."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")} | {"OPENBLAS_NUM_THREADS": "1"}
    return json.loads(output_of(sys.executable, __file__, "--numpy", env=environment))


def time_numpy():
    import numpy as np

    rows = []
    for count, n in NUMPY_SHAPES:
        a = np.random.default_rng(1).standard_normal((count, n, n)).astype(np.float32)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            for matrix in a:
                np.linalg.qr(matrix)
            times.append(1e3 * (time.perf_counter() - start))
        rows.append({"matrices": count, "n": n, "numpy_ms": statistics.median(times)})
    print(json.dumps(rows))


def report(data, name):
    batched, single = ([run["requests_per_second"] for run in data["batching"][name]] for name in ("batched", "single"))
    ratios = sorted(b / s for b, s in zip(batched, single, strict=True))
    size = statistics.median(run["mean_batch_matrices"] for run in data["batching"]["batched"])
    numpy_ms = {(row["matrices"], row["n"]): row["numpy_ms"] for row in data["numpy"]}
    facts = ", ".join(f"{key} {value}" for key, value in data["machine"].items())
    return f"""# CPU results

`bench/run`, {time.strftime("%Y-%m-%d")}: {facts}.

## A request, end to end

One unary request, f32, Q and R, TCP on loopback; client, server and echo server share the machine's cores. Ratio: service over
[bare gRPC echo of as many bytes + the same work in process on all cores]; medians over the rounds, and the spread of the rounds'
own ratios. The first three are lone small requests: nothing waits for company.

{table(["matrices", "service µs", "echo µs", "in process µs", "ratio", "p10 … p90"],
       [[f"{r['matrices']} × {r['n']}²", r["service_us"], r["echo_us"], r["compute_us"], f"**{r['ratio']:.2f}**",
         f"{r['ratio_p10']:.2f} … {r['ratio_p90']:.2f}"] for r in data["end_to_end"]])}

## Batching

64 clients, each one 32×32 f32 at a time; `factorctl bench --shape=32x32 --clients=64`, against `--max_batch_matrices=1`, in turn,
{len(batched)} times: {statistics.median(batched):.0f} requests/s batched, {statistics.median(single):.0f} one by one; ratio of a pair
{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} … {ratios[-1]:.2f}); {size:.0f} matrices a batch.

## Pictures

32 × 32 f32, Q and R: `factorctl bench --sweep=... --plot=...`. Client and server share the machine's cores.

![Latency against load]({name}-load.svg)

![Throughput against batch size]({name}-batch.svg)

## The engine against plain loops

Milliseconds for all matrices, Q and R, one thread, medians of 5. LAPACKE: `geqrf` + `orgqr` on column-major copies. NumPy: its own
BLAS, f32 computed in f64 as NumPy does.

{table(["type", "matrices", "LAPACKE", "engine, column-major", "engine, row-major", "engine, two threads", "NumPy loop", "LAPACKE / engine"],
       [[r["dtype"], f"{r['matrices']} × {r['n']}²", *(f"{r[k]:.2f}" for k in ("lapacke", "engine/column_major", "engine/row_major", "engine/two_threads")),
         f"{numpy_ms[r['matrices'], r['n']]:.1f}" if r["dtype"] == "f32" and (r["matrices"], r["n"]) in numpy_ms else "",
         f"**{r['lapacke'] / r['engine/column_major']:.2f}**"] for r in data["engine"]])}
"""


def main():
    if sys.argv[1:] == ["--numpy"]:
        return time_numpy()
    bin_folder, prefix = sys.argv[1], pathlib.Path(sys.argv[2])
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "end_to_end": end_to_end(bin_folder), "batching": batching(bin_folder),
            "plots": plots(bin_folder, prefix), "engine": engine(bin_folder), "numpy": numpy_loop()}
    prefix.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    prefix.with_suffix(".md").write_text(report(data, prefix.name))
    print(prefix.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
