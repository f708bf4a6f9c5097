"""ReduceRows: a matrix of any height over one stream, and every way to get it wrong."""

import pathlib
import queue
import re
import subprocess
import sys

import grpc
import numpy as np
import pytest
from harness import (DTYPES, array_of, assert_alive, assert_idle, code_of, eps_of, normal, pb, qr_request, running, tensor,
                     wait_until)

Code = grpc.StatusCode
EXAMPLE = pathlib.Path(__file__).parents[2] / "client" / "examples" / "python" / "reduce_rows.py"
DATA = pathlib.Path(__file__).parents[1] / "data" / "nist" / "csv"
BLOCK_BYTES = 4 << 20


def start(dtype="f8", n=4, **fields):
    return pb.ReduceRowsRequest(start=pb.ReduceRowsStart(dtype=DTYPES[np.dtype(dtype)], n=n, **fields))


def rows(data):
    return pb.ReduceRowsRequest(rows=data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes())


def reduced(result):
    return pb.ReduceRowsRequest(reduced=result.reduced)


def pieces(array, size):
    raw = np.ascontiguousarray(array).tobytes()
    return [rows(raw[at : at + size]) for at in range(0, len(raw), size)]


def call(stub, *messages, **kwargs):
    """(the result, the progress messages)."""
    replies = list(stub.ReduceRows(iter(messages), timeout=120, **kwargs))
    assert [m.WhichOneof("message") for m in replies] == ["progress"] * (len(replies) - 1) + ["result"]
    return replies[-1].result, [m.progress.rows for m in replies[:-1]]


def reduce(stub, array, size=1 << 20, **fields):
    fields = {"n": array.shape[1], **fields}
    return call(stub, start(array.dtype, **fields), *pieces(array, size))[0]


def check_r(a, r):
    """R^H R is A^H A, as far as the contract's accuracy shows there."""
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    exact, wide_r = a.astype(wide), r.astype(wide)
    gram = exact.conj().T @ exact
    norms = np.sqrt(np.diag(gram).real)
    bound = 2 * 30 * max(1, len(a)) * eps_of(a.dtype) * np.outer(norms, norms)
    assert (abs(wide_r.conj().T @ wide_r - gram) <= bound).all()
    assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_r_of_rows_in_any_chunks_has_the_same_bits(stub, dtype):
    a = normal(3000, 5, dtype=dtype)
    first = reduce(stub, a)
    assert first.reduced.rows == 3000 and list(first.reduced.r.dims) == [5, 5]
    assert first.code == pb.MATRIX_CODE_UNSPECIFIED and not first.nonfinite
    check_r(a, array_of(first.reduced.r))
    for size in (a.nbytes, 65536, 1999, 777):
        assert reduce(stub, a, size).reduced.r.data == first.reduced.r.data


def test_blocks_of_several_messages_and_messages_of_several_blocks(stub):
    a = normal(150_000, 24, dtype="f8")
    first = reduce(stub, a, size=3_000_001)
    assert first.report.jobs == -(-a.nbytes // (BLOCK_BYTES // 192 * 192)) + 1
    check_r(a, array_of(first.reduced.r))
    assert reduce(stub, a, size=a.nbytes).reduced.r.data == first.reduced.r.data


def test_wide_rows_have_large_blocks_of_which_few_wait(server, stub):
    a = normal(8000, 600, dtype="f8")
    first = reduce(stub, a, size=3 << 20)
    assert first.report.jobs == 4 + 1  # 2400 rows a block
    # Well conditioned: R is unique but for its rows' signs.
    np.testing.assert_allclose(abs(array_of(first.reduced.r)), abs(np.linalg.qr(a, mode="r")), atol=1e-10)
    assert reduce(stub, a, size=30 << 20).reduced.r.data == first.reduced.r.data


def test_it_is_the_r_of_factorize(stub):
    a = normal(500, 7, dtype="f8")
    whole = stub.Factorize(qr_request(a, q=pb.Q_MODE_UNSPECIFIED)).qr[0].r
    assert reduce(stub, a).reduced.r.data == whole.data


def test_streams_side_by_side_share_batches_and_keep_their_bits(stub):
    a = normal(20_000, 8, dtype="f4")
    expected = reduce(stub, a).reduced.r.data
    calls = [stub.ReduceRows(iter([start("f4", n=8), *pieces(a, 100_000)]), timeout=120) for _ in range(20)]
    for replies in calls:
        assert [m.result.reduced.r.data for m in replies] == [expected]


def test_reductions_of_other_streams_come_in_where_they_stand(stub):
    a, b = normal(4000, 6, dtype="f8"), normal(4000, 2, dtype="f8", seed=1)
    both = np.hstack([a, b])
    fields = {"n": 6, "nrhs": 2}
    shards = [reduce(stub, part, **fields) for part in np.split(both, [1000, 1003, 2500])]
    merged, _ = call(stub, start(**fields, solve=True), *map(reduced, shards))
    assert merged.reduced.rows == 4000
    check_r(both, array_of(merged.reduced.r))
    np.testing.assert_allclose(array_of(merged.x), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-11)
    mixed, _ = call(stub, start(**fields), rows(both[:1000]), reduced(shards[1]), rows(both[1003:]))
    assert mixed.reduced.rows == 4000
    check_r(both, array_of(mixed.reduced.r))
    again, _ = call(stub, start(**fields), reduced(merged))
    assert again.reduced == merged.reduced


def nist(name):
    table = np.genfromtxt(DATA / f"{name}.csv", delimiter=",", skip_header=1)
    return np.ascontiguousarray(table[:, 1:]), table[:, :1]


@pytest.mark.parametrize("name", sorted(p.stem for p in DATA.glob("*.csv") if p.stem in ("Longley", "Norris", "Pontius")))
def test_regressions_on_real_data(stub, name):
    a, y = nist(name)
    m, n = a.shape
    result = reduce(stub, np.hstack([a, y]), n=n, nrhs=1, solve=True, standard_errors=True)
    x, residual, rank, _ = np.linalg.lstsq(a, y, rcond=1e-15)
    assert result.rank == rank == n
    np.testing.assert_allclose(array_of(result.x), x, rtol=1e-6)
    norm = np.linalg.norm(y - a @ x)
    np.testing.assert_allclose(array_of(result.residual_norm), [norm], rtol=1e-6)
    inverse = np.linalg.inv(np.linalg.qr(a, mode="r"))
    errors = norm / np.sqrt(m - n) * np.linalg.norm(inverse, axis=1)
    np.testing.assert_allclose(array_of(result.standard_errors)[:, 0], errors, rtol=1e-6)


def test_a_column_that_says_nothing_new_is_reported(stub):
    a = normal(2000, 3, dtype="f8")
    a[:, 2] = a[:, 0] - a[:, 1]
    y = normal(2000, 1, dtype="f8", seed=5)
    result = reduce(stub, np.hstack([a, y]), n=3, nrhs=1, solve=True, standard_errors=True)
    assert result.rank == 2 and result.code == pb.MATRIX_CODE_RANK_DEFICIENT
    np.testing.assert_allclose(array_of(result.x), np.linalg.pinv(a, rcond=1e-10) @ y, rtol=1e-9, atol=1e-12)
    assert np.isnan(array_of(result.standard_errors)).all()
    strict = reduce(stub, np.hstack([a, y]), n=3, nrhs=1, solve=True, rcond=0.9)
    assert strict.rank == 1


def test_no_rows_and_few_rows(stub):
    empty, _ = call(stub, start(n=3, nrhs=2, solve=True, standard_errors=True))
    assert list(empty.reduced.r.dims) == [0, 5] and empty.reduced.r.data == b"" and empty.reduced.rows == 0
    assert (array_of(empty.x) == np.zeros((3, 2))).all() and empty.rank == 0
    assert (array_of(empty.residual_norm) == 0).all() and np.isnan(array_of(empty.standard_errors)).all()
    assert call(stub, start(n=3, nrhs=2), rows(b""), reduced(empty))[0].reduced == empty.reduced
    a, b = normal(2, 4, dtype="f8"), normal(2, 1, dtype="f8", seed=1)
    wide = reduce(stub, np.hstack([a, b]), n=4, nrhs=1, solve=True)
    assert list(wide.reduced.r.dims) == [2, 5] and wide.rank == 2
    np.testing.assert_allclose(array_of(wide.x), np.linalg.pinv(a) @ b, rtol=1e-12)


def test_rows_that_are_not_finite_are_named(stub):
    a = normal(60_000, 20, dtype="f8")
    block = BLOCK_BYTES // (20 * 8)
    a[block + 5, 3], a[59_999, 0] = np.nan, np.inf
    result = reduce(stub, a, n=19, nrhs=1, solve=True)
    assert result.code == pb.MATRIX_CODE_NONFINITE_INPUT and result.rank == -1
    assert [(r.first, r.count) for r in result.nonfinite] == [(block, block), (2 * block, 60_000 - 2 * block)]
    assert np.isnan(array_of(result.reduced.r)).all() and np.isnan(array_of(result.x)).all()


def test_a_norm_out_of_range_is_said(stub):
    a = np.full((10, 2), np.finfo("f4").max, "f4")
    result = reduce(stub, a)
    assert result.code == pb.MATRIX_CODE_RESULT_OUT_OF_RANGE and np.isnan(array_of(result.reduced.r)).all()


def test_progress_counts_up_and_comes_before_the_result(stub):
    a = normal(400_000, 16, dtype="f8")
    result, progress = call(stub, start(n=16, progress_rows=1), *pieces(a, 2 << 20))
    assert result.reduced.rows == 400_000
    assert progress and progress == sorted(set(progress)) and progress[-1] <= 400_000


@pytest.mark.parametrize(
    "messages, field, numbers",
    [
        ([rows(b"12345678")], "rows", ["before start"]),
        ([pb.ReduceRowsRequest(reduced=pb.ReducedRows())], "reduced", ["before start"]),
        ([], "start", ["ended before"]),
        ([pb.ReduceRowsRequest()], "message", ["not set"]),
        ([start(), start()], "start", ["second time"]),
        ([start(n=0)], "start.n", ["0", "1"]),
        ([start(n=-3)], "start.n", ["-3", "1"]),
        ([start(n=2000, nrhs=49)], "start.nrhs", ["2000", "49", "2048"]),
        ([start(n=2**62, nrhs=2**62)], "start.n", ["2048"]),
        ([start(n=1, nrhs=-1)], "start.nrhs", ["-1"]),
        ([start(solve=True)], "start.solve", ["nrhs is 0"]),
        ([start(nrhs=1, standard_errors=True)], "start.standard_errors", ["solve"]),
        ([start("c8", nrhs=1, solve=True, standard_errors=True)], "start.standard_errors", ["c64"]),
        ([start(nrhs=1, solve=True, rcond=1.0)], "rcond", ["1"]),
        ([start(progress_rows=-1)], "start.progress_rows", ["-1"]),
        ([pb.ReduceRowsRequest(start=pb.ReduceRowsStart(n=1))], "start.dtype", ["not set"]),
        ([pb.ReduceRowsRequest(start=pb.ReduceRowsStart(n=1, dtype=99))], "start.dtype", ["99"]),
        ([start(run=pb.RunOptions(backend=77))], "run.backend", ["77"]),
        ([start(), rows(b"x" * (32 * 17 + 5))], "rows", ["5 of 32 bytes of row 17"]),
        ([start(), rows(b"x" * 33), pb.ReduceRowsRequest(reduced=pb.ReducedRows(r=tensor(np.zeros((0, 4)))))], "reduced",
         ["1 of 32 bytes of row 1"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=3))], "reduced.r", ["not set"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=-3, r=tensor(np.zeros((4, 4)))))], "reduced.rows", ["-3"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=9, r=tensor(np.zeros((4, 5)))))], "reduced.r.dims",
         ["4x5", "9 rows", "4x4"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=3, r=tensor(np.zeros((4, 4)))))], "reduced.r.dims",
         ["3 rows", "3x4"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=9, r=tensor(np.zeros((4, 4), "f4"))))], "reduced.r.dtype",
         ["f32", "f64"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=9, r=tensor(np.zeros((4, 4)), pb.LAYOUT_COLUMN_MAJOR)))],
         "reduced.r.layout", ["row-major"]),
        ([start(), pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=9, r=tensor(np.zeros((4, 4)), data=False)))],
         "reduced.r.data", ["0 bytes", "128"]),
        ([start(), *[pb.ReduceRowsRequest(reduced=pb.ReducedRows(rows=2**62, r=tensor(np.eye(4))))] * 2], "reduced.rows",
         [str(2**62), "2^63-1"]),
    ],
)
def test_refusals_name_the_field_and_the_numbers(stub, messages, field, numbers):
    code, details = code_of(lambda: list(stub.ReduceRows(iter(messages), timeout=60)))
    assert code == Code.INVALID_ARGUMENT and details.startswith(f"{field}: "), details
    assert all(re.search(rf"(?<!\d){re.escape(number)}(?!\d)", details) for number in numbers), details


def test_what_can_not_be_is_refused_before_memory_is_taken():
    with running("--memory_budget_bytes=50000000", "--max_message_bytes=20000000") as server:
        stub = server.stub()
        assert code_of(lambda: list(stub.ReduceRows(iter([start(n=2048)]))))[0] == Code.RESOURCE_EXHAUSTED
        code, details = code_of(lambda: list(stub.ReduceRows(iter([start(n=1000)]))))
        assert code == Code.RESOURCE_EXHAUSTED and "50000000" in details
        outbox = queue.SimpleQueue()
        first = stub.ReduceRows(iter(outbox.get, None))
        outbox.put(start())
        wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 1 << 20)
        code, details = code_of(lambda: list(stub.ReduceRows(iter([start()]))))
        assert code == Code.UNAVAILABLE and "in use" in details
        assert server.metrics()['factord_rejected_total{reason="budget_full"}'] == 1
        outbox.put(None)
        assert [m.WhichOneof("message") for m in first] == ["result"]
        assert_idle(server)


def test_a_backend_that_is_not_here(stub):
    gpu = start(run=pb.RunOptions(backend=pb.BACKEND_GPU))
    assert code_of(lambda: list(stub.ReduceRows(iter([gpu]))))[0] == Code.FAILED_PRECONDITION


def test_bytes_that_are_no_message(server):
    raw = server.channel().stream_stream("/factord.v1.Factorization/ReduceRows")
    assert code_of(lambda: list(raw(iter([b"\xff\xff\xff"]), timeout=60)))[0] == Code.INVALID_ARGUMENT


class Open:
    """A stream that stays open."""

    def __init__(self, stub, *messages, **kwargs):
        self.outbox = queue.SimpleQueue()
        for message in messages:
            self.outbox.put(message)
        self.replies = stub.ReduceRows(iter(self.outbox.get, None), **kwargs)

    def finish(self):
        self.outbox.put(None)


def test_a_client_that_leaves_leaves_nothing(server, stub):
    a = normal(100_000, 16, dtype="f8")
    stream = Open(stub, start(n=16), *pieces(a, 1 << 20))
    wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 0)
    stream.replies.cancel()
    stream.finish()
    assert_idle(server)


def test_a_deadline_that_passes(server, stub):
    stream = Open(stub, start(), timeout=0.3)
    assert code_of(lambda: list(stream.replies))[0] == Code.DEADLINE_EXCEEDED
    stream.finish()
    assert_idle(server)


def test_a_client_that_says_nothing_is_cut_off():
    with running("--upload_timeout=300ms") as server:
        for messages in ([], [start()], [start(), rows(b"x" * 40)]):
            stream = Open(server.stub(), *messages)
            code, details = code_of(lambda: list(stream.replies))
            assert code == Code.DEADLINE_EXCEEDED and "no message for 300ms" in details
            stream.finish()
        assert_idle(server)


def test_progress_that_nobody_reads_does_no_harm(server, stub):
    a = normal(1_000, 2, dtype="f8")
    once = reduce(stub, a)
    stream = Open(stub, start(n=2, progress_rows=1), *[reduced(once)] * 3000, timeout=120)
    wait_until(lambda: stream.outbox.empty(), timeout=60)
    stream.finish()
    assert list(stream.replies)[-1].result.reduced.rows == 3_000_000
    assert_alive(server)


def test_memory_is_that_of_a_few_blocks():
    with running() as server:
        stub, peak = server.stub(), 0
        piece = rows(normal(16_384, 16, dtype="f8"))

        def messages():
            nonlocal peak
            yield start(n=16)
            for i in range(200):  # 400 MiB
                yield piece
                if i % 10 == 0:
                    peak = max(peak, server.metrics()["factord_memory_in_flight_bytes"])

        (reply,) = stub.ReduceRows(messages(), timeout=300)
        assert reply.result.reduced.rows == 200 * 16_384
        assert 0 < peak < 40 << 20
        assert server.metrics()["factord_reduced_rows_total"] == 200 * 16_384
        assert server.metrics()['factord_requests_total{code="OK",rpc="ReduceRows"}'] == 1
        assert_idle(server)


def test_a_draining_server_finishes_what_has_started():
    with running() as server:
        a = normal(50_000, 16, dtype="f8")
        half = pieces(a, 1 << 20)
        started, idle = Open(server.stub(), start(n=16), *half[:3]), Open(server.stub())
        wait_until(lambda: server.metrics()["factord_memory_in_flight_bytes"] > 0 and server.metrics()["factord_streams"] == 2)
        server.terminate()
        assert code_of(lambda: list(idle.replies))[0] == Code.UNAVAILABLE
        idle.finish()
        for message in half[3:]:
            started.outbox.put(message)
        started.finish()
        (reply,) = started.replies
        check_r(a, array_of(reply.result.reduced.r))
        assert server.wait()[0] == 0


def test_the_example_that_the_documents_quote(server):
    result = subprocess.run([sys.executable, EXAMPLE, server.target], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and "400000 rows, rank 8" in result.stdout, result.stderr


def test_the_server_says_what_it_takes(stub):
    info = stub.GetServerInfo(pb.GetServerInfoRequest())
    assert info.max_reduced_columns == 2048 and "ReduceRows" in info.rpcs
