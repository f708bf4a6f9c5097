"""What the server refuses, and how it says so."""

import concurrent.futures
import os
import time

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from harness import (ONE_LANE, PATIENCE, array_of, assert_alive, assert_idle, check_qr, code_of, normal, pb, qr_request, running,
                     slow_request, tensor, wait_until)

Code = grpc.StatusCode
# ThreadSanitizer's own memory, several times what is touched, counts as the server's.
PEAK_KIB = 1_800_000 if os.environ.get("FACTORD_SANITIZER") == "thread" else 600_000
# Long enough for 200 requests to reach the queue, which the sanitizers make slower; far less than two slow ones take.
QUEUE_DEADLINE = 0.5 if os.environ.get("FACTORD_SANITIZER") else 0.1


def details_of(call):
    """(code, message, {type: detail}) of a refusal."""
    try:
        call()
    except grpc.RpcError as error:
        raw = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
        found = {}
        for any_detail in status_pb2.Status.FromString(raw).details:
            for kind in (error_details_pb2.BadRequest, error_details_pb2.RetryInfo, error_details_pb2.ErrorInfo):
                if any_detail.Is(kind.DESCRIPTOR):
                    found[kind.DESCRIPTOR.name] = kind.FromString(any_detail.value)
        return error.code(), error.details(), found
    raise AssertionError("the call succeeded")


def hold_lane(server, stub, **kwargs):
    """A slow request that has the only lane when this returns; what is sent next waits behind it."""
    slow = stub.Factorize.future(slow_request(), **kwargs)
    wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
    return slow


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05abc", bytes(range(256)), b"\x00" * 64])
@pytest.mark.parametrize("rpc", ["Factorize", "FormQ", "ApplyQ", "Solve", "Explain"])
def test_garbage_in_place_of_protobuf(server, rpc, garbage):
    raw = server.channel().unary_unary(f"/factord.v1.Factorization/{rpc}")
    code, message = code_of(lambda: raw(garbage))
    assert code == Code.INVALID_ARGUMENT and f"factord.v1.{rpc}Request" in message


@pytest.mark.parametrize("size", [0, 47, 49, 96])
def test_bytes_that_disagree_with_the_dims(stub, size):
    request = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[4, 3], data=bytes(size))], qr=pb.QrOptions(r=True))
    code, message, details = details_of(lambda: stub.Factorize(request))
    assert code == Code.INVALID_ARGUMENT
    assert message == f"a[0].data: has {size} bytes; dims 4x3 of f32 need 48"
    assert details["BadRequest"].field_violations[0].field == "a[0].data"


@pytest.mark.parametrize("value", [-1, -2**31, -2**63, 2**31, 2**63 - 1])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_absurd_dims(stub, value, place):
    dims = [2, 2, 2]
    dims[place] = value
    request = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F64, dims=dims, data=bytes(64))], qr=pb.QrOptions(r=True))
    code, message, _ = details_of(lambda: stub.Factorize(request))
    assert code == Code.INVALID_ARGUMENT and "a[0].d" in message and str(abs(value))[:9] in message or "2^63-1" in message


@pytest.mark.parametrize("dims", [[65536, 65536], [2**32, 2**32, 16, 1], [2**31, 2, 2**31, 2], [2**62, 1, 1], [2**40, 2**40, 1, 0]])
def test_dims_whose_product_wraps(server, dims):
    request = pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=dims)], qr=pb.QrOptions(r=True))
    assert code_of(lambda: server.stub().Factorize(request))[0] == Code.INVALID_ARGUMENT


def test_more_than_the_servers_memory_says_how_much(stub):
    request = pb.ExplainRequest(factorize=pb.FactorizeRequest(
        a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[58720256, 36])], qr=pb.QrOptions(r=True)))
    code, message = code_of(lambda: stub.Explain(request))
    assert code == Code.RESOURCE_EXHAUSTED and "8455716864 bytes" in message and "2000000000" in message


def test_a_request_over_the_message_limit():
    with running("--max_message_bytes=1000000") as server:
        code, message = code_of(lambda: server.stub().Factorize(qr_request(normal(600, 600))))
        assert code == Code.RESOURCE_EXHAUSTED and "1000000" in message
        assert_alive(server)


def test_a_reply_over_the_message_limit_is_refused_before_the_work():
    with running("--max_message_bytes=1000000") as server:
        request = qr_request(normal(4096, 16), q=pb.Q_MODE_COMPLETE)
        code, message = code_of(lambda: server.stub().Factorize(request))
        assert code == Code.RESOURCE_EXHAUSTED and "67110552 bytes" in message and "FactorizeStream" in message
        assert server.metrics()['factord_matrices_total{dtype="f32",op="factorize"}'] == 0


def test_swapped_byte_order_is_only_a_strange_matrix(stub):
    a = normal(3, 3)
    request = qr_request(a)
    request.a[0].data = a.byteswap().tobytes()
    assert stub.Factorize(request).qr[0].q.dims == [3, 3]


def test_a_backend_that_is_not_here(stub):
    request = qr_request(normal(3, 3), run=pb.RunOptions(backend=pb.BACKEND_GPU))
    code, message = code_of(lambda: stub.Factorize(request))
    assert code == Code.FAILED_PRECONDITION and message == "run.backend: this server has no gpu backend"


@pytest.mark.parametrize("limit", [1 << 20, 64 << 20])
def test_a_message_that_grows_when_decompressed_is_bounded(limit):
    with running(f"--max_message_bytes={limit}") as server:
        zeros = pb.Tensor(dtype=pb.DTYPE_F32, dims=[5000, 5000], data=bytes(4 * 5000 * 5000))
        request = pb.FactorizeRequest(a=[zeros], qr=pb.QrOptions(r=True))
        calls = [server.stub().Factorize.future(request, compression=grpc.Compression.Gzip) for _ in range(3)]
        assert {call.code() for call in calls} == {Code.RESOURCE_EXHAUSTED}
        with open(f"/proc/{server.process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        assert peak < PEAK_KIB
        assert_alive(server)


def test_compressed_requests_are_understood(stub):
    a = normal(100, 40)
    factors = stub.Factorize(qr_request(a), compression=grpc.Compression.Gzip).qr[0]
    check_qr(a, array_of(factors.q), array_of(factors.r))


def test_a_deadline_that_passes_in_the_queue_costs_no_work():
    with running(*ONE_LANE) as server:
        stub = server.stub()
        slow = [stub.Factorize.future(slow_request()) for _ in range(2)]
        wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
        calls = [stub.Factorize.future(qr_request(normal(100, 100, seed=i)), timeout=QUEUE_DEADLINE) for i in range(200)]
        assert {call.code() for call in calls} == {Code.DEADLINE_EXCEEDED}
        assert {call.code() for call in slow} == {Code.OK}
        assert_idle(server)
        metrics = server.metrics()
        assert metrics['factord_matrices_total{dtype="f32",op="factorize"}'] < 20
        dropped = sum(metrics[f'factord_rejected_total{{reason="{reason}"}}'] for reason in ("expired", "cancelled", "hopeless"))
        assert dropped > 150
        assert_alive(server)


def test_cancelled_calls_cost_no_work():
    with running(*ONE_LANE) as server:
        stub = server.stub()
        slow = hold_lane(server, stub)
        calls = [stub.Factorize.future(qr_request(normal(100, 100, seed=i))) for i in range(50)]
        wait_until(lambda: server.metrics()["factord_queue_jobs"] == 50)
        for call in calls:
            call.cancel()
        wait_until(lambda: server.metrics()["factord_queue_jobs"] == 0)
        assert server.metrics()['factord_matrices_total{dtype="f32",op="factorize"}'] == 0
        assert slow.code() == Code.OK
        assert_idle(server)


def test_a_full_queue_refuses_at_once_with_a_hint():
    with running(*ONE_LANE, "--max_queued_jobs=3") as server:
        stub = server.stub()
        slow = [stub.Factorize.future(slow_request())]
        wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
        slow += [stub.Factorize.future(qr_request(normal(50, 50))) for _ in range(3)]
        wait_until(lambda: server.metrics()["factord_queue_jobs"] == 3)
        start = time.monotonic()
        code, message, details = details_of(lambda: stub.Factorize(qr_request(normal(5, 5))))
        assert code == Code.UNAVAILABLE and time.monotonic() - start < 0.5 * PATIENCE
        assert details["ErrorInfo"].reason == "QUEUE_FULL" and "3" in message
        assert details["RetryInfo"].retry_delay.ToNanoseconds() > 0
        assert {call.code() for call in slow} == {Code.OK}


def test_a_full_budget_refuses_at_once_with_a_hint():
    with running(*ONE_LANE, "--memory_budget_bytes=125000000") as server:
        stub = server.stub()
        slow = stub.Factorize.future(slow_request())
        wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 0)
        code, message, details = details_of(lambda: stub.Factorize(qr_request(normal(1000, 1000))))
        assert code == Code.UNAVAILABLE and "of 125000000 are in use" in message
        assert details["ErrorInfo"].reason == "MEMORY_BUDGET_FULL"
        assert slow.code() == Code.OK
        assert_idle(server)


def test_good_bad_and_dead_requests_of_one_bucket():
    with running(*ONE_LANE) as server:
        stub = server.stub()
        slow = hold_lane(server, stub)
        arrays = [normal(30, 20, seed=i) for i in range(64)]
        arrays[7][3, 3] = np.nan
        calls = [stub.Factorize.future(qr_request(a), timeout=0.05 if i == 9 else 60) for i, a in enumerate(arrays)]
        wait_until(lambda: server.metrics()["factord_queue_jobs"] >= 62)
        calls[8].cancel()
        assert slow.code() == Code.OK
        codes = [call.code() for call in calls]
        assert codes[8] == Code.CANCELLED and codes[9] == Code.DEADLINE_EXCEEDED
        assert set(codes[:8] + codes[10:]) == {Code.OK}
        for i in set(range(64)) - {7, 8, 9}:
            factors = calls[i].result().qr[0]
            check_qr(arrays[i], array_of(factors.q), array_of(factors.r))
        assert calls[7].result().qr[0].statuses[0].code == pb.MATRIX_CODE_NONFINITE_INPUT
        assert calls[10].result().report.batch_matrices >= 50


def test_a_flood_does_not_starve_another_client():
    with running(*ONE_LANE) as server:
        flood = server.stub()
        as_flood, as_other = [("factord-client", "flood")], [("factord-client", "other")]
        big = qr_request(normal(500, 500, dtype="f8"))
        slow = hold_lane(server, flood, metadata=as_flood)  # so that the flood can rise behind it
        calls = [flood.Factorize.future(big, metadata=as_flood) for _ in range(60)]
        wait_until(lambda: server.metrics()["factord_queue_jobs"] > 40)
        other = server.stub()
        for _ in range(5):
            other.Factorize(qr_request(normal(32, 32)), metadata=as_other)
        unfinished = sum(not call.done() for call in calls)
        assert unfinished > 20  # five small calls went past the flood
        assert {call.code() for call in [slow, *calls]} == {Code.OK}


def test_low_priority_gives_way():
    with running(*ONE_LANE, "--low_priority_ageing=100s") as server:
        stub = server.stub()
        slow = hold_lane(server, stub)
        low = [stub.Factorize.future(qr_request(normal(256, 256, seed=i), run=pb.RunOptions(priority=pb.PRIORITY_LOW)))
               for i in range(100)]
        wait_until(lambda: server.metrics()["factord_queue_jobs"] == 100)
        stub.Factorize(qr_request(normal(8, 8)))
        assert sum(call.done() for call in low) < 50
        assert {call.code() for call in low} == {Code.OK}


def test_bursts_from_many_clients_are_all_answered_or_refused_in_time():
    with running(*ONE_LANE, "--max_queued_jobs=20") as server:
        server_stub = server.stub()

        def client(number):
            outcomes = []
            for i in range(20):
                try:
                    server_stub.Factorize(qr_request(normal(200, 200, seed=number)), timeout=30)
                    outcomes.append(Code.OK)
                except grpc.RpcError as error:
                    outcomes.append(error.code())
            return outcomes

        slow = hold_lane(server, server_stub)  # so that the first burst is more than the queue holds
        with concurrent.futures.ThreadPoolExecutor(60) as pool:
            outcomes = [code for codes in pool.map(client, range(60)) for code in codes]
        assert set(outcomes) == {Code.OK, Code.UNAVAILABLE}
        assert slow.code() == Code.OK
        assert_alive(server)
        assert_idle(server)


def test_garbage_leaves_no_memory_behind(server):
    raw = server.channel().unary_unary("/factord.v1.Factorization/Factorize")
    rng = np.random.default_rng(1)
    good = qr_request(normal(20, 20)).SerializeToString()
    for _ in range(500):
        bytes_ = bytearray(good)
        for _ in range(3):
            bytes_[rng.integers(len(bytes_))] = rng.integers(256)
        try:
            raw(bytes(bytes_))
        except grpc.RpcError as error:
            assert error.code() in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED)
