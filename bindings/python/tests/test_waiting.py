"""Waiting until a check is admitted: the order, how often the store is asked, and who leaves."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from typing import Any

import pytest
from conftest import python

from tollgate_limiter import ArgumentError, Decision, Limiter, ManualClock, StoreError


class Counting(Limiter):
    """A limiter that counts its questions."""

    __slots__ = ("asked",)

    asked: int

    def check_all(self, *words: Any, **options: Any) -> Decision:
        self.asked = getattr(self, "asked", 0) + 1
        return super().check_all(*words, **options)

    async def acheck_all(self, *words: Any, **options: Any) -> Decision:
        self.asked = getattr(self, "asked", 0) + 1
        return await super().acheck_all(*words, **options)


@pytest.mark.parametrize("limits", ["1/3ms via gcra", "4/12ms via sliding_log"])
def test_tasks_take_turns_and_a_turn_is_one_question(limits: str, store: str, unique: str) -> None:
    limiter = Counting(limits, store, policy=unique)
    order: list[int] = []

    async def task(name: int) -> None:
        for _ in range(8):
            decision = await limiter.auntil_ready("api", 60)
            assert decision is not None
            assert decision.allowed
            order.append(name)

    async def main() -> None:
        await asyncio.gather(*(task(name) for name in range(5)))

    asyncio.run(main())
    for at in range(0, 40, 5):
        assert Counter(order[at : at + 5]) == Counter(range(5)), order
    # A store that is slow to answer the first of a window is asked once more.
    assert 40 <= limiter.asked <= 46


def test_threads_take_turns() -> None:
    limiter = Counting("1/3ms via gcra")
    order: list[int] = []
    start = threading.Barrier(5)

    def thread(name: int) -> None:
        start.wait()
        for _ in range(8):
            decision = limiter.until_ready("api", 60)
            assert decision is not None
            assert decision.allowed
            order.append(name)

    threads = [threading.Thread(target=thread, args=(name,)) for name in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert Counter(order) == Counter({name: 8 for name in range(5)})
    # Threads that come late to the first round may have theirs in the second.
    for at in range(0, 40, 5):
        assert max(Counter(order[at : at + 5]).values()) <= 2, order
    assert 40 <= limiter.asked <= 46


def test_a_thread_and_a_task_share_the_line() -> None:
    limiter = Limiter("1/40ms via uniform")
    assert limiter.check("api")
    order: list[str] = []

    async def main() -> None:
        first = asyncio.create_task(limiter.auntil_ready("api", 60))
        await asyncio.sleep(0)

        def thread() -> None:
            assert limiter.until_ready("api", 60)
            order.append("thread")

        waiting = asyncio.create_task(asyncio.to_thread(thread))
        await first
        order.append("first")
        assert await limiter.auntil_ready("api", 60)
        order.append("last")
        await waiting

    asyncio.run(main())
    assert order == ["first", "thread", "last"]


def test_who_is_late_has_asked_nothing() -> None:
    limiter = Counting("1/h via gcra")

    async def main() -> None:
        assert await limiter.auntil_ready("api", 1)
        denied = await limiter.auntil_ready("api", 1)
        assert denied is not None
        assert denied.outcome == "denied"
        asked = limiter.asked
        long = asyncio.create_task(limiter.auntil_ready("api", None))
        while limiter.asked == asked:
            await asyncio.sleep(0)
        assert await limiter.auntil_ready("api", 0.01) is None
        assert await asyncio.to_thread(limiter.until_ready, "api", 0.01) is None
        assert limiter.asked == asked + 1
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        # The line is free again, and nothing was charged.
        denied = await limiter.auntil_ready("api", 1)
        assert denied is not None
        assert denied.outcome == "denied"
        never = await limiter.auntil_ready("api", None, cost=2)
        assert never is not None
        assert never.outcome == "never"

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_the_line() -> None:
    limiter = Limiter("1/30ms via uniform")

    async def main() -> None:
        assert limiter.check("api")
        tasks = [asyncio.create_task(limiter.auntil_ready("api", 60)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(it, asyncio.CancelledError) for it in done] == [True, False] * 2

    asyncio.run(main())


def test_a_manual_clock_is_moved_by_the_wait() -> None:
    clock = ManualClock()
    limiter = Limiter("1/h via gcra", clock=clock)
    start = time.monotonic()
    for _ in range(24):
        assert limiter.until_ready("api", 3_600)
    assert clock.at_us == 23 * 3_600_000_000

    async def main() -> None:
        passed = await asyncio.gather(*(limiter.auntil_ready("api", 86_400) for _ in range(12)))
        assert all(passed)

    asyncio.run(main())
    assert clock.at_us == 35 * 3_600_000_000
    assert time.monotonic() - start < 3_600
    assert limiter.clock is clock


def test_costs_of_several_sizes_wait_in_turn() -> None:
    clock = ManualClock()
    limiter = Limiter("10/s via gcra", clock=clock)
    for cost in (10, 4, 7, 1):
        assert limiter.until_ready("api", None, cost=cost)
    assert clock.at_us == 1_200_000


def test_bad_words_are_refused() -> None:
    limiter = Limiter("1/s")
    for timeout, error in ((-1, ArgumentError), (float("nan"), ArgumentError), ("5", TypeError)):
        with pytest.raises(error, match="timeout"):
            limiter.until_ready("api", timeout)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="subject"):
        limiter.until_ready("", 1)
    # The line of a failed question is free.
    assert limiter.until_ready("api", 1)


def test_a_store_that_is_away_is_an_error() -> None:
    limiter = Limiter("1/s", "redis://127.0.0.1:1?deadline=100ms")
    with pytest.raises(StoreError):
        limiter.until_ready("api", 10)
    with pytest.raises(StoreError):
        asyncio.run(limiter.auntil_ready("api", 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_its_own_line() -> None:
    told = python(
        """
import os, threading
from tollgate_limiter import Limiter

limiter = Limiter("1/h via gcra")
assert limiter.check("api")
waiting = threading.Thread(target=limiter.until_ready, args=("api", None), daemon=True)
waiting.start()
while not hasattr(limiter, "_lines") or "api" not in limiter._lines._lines:
    pass
child = os.fork()
if child == 0:
    os._exit(0 if limiter.until_ready("api", 1).outcome == "denied" else 1)
print(os.waitpid(child, 0)[1])
"""
    )
    assert told.strip() == "0"
