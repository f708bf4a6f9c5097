"""form_q and apply_q: Q in factored form, from this server's qr or from NumPy's."""

import checks
import numpy as np
import pytest

SHAPES = [(5, 3), (3, 5), (4, 4), (1, 1), (4, 0), (0, 3), (40, 33), (2, 3, 6, 2), (0, 4, 2)]


def close(x, y, m):
    """Q C computed in two ways: both within the tolerance of the exact one."""
    scale = max(1.0, float(np.abs(y).max(initial=0.0)))
    assert x.shape == y.shape and x.dtype == y.dtype
    assert np.abs(x - y).max(initial=0.0) <= 2 * m * checks.tolerance(m, x.dtype) * scale


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_formed_q_goes_with_r(client, rng, shape, dtype):
    a = checks.random(rng, shape, dtype)
    h, tau = client.qr(a, "raw")
    q = client.form_q(h, tau)
    k = min(shape[-2:])
    checks.assert_same_form(q, np.linalg.qr(a)[0])
    checks.assert_qr(a, q, np.triu(h.swapaxes(-1, -2)[..., :k, :]))


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_complete_q_starts_with_the_reduced(client, rng, shape, dtype):
    a = checks.random(rng, shape, dtype)
    h, tau = client.qr(a, "raw")
    complete, reduced = client.form_q(h, tau, "complete"), client.form_q(h, tau)
    checks.assert_same_form(complete, np.linalg.qr(a, "complete")[0])
    checks.assert_orthonormal(complete)
    close(complete[..., : min(shape[-2:])], reduced, shape[-2])


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_applied_q_is_the_formed_one(client, rng, shape, adjoint, side, dtype):
    h, tau = client.qr(checks.random(rng, shape, dtype), "raw")
    *batch, m, _ = shape
    c = checks.random(rng, (*batch, m, 3) if side == "left" else (*batch, 3, m), dtype)
    q = client.form_q(h, tau, "complete")
    q = checks.adjoint(q) if adjoint else q
    close(client.apply_q(h, tau, c, side, adjoint), q @ c if side == "left" else c @ q, m)


@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_there_and_back(client, rng, dtype):
    h, tau = client.qr(checks.random(rng, (7, 4), dtype), "raw")
    c = checks.random(rng, (7, 2), dtype)
    close(client.apply_q(h, tau, client.apply_q(h, tau, c), adjoint=True), c, 7)


def test_adjoint_q_times_a_is_r(client, rng):
    a = rng.standard_normal((6, 4))
    h, tau = client.qr(a, "raw")
    close(client.apply_q(h, tau, a, adjoint=True), np.triu(h.T), 6)


def test_numpys_reflectors(client, rng):
    a = checks.random(rng, (6, 4), np.complex128)
    h, tau = np.linalg.qr(a, "raw")
    checks.assert_qr(a, client.form_q(h, tau), np.triu(h.T[:4]))


def test_types_are_brought_together(client, rng):
    h, tau = client.qr(checks.random(rng, (6, 4), np.float32), "raw")
    c = checks.random(rng, (6, 2), np.complex128)
    assert client.apply_q(h, tau, c).dtype == np.complex128


def test_nothing_to_apply_to(client, rng):
    h, tau = client.qr(rng.standard_normal((6, 4)), "raw")
    assert client.apply_q(h, tau, np.zeros((6, 0))).shape == (6, 0)
