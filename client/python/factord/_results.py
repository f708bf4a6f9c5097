"""What calls return, and how it is read from responses.

The elements of a response's tensors come beside it, as an iterator of flat arrays in the order of the tensors: taken
from the message or put together from chunks, the reading is the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from . import _tensor
from ._errors import FactordError
from .v1 import factord_pb2 as pb

Elements = Iterator[np.ndarray]


class QRResult(NamedTuple):
    """A = Q R, named as in NumPy 2."""

    Q: np.ndarray
    R: np.ndarray


@dataclass(frozen=True)
class MatrixStatus:
    """What became of a matrix that is not plainly OK."""

    index: tuple[int, ...]  # over the batch dims; () for a single matrix
    code: str  # "NONFINITE_INPUT", "RESULT_OUT_OF_RANGE" or "RANK_DEFICIENT"
    message: str


class LstsqResult(NamedTuple):
    """The solution of min ||b - A x||."""

    x: np.ndarray  # (..., n, nrhs), or (n,) where b was a vector
    residuals: np.ndarray  # (..., nrhs), or (1,) where b was a vector: ||b - A x||^2 of each column, always filled
    rank: Union[int, np.ndarray]  # an int for a single matrix, else of the batch dims; -1 where the input is not finite
    statuses: list[MatrixStatus]


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """All that is left of the rows of (A B): a block for `reduce_rows`, which stands for them all. Can be pickled."""

    rows: int  # how many there were
    # R of (A B): (min(rows, n + nrhs), n + nrhs), zeros below the diagonal. Its first n rows are (R of A, Q^H B); the norms
    # of the columns of the rest are those of B - A X.
    r: np.ndarray
    nrhs: int = 0  # columns of B
    vector: bool = False  # whether B was given as vectors


@dataclass(frozen=True, eq=False)
class RowReduction:
    """What `reduce_rows` made of its rows. Can be pickled.

    Where the b of the blocks were vectors, the results have no axis for the columns of B. What was not asked for is None.
    """

    reduced: ReducedRows  # for another reduction, to go on or to merge
    x: Optional[np.ndarray]  # (n, nrhs), minimum-norm where the rank is less than n
    residual_norm: Optional[np.ndarray]  # (nrhs,): ||b_j - A x_j||
    standard_errors: Optional[np.ndarray]  # (n, nrhs), of x; NaN where the rank is less than n or there are n rows or fewer
    rank: Optional[int]  # -1 where rows are not finite
    code: Optional[str]  # None where all is well, or "NONFINITE_INPUT", "RESULT_OUT_OF_RANGE", "RANK_DEFICIENT"
    nonfinite: list[range]  # where rows with a NaN or Inf were, to a block of the server's exactly; the first 1024

    @property
    def rows(self) -> int:
        """How many rows were reduced, those of reductions included."""
        return self.reduced.rows

    @property
    def r(self) -> np.ndarray:
        """R of A, (min(rows, n), n)."""
        n = self.reduced.r.shape[1] - self.reduced.nrhs
        return self.reduced.r[:n, :n]

    @property
    def qhb(self) -> Optional[np.ndarray]:
        """Q^H B, (min(rows, n), nrhs)."""
        n = self.reduced.r.shape[1] - self.reduced.nrhs
        return _columns(self.reduced.r[:n, n:], self.reduced.vector) if self.reduced.nrhs else None


class Explanation(NamedTuple):
    """Where and how the server would run a request; see the API's Explanation message."""

    bucket: str
    backend: str
    path: str
    jobs: int
    flops: float
    input_bytes: int
    output_bytes: int
    predicted_ns: int
    measured: bool
    reason: str
    device: str
    label: str
    cpu_ns: int
    gpu_ns: int


class Device(NamedTuple):
    name: str
    model: str
    memory_bytes: int
    lanes: int
    healthy: bool


class BackendInfo(NamedTuple):
    backend: str
    name: str
    library: str
    threads: int
    lanes: int
    healthy: bool
    driver: str
    devices: list[Device]


class ServerInfo(NamedTuple):
    """The server's version, backends and limits; see the API's GetServerInfoResponse message."""

    version: str
    backends: list[BackendInfo]
    max_message_bytes: int
    max_matrix_elements: int
    max_tensors: int
    memory_budget_bytes: int
    memory_in_flight_bytes: int
    uptime_seconds: float
    rpcs: list[str]
    routing: str
    routing_table: str
    max_reduced_columns: int


def read_qr(factors: pb.QrFactors, mode: str, m: int, elements: Elements) -> Any:
    """What numpy.linalg.qr returns for `mode`; `m` is the matrices' number of rows."""
    if mode == "raw":
        reflectors = _tensor.as_matrices(factors.reflectors, next(elements))
        return reflectors.swapaxes(-1, -2), _tensor.as_vectors(factors.tau, next(elements))
    if mode == "r":
        return _tensor.as_matrices(factors.r, next(elements))
    q = _tensor.as_matrices(factors.q, next(elements))
    r = _tensor.as_matrices(factors.r, next(elements))
    return QRResult(q, _with_rows(r, m) if mode == "complete" else r)


def _with_rows(r: np.ndarray, m: int) -> np.ndarray:
    """R (..., k, n) with zero rows below, to m rows: NumPy's complete R."""
    *batch, k, n = r.shape
    if k == m:
        return r
    padded = np.zeros((*batch, m, n), r.dtype)
    padded[..., :k, :] = r
    return padded


def read_lstsq(
    solution: pb.LeastSquaresSolution, batch: tuple[int, ...], vector: bool, elements: Elements
) -> LstsqResult:
    x = _tensor.as_matrices(solution.x, next(elements))
    residuals = _tensor.as_vectors(solution.residual_norm, next(elements)) ** 2
    rank = np.array(solution.rank, np.intp).reshape(batch)
    return LstsqResult(
        x[..., 0] if vector else x,
        residuals,
        rank if batch else int(rank),
        read_statuses(solution.statuses, batch),
    )


def read_statuses(
    statuses: Iterable[pb.MatrixStatus], batch: tuple[int, ...], prefix: tuple[int, ...] = ()
) -> list[MatrixStatus]:
    return [
        MatrixStatus(
            prefix + tuple(int(i) for i in np.unravel_index(status.index, batch)),
            _code_name(status.code),
            _SENTENCES.get(status.code, ""),
        )
        for status in statuses
    ]


_SENTENCES = {
    pb.MATRIX_CODE_NONFINITE_INPUT: "the input has a NaN or Inf; all results of this matrix are NaN",
    pb.MATRIX_CODE_RESULT_OUT_OF_RANGE: "a result exceeds the range of the type and is Inf",
    pb.MATRIX_CODE_RANK_DEFICIENT: "numerically rank deficient; x is the minimum-norm solution",
}


def _code_name(code: int) -> str:
    names = pb.MatrixCode.DESCRIPTOR.values_by_number
    return names[code].name[len("MATRIX_CODE_") :] if code in names else str(code)


def refuse_nonfinite(statuses: Iterable[MatrixStatus]) -> None:
    """Raises FactordError where a matrix holds a NaN or Inf."""
    indices = [status.index for status in statuses if status.code == "NONFINITE_INPUT"]
    if indices:
        raise FactordError(f"NaN or Inf in the input of {_named(indices)}", "NONFINITE_INPUT", indices=indices)


def warn_out_of_range(statuses: Iterable[MatrixStatus]) -> None:
    """Warns of results with an Inf that were returned where no status goes with them."""
    indices = [status.index for status in statuses if status.code == "RESULT_OUT_OF_RANGE"]
    if indices:
        warnings.warn(f"a result exceeds the type's range in {_named(indices)}: it is inf there", RuntimeWarning)


def _named(indices: list[tuple[int, ...]], most: int = 5) -> str:
    if indices == [()]:
        return "the matrix"
    names = ", ".join(str(list(index)) for index in indices[:most])
    more = f" and {len(indices) - most} more" if len(indices) > most else ""
    return f"matrix {names}{more}"


def read_reduction(result: pb.ReduceRowsResult, nrhs: int, vector: bool) -> RowReduction:
    def matrix(tensor: pb.Tensor) -> np.ndarray:
        return _tensor.as_matrices(tensor, _tensor.read_data(tensor))

    def columns(name: str, read: Callable[[pb.Tensor], np.ndarray]) -> Optional[np.ndarray]:
        return _columns(read(getattr(result, name)), vector) if result.HasField(name) else None

    return RowReduction(
        reduced=ReducedRows(result.reduced.rows, matrix(result.reduced.r), nrhs, vector),
        x=columns("x", matrix),
        residual_norm=columns("residual_norm", _tensor.read_data),
        standard_errors=columns("standard_errors", matrix),
        rank=result.rank if result.HasField("x") else None,
        code=_code_name(result.code) if result.code else None,
        nonfinite=[range(found.first, found.first + found.count) for found in result.nonfinite],
    )


def _columns(array: np.ndarray, vector: bool) -> np.ndarray:
    """`array`, whose last axis is the columns of B; without that axis where B is a vector."""
    return array[..., 0] if vector else array


def refuse_nonfinite_rows(reduction: RowReduction) -> None:
    """Raises FactordError where rows hold a NaN or Inf."""
    if reduction.code == "NONFINITE_INPUT":
        raise nonfinite_rows(reduction.nonfinite)


def nonfinite_rows(rows: list[range], where: str = "", most: int = 5) -> FactordError:
    names = ", ".join(f"{found.start} to {found.stop - 1}" for found in rows[:most])
    more = f" and {len(rows) - most} more ranges" if len(rows) > most else ""
    return FactordError(f"NaN or Inf in rows {names}{more}{where}", "NONFINITE_INPUT", rows=rows)


def read_explanation(explanation: pb.Explanation) -> Explanation:
    fields = {name: getattr(explanation, name) for name in Explanation._fields}
    names = {"backend": _backend_name(explanation.backend), "label": _label_name(explanation.label)}
    return Explanation(**{**fields, **names})


def read_info(info: pb.GetServerInfoResponse) -> ServerInfo:
    return ServerInfo(
        version=info.version,
        backends=[
            BackendInfo(
                _backend_name(b.backend),
                b.name,
                b.library,
                b.threads,
                b.lanes,
                b.healthy,
                b.driver,
                [Device(d.name, d.model, d.memory_bytes, d.lanes, d.healthy) for d in b.devices],
            )
            for b in info.backends
        ],
        max_message_bytes=info.max_message_bytes,
        max_matrix_elements=info.max_matrix_elements,
        max_tensors=info.max_tensors,
        memory_budget_bytes=info.memory_budget_bytes,
        memory_in_flight_bytes=info.memory_in_flight_bytes,
        uptime_seconds=info.uptime.ToNanoseconds() * 1e-9,
        rpcs=list(info.rpcs),
        routing=_label_name(info.routing),
        routing_table=info.routing_table,
        max_reduced_columns=info.max_reduced_columns,
    )


def _label_name(label: int) -> str:
    names = pb.RouteLabel.DESCRIPTOR.values_by_number
    return names[label].name[len("ROUTE_LABEL_") :].lower() if label in names else str(label)


def _backend_name(backend: int) -> str:
    names = pb.Backend.DESCRIPTOR.values_by_number
    return names[backend].name[len("BACKEND_") :].lower() if backend in names else str(backend)
