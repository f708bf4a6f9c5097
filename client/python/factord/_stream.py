"""One call over FactorizeStream: the messages to send, and the replies put together. No I/O.

Every call has a stream of its own, so that its deadline, cancellation and flow control are the RPC's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, TypeVar

import grpc
import numpy as np

from . import _tensor
from ._errors import FactordError, from_status
from ._requests import Call
from .v1 import factord_pb2 as pb

CHUNK_BYTES = 2 << 20
_REQUEST_ID = "1"

T = TypeVar("T")


def requests(call: Call[T], timeout: Optional[float]) -> Iterator[pb.StreamRequest]:
    """The call's Start, then its payloads in slices."""
    start = pb.Start(request_id=_REQUEST_ID, **{call.operation: call.request})
    if timeout is not None:
        start.timeout.FromNanoseconds(int(timeout * 1e9))
    yield pb.StreamRequest(start=start)
    for number, payload in enumerate(call.payloads):
        for offset in range(0, payload.nbytes, CHUNK_BYTES):
            data = bytes(payload[offset : offset + CHUNK_BYTES])
            yield pb.StreamRequest(chunk=pb.Chunk(request_id=_REQUEST_ID, tensor=number, offset=offset, data=data))


class Assembly:
    """The replies of one call: Header, then chunks in any order, then Done. Chunks go straight into the results."""

    def __init__(self) -> None:
        self._elements: list[np.ndarray] = []
        self._memory: list[memoryview] = []
        self._missing = 0  # bytes
        self._response: Optional[pb.StreamResult] = None

    def feed(self, reply: pb.StreamResponse) -> None:
        """Takes the next reply; raises FactordError if it ends the request with an error."""
        kind = reply.WhichOneof("message")
        if kind == "header":
            self._begin(reply.header.result)
        elif kind == "chunk":
            self._place(reply.chunk)
        elif kind == "done":
            self._end(reply.done)

    def read(self, call: Call[T]) -> T:
        """The call's result, once the stream has ended."""
        if self._response is None:
            raise _broken("it ended without a result")
        return call.read(getattr(self._response, call.operation), iter(self._elements))

    def _begin(self, result: pb.StreamResult) -> None:
        self._elements = [_tensor.allocate(tensor) for tensor in _tensor.tensors(result)]
        self._memory = [_tensor.as_bytes(elements) for elements in self._elements]
        self._missing = sum(memory.nbytes for memory in self._memory)

    def _place(self, chunk: pb.Chunk) -> None:
        end = chunk.offset + len(chunk.data)
        if not (
            0 <= chunk.tensor < len(self._memory) and 0 <= chunk.offset <= end <= self._memory[chunk.tensor].nbytes
        ):
            raise _broken(f"bytes {chunk.offset} to {end} of tensor {chunk.tensor} are outside the result")
        self._memory[chunk.tensor][chunk.offset : end] = chunk.data
        self._missing -= len(chunk.data)

    def _end(self, done: pb.Done) -> None:
        if done.status.code:
            raise from_status(done.status)
        if self._missing:
            raise _broken(f"{self._missing} bytes of the result are missing")
        self._response = done.result


def _broken(what: str) -> FactordError:
    return FactordError(f"INTERNAL: bad stream: {what}", grpc.StatusCode.INTERNAL)
