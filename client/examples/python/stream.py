"""Factorizes one large matrix over FactorizeStream, in chunks both ways, and checks the result: stream.py ADDRESS"""

import sys
from collections.abc import Iterator

import numpy as np
from connection import connect
from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc

CHUNK_BYTES = 1 << 20


def messages(a: np.ndarray) -> Iterator[pb.StreamRequest]:
    """The request without its data, then the data. gRPC asks for the next message when the last one has left."""
    start = pb.Start(request_id="large", factorize=pb.FactorizeRequest(
        a=[pb.Tensor(dtype=pb.DTYPE_F64, dims=a.shape)],
        qr=pb.QrOptions(q=pb.Q_MODE_REDUCED, r=True),
    ))
    start.timeout.FromSeconds(60)
    yield pb.StreamRequest(start=start)
    raw = memoryview(a).cast("B")
    for offset in range(0, raw.nbytes, CHUNK_BYTES):
        data = bytes(raw[offset : offset + CHUNK_BYTES])
        yield pb.StreamRequest(chunk=pb.Chunk(request_id="large", tensor=0, offset=offset, data=data))


def factors(replies: Iterator[pb.StreamResponse]) -> list[np.ndarray]:
    """Q and R. A header says how large they are; their chunks come in any order; Done says how it ended."""
    arrays: list[np.ndarray] = []
    missing = 0
    for reply in replies:
        kind = reply.WhichOneof("message")
        if kind == "header":
            result = reply.header.result.factorize.qr[0]
            arrays = [np.empty(tensor.dims, "<f8") for tensor in (result.q, result.r)]
            missing = sum(array.nbytes for array in arrays)
        elif kind == "chunk":
            chunk = reply.chunk
            memoryview(arrays[chunk.tensor]).cast("B")[chunk.offset : chunk.offset + len(chunk.data)] = chunk.data
            missing -= len(chunk.data)
        elif kind == "done":
            if reply.done.status.code != 0 or missing != 0:
                sys.exit(f"stream: {reply.done.status.message or f'{missing} bytes are missing'}")
            return arrays
    sys.exit("stream: it ended without a result")


def main() -> None:
    a = np.random.default_rng(2).standard_normal((4000, 1000)).astype("<f8")
    with connect(sys.argv[1]) as channel:  # default limits: no chunk is over 4 MiB
        stub = factord_pb2_grpc.FactorizationStub(channel)
        q, r = factors(stub.FactorizeStream(messages(a), timeout=120))

    residual = np.linalg.norm(a - q @ r) / np.linalg.norm(a)
    orthogonality = np.linalg.norm(q.T @ q - np.eye(1000))
    print(f"stream: 4000x1000, |A-QR|/|A| {residual:.1e}, |Q'Q-I| {orthogonality:.1e}")
    if not (residual < 1e-13 and orthogonality < 1e-12):
        sys.exit("stream: the factors are wrong")


main()
