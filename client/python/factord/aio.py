"""The asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Optional, TypeVar

import grpc
import grpc.aio
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _channel, _requests, _rows, _stream
from ._errors import from_rpc
from ._exchange import Exchange
from ._options import (
    Backend,
    Mode,
    OnNonfinite,
    Precision,
    Priority,
    QMode,
    Side,
    Sign,
    raises_on_nonfinite,
    run_options,
)
from ._requests import Call
from ._results import Explanation, LstsqResult, RowReduction, ServerInfo
from ._retry import Attempts, RetryPolicy, retrying_async
from ._rows import PROGRESS_ROWS, Progress, Reduction
from ._rows import AsyncBlocks as Blocks
from .v1 import factord_pb2_grpc

T = TypeVar("T")


class AsyncClient:
    """`Client` for asyncio: the same arguments, results and errors.

    Make it inside the event loop that it is to be used in. Arrays given to a call are not to be changed until it has
    returned.
    """

    def __init__(
        self,
        target: str,
        *,
        client_name: Optional[str] = None,
        credentials: Optional[grpc.ChannelCredentials] = None,
        token: Optional[str] = None,
        stream_threshold: int = _channel.STREAM_THRESHOLD,
        retry: RetryPolicy = RetryPolicy(),
    ) -> None:
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(target, _channel.OPTIONS)
            self._blocking_channel = grpc.insecure_channel(target, _channel.OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(target, credentials, _channel.OPTIONS)
            self._blocking_channel = grpc.secure_channel(target, credentials, _channel.OPTIONS)
        self._stub = factord_pb2_grpc.FactorizationStub(self._channel)
        # gRPC's asyncio loses the status of a call that ends while a message is written, grpc/grpc#36066.
        self._reduce_rows = factord_pb2_grpc.FactorizationStub(self._blocking_channel).ReduceRows
        self._metadata = _channel.metadata(client_name, token)
        self._stream_threshold = stream_threshold
        self._retry = retry

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Client.close`."""
        self._blocking_channel.close()
        await self._channel.close()

    async def qr(
        self,
        a: ArrayLike,
        mode: Mode = "reduced",
        *,
        sign: Sign = "lapack",
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> Any:
        """As `Client.qr`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.qr(a, mode, sign, on_nonfinite, run), timeout)

    async def qr_many(
        self,
        arrays: Sequence[ArrayLike],
        mode: Mode = "reduced",
        *,
        sign: Sign = "lapack",
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> list[Any]:
        """As `Client.qr_many`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.qr_many(arrays, mode, sign, on_nonfinite, run), timeout)

    async def form_q(
        self,
        reflectors: ArrayLike,
        tau: ArrayLike,
        mode: QMode = "reduced",
        *,
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> np.ndarray:
        """As `Client.form_q`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.form_q(reflectors, tau, mode, on_nonfinite, run), timeout)

    async def apply_q(
        self,
        reflectors: ArrayLike,
        tau: ArrayLike,
        c: ArrayLike,
        side: Side = "left",
        adjoint: bool = False,
        *,
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> np.ndarray:
        """As `Client.apply_q`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.apply_q(reflectors, tau, c, side, adjoint, on_nonfinite, run), timeout)

    async def lstsq(
        self,
        a: ArrayLike,
        b: ArrayLike,
        rcond: Optional[float] = None,
        *,
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> LstsqResult:
        """As `Client.lstsq`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.lstsq(a, b, rcond, on_nonfinite, run), timeout)

    async def reduce_rows(
        self,
        blocks: Blocks,
        *,
        nrhs: int = 0,
        solve: bool = False,
        standard_errors: bool = False,
        rcond: Optional[float] = None,
        progress: Optional[Progress] = None,
        progress_rows: int = PROGRESS_ROWS,
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        on_nonfinite: OnNonfinite = "raise",
        timeout: Optional[float] = None,
    ) -> RowReduction:
        """As `Client.reduce_rows`; `blocks` may be an asynchronous iterable too. `progress` is called in the event loop."""
        run = run_options(backend, precision, priority, reproducible)
        start = _rows.start(solve, standard_errors, rcond, progress, progress_rows, run)
        strict = raises_on_nonfinite(on_nonfinite)
        attempts = Attempts(_rows.retry_policy(self._retry, blocks), timeout)

        async def attempt(remaining: Optional[float]) -> RowReduction:
            return await self._reduce(blocks, Reduction(start, nrhs, strict, progress), remaining)

        return await retrying_async(attempt, attempts)

    async def explain(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.float64,
        mode: Mode = "reduced",
        *,
        sign: Sign = "lapack",
        backend: Backend = "auto",
        precision: Precision = "strict",
        priority: Priority = "normal",
        reproducible: bool = False,
        timeout: Optional[float] = None,
    ) -> Explanation:
        """As `Client.explain`."""
        run = run_options(backend, precision, priority, reproducible)
        return await self._call(_requests.explain(shape, dtype, mode, sign, run), timeout)

    async def info(self, *, timeout: Optional[float] = None) -> ServerInfo:
        """As `Client.info`."""
        return await self._call(_requests.info(), timeout)

    async def _call(self, call: Call[T], timeout: Optional[float]) -> T:
        attempt = self._stream if call.is_larger_than(self._stream_threshold) else self._unary
        return await retrying_async(lambda remaining: attempt(call, remaining), Attempts(self._retry, timeout))

    async def _unary(self, call: Call[T], timeout: Optional[float]) -> T:
        try:
            rpc = getattr(self._stub, call.rpc)
            response = await rpc(call.whole_request(), timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return call.read_whole(response)

    async def _reduce(self, blocks: Blocks, reduction: Reduction, timeout: Optional[float]) -> RowReduction:
        with Exchange(self._reduce_rows, timeout, self._metadata) as exchange:
            async for message in reduction.messages_async(blocks):
                if not await asyncio.to_thread(exchange.send, message):
                    break
                for reply in exchange.arrived():
                    reduction.feed(reply)
            exchange.complete()
            while await asyncio.to_thread(exchange.wait):
                for reply in exchange.arrived():
                    reduction.feed(reply)
        return reduction.read()

    async def _stream(self, call: Call[T], timeout: Optional[float]) -> T:
        assembly = _stream.Assembly()
        replies = self._stub.FactorizeStream(_stream.requests(call, timeout), timeout=timeout, metadata=self._metadata)
        try:
            async for reply in replies:
                assembly.feed(reply)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            replies.cancel()  # stops the sending of what was refused half-way; nothing where the stream has ended
        return assembly.read(call)
