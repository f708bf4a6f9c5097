"""factord.dask, one task after another in this process."""

import builtins
import pickle
import sys

import checks
import dask
import dask.array as da
import factord
import grpc
import numpy as np
import pytest
from factord import dask as factord_dask
from factord.dask import lstsq, tsqr
from fake_factord import Fault, Server, unavailable


@pytest.fixture(autouse=True)
def one_after_another():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def fakes():
    with Server() as one, Server() as other:
        yield one, other


def unknown(a):
    """`a` without the heights of its chunks."""
    return da.from_array(a, chunks=(7, -1))[da.from_array(np.arange(len(a)), chunks=7) >= 0]


def calls(server):
    return len(server.service.seen)


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("fan_in", [2, 3, 100])
def test_tsqr(target, rng, dtype, fan_in):
    a = checks.random(rng, (300, 6), dtype)
    r = tsqr(da.from_array(a, chunks=(40, 4)), target, fan_in=fan_in)
    assert r.shape == (6, 6) and r.dtype == dtype
    computed = r.compute()
    assert computed.shape == r.shape and computed.dtype == dtype
    checks.assert_r(a, computed)


@pytest.mark.parametrize("shape, chunks", [((3, 5), (2, 5)), ((1, 1), (1, 1)), ((4, 2), (1, 1)), ((0, 3), (1, 3))])
def test_few_rows(target, rng, shape, chunks):
    a = rng.standard_normal(shape)
    r = tsqr(da.from_array(a, chunks=chunks), target)
    assert r.shape == (min(shape), shape[1])
    checks.assert_r(a, r.compute())


def test_lstsq(target, rng):
    a, b = rng.standard_normal((200, 4)), rng.standard_normal((200, 3))
    fit = lstsq(da.from_array(a, chunks=(30, 2)), da.from_array(b, chunks=(70, 1)), target, standard_errors=True)
    x, norm, rank, r, errors = dask.compute(*fit)
    expected = np.linalg.lstsq(a, b, rcond=None)
    assert np.allclose(x, expected[0]) and np.allclose(norm**2, expected[1]) and rank == 4
    checks.assert_r(a, r)
    spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)))
    assert np.allclose(errors, spread[:, np.newaxis] * norm / np.sqrt(196))
    assert [part.shape for part in fit] == [part.shape for part in (x, norm, rank, r, errors)]


def test_lstsq_of_a_vector(target, rng):
    a, b = rng.standard_normal((50, 3)).astype("f4"), rng.standard_normal(50).astype("f4")
    fit = lstsq(da.from_array(a, chunks=(20, 3)), da.from_array(b, chunks=20), target)
    x, norm = dask.compute(fit.x, fit.residual_norm)
    assert np.allclose(x, np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-5)
    assert (x.shape, x.dtype, norm.shape, fit.standard_errors) == ((3,), np.float32, (), None)


def test_rank_deficient(target, rng):
    a, b = rng.standard_normal((60, 4)), rng.standard_normal(60)
    a[:, 2] = a[:, 1]
    fit = lstsq(da.from_array(a, chunks=(20, 4)), da.from_array(b, chunks=20), target)
    x, rank = dask.compute(fit.x, fit.rank)
    assert rank == 3 and np.allclose(x, np.linalg.lstsq(a, b, rcond=1e-10)[0])


def test_unknown_chunks(target, rng):
    a, b = rng.standard_normal((50, 3)), rng.standard_normal((50, 1))
    r = tsqr(unknown(a), target)
    assert np.isnan(r.shape[0]) and r.shape[1] == 3
    checks.assert_r(a, r.compute())
    assert np.allclose(lstsq(unknown(a), unknown(b), target).x.compute(), np.linalg.lstsq(a, b, rcond=None)[0])


def test_integers(target):
    a = da.from_array(np.arange(12).reshape(6, 2), chunks=(2, 2))
    assert tsqr(a, target).compute().dtype == np.float64


def test_the_same_bits_again_whatever_the_scheduler(target, rng):
    a = da.from_array(rng.standard_normal((500, 5)), chunks=(30, 5))
    r = tsqr(a, target, fan_in=3, backend="cpu")
    assert np.array_equal(r.compute(), r.compute(scheduler="threads", num_workers=4))


def test_nothing_is_computed_before_it_is_asked_for(fakes):
    one, _ = fakes
    fit = lstsq(da.ones((10, 2), chunks=(5, 2)), da.ones(10, chunks=5), one.target)
    assert calls(one) == 0
    dask.compute(*fit)
    assert calls(one) == 3  # two chunks and the last reduction, once for all results


def test_servers_take_turns(fakes, rng):
    one, other = fakes
    a = rng.standard_normal((80, 3))
    r = tsqr(da.from_array(a, chunks=(10, 3)), [one.target, factord_dask.Server(other.target, client_name="d")], fan_in=4)
    checks.assert_r(a, r.compute())
    assert (calls(one), calls(other)) == (4 + 1 + 1, 4 + 1)
    assert {metadata.get("factord-client") for _, metadata in other.service.seen} == {"d"}


def test_one_client_for_all_calls(target):
    server = factord_dask.Server(target)
    assert factord_dask._client(server) is factord_dask._client(pickle.loads(pickle.dumps(server)))


def test_tokens_are_not_shown():
    assert "secret" not in repr(factord_dask.Server("host:1", token="secret"))


def test_a_busy_server_is_asked_again(fakes):
    one, _ = fakes
    one.service.faults.append(unavailable(0.0))
    assert tsqr(da.ones((4, 2), chunks=(2, 2)), one.target).compute().shape == (2, 2)


def test_nonfinite_rows_are_named(target, rng):
    a = rng.standard_normal((90, 3))
    a[50, 1] = np.inf
    with pytest.raises(factord.FactordError, match="rows .* of chunk 1") as caught:
        tsqr(da.from_array(a, chunks=(40, 3)), target).compute()
    assert 10 in caught.value.rows[0]


def test_errors_of_the_server(fakes):
    one, _ = fakes
    one.service.faults.append(Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "too wide"))
    with pytest.raises(factord.FactordError, match="too wide"):
        tsqr(da.ones((4, 2)), one.target).compute()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tsqr(da.ones(4), "s"), r"a has 1 dimension\(s\)"),
        (lambda: tsqr(da.ones((4, 2)), []), "no servers"),
        (lambda: tsqr(da.ones((4, 2)), "s", fan_in=1), "fan_in is 1"),
        (lambda: tsqr(da.ones((4, 2)), "s", backend="tpu"), "backend"),
        (lambda: lstsq(da.ones((4, 2)), da.ones(5), "s"), r"a has 4 row\(s\), b has 5"),
        (lambda: lstsq(da.ones((4, 2)), da.ones((4, 1, 1)), "s"), r"b has 3 dimension\(s\)"),
        (lambda: lstsq(unknown(np.ones((14, 2))), da.ones(14, chunks=14), "s"), "a has 2 row chunks, b has 1"),
        (lambda: lstsq(da.ones((4, 2), dtype="c16"), da.ones(4), "s", standard_errors=True), "real types"),
    ],
)
def test_what_is_wrong_is_said_at_once(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_clients_do_not_travel(fakes):
    with factord.Client(fakes[0].target) as client, pytest.raises(TypeError, match="neither"):
        tsqr(da.ones((4, 2)), [client])


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without_dask(name, *args, **kwargs):
        if name.partition(".")[0] == "dask":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "factord.dask")
    monkeypatch.setattr(builtins, "__import__", without_dask)
    with pytest.raises(ImportError, match=r"factord\[dask\]"):
        import factord.dask  # noqa: F401
