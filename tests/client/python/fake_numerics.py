"""The mathematics of the fake server, one matrix at a time, by NumPy in float64 or better.

Routines are named after LAPACK's. Whoever calls them has seen to it that the input is finite.
"""

import numpy as np


def working(dtype):
    return np.result_type(dtype, np.float64)


def geqrf(a):
    """Packed reflectors (m, n) and tau (k). Scaled by a power of two, so that only a result can overflow."""
    largest = np.abs(a).max(initial=0.0)
    scale = np.ldexp(1.0, np.frexp(largest)[1] - 1) if largest > 0 else 1.0
    h, tau = np.linalg.qr(a / scale, "raw")
    packed = h.T
    with np.errstate(over="ignore", invalid="ignore"):
        return np.tril(packed, -1) + np.triu(packed) * scale, tau


def apply_reflectors(packed, tau, c, adjoint=False):
    """Q C or Q^H C, with Q = H_1 ... H_k and H_i = I - tau_i v_i v_i^H."""
    c = np.array(c, np.result_type(packed, c))
    order = range(len(tau)) if adjoint else reversed(range(len(tau)))
    for i in order:
        v = packed[i:, i].astype(c.dtype)
        v[0] = 1
        factor = np.conj(tau[i]) if adjoint else tau[i]
        c[i:] -= factor * np.outer(v, v.conj() @ c[i:])
    return c


def form_q(packed, tau, columns):
    """The first `columns` columns of Q."""
    return apply_reflectors(packed, tau, np.eye(packed.shape[0], columns, dtype=packed.dtype))


def make_nonnegative(q, r):
    """The same product with R's diagonal >= 0. A zero on it keeps its column of Q."""
    k = r.shape[0]
    signs = np.where(np.diagonal(r).real < 0, -1.0, 1.0)
    q[:, :k] *= signs
    r *= signs[:, np.newaxis]
    return q, r


def make_special_orthogonal(q, r):
    q, r = make_nonnegative(q, r)
    if np.linalg.slogdet(q)[0] < 0:
        q[:, -1] *= -1
        r[-1] *= -1
    return q, r


def gels(a, b, rcond):
    """x, the residual norms and the rank; minimum norm where the rank is less than n."""
    m, n = a.shape
    norms = np.sqrt((np.abs(a) ** 2).sum(axis=0))
    d = 2.0 ** -np.frexp(np.where(norms > 0, norms, 1.0))[1]
    u, s, vh = np.linalg.svd(a * d, full_matrices=False)
    rank = int((s > rcond * s[:1]).sum())
    if rank == n:
        q, r = np.linalg.qr(a * d)
        x = d[:, np.newaxis] * np.linalg.solve(r, q.conj().T @ b)
    else:
        # A = U S W, W = V^H D^-1, without the singular values that do not count; W = (Q2 R2)^H.
        q2, r2 = np.linalg.qr((vh[:rank] / d).conj().T)
        x = q2 @ np.linalg.solve(r2.conj().T, (u[:, :rank].conj().T @ b) / s[:rank, np.newaxis])
    return x, np.linalg.norm(b - a @ x, axis=0), rank
