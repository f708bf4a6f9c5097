"""Cheap requests that ask for much: each is answered or refused at little cost, and others are served meanwhile."""

import os
import queue
import signal
import subprocess
import sys
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import (PATIENCE, SANITIZER_BYTES, array_of, assert_alive, assert_idle, code_of, normal, pb, qr_request, running, tensor, wait_until)
from test_stream import EXPIRED, INVALID, UNAVAILABLE, Stream, refusal

Code = grpc.StatusCode
MANY = 16_384  # the default of --max_tensors
R_ONLY = pb.QrOptions(r=True)


def peak_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def many_tensors(data):
    one = tensor(np.ones((1, 1), "f4"), data=data)
    return pb.FactorizeRequest(a=[one] * MANY, qr=pb.QrOptions(q=pb.Q_MODE_REDUCED, r=True, reflectors=True))


def longest_wait(server, busy):
    """The longest that a lone small request waited while `busy` (a call) was not done."""
    stub, longest = server.stub(), 0.0
    while not busy.done():
        start = time.monotonic()
        stub.Factorize(qr_request(normal(4, 4)))
        longest = max(longest, time.monotonic() - start)
    return longest


def test_explaining_many_tensors_leaves_health_checks_alone(server):
    health = health_pb2_grpc.HealthStub(server.channel())
    stub = server.stub()
    calls = [stub.Explain.future(pb.ExplainRequest(factorize=many_tensors(data=False))) for _ in range(4)]
    start = time.monotonic()
    health.Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert time.monotonic() - start < 2 * PATIENCE
    assert {len(call.result().explanations) for call in calls} == {MANY}


def test_many_tensors_do_not_hold_the_lane(server):
    call = server.stub().Factorize.future(many_tensors(data=True))
    assert longest_wait(server, call) < PATIENCE
    assert len(call.result().qr) == MANY


def test_many_tensors_on_a_stream(stub):
    start = time.monotonic()
    stream = Stream(stub)
    stream.start("many", many_tensors(data=True))
    (done,) = stream.until_done("many")
    stream.finish()
    assert done.status.code == 0 and time.monotonic() - start < 15 * PATIENCE
    assert stream.tensor("many", 4 * MANY - 1) == bytes(4)


@pytest.mark.parametrize("name,message", [
    ("empty tensors", b"\x0a\x00" * (8 << 20)),
    ("one-byte data, again and again", b"\x0a" + b"\x80\x80\x80\x08" + b"\x22\x01x" * 5_592_405 + b"\x22"),
    ("dims without end", b"\x0a\x85\x80\x80\x08\x12\x80\x80\x80\x08" + b"\x01" * (16 << 20)),
    ("unknown fields", b"\xa0\x06" * (4 << 20)),
])
def test_messages_that_would_grow_when_parsed(name, message):
    with running() as server:
        raw = server.channel().unary_unary("/factord.v1.Factorization/Factorize")
        code, details = code_of(lambda: raw(message))
        assert code == Code.INVALID_ARGUMENT, details
        assert peak_bytes(server) < (150 << 20) + SANITIZER_BYTES
        assert_alive(server)


def test_server_info_needs_no_large_request(server):
    raw = server.channel().unary_unary("/factord.v1.Factorization/GetServerInfo")
    code, details = code_of(lambda: raw(b"\xa0\x06\x01" * 2000))
    assert code == Code.INVALID_ARGUMENT and "more than 1024 fields" in details


@pytest.mark.parametrize("streamed", [False, True])
def test_a_million_bad_matrices_fit_into_one_reply(server, streamed):
    a = np.full((1_000_000, 1, 1), np.nan, "f4")
    if streamed:
        stream = Stream(server.stub())
        stream.start("bad", pb.FactorizeRequest(a=[tensor(a)], qr=R_ONLY))
        (done,) = stream.until_done("bad")
        stream.finish()
        assert done.status.code == 0
        reply = done.result.factorize
    else:
        reply = server.stub().Factorize(pb.FactorizeRequest(a=[tensor(a)], qr=R_ONLY))
    assert reply.report.failed_matrices == 1_000_000
    assert len(reply.qr[0].statuses) == 65536
    indices = [status.index for status in reply.qr[0].statuses]
    assert indices == sorted(set(indices))


def test_ranks_without_end_are_refused_before_the_work(server):
    problem = pb.LeastSquaresProblem(a=pb.Tensor(dtype=pb.DTYPE_F32, dims=[80_000_000, 0, 0]),
                                     b=pb.Tensor(dtype=pb.DTYPE_F32, dims=[80_000_000, 0, 0]))
    stream = Stream(server.stub())
    stream.start("ranks", solve=pb.SolveRequest(problems=[problem]))
    code, message = refusal(stream, "ranks")
    stream.finish()
    assert code == Code.RESOURCE_EXHAUSTED.value[0] and "split the request" in message


def test_explaining_a_batch_of_empty_matrices(stub):
    for count in (2**62, 2**63 - 1):
        request = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[count, 0, 3])], qr=R_ONLY)
        explanation = stub.Explain(pb.ExplainRequest(factorize=request)).explanations[0]
        assert (explanation.jobs, explanation.predicted_ns, explanation.output_bytes) == (0, 0, 0)
        assert stub.Factorize(request).qr[0].r.dims == [count, 0, 3]


def test_a_stream_has_a_limit_of_unfinished_requests(server):
    stream = Stream(server.stub())
    request = qr_request(normal(1, 1), data=False)
    for i in range(4100):
        stream.start(f"{i}", request)
    done = [message.status.code for message in stream.until_done("4096", "4099")]
    assert done == [UNAVAILABLE, UNAVAILABLE] and "4095" not in stream.done
    assert "4096 unfinished" in stream.done["4096"].status.message
    stream.call.cancel()
    stream.finish()


def test_starts_that_nobody_reads_about_do_not_pile_up():
    with running("--stall_timeout=1s") as server:
        stream = Stream(server.stub())
        bad = pb.FactorizeRequest(a=[pb.Tensor(dims=[-1])])
        for i in range(100_000):
            stream.start(f"{i}", bad)
        wait_until(lambda: server.metrics()["factord_streams"] == 0, timeout=60)
        stream.finish()
        assert peak_bytes(server) < (120 << 20) + SANITIZER_BYTES
        assert_idle(server)


def test_empty_chunks_do_not_keep_an_upload_alive():
    with running("--upload_timeout=500ms") as server:
        stream = Stream(server.stub())
        stream.start("held", qr_request(normal(4, 3), data=False))
        outcome = None
        for _ in range(100):
            stream.chunk("held", b"")
            time.sleep(0.02)
            if server.metrics()["factord_memory_in_flight_bytes"] == 0:
                outcome = refusal(stream, "held")
                break
        stream.finish()
        assert outcome and outcome[0] == EXPIRED and "no chunk for 500ms" in outcome[1]


def test_a_chunk_that_comes_very_late_is_let_go(stub):
    stream = Stream(stub)
    bad = qr_request(normal(4, 3), data=False)
    bad.a[0].dims[0] = -1
    stream.start("late", bad)
    assert refusal(stream, "late")[0] == INVALID
    for i in range(4200):
        stream.start(f"{i}", qr_request(normal(1, 1)))
        stream.until_done(f"{i}")
    stream.chunk("late", bytes(8))
    stream.start("after", qr_request(normal(1, 1)))
    assert stream.until_done("after")[0].status.code == 0
    stream.finish()


STOPPED_CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import grpc, os, signal
from factord.v1 import factord_pb2_grpc
from harness import normal, qr_request, UNLIMITED
stub = factord_pb2_grpc.FactorizationStub(grpc.insecure_channel(sys.argv[2], UNLIMITED))
request = qr_request(normal(40, 300, 300))
print("ready", flush=True)
while True:
    stub.Factorize(request)
"""


def test_a_unary_client_that_stops_reading_is_cut_off():
    with running("--stall_timeout=1s") as server:
        client = subprocess.Popen([sys.executable, "-c", STOPPED_CLIENT, os.path.dirname(__file__), server.target],
                                  stdout=subprocess.PIPE, text=True)
        try:
            assert client.stdout.readline() == "ready\n"
            for _ in range(100):  # until one is stopped in the middle of a reply
                wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 0)
                client.send_signal(signal.SIGSTOP)
                time.sleep(0.2)
                if server.metrics()["factord_memory_in_flight_bytes"] > 0:
                    break
                client.send_signal(signal.SIGCONT)
            assert_idle(server)
        finally:
            client.kill()
            client.wait()


def test_streams_cancelled_at_any_moment_are_counted_right(server):
    stub = server.stub()
    for i in range(300):
        outbox = queue.SimpleQueue()
        call = stub.FactorizeStream(iter(outbox.get, None))
        for k in range(3):
            outbox.put(pb.StreamRequest(start=pb.Start(request_id=f"{k}", factorize=qr_request(normal(3, 3)))))
        if i % 3:
            next(call)
        call.cancel()
        outbox.put(None)


@pytest.mark.parametrize("timeout", [1e6, 1e9])
def test_deadlines_years_away(server, timeout):
    raw = server.channel().unary_unary("/factord.v1.Factorization/Factorize")
    assert raw(qr_request(normal(3, 3)).SerializeToString(), timeout=timeout)


def test_results_larger_than_a_message_come_in_chunks_that_fit():
    with running("--max_message_bytes=1048576") as server:
        stream = Stream(server.stub())
        a = normal(900, 600)
        stream.start("big", qr_request(a, data=False))
        stream.upload("big", a, size=500_000)
        (done,) = stream.until_done("big")
        stream.finish()
        assert done.status.code == 0 and len(stream.tensor("big", 0)) == a.nbytes


def test_an_upload_under_way_is_finished_while_draining():
    with running() as server:
        stream = Stream(server.stub())
        a = normal(100, 100)
        stream.start("upload", qr_request(a, data=False))
        stream.until_header("upload")
        server.terminate()
        wait_until(lambda: server.metrics()["factord_serving"] == 0)
        stream.start("new", qr_request(a))
        assert refusal(stream, "new")[0] == UNAVAILABLE
        stream.upload("upload", a)
        assert stream.until_done("upload")[0].status.code == 0
        assert server.wait()[0] == 0
        stream.finish()


def test_the_grace_period_bounds_the_exit():
    with running("--cpu_threads=1", "--grace_period=200ms") as server:
        stub = server.stub()
        request = qr_request(normal(1950, 1950, dtype="c16"), q=pb.Q_MODE_UNSPECIFIED)  # about a second each
        slow = [stub.Factorize.future(request) for _ in range(5)]
        wait_until(lambda: server.metrics()["factord_running_jobs"] > 0 and server.metrics()["factord_queue_jobs"] > 0)
        start = time.monotonic()
        server.terminate()
        code, err = server.wait()
        assert code == 1 and "unfinished" in err
        assert time.monotonic() - start < 2.5 * PATIENCE
        assert {call.code() for call in slow} & {Code.UNAVAILABLE, Code.CANCELLED}
