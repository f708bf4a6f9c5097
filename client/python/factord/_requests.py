"""A method's arguments to a Call: the request, its tensors' data, and the reading of the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Callable, Generic, Optional, TypeVar

import numpy as np
from google.protobuf.message import Message
from numpy.typing import ArrayLike, DTypeLike

from . import _options, _results, _tensor
from ._options import Mode, OnNonfinite, QMode, Side, Sign
from .v1 import factord_pb2 as pb

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call, ready for any transport."""

    rpc: str  # its unary RPC
    operation: str  # its name within Start and StreamResult; "" if it is never streamed
    request: Message  # complete but for its tensors' data
    payloads: Sequence[memoryview]  # the data, tensor by tensor
    reply_bytes: int  # what the results will take
    read: Callable[[Any, _results.Elements], T]  # from the response and its tensors' elements

    def is_larger_than(self, threshold: int) -> bool:
        """Whether its data, there or back, is more than `threshold` bytes, and can come in chunks."""
        there = sum(payload.nbytes for payload in self.payloads)
        return bool(self.operation) and max(there, self.reply_bytes) > threshold

    def whole_request(self) -> Message:
        """The request with its tensors' data."""
        request = type(self.request)()
        request.CopyFrom(self.request)
        for tensor, payload in zip(_tensor.tensors(request), self.payloads):
            tensor.data = bytes(payload)
        return request

    def read_whole(self, response: Message) -> T:
        """Reads a response that carries its tensors' data."""
        return self.read(response, map(_tensor.read_data, _tensor.tensors(response)))


def qr(a: ArrayLike, mode: Mode, sign: Sign, on_nonfinite: OnNonfinite, run: pb.RunOptions) -> Call[Any]:
    return _qr([_matrices("a", a)], mode, sign, on_nonfinite, run, many=False)


def qr_many(
    arrays: Sequence[ArrayLike], mode: Mode, sign: Sign, on_nonfinite: OnNonfinite, run: pb.RunOptions
) -> Call[Any]:
    matrices = [_matrices(f"arrays[{i}]", a) for i, a in enumerate(arrays)]
    return _qr(matrices, mode, sign, on_nonfinite, run, many=True)


def _qr(
    arrays: Sequence[np.ndarray], mode: Mode, sign: Sign, on_nonfinite: OnNonfinite, run: pb.RunOptions, many: bool
) -> Call[Any]:
    options = _options.qr_options(mode, sign)
    strict = _options.raises_on_nonfinite(on_nonfinite)
    dtypes = [_tensor.common_dtype(a.dtype) for a in arrays]
    encoded = [_tensor.encode_matrices(a, dtype) for a, dtype in zip(arrays, dtypes)]

    def read(response: pb.FactorizeResponse, elements: _results.Elements) -> Any:
        results, statuses = [], []
        for i, (a, factors) in enumerate(zip(arrays, response.qr)):
            results.append(_results.read_qr(factors, mode, a.shape[-2], elements))
            statuses += _results.read_statuses(factors.statuses, a.shape[:-2], (i,) if many else ())
        _judge(statuses, strict)
        return results if many else results[0]

    return Call(
        rpc="Factorize",
        operation="factorize",
        request=pb.FactorizeRequest(a=[e.tensor for e in encoded], qr=options, run=run),
        payloads=[e.payload for e in encoded],
        reply_bytes=sum(_qr_elements(a.shape, mode) * dtype.itemsize for a, dtype in zip(arrays, dtypes)),
        read=read,
    )


def _qr_elements(shape: tuple[int, ...], mode: Mode) -> int:
    *batch, m, n = shape
    k = min(m, n)
    return prod(batch) * {"reduced": m * k + k * n, "complete": m * m + k * n, "r": k * n, "raw": m * n + k}[mode]


def form_q(
    h: ArrayLike, tau: ArrayLike, mode: QMode, on_nonfinite: OnNonfinite, run: pb.RunOptions
) -> Call[np.ndarray]:
    q_mode = _options.q_mode(mode)
    strict = _options.raises_on_nonfinite(on_nonfinite)
    reflectors = _matrices("reflectors", h).swapaxes(-1, -2)
    taus = np.asarray(tau)
    dtype = _tensor.common_dtype(reflectors.dtype, taus.dtype)
    v, t = _tensor.encode_matrices(reflectors, dtype), _tensor.encode_vectors(taus, dtype)
    *batch, m, n = reflectors.shape
    columns = m if mode == "complete" else min(m, n)

    def read(response: pb.FormQResponse, elements: _results.Elements) -> np.ndarray:
        (formed,) = response.formed
        _judge(_results.read_statuses(formed.statuses, tuple(batch)), strict)
        return _tensor.as_matrices(formed.q, next(elements))

    return Call(
        rpc="FormQ",
        operation="form_q",
        request=pb.FormQRequest(factors=[pb.Reflectors(reflectors=v.tensor, tau=t.tensor)], q=q_mode, run=run),
        payloads=[v.payload, t.payload],
        reply_bytes=prod(batch) * m * columns * dtype.itemsize,
        read=read,
    )


def apply_q(
    h: ArrayLike,
    tau: ArrayLike,
    c: ArrayLike,
    side: Side,
    adjoint: bool,
    on_nonfinite: OnNonfinite,
    run: pb.RunOptions,
) -> Call[np.ndarray]:
    wire_side = _options.side(side)
    strict = _options.raises_on_nonfinite(on_nonfinite)
    reflectors = _matrices("reflectors", h).swapaxes(-1, -2)
    taus = np.asarray(tau)
    target = _matrices("c", c)
    dtype = _tensor.common_dtype(reflectors.dtype, taus.dtype, target.dtype)
    v, t = _tensor.encode_matrices(reflectors, dtype), _tensor.encode_vectors(taus, dtype)
    to = _tensor.encode_matrices(target, dtype)

    def read(response: pb.ApplyQResponse, elements: _results.Elements) -> np.ndarray:
        (applied,) = response.applied
        _judge(_results.read_statuses(applied.statuses, target.shape[:-2]), strict)
        return _tensor.as_matrices(applied.c, next(elements))

    return Call(
        rpc="ApplyQ",
        operation="apply_q",
        request=pb.ApplyQRequest(
            applications=[pb.Application(factors=pb.Reflectors(reflectors=v.tensor, tau=t.tensor), c=to.tensor)],
            side=wire_side,
            op=pb.Q_OP_ADJOINT if adjoint else pb.Q_OP_PLAIN,
            run=run,
        ),
        payloads=[v.payload, t.payload, to.payload],
        reply_bytes=to.payload.nbytes,
        read=read,
    )


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: Optional[float], on_nonfinite: OnNonfinite, run: pb.RunOptions
) -> Call[_results.LstsqResult]:
    strict = _options.raises_on_nonfinite(on_nonfinite)
    left, right = _matrices("a", a), np.asarray(b)
    vector = left.ndim == 2 and right.ndim == 1
    right = right[:, np.newaxis] if vector else _matrices("b", right)
    dtype = _tensor.common_dtype(left.dtype, right.dtype)
    a_encoded, b_encoded = _tensor.encode_matrices(left, dtype), _tensor.encode_matrices(right, dtype)
    *batch, _, n = left.shape

    def read(response: pb.SolveResponse, elements: _results.Elements) -> _results.LstsqResult:
        (solution,) = response.solutions
        result = _results.read_lstsq(solution, tuple(batch), vector, elements)
        if strict:
            _results.refuse_nonfinite(result.statuses)
        return result

    return Call(
        rpc="Solve",
        operation="solve",
        request=pb.SolveRequest(
            problems=[pb.LeastSquaresProblem(a=a_encoded.tensor, b=b_encoded.tensor)], rcond=rcond, run=run
        ),
        payloads=[a_encoded.payload, b_encoded.payload],
        reply_bytes=prod(batch) * (n + 1) * right.shape[-1] * dtype.itemsize,
        read=read,
    )


def explain(
    shape: Sequence[int], dtype: DTypeLike, mode: Mode, sign: Sign, run: pb.RunOptions
) -> Call[_results.Explanation]:
    tensor = _tensor.header(tuple(shape), _tensor.common_dtype(np.dtype(dtype)))
    factorize = pb.FactorizeRequest(a=[tensor], qr=_options.qr_options(mode, sign), run=run)
    return Call(
        rpc="Explain",
        operation="",
        request=pb.ExplainRequest(factorize=factorize),
        payloads=[],
        reply_bytes=0,
        read=lambda response, _: _results.read_explanation(response.explanations[0]),
    )


def info() -> Call[_results.ServerInfo]:
    return Call(
        rpc="GetServerInfo",
        operation="",
        request=pb.GetServerInfoRequest(),
        payloads=[],
        reply_bytes=0,
        read=lambda response, _: _results.read_info(response),
    )


def _matrices(name: str, a: ArrayLike) -> np.ndarray:
    array = np.asarray(a)
    if array.ndim < 2:
        raise ValueError(f"{name} has {array.ndim} dimension(s): a matrix or a batch of matrices has at least two")
    return array


def _judge(statuses: Sequence[_results.MatrixStatus], strict: bool) -> None:
    """For the methods that return bare arrays: all that is known of a matrix must be raised or warned of."""
    if strict:
        _results.refuse_nonfinite(statuses)
    _results.warn_out_of_range(statuses)
