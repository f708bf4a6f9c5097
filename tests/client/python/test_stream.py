"""The streaming path: the same results as the unary one, and its pure parts."""

import checks
import factord
import grpc
import numpy as np
import pytest
from factord import _options, _requests, _stream
from factord.v1 import factord_pb2 as pb

RUN = _options.run_options("auto", "strict", "normal", False)


@pytest.mark.parametrize("mode", checks.MODES)
@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_qr(client, streaming, rng, dtype, mode):
    for shape in [(40, 30, 20), (3, 0), (0, 4, 4), (2, 1, 1), (20, 30)]:
        a = checks.random(rng, shape, dtype)
        streamed, whole = streaming.qr(a, mode, backend="cpu"), client.qr(a, mode, backend="cpu")
        checks.assert_factors(a, mode, streamed)
        for x, y in [(streamed, whole)] if mode == "r" else zip(streamed, whole):
            assert np.array_equal(x, y)


def test_qr_many(streaming, rng):
    arrays = [checks.random(rng, (4, 6 + i, 5), dtype) for i, dtype in enumerate(checks.DTYPES)] + [np.zeros((0, 3))]
    for a, (q, r) in zip(arrays, streaming.qr_many(arrays)):
        checks.assert_qr(a, q, r)


def test_reflectors(streaming, rng):
    a, c = rng.standard_normal((3, 9, 4)), rng.standard_normal((3, 9, 2))
    h, tau = streaming.qr(a, "raw")
    q = streaming.form_q(h, tau, "complete")
    checks.assert_orthonormal(q)
    assert np.allclose(streaming.apply_q(h, tau, c, adjoint=True), checks.adjoint(q) @ c, rtol=0, atol=1e-13)


def test_lstsq(client, streaming, rng):
    a, b = rng.standard_normal((3, 9, 4)), rng.standard_normal((3, 9, 2))
    streamed, whole = streaming.lstsq(a, b, backend="cpu"), client.lstsq(a, b, backend="cpu")
    assert all(np.array_equal(x, y) for x, y in zip(streamed, whole))


def test_many_chunks_each_way(streaming, rng):
    a = rng.standard_normal((4, 300, 250))  # 2.3 MiB: two chunks there
    q, r = streaming.qr(a)
    checks.assert_qr(a, q, r)


def test_size_decides(fake, rng):
    a = rng.standard_normal((10, 8, 2))  # 1280 bytes in; 1600 out, 5440 with the complete Q
    with factord.Client(fake.target, stream_threshold=2000) as client:
        client.qr(a)
        client.qr(a, "complete")
        client.qr(rng.standard_normal((10, 8, 4)), "r")
    assert [rpc for rpc, _ in fake.service.seen] == ["Factorize", "FactorizeStream", "FactorizeStream"]


def test_the_threshold_is_a_few_mebibytes(fake):
    with factord.Client(fake.target) as client:
        client.qr(np.ones((1, 1 << 19)), "r")  # 4 MiB, and then one element more
        client.qr(np.ones((1, (1 << 19) + 1)), "r")
    assert [rpc for rpc, _ in fake.service.seen] == ["Factorize", "FactorizeStream"]


def test_timeout_is_in_the_start_too(fake):
    with factord.Client(fake.target, stream_threshold=-1) as client:
        client.qr(np.eye(2), timeout=50)
        client.qr(np.eye(2))
    limited, unlimited = fake.service.stream_timeouts
    assert 40 < limited <= 50
    assert unlimited is None


# ------------------------------------------------------------------------------------------------ requests


def messages(a, timeout=None):
    return list(_stream.requests(_requests.qr(a, "r", "lapack", "raise", RUN), timeout))


def test_start_has_no_data_and_chunks_have_it_all(rng):
    a = rng.standard_normal((3, 500, 300))  # 3.4 MiB
    start, *chunks = messages(a)
    (tensor,) = start.start.factorize.a
    assert not tensor.data and list(tensor.dims) == [3, 500, 300]
    assert not start.start.HasField("timeout")
    assert [(c.chunk.tensor, c.chunk.offset) for c in chunks] == [(0, 0), (0, _stream.CHUNK_BYTES)]
    assert b"".join(c.chunk.data for c in chunks) == a.tobytes()


def test_empty_tensors_get_no_chunk():
    assert len(messages(np.zeros((4, 0)))) == 1


def test_tensors_are_numbered_in_their_order(rng):
    a, b = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3, 1))
    call = _requests.lstsq(a, b, None, "raise", RUN)
    _, first, second = _stream.requests(call, None)
    assert (first.chunk.tensor, first.chunk.data) == (0, a.tobytes())
    assert (second.chunk.tensor, second.chunk.data) == (1, b.tobytes())


# ------------------------------------------------------------------------------------------------ replies


CALL = _requests.qr(np.ones((2, 1)), "reduced", "lapack", "raise", RUN)
RESULT = pb.StreamResult(
    factorize=pb.FactorizeResponse(
        qr=[pb.QrFactors(q=pb.Tensor(dtype=pb.DTYPE_F64, dims=[2, 1]), r=pb.Tensor(dtype=pb.DTYPE_F64, dims=[1, 1]))]
    )
)
HEADER = pb.StreamResponse(header=pb.Header(request_id="1", result=RESULT))
DONE = pb.StreamResponse(done=pb.Done(request_id="1", result=RESULT))
Q, R = np.array([[0.6], [0.8]]), np.array([[5.0]])


def chunk(tensor, offset, data):
    return pb.StreamResponse(chunk=pb.Chunk(request_id="1", tensor=tensor, offset=offset, data=data))


def assembled(*replies):
    assembly = _stream.Assembly()
    for reply in replies:
        assembly.feed(reply)
    return assembly.read(CALL)


def test_chunks_come_in_any_order():
    q, r = Q.tobytes(), R.tobytes()
    result = assembled(HEADER, chunk(1, 3, r[3:]), chunk(0, 9, q[9:]), chunk(1, 0, r[:3]), chunk(0, 0, q[:9]), DONE)
    assert np.array_equal(result.Q, Q) and np.array_equal(result.R, R)


@pytest.mark.parametrize(
    "replies, what",
    [
        ([HEADER, chunk(0, 0, Q.tobytes()), DONE], "8 bytes of the result are missing"),
        ([HEADER, chunk(0, 9, bytes(8))], "outside"),
        ([HEADER, chunk(0, -1, bytes(1))], "outside"),
        ([HEADER, chunk(2, 0, bytes(1))], "outside"),
        ([HEADER, chunk(-1, 0, bytes(1))], "outside"),
        ([chunk(0, 0, bytes(1))], "outside"),
        ([HEADER, chunk(0, 0, Q.tobytes()), chunk(1, 0, R.tobytes())], "ended without a result"),
        ([], "ended without a result"),
    ],
)
def test_broken_streams_are_errors(replies, what):
    with pytest.raises(factord.FactordError, match=what) as caught:
        assembled(*replies)
    assert caught.value.code is grpc.StatusCode.INTERNAL
