"""AsyncClient: Client's methods, awaited."""

import asyncio
import inspect

import checks
import factord
import grpc
import numpy as np
import pytest
from fake_factord import invalid, unavailable


def public(cls):
    return {name: f for name, f in vars(cls).items() if not name.startswith("_") or name == "__init__"}


def test_the_same_methods_with_the_same_signatures():
    sync, twin = public(factord.Client), public(factord.AsyncClient)
    assert sync.keys() == twin.keys()
    for name, method in sync.items():
        assert inspect.signature(method) == inspect.signature(twin[name]), name
        assert name == "__init__" or inspect.iscoroutinefunction(twin[name])


def with_client(target, use, **options):
    async def main():
        async with factord.AsyncClient(target, **options) as client:
            return await use(client)

    return asyncio.run(main())


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_every_method_agrees_with_the_blocking_one(target, client, rng, threshold):
    a, b = checks.random(rng, (3, 6, 4), np.complex128), checks.random(rng, (3, 6, 2), np.complex128)
    h, tau = client.qr(a, "raw", backend="cpu")
    calls = {
        "qr": (a, "complete"),
        "qr_many": ([a, b],),
        "form_q": (h, tau),
        "apply_q": (h, tau, b, "left", True),
        "lstsq": (a, b, 1e-8),
    }

    async def use(twin):
        return [await getattr(twin, name)(*args, backend="cpu") for name, args in calls.items()]

    for result, (name, args) in zip(with_client(target, use, stream_threshold=threshold), calls.items()):
        for x, y in zip(leaves(result), leaves(getattr(client, name)(*args, backend="cpu"))):
            assert np.array_equal(x, y), name


def leaves(result):
    return (
        [result] if isinstance(result, np.ndarray) else np.concatenate([np.ravel(x) for part in result for x in part])
    )


def test_explain_and_info(target, client):
    async def use(twin):
        return await twin.explain((5, 4)), (await twin.info()).version

    explanation, version = with_client(target, use)
    assert explanation.input_bytes == 160
    assert version == client.info().version


def test_many_calls_at_once(target, rng):
    arrays = [rng.standard_normal((2 + i % 5, 3, 2)) for i in range(40)]

    async def use(client):
        return await asyncio.gather(*(client.qr(a) for a in arrays))

    for a, (q, r) in zip(arrays, with_client(target, use, stream_threshold=150)):
        checks.assert_qr(a, q, r)


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_errors(fake, threshold):
    fake.service.faults.append(invalid("a[0].dims", "4 dims"))
    with pytest.raises(factord.FactordError, match="4 dims") as caught:
        with_client(fake.target, lambda client: client.qr(np.eye(2)), stream_threshold=threshold)
    assert (caught.value.code, caught.value.field) == (grpc.StatusCode.INVALID_ARGUMENT, "a[0].dims")


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_timeout(fake, threshold):
    fake.service.stalled = True
    with pytest.raises(factord.FactordError) as caught:
        with_client(fake.target, lambda client: client.qr(np.eye(2), timeout=0.05), stream_threshold=threshold)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_retries(fake, threshold):
    fake.service.faults.extend([unavailable(), unavailable(0.0)])
    without_waiting = factord.RetryPolicy(rng=lambda: 0.0)
    with_client(
        fake.target,
        lambda client: client.qr(np.eye(2)),
        stream_threshold=threshold,
        retry=without_waiting,
        client_name="twin",
    )
    assert [metadata["factord-client"] for _, metadata in fake.service.seen] == ["twin"] * 3


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_cancelled_tasks_end(fake, threshold):
    fake.service.stalled = True

    async def use(client):
        task = asyncio.ensure_future(client.qr(np.eye(2)))
        while not fake.service.seen:
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        with_client(fake.target, use, stream_threshold=threshold)


class Mine(Exception):
    pass


async def blocks_of(a, then=None):
    for block in np.array_split(a, 7):
        await asyncio.sleep(0)
        yield block
    if then is not None:
        raise then


def test_rows(target, client, rng):
    a = rng.standard_normal((5000, 6))

    async def use(twin):
        told = []
        first = await twin.reduce_rows(blocks_of(a), progress=told.append, progress_rows=1, backend="cpu")
        second = await twin.reduce_rows([a], nrhs=1, solve=True, backend="cpu")
        return first, second, told

    first, second, told = with_client(target, use)
    assert np.array_equal(first.r, client.reduce_rows([a], backend="cpu").r)
    assert np.array_equal(second.x, client.reduce_rows([a], nrhs=1, solve=True, backend="cpu").x)
    assert told == sorted(told) and all(0 < rows <= 5000 for rows in told)


def test_rows_of_the_callers_errors(fake):
    async def use(client):
        with pytest.raises(Mine):
            await client.reduce_rows(blocks_of(np.eye(9), Mine()))
        with pytest.raises(ValueError, match="block 1 is 3 wide"):
            await client.reduce_rows([np.eye(2), np.eye(3)])
        return await client.reduce_rows([np.eye(2)])

    assert with_client(fake.target, use).rows == 2


async def rows_without_end():
    while True:
        yield np.ones((1000, 100))


def test_rows_without_end_are_ended_by_a_refusal(fake):
    fake.service.faults.append(invalid("start.n", "too wide"))
    with pytest.raises(factord.FactordError, match="too wide"):
        with_client(fake.target, lambda client: client.reduce_rows(rows_without_end()))


def test_rows_without_end_are_ended_by_a_timeout(fake):
    fake.service.stalled = True
    with pytest.raises(factord.FactordError) as caught:
        with_client(fake.target, lambda client: client.reduce_rows(rows_without_end(), timeout=0.1))
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_rows_are_sent_again_from_a_list_and_not_from_a_generator(fake):
    async def use(client):
        fake.service.faults.append(unavailable())
        assert (await client.reduce_rows([np.eye(2)])).rows == 2
        fake.service.faults.append(unavailable())
        with pytest.raises(factord.FactordError, match="UNAVAILABLE"):
            await client.reduce_rows(blocks_of(np.eye(7)))

    with_client(fake.target, use, retry=factord.RetryPolicy(rng=lambda: 0.0))
    assert len(fake.service.seen) == 3


def test_rows_of_a_cancelled_task_end(fake):
    fake.service.stalled = True

    async def use(client):
        task = asyncio.ensure_future(client.reduce_rows(rows_without_end()))
        while not fake.service.seen:
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        with_client(fake.target, use)


def test_nonfinite(target):
    with pytest.raises(factord.FactordError) as caught:
        with_client(target, lambda client: client.qr([[[np.nan]], [[1.0]]]))
    assert caught.value.indices == [(0,)]
