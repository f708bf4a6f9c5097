"""SIGTERM: health first, then refuse, then finish what was accepted."""

import queue
import signal

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import ONE_LANE, array_of, check_qr, code_of, normal, pb, qr_request, running, slow_request, wait_until
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def start_unary(server, count):
    """`count` requests of which one runs and the others wait, and their matrices."""
    stub = server.stub()
    arrays = [normal(80, 60, seed=i) for i in range(count)]
    slow = stub.Factorize.future(slow_request())
    wait_until(lambda: server.metrics()["factord_running_jobs"] > 0)
    calls = [stub.Factorize.future(qr_request(a)) for a in arrays]
    wait_until(lambda: server.metrics()["factord_queue_jobs"] >= count)
    return slow, list(zip(arrays, calls, strict=True))


def test_accepted_work_finishes_and_new_work_is_refused():
    with running(*ONE_LANE, "--drain_delay=300ms") as server:
        health = health_pb2_grpc.HealthStub(server.channel())
        watch = health.Watch(health_pb2.HealthCheckRequest(service="factord.v1.Factorization"))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        late = server.stub()
        outboxes = [queue.SimpleQueue() for _ in range(5)]
        streams = [server.stub().FactorizeStream(iter(outbox.get, None)) for outbox in outboxes]
        slow, calls = start_unary(server, 50)
        for outbox in outboxes:
            outbox.put(pb.StreamRequest(start=pb.Start(request_id="a", factorize=qr_request(normal(5, 5)))))
        for stream in streams:
            assert next(stream).WhichOneof("message") == "header"

        server.terminate()

        assert next(watch).status == NOT_SERVING
        for a, call in calls:
            factors = call.result().qr[0]
            check_qr(a, array_of(factors.q), array_of(factors.r))
        assert slow.code() == grpc.StatusCode.OK
        for stream in streams:
            assert [m.WhichOneof("message") for m in iter_until_error(stream)] == ["chunk", "chunk", "done"]
            assert stream.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        assert code_of(lambda: late.Factorize(qr_request(normal(3, 3)), timeout=30))[0] == grpc.StatusCode.UNAVAILABLE
        for outbox in outboxes:
            outbox.put(None)
        assert server.wait()[0] == 0


def iter_until_error(stream):
    try:
        yield from stream
    except grpc.RpcError:
        return


def test_requests_are_taken_until_the_drain_delay_has_passed():
    with running("--drain_delay=2s") as server:
        health = health_pb2_grpc.HealthStub(server.channel())
        watch = health.Watch(health_pb2.HealthCheckRequest())
        stub = server.stub()
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        server.terminate()
        assert next(watch).status == NOT_SERVING
        assert stub.Factorize(qr_request(normal(3, 3))).qr[0].r.dims == [3, 3]
        assert server.wait()[0] == 0


def test_draining_is_said_with_a_hint():
    with running(*ONE_LANE) as server:
        stub = server.stub()
        slow, _ = start_unary(server, 1)
        server.terminate()

        def draining():
            try:
                stub.Factorize(qr_request(normal(3, 3)))
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.UNAVAILABLE and "shutting down" in error.details()
            return False

        wait_until(draining)
        assert slow.code() == grpc.StatusCode.OK
        assert server.wait()[0] == 0


def test_work_that_outlasts_the_grace_period_is_ended_and_said():
    with running(*ONE_LANE, "--grace_period=1ms") as server:
        slow, calls = start_unary(server, 20)
        server.terminate()
        codes = {call.code() for _, call in calls}
        assert codes <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        code, err = server.wait()
        assert code == 1 and "grace period passed" in err


def test_a_second_signal_leaves_at_once():
    with running("--cpu_threads=1", "--drain_delay=1h") as server:
        server.terminate()
        wait_until(lambda: server.metrics()["factord_serving"] == 0)
        server.process.send_signal(signal.SIGTERM)
        code, err = server.wait(timeout=10)
        assert code == 1 and "second signal" in err


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_idle_servers_leave_quickly(sent):
    with running() as server:
        server.process.send_signal(sent)
        assert server.wait(timeout=10)[0] == 0
