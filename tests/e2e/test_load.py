"""Message sizes, many callers at once, and what is left afterwards."""

import concurrent.futures
import os
import signal
import subprocess
import sys

import grpc
import numpy as np
import pytest
from harness import (SANITIZER_BYTES, array_of, assert_alive, assert_idle, check_qr, code_of, normal, pb, qr_request, running, wait_until)


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


@pytest.mark.parametrize("size", [(1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 20, 20_000_000])
def test_messages_around_http2_windows_do_not_stall(stub, size):
    a = normal(size // 4, 1)
    factors = stub.Factorize(qr_request(a), timeout=30).qr[0]
    check_qr(a, array_of(factors.q), array_of(factors.r))


def test_a_stock_clients_four_mebibytes(server):
    stock = server.stub(options=[])
    small, large = normal(700, 700), normal(1100, 1100)
    check_qr(small, *(array_of(t) for t in (lambda f: (f.q, f.r))(stock.Factorize(qr_request(small)).qr[0])))
    code, message = code_of(lambda: stock.Factorize(qr_request(large)))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "4194304" in message


def test_the_largest_limit_with_compression():
    with running("--max_message_bytes=2147483647") as server:
        a = normal(1000, 1000)
        factors = server.stub().Factorize(qr_request(a), compression=grpc.Compression.Gzip).qr[0]
        assert list(factors.r.dims) == [1000, 1000] and np.isfinite(array_of(factors.r)).all()


@pytest.mark.parametrize("threads", [None, "1", "4"])
def test_callers_beyond_blas_own_limits(threads, monkeypatch):
    """128 at once; OpenBLAS has slots for threads x callers, and ends the process when they run out."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    with running() as server:
        stub = server.stub()
        arrays = [normal(200, 200, seed=i) for i in range(128)]
        calls = [stub.Factorize.future(qr_request(a)) for a in arrays]
        for a, call in zip(arrays[::16], calls[::16], strict=True):
            factors = call.result().qr[0]
            check_qr(a, array_of(factors.q), array_of(factors.r))
        assert {call.code() for call in calls} == {grpc.StatusCode.OK}
        server.terminate()
        code, err = server.wait()
        assert code == 0 and "BLAS" not in err


def test_a_cold_server_met_by_many_at_once():
    with running() as server:
        def client(number):
            a = normal(300, 300, seed=number)
            factors = server.stub().Factorize(qr_request(a), timeout=60).qr[0]
            return np.isfinite(array_of(factors.q)).all()

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            assert all(pool.map(client, range(32)))


def test_ready_means_ready():
    """The first call of each kind is not far slower than the next ones."""
    with running() as server:
        stub = server.stub()
        reports = [stub.Factorize(qr_request(normal(50, 16, 16))).report for _ in range(20)]
        first, later = reports[0].run_ns, sorted(r.run_ns for r in reports[1:])[9]
        assert first < 50 * later + 20_000_000


def test_forty_shapes_from_many_clients_share_batches():
    with running("--cpu_threads=1", "--max_batch_delay=5ms") as server:
        rng = np.random.default_rng(22)
        shapes = [tuple(rng.integers(8, 40, 2)) for _ in range(40)]

        def client(number):
            stub, batches = server.stub(), []
            own = np.random.default_rng(number)
            for _ in range(30):
                a = normal(*shapes[own.integers(40)], seed=number)
                batches.append(stub.Factorize(qr_request(a)).report.batch_matrices)
            return batches

        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            batches = [size for sizes in pool.map(client, range(64)) for size in sizes]
        assert np.mean(batches) > 1
        metrics = server.metrics()
        waited = metrics['factord_stage_duration_seconds_bucket{stage="queue",le="0.1"}']
        assert waited > 0.95 * metrics['factord_stage_duration_seconds_count{stage="queue"}']


KILLED_CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import grpc
from factord.v1 import factord_pb2 as pb, factord_pb2_grpc
from harness import normal, qr_request, UNLIMITED
stub = factord_pb2_grpc.FactorizationStub(grpc.insecure_channel(sys.argv[2], UNLIMITED))
a = normal(2000, 500)
def messages():
    yield pb.StreamRequest(start=pb.Start(request_id="whole", factorize=qr_request(a)))
    yield pb.StreamRequest(start=pb.Start(request_id="half", factorize=qr_request(a, data=False)))
    yield pb.StreamRequest(chunk=pb.Chunk(request_id="half", data=bytes(1000)))
    print("sent", flush=True)
    while True:
        import time; time.sleep(60)
for _ in stub.FactorizeStream(messages()):
    pass
"""


def test_a_client_that_is_killed_leaves_nothing_behind(server):
    for _ in range(5):
        client = subprocess.Popen([sys.executable, "-c", KILLED_CLIENT, os.path.dirname(__file__), server.target],
                                  stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "sent\n"
        wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 0)
        client.send_signal(signal.SIGKILL)
        client.wait()
    assert_idle(server)


def test_a_rejected_upload_is_thrown_away_not_kept(server):
    """An invalid header, then 300 MB of chunks that nobody wants."""
    before = resident_bytes(server)
    request = qr_request(normal(4, 3), data=False)
    request.a[0].dims[0] = -1

    def messages():
        yield pb.StreamRequest(start=pb.Start(request_id="bad", factorize=request))
        for i in range(150):
            yield pb.StreamRequest(chunk=pb.Chunk(request_id="bad", offset=i << 21, data=bytes(1 << 21)))

    replies = list(server.stub().FactorizeStream(messages()))
    assert [r.WhichOneof("message") for r in replies] == ["done"] and replies[0].done.status.code == 3
    assert resident_bytes(server) - before < (150 << 20) + SANITIZER_BYTES


def test_memory_is_flat_under_load_of_every_shape():
    with running("--memory_budget_bytes=500000000") as server:
        stub = server.stub()
        rng = np.random.default_rng(41)
        shapes = [tuple(rng.integers(1, 300, 2)) for _ in range(100)]

        def rounds(count):
            for _ in range(count):
                calls = [stub.Factorize.future(qr_request(normal(*shape))) for shape in shapes]
                assert {call.code() for call in calls} == {grpc.StatusCode.OK}

        rounds(6)
        before = resident_bytes(server)
        rounds(12)
        assert resident_bytes(server) - before < (32 << 20) + SANITIZER_BYTES
        assert_idle(server)
        assert_alive(server)
