"""One ReduceRows call: blocks of rows to messages, replies to a RowReduction. No I/O."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Callable, NamedTuple, Optional, Union

import grpc
import numpy as np
from numpy.typing import ArrayLike

from . import _results, _tensor
from ._errors import FactordError
from ._results import ReducedRows, RowReduction
from ._retry import RetryPolicy
from .v1 import factord_pb2 as pb

CHUNK_BYTES = 2 << 20
PROGRESS_ROWS = 1 << 20

Block = Union[ArrayLike, tuple[ArrayLike, ArrayLike], ReducedRows, RowReduction]
Blocks = Iterable[Block]
AsyncBlocks = Union[Iterable[Block], AsyncIterable[Block]]
Progress = Callable[[int], None]


def start(
    solve: bool,
    standard_errors: bool,
    rcond: Optional[float],
    progress: Optional[Progress],
    progress_rows: int,
    run: pb.RunOptions,
) -> pb.ReduceRowsStart:
    """All of the first message that does not depend on the blocks."""
    if progress is not None and progress_rows < 1:
        raise ValueError(f"progress_rows is {progress_rows}: at least 1")
    return pb.ReduceRowsStart(
        solve=solve,
        standard_errors=standard_errors,
        rcond=rcond,
        run=run,
        progress_rows=0 if progress is None else progress_rows,
    )


def retry_policy(policy: RetryPolicy, blocks: AsyncBlocks) -> RetryPolicy:
    """`policy` for blocks that can be had again from their beginning; one attempt for an iterator, which is used up."""
    return policy if iter_of(blocks) is not blocks else replace(policy, max_attempts=1)


def iter_of(blocks: AsyncBlocks) -> Union[Iterator[Block], AsyncIterator[Block]]:
    return blocks.__aiter__() if isinstance(blocks, AsyncIterable) else iter(blocks)


class _Rows(NamedTuple):
    """What every block of a matrix must have in common, and how its results are shaped."""

    dtype: np.dtype
    n: int
    nrhs: int
    vector: bool  # whether b is one vector, and x then another

    @property
    def columns(self) -> int:
        return self.n + self.nrhs


class Reduction:
    """The messages for one sequence of blocks, and the reading of what comes back.

    The first block decides the type and the numbers of columns. Rows of small blocks are gathered, large blocks are cut:
    a message has about CHUNK_BYTES.
    """

    def __init__(self, start: pb.ReduceRowsStart, nrhs: int, strict: bool, progress: Optional[Progress]) -> None:
        self._start = start
        self._nrhs = nrhs
        self._strict = strict
        self._progress = progress
        self._rows: Optional[_Rows] = None
        self._blocks = 0
        self._waiting: list[bytes] = []  # rows that are not sent yet
        self._waiting_bytes = 0
        self._result: Optional[pb.ReduceRowsResult] = None

    def messages(self, blocks: Blocks) -> Iterator[pb.ReduceRowsRequest]:
        for block in blocks:
            yield from self._of(block)
        yield from self._end()

    async def messages_async(self, blocks: AsyncBlocks) -> AsyncIterator[pb.ReduceRowsRequest]:
        """`messages`, of blocks of either kind."""
        if isinstance(blocks, AsyncIterable):
            async for block in blocks:
                for message in self._of(block):
                    yield message
        else:
            for block in blocks:
                for message in self._of(block):
                    yield message
        for message in self._end():
            yield message

    def feed(self, reply: pb.ReduceRowsResponse) -> None:
        """Takes the next reply."""
        kind = reply.WhichOneof("message")
        if kind == "progress" and self._progress is not None:
            self._progress(reply.progress.rows)
        elif kind == "result":
            self._result = reply.result

    def read(self) -> RowReduction:
        """The call's result, once the stream has ended."""
        if self._result is None or self._rows is None:
            raise FactordError("INTERNAL: bad stream: it ended without a result", grpc.StatusCode.INTERNAL)
        reduction = _results.read_reduction(self._result, self._rows.nrhs, self._rows.vector)
        if self._strict:
            _results.refuse_nonfinite_rows(reduction)
        return reduction

    def _of(self, block: Block) -> Iterator[pb.ReduceRowsRequest]:
        """The messages that are ready once `block` is there."""
        number, self._blocks = self._blocks, self._blocks + 1
        if isinstance(block, RowReduction):
            block = block.reduced
        if isinstance(block, ReducedRows):
            yield from self._begin(number, _rows_of_reduced(block))
            yield from self._flush()
            yield pb.ReduceRowsRequest(reduced=_encode_reduced(block))
            return
        parts, vector = _parts(number, block)
        rows = self._rows_of(number, parts, vector)
        yield from self._begin(number, rows)
        for piece in _pieces(parts, rows):
            if self._waiting_bytes + len(piece) > CHUNK_BYTES:
                yield from self._flush()
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)

    def _rows_of(self, number: int, parts: list[np.ndarray], vector: bool) -> _Rows:
        dtype = _tensor.common_dtype(*(part.dtype for part in parts))
        columns = sum(part.shape[1] for part in parts)
        if len(parts) == 2:
            return _Rows(dtype, parts[0].shape[1], parts[1].shape[1], vector)
        if self._rows is not None:  # (A B), cut as the first block says
            return _Rows(dtype, columns - self._rows.nrhs, self._rows.nrhs, self._rows.vector)
        if not 0 <= self._nrhs < columns:
            raise ValueError(f"block {number} has {columns} column(s), nrhs is {self._nrhs}: none are left for A")
        return _Rows(dtype, columns - self._nrhs, self._nrhs, False)

    def _begin(self, number: int, rows: _Rows) -> Iterator[pb.ReduceRowsRequest]:
        """The Start before the first block; the check of all others against it."""
        if self._rows is None:
            if self._nrhs not in (0, rows.nrhs):
                raise ValueError(f"block {number} has {rows.nrhs} column(s) of B, nrhs is {self._nrhs}")
            self._rows = rows
            message = pb.ReduceRowsRequest(start=self._start)
            message.start.dtype = _tensor.wire_type(rows.dtype)
            message.start.n, message.start.nrhs = rows.n, rows.nrhs
            yield message
            return
        first = self._rows
        if rows.columns != first.columns or rows.nrhs != first.nrhs:
            raise ValueError(f"block {number} is {_width(rows)} wide, the blocks before it {_width(first)}")
        if rows.dtype != first.dtype:
            raise ValueError(f"block {number} is of {rows.dtype.name}, the blocks before it of {first.dtype.name}")

    def _end(self) -> Iterator[pb.ReduceRowsRequest]:
        if self._rows is None:
            raise ValueError("there are no blocks: a matrix of no rows is a block of shape (0, n)")
        yield from self._flush()

    def _flush(self) -> Iterator[pb.ReduceRowsRequest]:
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            yield pb.ReduceRowsRequest(rows=data)


def _width(rows: _Rows) -> str:
    return f"{rows.n} + {rows.nrhs}" if rows.nrhs else str(rows.n)


def _parts(number: int, block: Block) -> tuple[list[np.ndarray], bool]:
    """[(A B)] or [A, B], each two-dimensional, and whether B was a vector."""
    if not isinstance(block, tuple):
        return [_matrix(number, "", np.asarray(block))], False
    if len(block) != 2:
        raise ValueError(f"block {number} is a tuple of {len(block)}: A and b are two")
    a, b = map(np.asarray, block)
    vector = b.ndim == 1
    parts = [_matrix(number, "A of ", a), _matrix(number, "b of ", b[:, np.newaxis] if vector else b)]
    if len(a) != len(b):
        raise ValueError(f"A of block {number} has {len(a)} row(s), b has {len(b)}")
    return parts, vector


def _matrix(number: int, part: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise ValueError(f"{part}block {number} has {array.ndim} dimension(s): rows of a matrix have two")
    return array


def _pieces(parts: list[np.ndarray], rows: _Rows) -> Iterator[bytes]:
    """The rows of (A B) in the order of the wire, in pieces of at most CHUNK_BYTES where a row is not more."""
    step = max(1, CHUNK_BYTES // (rows.columns * rows.dtype.itemsize))
    for i in range(0, len(parts[0]), step):
        cut = [part[i : i + step] for part in parts]
        piece = cut[0] if len(cut) == 1 else np.concatenate(cut, axis=1)
        yield piece.astype(rows.dtype, copy=False).tobytes()


def _rows_of_reduced(reduced: ReducedRows) -> _Rows:
    dtype = _tensor.common_dtype(reduced.r.dtype)
    return _Rows(dtype, reduced.r.shape[1] - reduced.nrhs, reduced.nrhs, reduced.vector)


def _encode_reduced(reduced: ReducedRows) -> pb.ReducedRows:
    r = reduced.r.astype(_tensor.common_dtype(reduced.r.dtype), copy=False)
    message = pb.ReducedRows(rows=reduced.rows, r=_tensor.header(r.shape, r.dtype))
    message.r.data = r.tobytes()
    return message
