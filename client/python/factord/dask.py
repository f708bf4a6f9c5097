"""QR and least squares of dask arrays of any height, by factord servers.

    from factord.dask import lstsq, tsqr

    r = tsqr(a, ["one:50051", "other:50051"])         # a dask array, computed when it is asked for
    fit = lstsq(a, b, "one:50051")
    x, rank = dask.compute(fit.x, fit.rank)

Each row chunk is reduced by one server, the servers taking turns; what is left of the chunks, a triangle each, is reduced in
a tree. The tree depends on the number of chunks alone, so results on the same kind of servers have the same bits, whatever
the scheduler and the number of workers. The workers connect to the servers, and send them the chunks; they need this package.

Q is not formed: where it is needed in place of R, A R^-1 is it as far as A is well conditioned.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Union

import numpy as np

try:
    import dask.array as da
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError("factord.dask needs dask: pip install 'factord[dask]'") from error

from ._channel import PathLike, tls_credentials
from ._errors import FactordError
from ._options import Backend, Precision, Priority, run_options
from ._results import ReducedRows, RowReduction, nonfinite_rows
from ._tensor import common_dtype
from .client import Client

__all__ = ["LeastSquares", "Server", "lstsq", "tsqr"]

FAN_IN = 16


@dataclass(frozen=True)
class Server:
    """Where a server is and what it wants to see: what each worker process makes a client of.

    The paths are those of files where the workers run. The token is part of the graph: the scheduler can read it.
    """

    target: str
    client_name: Optional[str] = None
    tls: bool = False  # implied by ca and cert
    ca: Optional[PathLike] = None
    cert: Optional[PathLike] = None
    key: Optional[PathLike] = None
    token: Optional[str] = field(default=None, repr=False)

    def connect(self) -> Client:
        secure = self.tls or self.ca is not None or self.cert is not None
        credentials = tls_credentials(self.ca, self.cert, self.key) if secure else None
        return Client(self.target, client_name=self.client_name, credentials=credentials, token=self.token)


Servers = Union[str, Server, Sequence[Union[str, Server]]]


class LeastSquares(NamedTuple):
    """Dask arrays of one chunk each; `dask.compute(*fit)` has them all for one pass over the data."""

    x: da.Array  # (n, nrhs), or (n,) where b is a vector; minimum-norm where the rank is less than n
    residual_norm: da.Array  # (nrhs,), or () where b is a vector: ||b_j - A x_j||
    rank: da.Array  # ()
    r: da.Array  # R of A, (min(m, n), n)
    standard_errors: Optional[da.Array]  # of x, where they were asked for


def tsqr(
    a: da.Array,
    servers: Servers,
    *,
    fan_in: int = FAN_IN,
    backend: Backend = "auto",
    precision: Precision = "strict",
    priority: Priority = "normal",
    reproducible: bool = False,
    timeout: Optional[float] = None,
) -> da.Array:
    """R of `a`, (min(m, n), n), as `numpy.linalg.qr(a, "r")`: a dask array of one chunk.

    a        two-dimensional, with row chunks of any heights, unknown ones (nan) too; its columns are made one chunk
    servers  "host:port" or `Server`, or several of them
    fan_in   how many triangles are reduced together in the tree, at least 2
    timeout  seconds for each call of a server, with its retries
    The others are those of `Client`, for each call.

    A NaN or Inf raises FactordError when R is computed; the message names the chunk and its rows. A call that finds its server
    UNAVAILABLE is tried again, as `Client` does; a task that failed, by dask's own `retries`.
    """
    a = _matrix("a", a)
    run = _checked(backend, precision, priority, reproducible, timeout)
    dtype = common_dtype(a.dtype)
    root = _tree(_row_chunks(a), _checked_servers(servers), fan_in, run, {})
    return _array(root, "r", _shape_of_r(a), dtype)


def lstsq(
    a: da.Array,
    b: da.Array,
    servers: Servers,
    *,
    rcond: Optional[float] = None,
    standard_errors: bool = False,
    fan_in: int = FAN_IN,
    backend: Backend = "auto",
    precision: Precision = "strict",
    priority: Priority = "normal",
    reproducible: bool = False,
    timeout: Optional[float] = None,
) -> LeastSquares:
    """x that minimizes ||b - A x||, and ||x|| among the minimizers, in one pass over `a` and `b`.

    b                (m, nrhs) or (m,); made to have the row chunks of `a`. Where those are unknown (nan) it must have them
    rcond            as of `Client.lstsq`
    standard_errors  those of x too: sqrt(residual_norm^2 / (m - n) ((A^T A)^-1)_ii); NaN where the rank is less than n or m <= n
    All others as of `tsqr`.
    """
    a, b = _matrix("a", a), da.asarray(b)
    if b.ndim not in (1, 2):
        raise ValueError(f"b has {b.ndim} dimension(s): one or two")
    if standard_errors and common_dtype(a.dtype, b.dtype).kind == "c":
        raise ValueError("standard_errors are of real types only")
    b = _with_row_chunks_of(a, b if b.ndim == 1 else b.rechunk({1: -1}))
    run = _checked(backend, precision, priority, reproducible, timeout)
    dtype = common_dtype(a.dtype, b.dtype)
    pairs = list(zip(_row_chunks(a), _row_chunks(b)))
    final = {"solve": True, "standard_errors": standard_errors, "rcond": rcond}
    root = _tree(pairs, _checked_servers(servers), fan_in, run, final)
    shape_of_x = (a.shape[1], *b.shape[1:])
    return LeastSquares(
        x=_array(root, "x", shape_of_x, dtype),
        residual_norm=_array(root, "residual_norm", b.shape[1:], np.finfo(dtype).dtype),
        rank=_array(root, "rank", (), np.dtype(np.intp)),
        r=_array(root, "r", _shape_of_r(a), dtype),
        standard_errors=_array(root, "standard_errors", shape_of_x, dtype) if standard_errors else None,
    )


# ------------------------------------------------------------------------------------------------ the graph


def _tree(chunks: Sequence[Any], servers: list[Server], fan_in: int, run: dict[str, Any], final: dict[str, Any]) -> Delayed:
    """The RowReduction of all chunks, in their order. `final`: what is asked of the last call alone."""
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}: at least 2")
    reduce_chunk, merge = delayed(_reduce_chunk), delayed(_merge)
    level = [reduce_chunk(servers[i % len(servers)], i, chunk, run) for i, chunk in enumerate(chunks)]
    while len(level) > fan_in:
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = [merge(servers[i % len(servers)], group, run) for i, group in enumerate(groups)]
    return delayed(_reduce)(servers[0], level, {**run, **final})


def _array(root: Delayed, name: str, shape: tuple[float, ...], dtype: np.dtype) -> da.Array:
    return da.from_delayed(delayed(_part)(root, name, dtype), shape, dtype)


def _row_chunks(a: da.Array) -> list[Delayed]:
    return list(a.to_delayed().ravel())


def _matrix(name: str, a: da.Array) -> da.Array:
    """`a` in row chunks."""
    a = da.asarray(a)
    if a.ndim != 2:
        raise ValueError(f"{name} has {a.ndim} dimension(s): a matrix has two")
    return a.rechunk({1: -1})


def _with_row_chunks_of(a: da.Array, b: da.Array) -> da.Array:
    unknown = any(np.isnan(height) for height in (*a.chunks[0], *b.chunks[0]))
    if unknown and len(a.chunks[0]) != len(b.chunks[0]):
        raise ValueError(f"a has {len(a.chunks[0])} row chunks, b has {len(b.chunks[0])}, and their heights are unknown")
    if unknown:
        return b
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"a has {a.shape[0]} row(s), b has {b.shape[0]}")
    return b.rechunk({0: a.chunks[0]})


def _shape_of_r(a: da.Array) -> tuple[float, ...]:
    m, n = a.shape
    return (m if np.isnan(m) else min(m, n)), n


def _checked(
    backend: Backend, precision: Precision, priority: Priority, reproducible: bool, timeout: Optional[float]
) -> dict[str, Any]:
    """These arguments of each call; now is the time to say what is wrong with them."""
    run_options(backend, precision, priority, reproducible)
    return dict(backend=backend, precision=precision, priority=priority, reproducible=reproducible, timeout=timeout)


def _checked_servers(servers: Servers) -> list[Server]:
    several = [servers] if isinstance(servers, (str, Server)) else list(servers)
    if not several:
        raise ValueError("there are no servers")
    for server in several:
        if not isinstance(server, (str, Server)):
            raise TypeError(f"{server!r} is neither 'host:port' nor a Server: workers make their clients themselves")
    return [Server(server) if isinstance(server, str) else server for server in several]


# ------------------------------------------------------------------------------------------------ on the workers


def _reduce_chunk(server: Server, number: int, rows: Any, run: dict[str, Any]) -> ReducedRows:
    try:
        return _reduce(server, [rows], run).reduced
    except FactordError as error:
        if error.rows:
            raise nonfinite_rows(error.rows, f" of chunk {number}") from None
        raise


def _merge(server: Server, parts: list[ReducedRows], run: dict[str, Any]) -> ReducedRows:
    return _reduce(server, parts, run).reduced


def _reduce(server: Server, blocks: list[Any], options: dict[str, Any]) -> RowReduction:
    try:
        return _client(server).reduce_rows(blocks, **options)
    except FactordError as error:
        # What gRPC raised cannot be pickled; with it the error would not reach who asked.
        error.__cause__ = error.__context__ = None
        raise


def _part(reduction: RowReduction, name: str, dtype: np.dtype) -> np.ndarray:
    return np.asarray(getattr(reduction, name), dtype)


_clients: dict[tuple[int, Server], Client] = {}
_clients_lock = threading.Lock()


def _client(server: Server) -> Client:
    """This process's client of the server: one for all tasks. A child that was forked needs its own."""
    with _clients_lock:
        key = (os.getpid(), server)
        if key not in _clients:
            _clients[key] = server.connect()
        return _clients[key]
