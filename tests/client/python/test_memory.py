"""Arrays of any strides: the right results, and no copy where none is needed."""

import checks
import numpy as np
import pytest
from factord import _tensor
from factord.v1 import factord_pb2 as pb


def views(a):
    """The same values in other memory."""
    padded = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    padded[..., ::2] = a
    rolled = np.ascontiguousarray(np.moveaxis(a, 0, -1))
    return {
        "column-major": np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
        "Fortran": np.asfortranarray(a),
        "every other column": padded[..., ::2],
        "backwards": np.ascontiguousarray(a[..., ::-1, ::-1])[..., ::-1, ::-1],
        "batch dim last": np.moveaxis(rolled, -1, 0),
        "big-endian": a.astype(a.dtype.newbyteorder(">")),
        "read-only": np.broadcast_to(a, a.shape),
    }


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("mode", checks.MODES)
def test_strides_do_not_matter(client, streaming, rng, dtype, mode):
    a = checks.random(rng, (3, 5, 4), dtype)
    for name, view in views(a).items():
        for c in (client, streaming):
            assert np.array_equal(view, a), name
            checks.assert_factors(a, mode, c.qr(view, mode))


def test_broadcast_batch(client, rng):
    a = rng.standard_normal((5, 4))
    q, r = client.qr(np.broadcast_to(a, (6, 5, 4)))
    checks.assert_qr(np.broadcast_to(a, (6, 5, 4)), q, r)


def test_fortran_order_comes_back_in_fortran_order(client, rng):
    q, r = client.qr(np.asfortranarray(rng.standard_normal((6, 4))))
    assert q.flags.f_contiguous and r.flags.f_contiguous


@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_contiguous_matrices_are_sent_from_where_they_are(rng, dtype):
    a = checks.random(rng, (2, 5, 3), dtype)
    for array, layout in [(a, pb.LAYOUT_ROW_MAJOR), (a.swapaxes(-1, -2), pb.LAYOUT_COLUMN_MAJOR)]:
        tensor, payload = _tensor.encode_matrices(array, _tensor.common_dtype(array.dtype))
        assert tuple(tensor.dims) == array.shape
        assert tensor.layout == layout
        assert np.shares_memory(np.frombuffer(payload, np.uint8), a)


def test_raw_reflectors_are_sent_back_from_where_they_are(client, rng):
    for a in (rng.standard_normal((2, 5, 3)), np.asfortranarray(rng.standard_normal((5, 3)))):
        h, _ = client.qr(a, "raw")
        _, payload = _tensor.encode_matrices(h.swapaxes(-1, -2), h.dtype)
        assert np.shares_memory(np.frombuffer(payload, np.uint8), h)


def test_column_major_bytes():
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    tensor, payload = _tensor.encode_matrices(np.asfortranarray(a), np.dtype("<f4"))
    assert np.frombuffer(payload, "<f4").tolist() == [1, 4, 2, 5, 3, 6]
    assert _tensor.as_matrices(tensor, np.frombuffer(payload, "<f4")).tolist() == a.tolist()


def test_bytes_are_little_endian():
    _, payload = _tensor.encode_matrices(np.array([[1.0]], ">f8"), np.dtype("<f8"))
    assert bytes(payload) == b"\0\0\0\0\0\0\xf0\x3f"


def test_data_that_disagrees_with_its_dims_is_not_read():
    with pytest.raises(ValueError):
        _tensor.read_data(pb.Tensor(dtype=pb.DTYPE_F32, dims=[2, 2], data=bytes(15)))
