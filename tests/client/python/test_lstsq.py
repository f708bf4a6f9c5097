"""lstsq against the conditions that define a least-squares solution."""

import checks
import numpy as np
import pytest


def gradient(a, b, x):
    """||A^H (b - A x)|| relative to what it is made of: 0 for a least-squares solution."""
    wide = [checks.widened(v) for v in (a, b, x)]
    g = np.abs(checks.adjoint(wide[0]) @ (wide[1] - wide[0] @ wide[2])).max(initial=0.0)
    size = np.abs(wide[0]).sum() * (np.abs(wide[1]).sum() + np.abs(wide[0]).sum() * np.abs(wide[2]).sum())
    return float(g / size) if size else float(g)


def outside_row_space(a, x, rank):
    """The part of x that a minimum-norm solution does not have."""
    _, _, vh = np.linalg.svd(a.astype(np.result_type(a, np.float64)))
    rows = vh[:rank]
    return np.abs(x - rows.conj().T @ (rows @ x)).max(initial=0.0) / max(np.abs(x).max(initial=0.0), 1e-300)


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("shape", [(9, 4), (4, 4), (4, 9), (1, 1), (70, 33), (33, 70)])
def test_full_rank(client, rng, shape, dtype):
    a, b = checks.random(rng, shape, dtype), checks.random(rng, (shape[0], 3), dtype)
    result = client.lstsq(a, b)
    assert result.x.shape == (shape[1], 3) and result.x.dtype == dtype
    assert result.rank == min(shape) and isinstance(result.rank, int)
    assert result.statuses == []
    eps = np.finfo(dtype).eps
    assert gradient(a, b, result.x) < 100 * eps
    assert outside_row_space(a, result.x, min(shape)) < 1e4 * eps
    assert result.residuals.dtype == np.finfo(dtype).dtype
    squares = (np.abs(checks.widened(b) - checks.widened(a) @ checks.widened(result.x)) ** 2).sum(axis=0)
    size = (np.abs(b) ** 2).sum(axis=0)
    assert (np.abs(result.residuals - squares) <= 1e4 * eps * size).all()


def test_vector(client, rng):
    a, b = rng.standard_normal((9, 4)), rng.standard_normal(9)
    x, residuals, rank, statuses = client.lstsq(a, b)
    expected = np.linalg.lstsq(a, b, rcond=None)
    assert np.allclose(x, expected[0], rtol=1e-12)
    assert np.allclose(residuals, expected[1], rtol=1e-12) and residuals.shape == expected[1].shape == (1,)
    assert (rank, statuses) == (4, [])


@pytest.mark.parametrize("batch", [(3,), (2, 3), (0,), (2, 0)])
def test_batch(client, rng, batch):
    a, b = rng.standard_normal((*batch, 6, 3)), rng.standard_normal((*batch, 6, 2))
    result = client.lstsq(a, b)
    assert result.x.shape == (*batch, 3, 2)
    assert result.residuals.shape == (*batch, 2)
    assert result.rank.shape == batch and (result.rank == 3).all()
    if result.x.size:
        assert gradient(a, b, result.x) < 1e-14


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty(client, shape):
    m, n = shape
    result = client.lstsq(np.zeros(shape), np.ones((m, 2)))
    assert result.x.shape == (n, 2) and not result.x.any()
    assert np.allclose(result.residuals, [m, m], rtol=1e-14)
    assert result.rank == 0


def test_rank_deficient_matrices_are_reported_and_solved(client, rng):
    a, b = rng.standard_normal((4, 8, 5)), rng.standard_normal((4, 8, 1))
    a[2, :, 3] = a[2, :, 0]
    a[3] = 0
    result = client.lstsq(a, b)
    assert result.rank.tolist() == [5, 5, 4, 0]
    assert [(s.index, s.code) for s in result.statuses] == [((2,), "RANK_DEFICIENT"), ((3,), "RANK_DEFICIENT")]
    assert all(s.message for s in result.statuses)
    for i in range(4):
        assert gradient(a[i], b[i], result.x[i]) < 1e-14
        assert outside_row_space(a[i], result.x[i], result.rank[i]) < 1e-12
    assert not result.x[3].any()


def test_wide_and_rank_deficient(client, rng):
    a = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 9))
    result = client.lstsq(a, rng.standard_normal(6), rcond=1e-10)
    assert result.rank == 2
    assert [s.index for s in result.statuses] == [()]
    assert outside_row_space(a, result.x, 2) < 1e-12


def test_rcond(client):
    a = np.diag([1.0, 1e-6])
    a[0, 1] = 1.0  # columns of about unit size, so that scaling them changes nothing
    assert client.lstsq(a, np.ones(2)).rank == 2
    assert client.lstsq(a, np.ones(2), rcond=1e-3).rank == 1


def test_scaled_columns_have_full_rank(client, rng):
    a = rng.standard_normal((8, 3)) * [1e12, 1.0, 1e-12]
    assert client.lstsq(a, rng.standard_normal(8)).rank == 3


def test_types_are_brought_together(client, rng):
    a = rng.standard_normal((5, 2)).astype(np.float32)
    assert client.lstsq(a, checks.random(rng, (5,), np.complex64)).x.dtype == np.complex64
    assert client.lstsq(a, np.arange(5)).x.dtype == np.float64


@pytest.mark.parametrize("a, b", [((5, 2), ()), ((3, 5, 2), (5,))])
def test_right_sides_that_fit_nothing_are_refused(client, a, b):
    with pytest.raises(ValueError, match="b has"):
        client.lstsq(np.ones(a), np.ones(b))
