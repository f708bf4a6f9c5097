"""What Prometheus sees."""

import pathlib
import re
import urllib.request

import numpy as np
import pytest
from harness import normal, pb, qr_request, running, tensor, wait_until

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture
def fresh():
    with running() as server:
        yield server


@pytest.fixture
def single_threaded():
    with running("--cpu_threads=1") as server:
        yield server


def families(server):
    """{name: type} of everything the server itself exports."""
    with urllib.request.urlopen(server.metrics_url) as reply:
        found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", reply.read().decode(), re.M))
    return {name: kind for name, kind in found.items() if name.startswith("factord_")}


def test_every_metric_is_documented_and_every_documented_one_exists(fresh):
    documented = set(re.findall(r"^\| `(factord_[a-z_]+)", DOCS.read_text(), re.M))
    assert documented == set(families(fresh))


def test_every_metric_is_documented_with_its_labels_type_and_unit(fresh):
    kinds, labels = families(fresh), {}
    for series in fresh.metrics():
        name = re.sub(r"_(bucket|sum|count)(?={|$)", "", series.partition("{")[0])
        labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', series)) - {"le"})
    rows = re.findall(r"^\| `(factord_[a-z_]+)(?:{(.*?)})?` \| (\w+), (.+?) \|", DOCS.read_text(), re.M)
    assert {name: kind for name, _, kind, _ in rows} == kinds
    for name, documented, _, _ in rows:
        assert set(filter(None, documented.split(","))) == labels[name], name


def test_names_follow_prometheus_and_nothing_is_a_summary(fresh):
    for name, kind in families(fresh).items():
        assert kind in ("counter", "gauge", "histogram")
        assert (kind == "counter") == name.endswith("_total")
        assert not re.search(r"_(ms|us|ns|kb|mb)(_|$)", name)


def test_a_request_is_counted_once_in_each_place(fresh):
    a = normal(30, 8, 5, dtype="f8")
    a[3, 0, 0] = np.nan
    fresh.stub().Factorize(qr_request(a))
    wait_until(lambda: fresh.metrics()['factord_requests_total{code="OK",rpc="Factorize"}'] == 1)
    metrics = fresh.metrics()
    assert metrics['factord_request_duration_seconds_count{rpc="Factorize"}'] == 1
    assert metrics['factord_matrices_total{dtype="f64",op="factorize"}'] == 30
    assert metrics['factord_matrix_failures_total{code="nonfinite_input"}'] == 1
    assert metrics['factord_batch_matrices_sum{device="cpu"}'] == 30
    assert metrics['factord_batch_matrices_count{device="cpu"}'] == 1
    assert metrics['factord_batches_total{close_reason="idle",device="cpu"}'] == 1
    assert metrics['factord_route_total{backend="cpu",label="default"}'] == 1
    for stage in ("decode", "queue", "pack", "compute", "unpack", "encode"):
        assert metrics[f'factord_stage_duration_seconds_count{{stage="{stage}"}}'] == 1
    assert metrics["factord_received_bytes_total"] > a.nbytes
    assert metrics["factord_sent_bytes_total"] > a.nbytes
    assert metrics['factord_lane_busy_seconds_total{device="cpu"}'] > 0
    assert metrics['factord_device_healthy{device="cpu"}'] == 1
    assert metrics['factord_device_lanes{device="cpu"}'] == 1
    assert metrics['factord_device_fallbacks_total{device="cpu",reason="error"}'] == 0
    assert metrics['factord_device_memory_bytes{device="cpu",kind="total"}'] > 1 << 20
    assert metrics["factord_serving"] == 1


def test_latencies_resolve_ten_microseconds(fresh):
    bounds = [float(v) for v in re.findall(r'factord_request_duration_seconds_bucket\{rpc="Solve",le="([\d.e+-]+)"\}',
                                           "\n".join(fresh.metrics()))]
    assert min(bounds) <= 10e-6 and 20e-6 in bounds and max(bounds) >= 100


def test_requests_never_add_a_series(fresh):
    stub = fresh.stub()
    before = set(fresh.metrics())
    rng = np.random.default_rng(5)
    for i in range(400):
        m, n = rng.integers(1, 60, 2)
        dtype = ["f4", "f8", "c8", "c16"][i % 4]
        stub.Factorize(qr_request(normal(m, n, dtype=dtype)), metadata=[("factord-client", f"client {i}")])
        stub.Solve(pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(normal(m, n)), b=tensor(normal(m, 1)))]))
    after = set(fresh.metrics())
    ours = {name for name in after - before if name.startswith("factord_")}
    assert ours == set()


def test_ages_grow_from_scrape_to_scrape_and_end_with_the_work(single_threaded):
    queue, batch = "factord_queue_oldest_age_seconds", 'factord_device_batch_age_seconds{device="cpu"}'

    def grows(age):
        before, after = single_threaded.metrics()[age], single_threaded.metrics()[age]
        return after > before > 0

    assert single_threaded.metrics()[queue] == single_threaded.metrics()[batch] == 0
    stub = single_threaded.stub()
    long = qr_request(normal(1000, 1000, dtype="c16"))
    calls = [stub.Factorize.future(long) for _ in range(8)]
    wait_until(lambda: grows(batch))
    wait_until(lambda: grows(queue))
    assert all(call.result() for call in calls)
    wait_until(lambda: single_threaded.metrics()[queue] == single_threaded.metrics()[batch] == 0)
