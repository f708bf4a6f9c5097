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


def test_nonfinite(target):
    with pytest.raises(factord.FactordError) as caught:
        with_client(target, lambda client: client.qr([[[np.nan]], [[1.0]]]))
    assert caught.value.indices == [(0,)]
