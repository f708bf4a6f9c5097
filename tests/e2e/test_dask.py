"""Two servers, and two workers of Dask's distributed scheduler: all on loopback, each a process of its own."""

import contextlib

import dask
import dask.array as da
import factord
import numpy as np
import pytest
from distributed import Client, LocalCluster
from factord.dask import lstsq, tsqr
from harness import eps_of, normal, running

ROWS, COLUMNS = 60_000, 8


@pytest.fixture(scope="module")
def servers():
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(running()) for _ in range(2)]


@pytest.fixture(scope="module")
def targets(servers):
    return [server.target for server in servers]


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address=None, memory_limit=None,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    )
    with cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def a():
    return normal(ROWS, COLUMNS, dtype="f8", seed=1)


def chunked(a):
    """In seven row chunks and two column chunks."""
    return da.from_array(a, chunks=(9_000, 5))


def requests(server):
    return sum(value for name, value in server.metrics().items()
               if name.startswith("factord_requests_total") and "ReduceRows" in name)


def assert_r(a, r):
    """R^T R = A^T A: some Q goes with R."""
    lengths = np.linalg.norm(a, axis=0)
    gap = abs(r.T @ r - a.T @ a)
    assert (gap <= 60 * len(a) * eps_of(a.dtype) * np.outer(lengths, lengths)).all()
    assert (np.tril(r, -1) == 0).all()


def test_r_by_two_servers_and_two_workers(workers, servers, targets, a):
    before = [requests(server) for server in servers]
    r = tsqr(chunked(a), targets, fan_in=3)
    assert r.shape == (COLUMNS, COLUMNS)
    assert_r(a, r.compute())
    # Seven chunks, then 7 -> 3 triangles, then the last one: 4 + 2 + 1 here, 3 + 1 there.
    assert [requests(server) - old for server, old in zip(servers, before)] == [7, 4]


def test_the_workers_do_not_change_a_bit(workers, targets, a):
    r = tsqr(chunked(a), targets, fan_in=3)
    assert np.array_equal(r.compute(), r.compute(scheduler="synchronous"))


def test_least_squares(workers, targets, a):
    b = a @ np.arange(1.0, COLUMNS + 1) + normal(ROWS, dtype="f8", seed=2)
    fit = lstsq(chunked(a), da.from_array(b, chunks=25_000), targets, standard_errors=True)
    x, norm, rank, errors = dask.compute(fit.x, fit.residual_norm, fit.rank, fit.standard_errors)
    expected, squares, _, _ = np.linalg.lstsq(a, b, rcond=None)
    np.testing.assert_allclose(x, expected, rtol=1e-11)
    np.testing.assert_allclose(norm**2, squares[0], rtol=1e-11)
    spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)) * squares[0] / (ROWS - COLUMNS))
    np.testing.assert_allclose(errors, spread, rtol=1e-9)
    assert rank == COLUMNS


def test_chunks_of_unknown_height(workers, targets, a):
    rows = chunked(a)
    kept = rows[rows[:, 0] > 0]
    assert_r(a[a[:, 0] > 0], tsqr(kept, targets).compute())


def test_a_nan_comes_back_as_an_error_that_names_its_rows(workers, targets, a):
    bad = a.copy()
    bad[20_000, 3] = np.nan
    with pytest.raises(factord.FactordError, match="of chunk 2") as caught:
        tsqr(chunked(bad), targets).compute()
    assert caught.value.code == "NONFINITE_INPUT" and 2_000 in caught.value.rows[0]


def test_what_a_server_refuses_comes_back(workers, targets):
    wide = da.ones((10, 100_000), chunks=(5, 100_000))
    with pytest.raises(factord.FactordError) as caught:
        tsqr(wide, targets).compute()
    assert caught.value.code.name == "INVALID_ARGUMENT"
