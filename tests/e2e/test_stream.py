"""FactorizeStream: many requests in flight, chunks both ways, and every way to get it wrong."""

import queue

import grpc
import numpy as np
import pytest
from factord.v1 import factord_pb2_grpc
from harness import (array_of, assert_alive, assert_idle, check_qr, code_of, normal, pb, qr_request, running, tensor, wait_until)

INVALID = grpc.StatusCode.INVALID_ARGUMENT.value[0]
CANCELLED = grpc.StatusCode.CANCELLED.value[0]
EXPIRED = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]


class Stream:
    """A stream driven message by message; collects what each request gets."""

    def __init__(self, stub, **kwargs):
        self.outbox = queue.SimpleQueue()
        self.call = stub.FactorizeStream(iter(self.outbox.get, None), **kwargs)
        self.headers, self.data, self.done = {}, {}, {}

    def start(self, name, operation=None, timeout=None, **fields):
        start = pb.Start(request_id=name, **({"factorize": operation} if operation else fields))
        if timeout is not None:
            start.timeout.FromNanoseconds(int(timeout * 1e9))
        self.outbox.put(pb.StreamRequest(start=start))

    def chunk(self, name, data, offset=0, tensor=0):
        self.outbox.put(pb.StreamRequest(chunk=pb.Chunk(request_id=name, tensor=tensor, offset=offset, data=data)))

    def upload(self, name, array, tensor=0, size=1 << 20):
        raw = np.ascontiguousarray(array).tobytes()
        for at in range(0, len(raw), size):
            self.chunk(name, raw[at:at + size], at, tensor)

    def cancel(self, name):
        self.outbox.put(pb.StreamRequest(cancel=pb.Cancel(request_id=name)))

    def finish(self):
        self.outbox.put(None)

    def read(self):
        message = next(self.call)
        kind = message.WhichOneof("message")
        if kind == "header":
            self.headers[message.header.request_id] = message.header.result
        elif kind == "chunk":
            chunk = message.chunk
            self.data.setdefault((chunk.request_id, chunk.tensor), {})[chunk.offset] = chunk.data
        else:
            self.done[message.done.request_id] = message.done

    def until_done(self, *names):
        while not set(names) <= set(self.done):
            self.read()
        return [self.done[name] for name in names]

    def until_header(self, name):
        while name not in self.headers:
            self.read()

    def tensor(self, name, number):
        """The bytes of a result tensor: chunks in order, without gaps or overlaps."""
        pieces = sorted(self.data.get((name, number), {}).items())
        for (offset, data), (following, _) in zip(pieces, pieces[1:]):
            assert offset + len(data) == following
        return b"".join(data for _, data in pieces)


@pytest.fixture
def stream(stub):
    stream = Stream(stub, timeout=120)
    yield stream
    stream.finish()


def refusal(stream, name):
    (done,) = stream.until_done(name)
    return done.status.code, done.status.message


def test_a_large_matrix_in_chunks_both_ways(stream):
    a = normal(700, 600)
    stream.start("big", qr_request(a, data=False))
    stream.upload("big", a, size=100_003)
    (done,) = stream.until_done("big")
    assert done.status.code == 0
    header = stream.headers["big"].factorize.qr[0]
    q, r = (array_of(t, stream.tensor("big", i)) for i, t in enumerate([header.q, header.r]))
    check_qr(a, q, r)
    assert done.result.factorize.report.jobs == 1 and done.result.factorize.qr[0].r.data == b""


def test_many_requests_in_flight_sent_before_any_is_read(stream):
    arrays = {f"request {i}": normal(2, 96, 96, seed=i) for i in range(100)}
    for name, a in arrays.items():
        stream.start(name, qr_request(a, data=False))
        stream.upload(name, a)
    stream.until_done(*arrays)
    for name, a in arrays.items():
        header = stream.headers[name].factorize.qr[0]
        check_qr(a, array_of(header.q, stream.tensor(name, 0)), array_of(header.r, stream.tensor(name, 1)))


def test_a_big_batch_comes_back_piece_by_piece(stream):
    a = normal(4000, 32, 32)
    stream.start("batch", qr_request(a, data=False))
    stream.upload("batch", a)
    (done,) = stream.until_done("batch")
    assert done.result.factorize.report.jobs > 1
    assert len(stream.data["batch", 0]) > 1
    header = stream.headers["batch"].factorize.qr[0]
    check_qr(a, array_of(header.q, stream.tensor("batch", 0)), array_of(header.r, stream.tensor("batch", 1)))


def test_inline_data_needs_no_chunks_and_equals_unary(stream, stub):
    a = normal(3, 9, 4, dtype="c16")
    stream.start("inline", qr_request(a, reflectors=True))
    stream.until_done("inline")
    unary = stub.Factorize(qr_request(a, reflectors=True)).qr[0]
    for number, name in enumerate(["q", "r", "reflectors", "tau"]):
        assert stream.tensor("inline", number) == getattr(unary, name).data


def test_every_operation(stream, stub):
    a, b = normal(2, 6, 4, dtype="f8"), normal(2, 6, 3, dtype="f8", seed=1)
    factors = stub.Factorize(qr_request(a, reflectors=True)).qr[0]
    packed = pb.Reflectors(reflectors=factors.reflectors, tau=factors.tau)
    stream.start("form", form_q=pb.FormQRequest(factors=[packed]))
    stream.start("apply", apply_q=pb.ApplyQRequest(applications=[pb.Application(factors=packed, c=tensor(b, data=False))]))
    stream.upload("apply", b, tensor=2)
    stream.start("solve", solve=pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(a, data=False), b=tensor(b, data=False))]))
    stream.upload("solve", b, tensor=1)
    stream.upload("solve", a, tensor=0)
    form, apply, solve = stream.until_done("form", "apply", "solve")
    assert form.status.code == apply.status.code == solve.status.code == 0
    assert stream.tensor("form", 0) == factors.q.data
    assert stream.headers["apply"].apply_q.applied[0].c.dims == [2, 6, 3]
    x = array_of(stream.headers["solve"].solve.solutions[0].x, stream.tensor("solve", 0))
    np.testing.assert_allclose(x[0], np.linalg.lstsq(a[0], b[0], rcond=None)[0], rtol=1e-10)
    assert list(solve.result.solve.solutions[0].rank) == [4, 4]


def test_empty_tensors_need_no_chunks(stream):
    stream.start("empty", qr_request(np.zeros((0, 3), "f4"), data=False))
    (done,) = stream.until_done("empty")
    assert done.status.code == 0 and stream.headers["empty"].factorize.qr[0].r.dims == [0, 3]


@pytest.mark.parametrize("chunks,message", [
    ([(8, 0, 16)], "chunk.offset: is 8; 0 bytes of a[0] have arrived"),
    ([(0, 0, 16), (0, 0, 16)], "chunk.offset: is 0; 16 bytes of a[0] have arrived"),
    ([(0, 0, 52)], "chunk.data: ends at byte 52 of a[0], which has 48"),
    ([(0, 1, 8)], "chunk.tensor: is 1; the request has 1 tensors"),
])
def test_chunks_that_do_not_fit_end_their_request_only(stream, chunks, message):
    a = normal(4, 3)
    stream.start("bad", qr_request(a, data=False))
    stream.start("good", qr_request(a, data=False))
    for offset, number, size in chunks:
        stream.chunk("bad", bytes(size), offset, number)
    stream.chunk("bad", bytes(8), 40)  # under way when the request ended: let go
    stream.upload("good", a)
    assert refusal(stream, "bad") == (INVALID, message)
    assert stream.until_done("good")[0].status.code == 0


def test_an_invalid_start_ends_its_request_and_its_chunks_are_let_go(stream):
    request = qr_request(normal(4, 3), data=False)
    request.a[0].dims[0] = -1
    stream.start("bad", request)
    for i in range(20):
        stream.chunk("bad", bytes(1 << 20), i << 20)
    code, message = refusal(stream, "bad")
    assert code == INVALID and "a[0].dims[0]: is -1" in message
    details = stream.done["bad"].status.details[0]
    assert details.type_url.endswith("google.rpc.BadRequest")


def test_a_stream_that_ends_in_the_middle_of_an_upload_says_how_far_it_came(stream):
    a = normal(4, 3)
    stream.start("cut", qr_request(a, data=False))
    stream.chunk("cut", bytes(16))
    stream.finish()
    assert refusal(stream, "cut") == (INVALID, "chunk: the stream ended after 16 of 48 bytes")
    assert stream.call.code() == grpc.StatusCode.OK


@pytest.mark.parametrize("message,text", [
    (pb.StreamRequest(chunk=pb.Chunk(request_id="nobody", data=b"x")), 'no request "nobody" was started'),
    (pb.StreamRequest(), "message: is not set"),
    (pb.StreamRequest(start=pb.Start(request_id="")), "start.request_id: has 0 bytes"),
    (pb.StreamRequest(start=pb.Start(request_id="x" * 129)), "start.request_id: has 129 bytes"),
])
def test_protocol_errors_end_the_stream(stub, message, text):
    code, details = code_of(lambda: list(stub.FactorizeStream(iter([message]))))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and text in details


def test_an_id_in_use_ends_the_stream_and_an_id_that_is_done_may_come_again(stream):
    a = normal(4, 3)
    for _ in range(3):
        stream.start("again", qr_request(a))
        stream.until_done("again")
        stream.done.clear()
    stream.start("twice", qr_request(a, data=False))
    stream.start("twice", qr_request(a, data=False))
    with pytest.raises(grpc.RpcError) as error:
        stream.until_done("never")
    assert '"twice" is in use' in error.value.details()


def test_garbage_ends_the_stream(server):
    raw = server.channel().stream_stream("/factord.v1.Factorization/FactorizeStream")
    code, details = code_of(lambda: list(raw(iter([b"\xff\xff\xff\xff"]))))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "factord.v1.StreamRequest" in details


def test_cancel(stream):
    stream.start("upload", qr_request(normal(4, 3), data=False))
    stream.start("running", qr_request(normal(1500, 1500), data=False))
    stream.upload("running", normal(1500, 1500))
    stream.until_header("running")
    for name in ("upload", "running", "nobody"):
        stream.cancel(name)
    assert refusal(stream, "upload")[0] == CANCELLED
    assert refusal(stream, "running")[0] == CANCELLED


def test_timeouts_are_each_requests_own(stream):
    a = normal(4, 3)
    stream.start("slow upload", qr_request(a, data=False), timeout=0.05)
    stream.start("negative", qr_request(a), timeout=-1)
    stream.start("patient", qr_request(a), timeout=60)
    assert stream.until_done("patient")[0].status.code == 0
    code, message = refusal(stream, "slow upload")
    assert code == EXPIRED and "0 of 48 bytes" in message
    assert refusal(stream, "negative")[0] == INVALID


def test_an_upload_that_stops_is_given_up():
    with running("--upload_timeout=200ms") as server:
        stream = Stream(server.stub())
        stream.start("stuck", qr_request(normal(4, 3), data=False))
        stream.chunk("stuck", bytes(16))
        code, message = refusal(stream, "stuck")
        assert code == EXPIRED and "no chunk for 200ms after 16 of 48 bytes" in message
        stream.finish()
        assert_idle(server)


def test_budget_full_refuses_one_request_and_spares_the_stream():
    with running("--memory_budget_bytes=900000") as server:
        stream = Stream(server.stub())
        a = normal(200, 200)
        stream.start("first", qr_request(a, data=False))
        stream.until_header("first")
        stream.start("second", qr_request(a, data=False))
        stream.upload("second", a)
        stream.start("huge", qr_request(normal(1000, 1000), data=False))
        code, message = refusal(stream, "second")
        assert code == UNAVAILABLE and "of 900000 are in use" in message
        assert any(d.type_url.endswith("google.rpc.RetryInfo") for d in stream.done["second"].status.details)
        code, message = refusal(stream, "huge")
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0] and "900000" in message
        stream.upload("first", a)
        assert stream.until_done("first")[0].status.code == 0
        stream.finish()
        assert_idle(server)


def test_clients_that_vanish_leave_nothing_behind(server):
    for i in range(50):
        channel = server.channel()
        stream = Stream(factord_pb2_grpc.FactorizationStub(channel))
        a = normal(60, 60, seed=i)
        stream.start("half", qr_request(a, data=False))
        stream.start("whole", qr_request(a))
        stream.chunk("half", a.tobytes()[:1000 + i])
        if i % 2:
            stream.until_header("half")
        channel.close()
        stream.finish()
    assert_alive(server)


def test_a_client_that_does_not_read_is_cut_off_and_holds_only_its_budget():
    with running("--stall_timeout=500ms", "--memory_budget_bytes=300000000") as server:
        stream = Stream(server.stub())
        a = normal(16, 700, 700)
        for i in range(4):
            stream.start(f"unread {i}", qr_request(a, data=False))
            stream.upload(f"unread {i}", a)
        assert_alive(server)
        wait_until(lambda: server.metrics()["factord_streams"] == 0, timeout=60)
        stream.finish()
        with pytest.raises(grpc.RpcError):
            while True:
                stream.read()
        assert_idle(server)


def test_a_stream_deadline_covers_its_requests(server):
    stream = Stream(server.stub(), timeout=0.3)
    stream.start("upload", qr_request(normal(4, 3), data=False))
    with pytest.raises(grpc.RpcError) as error:
        stream.until_done("upload", "never")
    stream.finish()
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
