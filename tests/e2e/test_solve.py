"""Least squares and QR of real data, against references of higher precision. Sources: tests/data/README.md."""

import csv
import json
import pathlib

import numpy as np
import pytest
from harness import array_of, check_qr, eps_of, normal, pb, qr_request, tensor

DATA = pathlib.Path(__file__).parents[1] / "data"
NIST = ["Norris", "Pontius", "NoInt1", "NoInt2", "Filip", "Longley", *(f"Wampler{i}" for i in range(1, 6))]
DEFICIENT = pb.MATRIX_CODE_RANK_DEFICIENT


def solve(stub, a, b, rcond=None):
    """(x, residual norms, ranks, {index: code}) of a batch of problems."""
    request = pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(a), b=tensor(b))], rcond=rcond)
    solution = stub.Solve(request).solutions[0]
    return (array_of(solution.x), array_of(solution.residual_norm), np.array(solution.rank),
            {s.index: s.code for s in solution.statuses})


def read_mtx(name):
    lines = [line for line in (DATA / "matrixmarket" / f"{name}.mtx").read_text().splitlines() if line[:1] != "%"]
    size = [int(n) for n in lines[0].split()]
    if len(size) == 2:
        return np.array([float(line) for line in lines[1:]]).reshape(size[::-1]).T
    a = np.zeros(size[:2])
    for line in lines[1:]:
        row, column, value = line.split()
        a[int(row) - 1, int(column) - 1] = float(value)
    return a


def digits(x, exact):
    return -np.log10(max(np.max(abs(x - exact) / abs(exact)), 1e-17))


@pytest.mark.parametrize("name", NIST)
def test_nist_to_the_digits_that_lapacks_qr_gets(stub, name):
    table = np.loadtxt(DATA / "nist" / "csv" / f"{name}.csv", delimiter=",", skiprows=1)
    a, y = table[:, 1:], table[:, :1]
    exact = np.array(json.loads((DATA / "nist" / "certified.json").read_text())["datasets"][name]
                     ["exact_float64_inputs"]["beta"], dtype=np.longdouble)
    x, norm, rank, statuses = solve(stub, a, y)
    q, r = np.linalg.qr(a)
    lapack = np.linalg.solve(r, q.T @ y[:, 0])
    # Two digits for the luck of the rounding: columns permuted, LAPACK's own result moves that much.
    assert digits(x[:, 0], exact) >= digits(lapack, exact) - 2
    assert rank == a.shape[1] and statuses == {}
    np.testing.assert_allclose(norm, np.linalg.norm(y - a @ np.array(exact[:, None], float)), atol=1e-7 * np.linalg.norm(y))


@pytest.mark.parametrize("name,bound", [("well1033", 1e-13), ("illc1033", 1e-11)])
def test_surveying(stub, name, bound):
    a, b, exact = (read_mtx(name + suffix) for suffix in ("", "_rhs1", "_xref"))
    x, norm, rank, _ = solve(stub, a, b)
    assert np.linalg.norm(x - exact) <= bound * np.linalg.norm(exact)
    assert rank == 320
    np.testing.assert_allclose(norm, 0.75215787, rtol=1e-6)


def test_a_rank_deficient_problem_gets_its_minimum_norm_solution(stub):
    a, b, exact = (read_mtx("Maragal_1" + suffix) for suffix in ("", "_rhs1", "_xref"))
    x, _, rank, statuses = solve(stub, a, b)
    assert rank == 10 and statuses == {0: DEFICIENT}
    assert np.linalg.norm(x - exact) <= 1e-12 * np.linalg.norm(exact)


def test_a_big_regression(stub):
    table = np.loadtxt(DATA / "tables" / "casp.csv", delimiter=",", skiprows=1)
    a = np.hstack([np.ones((len(table), 1)), table[:, 1:]])
    exact = np.array(json.loads((DATA / "tables" / "reference.json").read_text())["casp.csv"]["float64_inputs"]["beta"], float)
    x, _, rank, _ = solve(stub, a, table[:, :1])
    assert rank == 10
    np.testing.assert_allclose(x[:, 0], exact, rtol=1e-11)


def test_a_regression_per_country(stub):
    with open(DATA / "tables" / "gapminder.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    reference = json.loads((DATA / "tables" / "reference.json").read_text())["gapminder.tsv"]["groups"]
    groups = {country: [row for row in rows if row["country"] == country] for country in reference}
    years = np.array([[float(row["year"]) - 1952 for row in group] for group in groups.values()])
    a = np.stack([np.ones_like(years), years], axis=-1)
    b = np.array([[[float(row["lifeExp"])] for row in group] for group in groups.values()])
    x, norm, rank, _ = solve(stub, a, b)
    exact = np.array([[float(v) for v in values] for values in reference.values()])
    np.testing.assert_allclose(x[..., 0], exact[:, :2], rtol=1e-12)
    np.testing.assert_allclose(norm[:, 0] / np.sqrt(10), exact[:, 2], rtol=1e-11)
    assert (rank == 2).all()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_qr_of_measured_radio_channels(stub, dtype):
    rows = np.loadtxt(DATA / "tables" / "wifi_csi_snapshots.csv", delimiter=",", skiprows=1)
    flat = (rows[:, -180::2] + 1j * rows[:, -179::2]).astype(dtype)
    channels = flat.reshape(-1, 3, 30).swapaxes(1, 2)  # subcarriers x receivers
    factors = stub.Factorize(qr_request(channels, sign=pb.SIGN_NONNEGATIVE)).qr[0]
    q, r = array_of(factors.q), array_of(factors.r)
    check_qr(channels, q, r)
    diagonal = np.diagonal(r, axis1=1, axis2=2)
    assert (diagonal.imag == 0).all() and (diagonal.real >= 0).all()


@pytest.mark.parametrize("bad", [[[1, 1, 1], [1, np.inf, 1], [1, 1, 1]], [[550, 1], [np.inf, np.inf]], [[0, np.nan], [np.nan, np.inf]]])
def test_inf_never_reaches_a_solver_that_would_hang(server, bad):
    a = np.array(bad, float)
    x, norm, rank, statuses = solve(server.stub(), a, np.ones((len(a), 1)))
    assert statuses == {0: pb.MATRIX_CODE_NONFINITE_INPUT} and rank == -1
    assert np.isnan(x).all() and np.isnan(norm).all()


@pytest.mark.parametrize("m,n", [(2, 5), (7, 8), (31, 64)])
@pytest.mark.parametrize("nrhs", [1, 3])
def test_wide_gets_the_minimum_norm_solution(stub, m, n, nrhs):
    a, b = normal(m, n, dtype="f8"), normal(m, nrhs, dtype="f8", seed=1)
    x, norm, rank, _ = solve(stub, a, b)
    np.testing.assert_allclose(x, np.linalg.pinv(a) @ b, atol=1e-12)
    assert rank == m and (norm < 1e-12).all()


def test_dependent_columns_among_good_problems(stub):
    a, b = normal(100, 5, 3, dtype="f8"), normal(100, 5, 1, dtype="f8", seed=1)
    good = solve(stub, a, b)
    a[[7, 60], :, 2] = a[[7, 60], :, 0]
    x, _, rank, statuses = solve(stub, a, b)
    assert statuses == {7: DEFICIENT, 60: DEFICIENT} and list(rank[[7, 60]]) == [2, 2]
    np.testing.assert_allclose(x[7], np.linalg.pinv(a[7]) @ b[7], atol=1e-12)
    others = np.setdiff1d(np.arange(100), [7, 60])
    assert (x[others] == good[0][others]).all()


def test_an_unknown_that_is_never_touched_is_zero(stub):
    a, b = normal(50, 8, dtype="f8"), normal(50, 1, dtype="f8", seed=1)
    a[:, 5] = 0
    x, _, rank, statuses = solve(stub, a, b)
    assert rank == 7 and statuses == {0: DEFICIENT} and abs(x[5]) < 1e-14
    np.testing.assert_allclose(x, np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-12)


def test_one_to_nine_in_float32(stub):
    a = np.arange(1, 10, dtype="f4").reshape(3, 3)
    x, _, rank, _ = solve(stub, a, a)
    assert rank == 2
    np.testing.assert_allclose(x[0], [0.8333, 0.3333, -0.1667], atol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kappa", [1e3, 1e6, 1e9])
def test_ill_conditioned_problems_have_optimal_residuals(stub, dtype, kappa):
    u, v = (np.linalg.qr(normal(n, 20, dtype="f8", seed=n))[0] for n in (100, 20))
    a = ((u * np.logspace(0, -np.log10(kappa), 20)) @ v.T).astype(dtype)
    b = (a.astype("f8") @ np.ones((20, 1))).astype(dtype)
    x, _, rank, statuses = solve(stub, a, b)
    residual = a.astype("f8") @ x.astype("f8") - b
    assert np.linalg.norm(residual) <= 100 * 100 * eps_of(dtype) * np.linalg.norm(b)
    assert (rank[0] < 20) == (0 in statuses)
    if kappa * eps_of(dtype) > 1:
        assert statuses == {0: DEFICIENT}


def test_empty_problems(stub):
    x, norm, rank, _ = solve(stub, np.zeros((2, 0, 3)), np.zeros((2, 0, 1)))
    assert x.shape == (2, 3, 1) and (x == 0).all() and (norm == 0).all() and list(rank) == [0, 0]
    x, norm, rank, _ = solve(stub, np.zeros((4, 0)), np.full((4, 1), 2.0))
    assert x.shape == (0, 1) and norm == 4
    assert solve(stub, np.zeros((0, 5, 3)), np.zeros((0, 5, 2)))[0].shape == (0, 3, 2)


def test_rcond(stub):
    a, b = np.diag([1.0, 1e-3, 1e-6]) @ np.linalg.qr(normal(3, 3, dtype="f8"))[0], np.ones((3, 1))
    assert [int(solve(stub, a, b, rcond)[2][0]) for rcond in (None, 0, 1e-4, 1e-2)] == [3, 3, 2, 1]
