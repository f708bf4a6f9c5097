"""Inputs on which other libraries and services failed, each named after the public report it restates."""

import numpy as np
import pytest
from harness import array_of, check_qr, eps_of, normal, pb, qr_request, tensor

TYPES = ["f4", "f8", "c8", "c16"]
NONFINITE, OUT_OF_RANGE = pb.MATRIX_CODE_NONFINITE_INPUT, pb.MATRIX_CODE_RESULT_OUT_OF_RANGE


def qr(stub, a, timeout=60, **options):
    """(q, r) as arrays, and {index: code}."""
    factors = stub.Factorize(qr_request(a, **options), timeout=timeout).qr[0]
    return array_of(factors.q), array_of(factors.r), {s.index: s.code for s in factors.statuses}


def packed(stub, a):
    factors = stub.Factorize(qr_request(a, q=pb.Q_MODE_COMPLETE, reflectors=True)).qr[0]
    return tuple(array_of(t) for t in (factors.q, factors.r, factors.reflectors, factors.tau))


def check(stub, a):
    """The contract holds, and nothing is said against any matrix."""
    q, r, statuses = qr(stub, a)
    assert statuses == {}
    check_qr(a, q, r)
    return q, r


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("where", [np.s_[3, 2], np.s_[:, 1], np.s_[:, :]])
def test_inf_ends_in_time__reference_lapack_196(stub, dtype, where):
    a = normal(6, 4, dtype=dtype)
    a[where] = np.inf
    assert qr(stub, a, timeout=2)[2] == {0: NONFINITE}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [4, 8, 33, 64, 130])
def test_nan_is_never_lost__numpy_18914(stub, dtype, n):
    a = normal(n + 2, n, dtype=dtype)
    a[n // 2, 1] = np.nan
    q, r, statuses = qr(stub, a)
    assert statuses == {0: NONFINITE} and np.isnan(q).all() and np.isnan(r).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_unit_vectors__gonum_34(stub, dtype):
    for m in [3, *range(1, 71, 7)]:
        vectors = np.eye(m, dtype=dtype)[:, :, None]
        q, r = check(stub, vectors)
        assert (abs(r) == 1).all() and (abs(q) == vectors.real).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 1), (1, 1), (5, 3), (3, 5), (64, 64)])
def test_zero_matrices__math_php_301(stub, dtype, shape):
    q, r, packed_, tau = packed(stub, np.zeros(shape, dtype))
    assert (q == np.eye(shape[0])).all() and (r == 0).all() and (tau == 0).all() and (packed_ == 0).all()


def test_zero_matrices_among_others__math_php_301(stub):
    a = normal(1000, 5, 3)
    before = qr(stub, a)
    a[::3] = 0
    q, r, _ = qr(stub, a)
    assert (r[::3] == 0).all() and (q[::3] == np.eye(5, 3)).all()
    for after, earlier in ((q, before[0]), (r, before[1])):
        assert (after[1::3] == earlier[1::3]).all()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_zeros_on_the_diagonal__amgcl_26(stub, dtype):
    for zero in (np.s_[18, 18], np.s_[18:, 18]):
        a = normal(30, 20, dtype=dtype)
        a[zero] = 0
        check(stub, a)
        a = normal(30, 20, dtype=dtype)
        a[zero] = 1j * a[zero].imag
        check(stub, a)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_reflectors_of_length_one__skewlinearalgebra_60(stub, dtype):
    check(stub, np.zeros((1, 1), dtype))
    a = normal(1, 4, dtype=dtype)
    a[0, 0] = 0
    check(stub, a)
    a = normal(7, 7, dtype=dtype)
    a[:, -1] = a[:, :-1].sum(-1)
    check(stub, a)
    _, r, _, tau = packed(stub, np.array([[3 + 4j]], dtype))
    assert r[0, 0].imag == 0 and abs(r[0, 0]) == 5 and tau[0] != 0


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_equal_columns__oneapi_samples_1148(stub, dtype):
    x = normal(40, 1, dtype=dtype)
    _, r = check(stub, np.repeat(x, 4, axis=1))
    assert (abs(np.diag(r)[1:]) <= 30 * 40 * eps_of(dtype) * abs(r[0, 0])).all()
    noise = (1e-7 if dtype == "f4" else 1e-16) * normal(40, 2, dtype=dtype, seed=1)
    check(stub, np.repeat(x, 2, axis=1) + noise)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rank", [1, 10, 19])
def test_q_is_orthonormal_whatever_the_rank__gam_624(stub, dtype, rank):
    check(stub, np.ones((2, 2), dtype))
    check(stub, (normal(20, rank, dtype=dtype) @ normal(rank, 20, dtype=dtype, seed=1)).astype(dtype))


@pytest.mark.parametrize("dtype,exponents", [("f4", range(124, 128)), ("c8", range(124, 128)), ("f8", range(1020, 1024)),
                                             ("c16", range(1020, 1024))])
def test_near_overflow__reference_lapack_1381(stub, dtype, exponents):
    a = normal(6, 4, dtype=dtype)
    a = a / abs(a).max()
    a[0, 0] = 1
    _, r0, _ = qr(stub, a)
    for exponent in exponents:
        scale = np.ldexp(1.0, exponent).astype(a.real.dtype)
        _, r, statuses = qr(stub, a * scale)
        with np.errstate(over="ignore"):
            expected = r0 * scale
        assert (r == expected).all()
        assert statuses == ({} if np.isfinite(expected).all() else {0: OUT_OF_RANGE})


def test_tiny_float32__tensorflow_127912(stub):
    check(stub, np.float32(1e-20) * np.array([[1, 2], [3, 4]], "f4"))
    a = normal(8, 5)
    q0, r0, _ = qr(stub, a)
    for exponent in (64, 67, 100):
        q, r, _ = qr(stub, np.ldexp(a, -exponent))
        assert (q == q0).all() and (r == np.ldexp(r0, -exponent)).all()
    check(stub, np.ldexp(a, -126))


@pytest.mark.parametrize("dtype", TYPES)
def test_columns_from_the_smallest_to_the_largest(stub, dtype):
    info = np.finfo(dtype)
    a = normal(30, 20, dtype=dtype)
    a = a / abs(a).max()
    exponents = np.linspace(info.minexp - info.nmant, info.maxexp - 4, 20).astype(int)
    graded = a * np.ldexp(1.0, exponents).astype(info.dtype)
    check(stub, graded)
    check(stub, graded[:, ::-1])
    check(stub, (a.T * np.ldexp(1.0, np.linspace(info.minexp, info.maxexp - 4, 30).astype(int)).astype(info.dtype)).T[:, :20])


def test_large_diagonal_small_couplings__ulab_371(stub):
    a = -3.09e12 * np.eye(4) + np.logspace(4, 6, 16).reshape(4, 4) * (1 - np.eye(4))
    check(stub, a.astype("f4"))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_run_gives_the_same__tensorflow_20099(stub, dtype):
    a = normal(600, 300, dtype=dtype)
    request = qr_request(a)
    replies = [stub.Factorize(request).qr[0] for _ in range(10)]
    check_qr(a, array_of(replies[0].q), array_of(replies[0].r))
    assert len({(reply.q.data, reply.r.data) for reply in replies}) == 1


@pytest.mark.parametrize("m", [50, 500, 5000])
def test_nearly_dependent_pairs__chebfun_1441(stub, m):
    v, w = normal(m, 1, dtype="f8"), normal(m, 1, dtype="f8", seed=1)
    check(stub, np.stack([np.hstack([v, v + 10.0**-d * w]) for d in range(3, 17)]))
    check(stub, np.hstack([v, v, v]))


@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e10, 1e14])
def test_conditioning_does_not_matter__iterativesolvers_246(stub, kappa):
    u, v = (np.linalg.qr(normal(n, 20, dtype="f8"))[0] for n in (200, 20))
    a = (u * np.logspace(0, -np.log10(kappa), 20)) @ v.T
    check(stub, a)
    check(stub, a.astype("f4"))


@pytest.mark.parametrize("m", range(1, 10))
def test_all_small_shapes__xprec_22(stub, m):
    for n in range(1, 10):
        for mode, columns in ((pb.Q_MODE_REDUCED, min(m, n)), (pb.Q_MODE_COMPLETE, m)):
            a = normal(2, m, n, dtype="f8")
            q, r, _ = qr(stub, a, q=mode)
            assert q.shape == (2, m, columns) and r.shape == (2, min(m, n), n)
            check_qr(a, q[..., :min(m, n)], r)


def test_one_by_one_and_one_row__matlib_34(stub):
    q, r, _, tau = packed(stub, np.array([[-2.0]]))
    assert (q, r, tau) == (1, -2, 0)
    for shape in ((1, 3), (5, 1)):
        check(stub, normal(*shape, dtype="f8"))


@pytest.mark.parametrize("size", [32, 64, 128, 256, 300])
def test_sizes_around_block_boundaries__cudalibrarysamples_290(stub, size):
    for n in range(size - 2, size + 3):
        check(stub, normal(n, n))
        check(stub, normal(2 * n, n)[: n + 7])


@pytest.mark.parametrize("n", [256, 512])
def test_twice_the_identity_again_and_again__onemath_626(stub, n):
    request = qr_request(2 * np.eye(n, dtype="f4"))
    for call in [stub.Factorize.future(request) for _ in range(10)]:
        factors = call.result().qr[0]
        assert (abs(array_of(factors.q)) == np.eye(n)).all() and (abs(array_of(factors.r)) == 2 * np.eye(n)).all()


def test_many_3x3__pytorch_143281(stub):
    a = normal(10, 20, 20, 20, 3, 3)
    q, r, _ = qr(stub, a)
    assert q.shape == a.shape
    check_qr(a, q, r)


@pytest.mark.parametrize("n", [16, 17, 24, 33, 48])
def test_no_half_of_a_batch_is_wrong__pytorch_192483(stub, n):
    a = normal(128, n, n, dtype="c8")
    first = stub.Factorize(qr_request(a)).qr[0]
    check_qr(a, array_of(first.q), array_of(first.r))
    for _ in range(4):
        assert stub.Factorize(qr_request(a)).qr[0].q.data == first.q.data


def test_batch_sizes_that_vary__rocm_libraries_9118(stub):
    rng = np.random.default_rng(9118)
    u = np.linalg.qr(normal(300, 7, 7, dtype="f8"))[0]
    a = (u * np.r_[np.ones(6), 1e-15]) @ u.swapaxes(1, 2)
    whole = stub.Factorize(qr_request(a)).qr[0]
    check_qr(a, array_of(whole.q), array_of(whole.r))
    for _ in range(150):
        start, size = rng.integers(200), rng.integers(1, 100)
        part = stub.Factorize(qr_request(a[start:start + size])).qr[0]
        assert (array_of(part.q) == array_of(whole.q)[start:start + size]).all()


@pytest.mark.parametrize("count", [65535, 65536, 65537, 131073])
def test_batches_around_a_launch_grids_limit__pytorch_196745(stub, count):
    a = np.eye(2) + 1e-4 * normal(count, 2, 2, dtype="f8")
    q, r, _ = qr(stub, a)
    check_qr(a, q, r)


def test_a_matrix_of_low_rank_among_others__batched_1(stub):
    a = normal(512, 48, 48)
    a[100, :, 47] = a[100, :, :47].sum(-1)
    whole = array_of(stub.Factorize(qr_request(a)).qr[0].q)
    for part in (np.s_[100:101], np.s_[100:102], np.s_[94:101], np.s_[0:256]):
        assert (array_of(stub.Factorize(qr_request(a[part])).qr[0].q) == whole[part]).all()


@pytest.mark.parametrize("shape", [(3, 3), (4, 3)])
def test_packed_reflectors_are_m_by_n__numpy_14953(stub, shape):
    a = np.arange(shape[0] * shape[1], dtype="f8").reshape(shape)
    q, r, reflectors, tau = packed(stub, a)
    assert reflectors.shape == shape and (np.triu(reflectors)[:3] == r).all()
    h = np.eye(shape[0])
    for i, t in enumerate(tau):
        v = np.r_[np.zeros(i), 1, reflectors[i + 1:, i]]
        h = h @ (np.eye(shape[0]) - t * np.outer(v, v))
    np.testing.assert_allclose(h, q, atol=1e-14)


def test_both_signs_are_valid_and_one_is_chosen__numpy_18177(stub):
    a = np.array([[4, 2, 1], [2, 0, 1], [2, 0, -1], [1, 2, 1]], "f8")
    q, r = check(stub, a)
    assert r[0, 0] < 0  # LAPACK's: beta = -sign(alpha) ||x||
    q, r, _ = qr(stub, a, sign=pb.SIGN_NONNEGATIVE)
    check_qr(a, q, r)
    assert (np.diag(r) >= 0).all()


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7)])
def test_the_conjugate_transpose_everywhere__tlapack_81(stub, shape):
    a, b = normal(3, *shape, dtype="c16"), normal(3, shape[0], 2, dtype="c16", seed=1)
    q, r, reflectors, tau = packed(stub, a)
    np.testing.assert_allclose(np.diagonal(r, axis1=1, axis2=2).imag, 0)
    application = pb.Application(factors=pb.Reflectors(reflectors=tensor(reflectors), tau=tensor(tau)), c=tensor(b))
    reply = stub.ApplyQ(pb.ApplyQRequest(applications=[application], op=pb.Q_OP_ADJOINT))
    np.testing.assert_allclose(array_of(reply.applied[0].c), q.conj().swapaxes(1, 2) @ b, atol=1e-13)


def test_upper_triangular_input_is_its_own_r__pytorch_57315(stub):
    a = np.triu(normal(6, 6, dtype="f8"))
    q, r, _, tau = packed(stub, a)
    assert (q == np.eye(6)).all() and (r == a).all() and (tau == 0).all()


def test_tall_matrices_need_no_m_by_m_memory__pytorch_187567(stub):
    a = normal(65536, 8)
    q, r = check(stub, a)
    assert q.shape == (65536, 8)


def test_square_root_kalman_steps_stay_positive(stub):
    """[sqrt(P) F'; sqrt(Q)] stacked, R with a nonnegative diagonal, over many steps; no process noise in one state."""
    rng = np.random.default_rng(6)
    states = np.tril(rng.standard_normal((50, 4, 4)))
    for _ in range(30):
        noise = 0.1 * np.tril(rng.standard_normal((50, 4, 4)))
        noise[:, 3] = 0
        stacked = np.concatenate([states.swapaxes(1, 2), noise.swapaxes(1, 2)], axis=1)
        _, r, _ = qr(stub, stacked, sign=pb.SIGN_NONNEGATIVE)
        assert (np.diagonal(r, axis1=1, axis2=2) >= 0).all() and np.isfinite(r).all()
        product = stacked.swapaxes(1, 2) @ stacked
        np.testing.assert_allclose(r.swapaxes(1, 2) @ r, product, atol=1e-12 * abs(product).max())
        states = 0.9 * r.swapaxes(1, 2)


def test_range_finder_stays_orthonormal_under_power_iterations(stub):
    u, v = (np.linalg.qr(normal(n, 60, dtype="f8"))[0] for n in (2000, 60))
    a = (u * 10.0 ** -np.arange(60)) @ v.T
    y = a @ normal(60, 20, dtype="f8")
    for _ in range(3):
        q, _ = check(stub, y)
        y = a @ (a.T @ q)
