"""What a factorization must satisfy, by definition and never by comparison with another's elements."""

import numpy as np

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
MODES = ["reduced", "complete", "r", "raw"]


def random(rng, shape, dtype):
    a = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def tolerance(m, dtype):
    return 30 * max(1, m) * np.finfo(dtype).eps / 2


def widened(a):
    """In a higher precision than the one that it was computed in."""
    return a.astype({"f": "f8", "d": "g", "F": "c16", "D": "G"}[a.dtype.char])


def adjoint(a):
    return a.conj().swapaxes(-1, -2)


def norms(a):
    return np.sqrt((np.abs(a) ** 2).sum(axis=-2))


def assert_orthonormal(q):
    m, k = q.shape[-2:]
    wide = widened(q)
    excess = np.abs(adjoint(wide) @ wide - np.eye(k)).sum(axis=-2)
    assert (excess <= tolerance(m, q.dtype)).all()


def assert_triangular(r):
    assert not np.tril(r, -1).any()
    assert not np.diagonal(r, axis1=-2, axis2=-1).imag.any()


def assert_qr(a, q, r):
    """A = Q R column by column, Q with orthonormal columns, R exactly triangular."""
    assert_orthonormal(q)
    assert_triangular(r)
    residuals = norms(widened(r) - adjoint(widened(q)) @ widened(a))
    assert (residuals <= tolerance(a.shape[-2], a.dtype) * norms(widened(a))).all()


def assert_r(a, r):
    """R^H R = A^H A: some Q goes with R."""
    assert_triangular(r)
    a, r, bound = widened(a), widened(r), 2 * tolerance(a.shape[-2], a.dtype)
    lengths = norms(a)
    gap = np.abs(adjoint(r) @ r - adjoint(a) @ a)
    assert (gap <= bound * lengths[..., :, np.newaxis] * lengths[..., np.newaxis, :]).all()


def form_q(h, tau):
    """The complete Q of NumPy-raw reflectors of one matrix, in a higher precision: the definition, multiplied out."""
    n, m = h.shape
    q = np.eye(m, dtype=widened(h).dtype)
    for i in reversed(range(min(m, n))):
        v = widened(h[i, i:])
        v[0] = 1
        q[i:] -= widened(tau)[i] * np.outer(v, v.conj() @ q[i:])
    return q.astype(h.dtype)


def assert_raw(a, h, tau):
    """LAPACK's packed reflectors of every matrix, transposed."""
    m, n = a.shape[-2:]
    for i in np.ndindex(a.shape[:-2]):
        assert_qr(a[i], form_q(h[i], tau[i]), np.triu(h[i].T))
        if m > 1 and n > 0:
            assert np.sign(h[i][0, 0].real) == -np.sign(a[i][0, 0].real)


def assert_same_form(result, expected):
    """As NumPy's: the same shapes and types, in a tuple or alone."""
    results = result if isinstance(expected, tuple) else (result,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in wanted]


def assert_factors(a, mode, result):
    assert_same_form(result, np.linalg.qr(a, mode))
    if mode == "r":
        assert_r(a, result)
    elif mode == "raw":
        assert_raw(a, *result)
    else:
        assert_qr(a, *result)
