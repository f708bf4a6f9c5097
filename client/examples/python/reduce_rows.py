"""A regression over rows that are never in memory together, in two shards that are merged: reduce_rows.py ADDRESS"""

import sys
from collections.abc import Iterable, Iterator

import numpy as np
from connection import connect
from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc

N, NRHS = 8, 1
TRUTH = np.arange(1.0, N + 1)


def blocks(seed: int, count: int) -> Iterator[np.ndarray]:
    """Rows of (A b), 10,000 at a time, as a file or a query would give them."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        a = rng.standard_normal((10_000, N))
        b = a @ TRUTH + 0.1 * rng.standard_normal(10_000)
        yield np.column_stack([a, b]).astype("<f8")


def rows(seed: int, count: int) -> Iterator[pb.ReduceRowsRequest]:
    for block in blocks(seed, count):
        yield pb.ReduceRowsRequest(rows=block.tobytes())


def reduce(stub, messages: Iterable[pb.ReduceRowsRequest], **options) -> pb.ReduceRowsResult:
    """What is left of all rows."""

    def with_start() -> Iterator[pb.ReduceRowsRequest]:
        start = pb.ReduceRowsStart(dtype=pb.DTYPE_F64, n=N, nrhs=NRHS, progress_rows=100_000, **options)
        yield pb.ReduceRowsRequest(start=start)
        yield from messages

    for reply in stub.ReduceRows(with_start(), timeout=120):
        if reply.WhichOneof("message") == "result":
            return reply.result
        print(f"reduce_rows: {reply.progress.rows} rows", file=sys.stderr)
    sys.exit("reduce_rows: it ended without a result")


def main() -> None:
    with connect(sys.argv[1]) as channel:
        stub = factord_pb2_grpc.FactorizationStub(channel)
        shards = [reduce(stub, rows(seed, 20)) for seed in (1, 2)]  # on any servers, at any time
        merged = [pb.ReduceRowsRequest(reduced=shard.reduced) for shard in shards]
        result = reduce(stub, merged, solve=True, standard_errors=True)

    x = np.frombuffer(result.x.data, "<f8")
    errors = np.frombuffer(result.standard_errors.data, "<f8")
    print(f"reduce_rows: {result.reduced.rows} rows, rank {result.rank}, largest standard error {errors.max():.1e}")
    if not (result.rank == N and np.all(abs(x - TRUTH) < 6 * errors)):
        sys.exit("reduce_rows: the solution is wrong")


main()
