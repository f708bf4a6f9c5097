"""Retries, by a clock that only sleeping moves and dice that are loaded. Nothing here waits."""

import asyncio

import factord
import grpc
import numpy as np
import pytest
from factord._retry import Attempts, retrying, retrying_async
from fake_factord import Fault, unavailable


class World:
    """A clock, sleep and dice, and a call that fails as it is told before it succeeds."""

    def __init__(self, failures, dice=1.0):
        self.now = 100.0
        self.slept = []
        self.offered = []  # the time that each attempt was given
        self.failures = list(failures)
        self.policy = factord.RetryPolicy(
            max_attempts=5, first_delay=1.0, max_delay=3.0, clock=lambda: self.now, rng=lambda: dice
        )

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds):
        self.sleep(seconds)

    def attempt(self, remaining):
        self.offered.append(remaining)
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    async def attempt_async(self, remaining):
        return self.attempt(remaining)


def busy(retry_delay=None):
    return factord.FactordError("busy", grpc.StatusCode.UNAVAILABLE, retry_delay=retry_delay)


def run_sync(world, timeout):
    return retrying(world.attempt, Attempts(world.policy, timeout), world.sleep)


def run_async(world, timeout):
    return asyncio.run(retrying_async(world.attempt_async, Attempts(world.policy, timeout), world.sleep_async))


@pytest.fixture(params=[run_sync, run_async])
def run(request):
    return request.param


def test_no_failure_no_wait(run):
    world = World([])
    assert run(world, None) == "done"
    assert (world.slept, world.offered) == ([], [None])


def test_backoff_doubles_up_to_its_limit(run):
    world = World([busy()] * 4)
    assert run(world, None) == "done"
    assert world.slept == [1.0, 2.0, 3.0, 3.0]


def test_backoff_is_jittered(run):
    world = World([busy()] * 2, dice=0.25)
    run(world, None)
    assert world.slept == [0.25, 0.5]


def test_the_last_error_is_raised_after_the_last_attempt(run):
    errors = [busy() for _ in range(5)]
    world = World(errors)
    with pytest.raises(factord.FactordError) as caught:
        run(world, None)
    assert caught.value is errors[-1]
    assert len(world.offered) == 5 and len(world.slept) == 4


def test_the_servers_delay_is_kept_and_jittered(run):
    world = World([busy(retry_delay=10.0), busy(retry_delay=0.0)], dice=0.5)
    run(world, None)
    assert world.slept == [10.5, 1.0]


def test_attempts_get_what_is_left_of_the_timeout(run):
    world = World([busy()] * 2)
    run(world, 10.0)
    assert world.offered == [10.0, 9.0, 7.0]


@pytest.mark.parametrize("timeout, waits", [(4.0, [1.0, 2.0]), (3.0, [1.0]), (1.0, [])])
def test_never_beyond_the_timeout(run, timeout, waits):
    world = World([busy()] * 4)
    with pytest.raises(factord.FactordError, match="busy"):
        run(world, timeout)
    assert world.slept == waits
    assert world.now - 100.0 < timeout or not waits


def test_no_time_is_no_attempt(run):
    world = World([])
    with pytest.raises(factord.FactordError) as caught:
        run(world, 0.0)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert world.offered == []


def test_a_delay_beyond_the_timeout_is_not_waited_for(run):
    world = World([busy(retry_delay=60.0)])
    with pytest.raises(factord.FactordError, match="busy"):
        run(world, 30.0)
    assert world.slept == []


@pytest.mark.parametrize(
    "code", [*(code for code in grpc.StatusCode if code is not grpc.StatusCode.UNAVAILABLE), "NONFINITE_INPUT"]
)
def test_nothing_else_is_retried(run, code):
    world = World([factord.FactordError("no", code, retry_delay=1.0)])
    with pytest.raises(factord.FactordError, match="no"):
        run(world, None)
    assert (world.slept, len(world.offered)) == ([], 1)


@pytest.mark.parametrize("threshold", [-1, 4 << 20])
def test_a_client_tries_again(fake, threshold):
    fake.service.faults.extend([unavailable(), unavailable(0.0)])
    without_waiting = factord.RetryPolicy(rng=lambda: 0.0)
    with factord.Client(fake.target, stream_threshold=threshold, retry=without_waiting) as client:
        assert client.qr(np.eye(2)).R.shape == (2, 2)
    assert len(fake.service.seen) == 3


def test_a_client_gives_up_at_once_where_there_is_no_time(fake):
    fake.service.faults.append(unavailable(retry_delay=3600.0))
    with factord.Client(fake.target) as client, pytest.raises(factord.FactordError, match="UNAVAILABLE") as caught:
        client.qr(np.eye(2), timeout=60)
    assert caught.value.retry_delay == 3600.0
    assert len(fake.service.seen) == 1


def test_a_client_does_not_try_other_errors_again(fake):
    fake.service.faults.append(Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large"))
    with factord.Client(fake.target) as client, pytest.raises(factord.FactordError, match="too large"):
        client.qr(np.eye(2))
    assert len(fake.service.seen) == 1
