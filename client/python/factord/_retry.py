"""Retries: UNAVAILABLE alone, with jittered exponential backoff, never beyond the call's timeout.

Factorization is pure, so a request whose fate is unknown may be sent again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Callable, Optional, TypeVar

import grpc

from ._errors import FactordError

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how soon a call that found the server UNAVAILABLE is tried again.

    Before retry i (from 0) it waits the server's own retry_delay, if it named one, plus a random time below
    min(max_delay, first_delay * 2**i) seconds: random, so that clients refused together do not return together.
    """

    max_attempts: int = 8  # 1: no retries
    first_delay: float = 0.1
    max_delay: float = 5.0
    clock: Callable[[], float] = time.monotonic
    rng: Callable[[], float] = random.random  # in [0, 1)


class Attempts:
    """The attempts of one call: what is left of its time, and whether and when to try again."""

    def __init__(self, policy: RetryPolicy, timeout: Optional[float]) -> None:
        self._policy = policy
        self._deadline = None if timeout is None else policy.clock() + timeout
        self._failed = 0

    def remaining(self) -> Optional[float]:
        """Seconds left for the next attempt, None for any number; raises FactordError if there are none."""
        if self._deadline is None:
            return None
        left = self._deadline - self._policy.clock()
        if left <= 0:  # gRPC may let an answer that is quick enough slip through
            raise FactordError("DEADLINE_EXCEEDED: no time left", grpc.StatusCode.DEADLINE_EXCEEDED)
        return left

    def delay_after(self, error: FactordError) -> float:
        """Seconds to wait before the next attempt; raises `error` if there should be none."""
        policy = self._policy
        backoff = min(policy.max_delay, policy.first_delay * 2**self._failed)
        delay = (error.retry_delay or 0.0) + backoff * policy.rng()
        self._failed += 1
        last = self._failed >= policy.max_attempts or self._is_over_after(delay)
        if error.code is not grpc.StatusCode.UNAVAILABLE or last:
            raise error
        return delay

    def _is_over_after(self, delay: float) -> bool:
        return self._deadline is not None and self._policy.clock() + delay >= self._deadline


def retrying(
    attempt: Callable[[Optional[float]], T], attempts: Attempts, sleep: Callable[[float], None] = time.sleep
) -> T:
    """What `attempt(seconds left)` returns, tried as often as `attempts` allows."""
    while True:
        remaining = attempts.remaining()
        try:
            return attempt(remaining)
        except FactordError as error:
            delay = attempts.delay_after(error)
        sleep(delay)


async def retrying_async(
    attempt: Callable[[Optional[float]], Awaitable[T]],
    attempts: Attempts,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """`retrying` for coroutines."""
    while True:
        remaining = attempts.remaining()
        try:
            return await attempt(remaining)
        except FactordError as error:
            delay = attempts.delay_after(error)
        await sleep(delay)
