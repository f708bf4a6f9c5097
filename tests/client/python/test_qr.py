"""qr against its definition and against NumPy's shapes and types."""

import itertools

import checks
import numpy as np
import pytest

SIZES = [*range(10), 31, 32, 33, 63, 64, 65]
SHAPES = [*itertools.product(SIZES, SIZES), (100, 7), (7, 100)]
BATCHES = [(0,), (1,), (3,), (2, 3), (2, 0, 3), (2, 1, 2)]


@pytest.mark.parametrize("mode", checks.MODES)
@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_every_shape(client, rng, dtype, mode):
    for start in range(0, len(SHAPES), 64):
        arrays = [checks.random(rng, shape, dtype) for shape in SHAPES[start : start + 64]]
        results = client.qr_many(arrays, mode)
        assert len(results) == len(arrays)
        for a, result in zip(arrays, results):
            checks.assert_factors(a, mode, result)


@pytest.mark.parametrize("mode", checks.MODES)
@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_batch_dims(client, rng, batch, dtype, mode):
    for m, n in [(5, 3), (3, 5), (4, 4), (0, 2), (2, 0), (1, 1)]:
        a = checks.random(rng, (*batch, m, n), dtype)
        checks.assert_factors(a, mode, client.qr(a, mode))


def test_result_is_named_as_numpy_names_it(client, rng):
    result = client.qr(rng.standard_normal((4, 3)))
    assert result._fields == ("Q", "R")
    assert result.Q is result[0] and result.R is result[1]


def test_results_can_be_written_to(client, rng):
    for mode in checks.MODES:
        result = client.qr(rng.standard_normal((4, 3)), mode)
        for array in result if isinstance(result, tuple) else (result,):
            array[...] = 0
            assert not array.any()


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16])
def test_narrow_types_are_computed_as_float64(client, rng, dtype):
    a = rng.integers(0, 2, (6, 4)).astype(dtype)
    q, r = client.qr(a)
    assert q.dtype == r.dtype == np.float64
    checks.assert_qr(a.astype(np.float64), q, r)


def test_lists_are_arrays(client):
    r = client.qr([[3, 0], [4, 5]], "r")
    assert np.allclose(np.abs(r), [[5, 4], [0, 3]], rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, object, "U1", "M8[s]"])
def test_types_without_a_wire_type_are_refused(client, dtype):
    with pytest.raises(TypeError, match="unsupported"):
        client.qr(np.zeros((2, 2)).astype(dtype))


@pytest.mark.parametrize("a", [1.0, [1.0, 2.0]])
def test_less_than_a_matrix_is_refused(client, a):
    with pytest.raises(ValueError, match="at least two"):
        client.qr(a)


@pytest.mark.parametrize(
    "option",
    [
        {"mode": "full"},
        {"mode": []},
        {"sign": "+"},
        {"backend": "tpu"},
        {"precision": 1},
        {"priority": "high"},
        {"on_nonfinite": "skip"},
    ],
)
def test_unknown_words_are_refused(client, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        client.qr(np.eye(2), **option)


@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_nonnegative_diagonal(client, rng, dtype):
    a = checks.random(rng, (50, 6, 4), dtype)
    q, r = client.qr(a, sign="nonnegative")
    checks.assert_qr(a, q, r)
    assert (np.diagonal(r, axis1=-2, axis2=-1).real >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_orthogonal(client, rng, dtype):
    a = checks.random(rng, (50, 5, 5), dtype)
    q, r = client.qr(a, sign="special_orthogonal")
    checks.assert_qr(a, q, r)
    assert (np.linalg.det(q.astype(np.float64)) > 0).all()
    assert (np.diagonal(r, axis1=-2, axis2=-1)[..., :-1] >= 0).all()


def test_run_options_do_not_change_the_meaning(client, rng):
    a = rng.standard_normal((4, 8, 5))
    q, r = client.qr(a, backend="cpu", precision="strict", priority="low", reproducible=True, timeout=60)
    checks.assert_qr(a, q, r)


def test_many_of_different_types(client, rng):
    arrays = [checks.random(rng, (2 + i, 3, 2), dtype) for i, dtype in enumerate(checks.DTYPES)]
    for a, (q, r) in zip(arrays, client.qr_many(arrays)):
        assert q.dtype == a.dtype
        checks.assert_qr(a, q, r)


def test_many_of_none(client):
    assert client.qr_many([]) == []
