"""NumPy arrays to Tensor messages and back; no copy where the memory already is as the wire wants it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message

from .v1 import factord_pb2 as pb

_WIRE_TYPES = {
    np.dtype("<f4"): pb.DTYPE_F32,
    np.dtype("<f8"): pb.DTYPE_F64,
    np.dtype("<c8"): pb.DTYPE_C64,
    np.dtype("<c16"): pb.DTYPE_C128,
}
_DTYPES = {wire_type: dtype for dtype, wire_type in _WIRE_TYPES.items()}


class Encoded(NamedTuple):
    """A tensor in its two parts, so that a large one can be sent in slices of the caller's own memory."""

    tensor: pb.Tensor  # all but the data
    payload: memoryview  # the data; keeps the array alive


def common_dtype(*dtypes: np.dtype) -> np.dtype:
    """The wire type that holds all of `dtypes`: bool, integers and float16 count as float64.

    Raises TypeError for what has none (longdouble, objects, strings), as numpy.linalg does.
    """
    return np.result_type(*map(_promoted, dtypes)).newbyteorder("<")


def _promoted(dtype: np.dtype) -> np.dtype:
    if dtype.kind in "biu" or dtype == np.float16:
        return np.dtype(np.float64)
    if dtype.newbyteorder("<") not in _WIRE_TYPES:
        raise TypeError(f"array type {dtype} is unsupported: float32, float64, complex64 or complex128")
    return dtype.newbyteorder("=")


def wire_type(dtype: np.dtype) -> pb.DType:
    return _WIRE_TYPES[dtype]


def header(shape: tuple[int, ...], dtype: np.dtype) -> pb.Tensor:
    """A row-major tensor without its data."""
    return pb.Tensor(dtype=wire_type(dtype), dims=shape, layout=pb.LAYOUT_ROW_MAJOR)


def encode_matrices(a: np.ndarray, dtype: np.dtype) -> Encoded:
    """(..., m, n) of any strides. C- and Fortran-ordered matrices of the right type are not copied."""
    a = a.astype(dtype, copy=False)  # keeps the order of the axes in memory
    tensor = header(a.shape, dtype)
    if not a.flags.c_contiguous and a.swapaxes(-1, -2).flags.c_contiguous:
        a = a.swapaxes(-1, -2)
        tensor.layout = pb.LAYOUT_COLUMN_MAJOR
    return Encoded(tensor, as_bytes(a))


def encode_vectors(v: np.ndarray, dtype: np.dtype) -> Encoded:
    """(..., k) of any strides."""
    return Encoded(header(v.shape, dtype), as_bytes(v.astype(dtype, copy=False)))


def as_bytes(a: np.ndarray) -> memoryview:
    """The array's elements in C order as bytes: its own memory where that is contiguous."""
    return memoryview(np.ascontiguousarray(a).reshape(-1).view(np.uint8))


def tensors(message: Message) -> Iterator[pb.Tensor]:
    """The tensors of a request or a response in the order in which the stream numbers them."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if isinstance(part, pb.Tensor):
                yield part
            else:
                yield from tensors(part)


def allocate(tensor: pb.Tensor) -> np.ndarray:
    """Uninitialized memory for the tensor's elements, one after another as on the wire."""
    return np.empty(math.prod(tensor.dims), _DTYPES[tensor.dtype])


def read_data(tensor: pb.Tensor) -> np.ndarray:
    """The tensor's elements as on the wire, in memory of their own: a message's bytes can not be written to."""
    elements = allocate(tensor)
    as_bytes(elements)[:] = tensor.data
    return elements


def as_matrices(tensor: pb.Tensor, elements: np.ndarray) -> np.ndarray:
    """`elements` as an array of the tensor's dims, in its layout."""
    *batch, m, n = tensor.dims
    if tensor.layout == pb.LAYOUT_COLUMN_MAJOR:
        return elements.reshape(*batch, n, m).swapaxes(-1, -2)
    return elements.reshape(*batch, m, n)


def as_vectors(tensor: pb.Tensor, elements: np.ndarray) -> np.ndarray:
    """`elements` as an array of the tensor's dims; a layout means nothing for vectors."""
    return elements.reshape(tuple(tensor.dims))
