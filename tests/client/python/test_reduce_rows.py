"""reduce_rows: R of all rows however they come, and least squares over them."""

import itertools
import pickle
import threading

import checks
import factord
import grpc
import numpy as np
import pytest
from factord import _rows
from fake_factord import Fault, unavailable

WITHOUT_WAITING = factord.RetryPolicy(rng=lambda: 0.0)


def cut(a, *heights):
    """`a` in blocks of these heights, over and over."""
    first = 0
    for height in itertools.cycle(heights):
        if first >= len(a):
            return
        yield a[first : first + height]
        first += height


# ------------------------------------------------------------------------------------------------ R


@pytest.mark.parametrize("dtype", checks.DTYPES)
@pytest.mark.parametrize("m, n", [(1000, 7), (300, 1), (7, 7), (3, 7), (1, 1), (2000, 40)])
def test_r(client, rng, m, n, dtype):
    a = checks.random(rng, (m, n), dtype)
    result = client.reduce_rows(cut(a, 100, 1, 33))
    assert result.r.shape == (min(m, n), n) and result.r.dtype == dtype
    checks.assert_r(a, result.r)
    assert (result.rows, result.code, result.nonfinite) == (m, None, [])
    assert (result.qhb, result.x, result.residual_norm, result.standard_errors, result.rank) == (None,) * 5


def test_the_cut_does_not_change_a_bit(client, rng):
    a = rng.standard_normal((150_000, 9))  # 11 MB: several of any server's blocks
    whole = client.reduce_rows([a], backend="cpu").r
    for heights in [(97,), (7, 5000), (149_999,), (0, 64_000)]:
        assert np.array_equal(client.reduce_rows(cut(a, *heights), backend="cpu").r, whole)


def test_memory_does_not_matter(client, rng, tmp_path):
    a = rng.standard_normal((500, 6))
    padded = np.zeros((500, 12))
    padded[:, ::2] = a
    mapped = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", a.dtype, a.shape)
    mapped[:] = a
    expected = client.reduce_rows([a], backend="cpu").r
    for view in [np.asfortranarray(a), padded[:, ::2], a[::-1].copy()[::-1], a.astype(">f8"), mapped, a.tolist()]:
        assert np.array_equal(client.reduce_rows([view], backend="cpu").r, expected)


def test_integers_are_float64(client):
    assert client.reduce_rows([np.arange(6).reshape(3, 2), np.eye(2)]).r.dtype == np.float64


def test_no_rows(client):
    result = client.reduce_rows([np.zeros((0, 4))])
    assert result.r.shape == (0, 4) and result.rows == 0
    assert client.reduce_rows([result, np.eye(4)]).rows == 4


# ------------------------------------------------------------------------------------------------ least squares


@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_solve_is_lstsq(client, rng, dtype):
    a, b = checks.random(rng, (700, 5), dtype), checks.random(rng, (700, 3), dtype)
    result = client.reduce_rows(zip(cut(a, 90), cut(b, 90)), solve=True)
    eps = np.finfo(dtype).eps
    expected = client.lstsq(a, b)
    assert np.allclose(result.x, expected.x, rtol=0, atol=1000 * eps * np.abs(expected.x).max())
    assert np.allclose(result.residual_norm**2, expected.residuals, rtol=1000 * eps)
    assert result.x.dtype == dtype and result.residual_norm.dtype == np.finfo(dtype).dtype
    assert (result.rank, result.code, result.standard_errors) == (5, None, None)
    checks.assert_r(a, result.r)
    assert np.allclose(result.r @ result.x, result.qhb, rtol=0, atol=1000 * eps * np.abs(result.qhb).max())


def test_vectors_give_vectors(client, rng):
    a, b = rng.standard_normal((50, 3)), rng.standard_normal(50)
    result = client.reduce_rows([(a, b)], solve=True, standard_errors=True)
    assert np.allclose(result.x, np.linalg.lstsq(a, b, rcond=None)[0])
    assert result.x.shape == result.qhb.shape == result.standard_errors.shape == (3,)
    assert np.isclose(result.residual_norm, np.linalg.norm(b - a @ result.x))


def test_b_may_stand_beside_a(client, rng):
    ab = rng.standard_normal((200, 6))
    pairs = client.reduce_rows([(ab[:, :4], ab[:, 4:])], solve=True, backend="cpu")
    beside = client.reduce_rows([ab], nrhs=2, solve=True, backend="cpu")
    mixed = client.reduce_rows([(ab[:50, :4], ab[:50, 4:]), ab[50:]], solve=True, backend="cpu")
    for other in (beside, mixed):
        assert np.array_equal(other.x, pairs.x) and np.array_equal(other.reduced.r, pairs.reduced.r)


def test_standard_errors(client, rng):
    a, b = rng.standard_normal((80, 4)), rng.standard_normal((80, 2))
    result = client.reduce_rows([(a, b)], solve=True, standard_errors=True)
    spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)))
    assert np.allclose(result.standard_errors, spread[:, np.newaxis] * result.residual_norm / np.sqrt(76), rtol=1e-10)


def test_rank_deficient(client, rng):
    a, b = rng.standard_normal((300, 5)), rng.standard_normal(300)
    a[:, 3] = a[:, 0]
    result = client.reduce_rows([(a, b)], solve=True, standard_errors=True)
    assert (result.rank, result.code) == (4, "RANK_DEFICIENT")
    assert np.allclose(result.x, np.linalg.lstsq(a, b, rcond=1e-10)[0])
    assert np.isnan(result.standard_errors).all()


def test_rcond(client):
    a = np.diag([1.0, 1e-6])
    a[0, 1] = 1.0  # columns of about unit size, so that scaling them changes nothing
    block = (a, np.ones(2))
    assert client.reduce_rows([block], solve=True).rank == 2
    assert client.reduce_rows([block], solve=True, rcond=1e-3).rank == 1


# ------------------------------------------------------------------------------------------------ merging


@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_two_reductions_are_one_of_all_rows(client, rng, dtype):
    a, b = checks.random(rng, (900, 6), dtype), checks.random(rng, 900, dtype)
    parts = [client.reduce_rows([(a[rows], b[rows])]) for rows in (slice(0, 2), slice(2, 500), slice(500, None))]
    merged = client.reduce_rows(parts, solve=True)
    assert merged.rows == 900
    checks.assert_r(a, merged.r)
    expected = client.lstsq(a, b)
    assert merged.x.shape == (6,)
    assert np.allclose(merged.x, expected.x, rtol=0, atol=1e4 * np.finfo(dtype).eps)


def test_rows_and_reductions_in_any_order(client, rng):
    a = rng.standard_normal((300, 5))
    reduced = client.reduce_rows([a[100:200]]).reduced
    result = client.reduce_rows([a[:100], reduced, a[200:]])
    assert result.rows == 300
    checks.assert_r(a, result.r)


def test_results_can_be_pickled(client, rng):
    result = client.reduce_rows([(rng.standard_normal((30, 3)), np.ones(30))], solve=True)
    copy = pickle.loads(pickle.dumps(result))
    assert np.array_equal(copy.x, result.x) and copy.rank == result.rank
    assert np.array_equal(client.reduce_rows([copy.reduced]).r, client.reduce_rows([result]).r)


# ------------------------------------------------------------------------------------------------ NaN and Inf


def test_nonfinite_rows_are_named(client, rng):
    a = rng.standard_normal((600_000, 3))  # 14 MB: several of any server's blocks
    a[333_333, 1] = np.nan
    with pytest.raises(factord.FactordError, match="NaN or Inf in rows") as caught:
        client.reduce_rows(cut(a, 70_000))
    assert caught.value.code == "NONFINITE_INPUT"
    (rows,) = caught.value.rows
    assert 333_333 in rows and 0 not in rows and 599_999 not in rows
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.rows, copy.code, str(copy)) == ([rows], "NONFINITE_INPUT", str(caught.value))


def test_nonfinite_rows_are_nan_where_they_may_be(client):
    block = (np.array([[1.0, 2.0], [np.inf, 1.0], [0.0, 1.0]]), np.ones(3))
    result = client.reduce_rows([block], solve=True, on_nonfinite="nan")
    assert (result.code, result.rank) == ("NONFINITE_INPUT", -1)
    assert 1 in result.nonfinite[0]
    assert np.isnan(result.r).all() and np.isnan(result.x).all() and np.isnan(result.residual_norm)


# ------------------------------------------------------------------------------------------------ how it runs


def test_progress_in_this_thread(client):
    told = []

    def progress(rows):
        told.append((rows, threading.current_thread()))

    client.reduce_rows(itertools.repeat(np.ones((1 << 16, 16)), 8), progress=progress, progress_rows=1 << 16)
    rows = [rows for rows, _ in told]
    assert rows and rows == sorted(rows) and 0 < rows[0] and rows[-1] <= 8 << 16
    assert {thread for _, thread in told} == {threading.current_thread()}


def test_blocks_are_made_in_this_thread(client):
    threads = []

    def blocks():
        for _ in range(3):
            threads.append(threading.current_thread())
            yield np.eye(3)

    client.reduce_rows(blocks())
    assert threads == [threading.current_thread()] * 3


@pytest.mark.parametrize("where", ["blocks", "progress"])
def test_the_callers_own_errors_come_through_and_end_the_call(fake, where):
    class Mine(Exception):
        pass

    def fail(*_):
        raise Mine

    def blocks():
        yield np.ones((1 << 18, 2))
        if where == "blocks":
            fail()
        yield from itertools.repeat(np.ones((1 << 18, 2)))

    with factord.Client(fake.target) as client:
        with pytest.raises(Mine):
            client.reduce_rows(blocks(), progress=fail, progress_rows=1 if where == "progress" else 1 << 60)
        assert client.reduce_rows([np.eye(2)]).rows == 2


def test_messages_are_neither_small_nor_large(fake, rng):
    a = rng.standard_normal((100_000, 8))  # 6.1 MiB
    with factord.Client(fake.target) as client:
        for blocks in ([a], cut(a, 10), cut(a, 40_000)):
            fake.service.row_messages.clear()
            client.reduce_rows(blocks)
            start, *chunks = fake.service.row_messages
            assert (start.start.n, start.start.nrhs, start.start.progress_rows) == (8, 0, 0)
            assert b"".join(chunk.rows for chunk in chunks) == a.tobytes()
            sizes = [len(chunk.rows) for chunk in chunks]
            assert max(sizes) <= _rows.CHUNK_BYTES
            assert all(x + y > _rows.CHUNK_BYTES for x, y in zip(sizes, sizes[1:]))  # or they would be one


def test_options_are_passed_on(fake):
    with factord.Client(fake.target, client_name="rows") as client:
        blocks = [(np.eye(2, dtype=np.float32), np.ones((2, 3), np.float32))]
        client.reduce_rows(
            blocks, solve=True, standard_errors=True, rcond=0.5, priority="low", progress=print, progress_rows=9
        )
    start = fake.service.row_messages[0].start
    assert (start.n, start.nrhs, start.solve, start.standard_errors, start.rcond) == (2, 3, True, True, 0.5)
    assert start.progress_rows == 9 and start.run.priority == 2
    assert fake.service.seen[0][1]["factord-client"] == "rows"


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "blocks, message",
    [
        ([np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 4))], "block 2 is 4 wide, the blocks before it 3"),
        ([np.ones((2, 3)), np.ones((2, 3), "f4")], "block 1 is of float32, the blocks before it of float64"),
        ([np.ones((2, 3)), (np.ones((2, 3)), np.ones(2))], r"block 1 is 3 \+ 1 wide, the blocks before it 3"),
        ([np.ones((2, 3)), (np.ones((2, 2)), np.ones(2))], r"block 1 is 2 \+ 1 wide, the blocks before it 3"),
        ([np.eye(2), factord.ReducedRows(1, np.ones((1, 3)))], "block 1 is 3 wide, the blocks before it 2"),
        ([np.ones((2, 3)), np.ones(3)], r"block 1 has 1 dimension\(s\)"),
        (np.ones((2, 3)), r"block 0 has 1 dimension\(s\)"),
        ([(np.ones((2, 3)), np.ones(3))], r"A of block 0 has 2 row\(s\), b has 3"),
        ([(np.ones((2, 3)), np.ones(2), np.ones(2))], "tuple of 3"),
        ([(np.ones((2, 3)), np.float64(1))], "b of block 0 has 0"),
        ([], "no blocks"),
    ],
)
def test_blocks_that_do_not_fit(fake, blocks, message):
    with factord.Client(fake.target) as client, pytest.raises(ValueError, match=message):
        client.reduce_rows(blocks)


@pytest.mark.parametrize("nrhs, block", [(3, np.ones((2, 3))), (-1, np.ones((2, 3))), (2, (np.eye(2), np.ones(2)))])
def test_nrhs_that_does_not_fit(fake, nrhs, block):
    with factord.Client(fake.target) as client, pytest.raises(ValueError, match=f"nrhs is {nrhs}"):
        client.reduce_rows([block], nrhs=nrhs)


def test_types_that_have_no_place_on_the_wire(fake):
    with factord.Client(fake.target) as client, pytest.raises(TypeError, match="longdouble|float128"):
        client.reduce_rows([np.ones((2, 2), np.longdouble)])


def test_what_the_server_refuses(client):
    with pytest.raises(factord.FactordError) as caught:
        client.reduce_rows([np.eye(2)], solve=True)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


# ------------------------------------------------------------------------------------------------ trouble


def test_a_list_is_sent_again(fake):
    fake.service.faults.extend([unavailable(), unavailable(0.0)])
    with factord.Client(fake.target, retry=WITHOUT_WAITING) as client:
        assert client.reduce_rows([np.eye(3)] * 4).rows == 12
    assert len(fake.service.seen) == 3


def test_an_iterator_is_not_sent_again(fake):
    fake.service.faults.append(unavailable(retry_delay=0.25))
    with factord.Client(fake.target, retry=WITHOUT_WAITING) as client:
        with pytest.raises(factord.FactordError) as caught:
            client.reduce_rows(iter([np.eye(3)]))
    assert (caught.value.code, caught.value.retry_delay) == (grpc.StatusCode.UNAVAILABLE, 0.25)
    assert len(fake.service.seen) == 1


def test_a_refusal_ends_blocks_without_end(fake):
    fake.service.faults.append(Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "too wide"))
    with factord.Client(fake.target) as client, pytest.raises(factord.FactordError, match="too wide"):
        client.reduce_rows(itertools.repeat(np.ones((1000, 100))))


def test_timeout_ends_blocks_without_end(fake):
    fake.service.stalled = True
    with factord.Client(fake.target) as client, pytest.raises(factord.FactordError) as caught:
        client.reduce_rows(itertools.repeat(np.ones((1000, 100))), timeout=0.1)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_closed_client_does_not_call(fake):
    client = factord.Client(fake.target)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.reduce_rows([np.eye(2)])


def test_nothing_is_left_running(fake):
    with factord.Client(fake.target) as client:
        for _ in range(5):
            client.reduce_rows([np.eye(2)])
            with pytest.raises(ValueError):
                client.reduce_rows([np.eye(2), np.eye(3)])
    assert not [thread for thread in threading.enumerate() if thread.name == "factord-replies"]
