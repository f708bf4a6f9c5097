"""FactordError, and its making from what gRPC and the stream report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, TypeVar, Union

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

M = TypeVar("M", bound=Message)

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class FactordError(Exception):
    """A call that failed.

    code         the RPC's grpc.StatusCode, or "NONFINITE_INPUT" for matrices that hold a NaN or Inf
    field        the request field at fault ("a[0].dims"), where the server named one
    retry_delay  seconds after which the server asks to be tried again, where it said so
    indices      of the matrices at fault: tuples over the batch dims; of `qr_many` with the array's number in front
    rows         of `reduce_rows`: the ranges of rows at fault
    """

    def __init__(
        self,
        message: str,
        code: Union[grpc.StatusCode, str] = grpc.StatusCode.UNKNOWN,
        *,
        field: Optional[str] = None,
        retry_delay: Optional[float] = None,
        indices: Sequence[tuple[int, ...]] = (),
        rows: Sequence[range] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.retry_delay = retry_delay
        self.indices = list(indices)
        self.rows = list(rows)


def from_rpc(error: grpc.RpcError) -> FactordError:
    """The error of a failed RPC; its trailers may carry a google.rpc.Status with details."""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
    return _error(error.code(), error.details() or "", status)


def from_status(status: status_pb2.Status) -> FactordError:
    """The error of a request that ended in-band, on the stream."""
    return _error(_CODES.get(status.code, grpc.StatusCode.UNKNOWN), status.message, status)


def _error(code: grpc.StatusCode, message: str, status: status_pb2.Status) -> FactordError:
    bad_request = _detail(status, error_details_pb2.BadRequest())
    retry_info = _detail(status, error_details_pb2.RetryInfo())
    return FactordError(
        f"{code.name}: {message}",
        code,
        field=next((violation.field for violation in bad_request.field_violations), None),
        retry_delay=retry_info.retry_delay.ToNanoseconds() * 1e-9 if retry_info.HasField("retry_delay") else None,
    )


def _detail(status: status_pb2.Status, empty: M) -> M:
    """The detail of `empty`'s type, or `empty` itself where there is none."""
    for detail in status.details:
        if detail.Unpack(empty):
            break
    return empty
