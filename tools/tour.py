"""A tour of a running server with real data: python tour.py HOST:PORT METRICS_URL. What tools/quickstart shows."""

import csv
import json
import pathlib
import sys
import time
import urllib.request

import factord
import numpy as np

DATA = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data"


def timed(call, repeats=5):
    """The call's result and its median time in ms."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - start))
    return result, sorted(times)[repeats // 2]


def residual(a, q, r):
    """The worst matrix's ||A - QR|| / (m eps ||A||), in Frobenius norms: below 30 is LAPACK's own mark."""
    eps = np.finfo(a.dtype).eps / 2
    norm = lambda x: np.sqrt((abs(x.astype(complex)) ** 2).sum((-2, -1)))
    return float((norm(a - q @ r) / (a.shape[-2] * eps * norm(a))).max())


def title(text):
    print(f"\n{text}\n{'-' * len(text)}")


def factorize(client):
    title("QR of batches")
    print(f"{'what':44} {'shape':>16} {'type':>10} {'residual':>9} {'ms':>8}")
    rng = np.random.default_rng(1)
    rows = np.loadtxt(DATA / "tables" / "wifi_csi_snapshots.csv", delimiter=",", skiprows=1)
    channels = (rows[:, -180::2] + 1j * rows[:, -179::2]).reshape(-1, 3, 30).swapaxes(1, 2)
    batches = {
        "measured Wi-Fi channels, subcarriers x antennas": channels.astype(np.complex64),
        "one 3x3 a voxel": rng.standard_normal((20_000, 3, 3)).astype(np.float32),
        "an optimizer's layers": rng.standard_normal((4, 512, 512)).astype(np.float32),
        "one large matrix": rng.standard_normal((1024, 1024)),
    }
    for what, a in batches.items():
        (q, r), ms = timed(lambda: client.qr(a))
        print(f"{what:44} {'x'.join(map(str, a.shape)):>16} {a.dtype.name:>10} {residual(a, q, r):9.3f} {ms:8.2f}")


def solve_nist(client):
    title("NIST's linear least squares data sets")
    print(f"{'set':10} {'m':>4} {'n':>3} {'rank':>4} {'digits':>7} {'residual norm':>14} {'ms':>7}")
    for name, facts in json.loads((DATA / "nist" / "certified.json").read_text())["datasets"].items():
        table = np.loadtxt(DATA / "nist" / "csv" / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)
        exact = np.array(facts["exact_float64_inputs"]["beta"], dtype=np.longdouble)
        solution, ms = timed(lambda: client.lstsq(table[:, 1:], table[:, 0]))
        digits = -np.log10(max(float((abs(solution.x - exact) / abs(exact)).max()), 1e-17))
        norm = float(np.sqrt(solution.residuals[0]))
        print(f"{name:10} {table.shape[0]:4} {table.shape[1] - 1:3} {solution.rank:4} {digits:7.1f} {norm:14.6g} {ms:7.2f}")


def solve_panel(client):
    title("A regression per country, in one request (gapminder)")
    with open(DATA / "tables" / "gapminder.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    countries = sorted({row["country"] for row in rows})
    groups = [[row for row in rows if row["country"] == country] for country in countries]
    years = np.array([[float(row["year"]) - 1952 for row in group] for group in groups])
    life = np.array([[float(row["lifeExp"]) for row in group] for group in groups])
    solution, ms = timed(lambda: client.lstsq(np.stack([np.ones_like(years), years], -1), life[..., None]))
    slopes = solution.x[:, 1, 0]
    best, worst = int(slopes.argmax()), int(slopes.argmin())
    print(f"{len(countries)} countries, ranks {sorted({int(rank) for rank in np.ravel(solution.rank)})}, {ms:.2f} ms")
    print(f"life expectancy rose most in {countries[best]} ({slopes[best]:+.2f} years a year), least in {countries[worst]} ({slopes[worst]:+.2f})")


def solve_regression(client):
    title("One tall regression (CASP, 45730 x 10)")
    table = np.loadtxt(DATA / "tables" / "casp.csv", delimiter=",", skiprows=1)
    a = np.hstack([np.ones((len(table), 1)), table[:, 1:]])
    solution, ms = timed(lambda: client.lstsq(a, table[:, 0]))
    r2 = 1 - solution.residuals[0] / ((table[:, 0] - table[:, 0].mean()) ** 2).sum()
    print(f"rank {solution.rank}, R^2 {r2:.6f}, {ms:.2f} ms")
    collinear = np.hstack([a, a[:, 1:2] + a[:, 2:3]])
    solution, _ = timed(lambda: client.lstsq(collinear, table[:, 0]), repeats=1)
    print(f"with a column that is the sum of two others: rank {solution.rank} of 11, {[s.code for s in solution.statuses]}")


def show_server(client, metrics_url):
    title("The server")
    info = client.info()
    for backend in info.backends:
        print(f"{backend.backend}: {backend.name}, {backend.threads} threads, {backend.library}")
    with urllib.request.urlopen(metrics_url) as reply:
        lines = reply.read().decode().splitlines()
    sums = {key: float(value) for key, value in (line.rsplit(" ", 1) for line in lines if line[:1] not in ("#", ""))}
    print("mean time of a stage, in us:")
    for stage in ("decode", "queue", "pack", "compute", "unpack", "encode"):
        name = "factord_stage_duration_seconds_{}{{stage=\"" + stage + "\"}}"
        print(f"  {stage:8} {1e6 * sums[name.format('sum')] / max(1, sums[name.format('count')]):10.1f}")
    print(f"all metrics: {metrics_url}")


def main():
    target, metrics_url = sys.argv[1:3]
    with factord.Client(target) as client:
        factorize(client)
        solve_nist(client)
        solve_panel(client)
        solve_regression(client)
        show_server(client, metrics_url)


if __name__ == "__main__":
    main()
