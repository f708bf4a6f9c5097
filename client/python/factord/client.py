"""The blocking client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, TypeVar

import grpc
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
from ._retry import Attempts, RetryPolicy, retrying
from ._rows import PROGRESS_ROWS, Blocks, Progress, Reduction
from .v1 import factord_pb2_grpc

T = TypeVar("T")


class Client:
    """A connection to one factord server.

    target            "host:port" or "unix:/path"
    client_name       whom the server counts this client's work to when it shares its time fairly
    credentials       for TLS, from `tls_credentials`; None: plaintext
    token             the bearer token of a server that asks for one; without credentials everyone on the way can read it
    stream_threshold  a call whose request or result is larger than this many bytes is streamed in chunks
    retry             how calls that find the server UNAVAILABLE are tried again

    Safe to share between threads. Close it, or use it as a context manager.

    Arrays are anything that numpy.asarray takes, of any strides and byte order, with any batch dims in front; m, n and
    batch dims may be 0. bool, integers and float16 are computed as float64; results are float32, float64, complex64 or
    complex128. C- and Fortran-ordered matrices are sent as they are, and the results then have the same order.

    Every method that computes takes
      on_nonfinite   "raise": FactordError with `indices` if a matrix holds a NaN or Inf;
                     "nan": that matrix's results are NaN. The other matrices are not affected either way
      backend        "auto", "cpu" or "gpu" (FAILED_PRECONDITION where there is none)
      precision      "strict": backward stable column by column; "fast": lower-precision arithmetic is allowed inside
      priority       "normal" or "low"
      reproducible   same bits for the same input on this server, whatever its load
      timeout        seconds for the call with its retries; None: no limit. Past it, FactordError DEADLINE_EXCEEDED
    and raises FactordError for what the server refuses, ValueError or TypeError for what is wrong before it is sent. A
    finite matrix whose result exceeds the type's range never raises: the result is inf there, with a RuntimeWarning
    (from lstsq: a status).
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
            self._channel = grpc.insecure_channel(target, _channel.OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, credentials, _channel.OPTIONS)
        self._stub = factord_pb2_grpc.FactorizationStub(self._channel)
        self._metadata = _channel.metadata(client_name, token)
        self._stream_threshold = stream_threshold
        self._retry = retry

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls still in flight are cancelled."""
        self._channel.close()

    def qr(
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
        """A = Q R of every matrix of `a` (..., m, n), k = min(m, n): what numpy.linalg.qr returns for the same mode.

        "reduced"   QRResult(Q, R): Q (..., m, k), R (..., k, n)
        "complete"  QRResult(Q, R): Q (..., m, m), R (..., m, n)
        "r"         R (..., k, n)
        "raw"       (h, tau): LAPACK's packed reflectors, transposed as in NumPy, (..., n, m), and their factors
                    (..., k); for `form_q` and `apply_q`

        R is exactly zero below the diagonal, which is real and, by `sign`,
        "lapack"              of either sign
        "nonnegative"         >= 0, which makes Q Haar-distributed for i.i.d. Gaussian `a`; not for mode "raw"
        "special_orthogonal"  >= 0 but for the last, with det Q = +1; real square matrices only; not for mode "raw"
        """
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.qr(a, mode, sign, on_nonfinite, run), timeout)

    def qr_many(
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
        """`qr` of several arrays, of any shapes and types, in one request: the list of their results."""
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.qr_many(arrays, mode, sign, on_nonfinite, run), timeout)

    def form_q(
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
        """Q, (..., m, k) or in mode "complete" (..., m, m), from what `qr(a, "raw")` or NumPy's returned.

        `reflectors` is h as NumPy has it, (..., n, m): the transpose of LAPACK's m x n.
        """
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.form_q(reflectors, tau, mode, on_nonfinite, run), timeout)

    def apply_q(
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
        """Q C ("left", c (..., m, p)) or C Q ("right", c (..., p, m)); with `adjoint`, Q^H in Q's place.

        Q is the complete m x m one; `reflectors` is h as NumPy has it, (..., n, m), see `form_q`.
        """
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.apply_q(reflectors, tau, c, side, adjoint, on_nonfinite, run), timeout)

    def lstsq(
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
        """x that minimizes ||b - A x||, and ||x|| among the minimizers, for every matrix of `a` (..., m, n).

        `b` is (..., m, nrhs), with the batch dims of `a`, or (m,) for a single matrix.

        The rank counts the singular values above rcond times the largest, once each column of A is scaled by a power of
        two to about unit size; rcond is in [0, 1), None is 2 max(m, n) eps. So the rank can differ from
        NumPy's. A rank below min(m, n) never raises: x is the minimum-norm solution, and the matrix is listed in
        `statuses` as RANK_DEFICIENT. `residuals` are filled for every column, whatever the rank and shape.
        """
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.lstsq(a, b, rcond, on_nonfinite, run), timeout)

    def reduce_rows(
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
        """R of a matrix whose rows come block by block; with B, least squares over all rows.

        `blocks` is any iterable of row blocks, each of any height, in any mix of
          A_i              (rows, n); or, with `nrhs` > 0, (A_i B_i): (rows, n + nrhs)
          (A_i, b_i)       b_i (rows, nrhs) or (rows,)
          ReducedRows or   what is left of other rows, from any server: as if they came here. So
          RowReduction     `reduce_rows([one, other])` merges two reductions, and one can be gone on with
        The first block decides the type and the numbers of columns; one that differs raises ValueError. An array is one
        block, also a numpy.memmap: it is sent in pieces, so that memory does not depend on the number of rows.
        The order of the rows decides the bits of R, not how they are cut into blocks.

        solve            x, residual_norm and rank, as `lstsq`; needs B
        standard_errors  those of x too: sqrt(residual_norm^2 / (rows - n) ((A^T A)^-1)_ii); needs `solve` and a real type
        progress         called with the number of rows reduced so far, about every `progress_rows`, in this thread

        An RPC that finds the server UNAVAILABLE is tried again only where `blocks` can be iterated anew: a list, or anything
        whose iter() is not itself. What a generator made is gone, so its error is raised at once. The `timeout`
        is noticed between blocks.
        on_nonfinite="raise": FactordError with `rows`, the ranges where the NaN or Inf was.
        """
        run = run_options(backend, precision, priority, reproducible)
        start = _rows.start(solve, standard_errors, rcond, progress, progress_rows, run)
        strict = raises_on_nonfinite(on_nonfinite)
        attempts = Attempts(_rows.retry_policy(self._retry, blocks), timeout)

        def attempt(remaining: Optional[float]) -> RowReduction:
            return self._reduce(blocks, Reduction(start, nrhs, strict, progress), remaining)

        return retrying(attempt, attempts)

    def explain(
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
        """Where and how the server would run `qr` of an array of this shape and type, and how long it would take."""
        run = run_options(backend, precision, priority, reproducible)
        return self._call(_requests.explain(shape, dtype, mode, sign, run), timeout)

    def info(self, *, timeout: Optional[float] = None) -> ServerInfo:
        """The server's version, backends and limits."""
        return self._call(_requests.info(), timeout)

    def _call(self, call: Call[T], timeout: Optional[float]) -> T:
        attempt = self._stream if call.is_larger_than(self._stream_threshold) else self._unary
        return retrying(lambda remaining: attempt(call, remaining), Attempts(self._retry, timeout))

    def _unary(self, call: Call[T], timeout: Optional[float]) -> T:
        try:
            rpc = getattr(self._stub, call.rpc)
            response = rpc(call.whole_request(), timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return call.read_whole(response)

    def _reduce(self, blocks: Blocks, reduction: Reduction, timeout: Optional[float]) -> RowReduction:
        with Exchange(self._stub.ReduceRows, timeout, self._metadata) as exchange:
            for message in reduction.messages(blocks):
                if not exchange.send(message):
                    break
                for reply in exchange.arrived():
                    reduction.feed(reply)
            exchange.complete()
            while exchange.wait():
                for reply in exchange.arrived():
                    reduction.feed(reply)
        return reduction.read()

    def _stream(self, call: Call[T], timeout: Optional[float]) -> T:
        assembly = _stream.Assembly()
        replies = self._stub.FactorizeStream(_stream.requests(call, timeout), timeout=timeout, metadata=self._metadata)
        try:
            for reply in replies:
                assembly.feed(reply)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            replies.cancel()  # stops the sending of what was refused half-way; nothing where the stream has ended
        return assembly.read(call)
