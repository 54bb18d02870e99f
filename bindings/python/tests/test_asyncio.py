"""asyncio: nothing blocks the loop, nothing hangs, nothing is charged twice."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import free_port, python

from tollgate_limiter import Limiter, Reservation, Slot, StoreError


def test_many_at_once_are_admitted_exactly(store: str, unique: str) -> None:
    limiter = Limiter("100/h", store, policy=unique)

    async def many() -> int:
        decisions = await asyncio.gather(*(limiter.acheck("a") for _ in range(250)))
        return sum(decision.allowed for decision in decisions)

    assert asyncio.run(many()) == 100


def test_many_threads_are_admitted_exactly(store: str, unique: str) -> None:
    limiter, admitted = Limiter("100/h", store, policy=unique), []

    def work() -> None:
        for _ in range(50):
            if limiter.check("a").allowed:
                admitted.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 100


def test_loops_come_and_go(redis_url: str, unique: str) -> None:
    limiter = Limiter("100/h", redis_url, policy=unique)
    for turn in range(5):
        asked = asyncio.wait_for(limiter.acheck("a"), 20)
        assert asyncio.run(asked).remaining == 99 - turn


def test_two_loops_in_two_threads(redis_url: str, unique: str) -> None:
    limiter, admitted = Limiter("100/h", redis_url, policy=unique), []

    async def work() -> None:
        for _ in range(100):
            admitted.append((await limiter.acheck("a")).allowed)

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(admitted), sum(admitted)) == (200, 100)


def silent_server() -> tuple[socket.socket, str]:
    """A server that accepts and never answers."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    return listener, f"redis://127.0.0.1:{listener.getsockname()[1]}?deadline=100ms"


def test_a_store_that_is_silent_blocks_nobody() -> None:
    listener, url = silent_server()
    limiter = Limiter("100/h", url)

    async def watch() -> int:
        turns = 0
        asking = [asyncio.ensure_future(limiter.acheck("a")) for _ in range(20)]
        while not all(task.done() for task in asking):
            turns += 1
            await asyncio.sleep(0.005)
        for task in asking:
            assert isinstance(task.exception(), StoreError), task.exception()
            assert task.exception().transient
        return turns

    with listener:
        assert asyncio.run(asyncio.wait_for(watch(), 15)) > 20


def test_a_store_that_is_not_there_is_an_error_and_may_come_later(unique: str) -> None:
    limiter = Limiter("1/h", f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(StoreError) as caught:
        limiter.check("a")
    assert caught.value.transient and not caught.value.ambiguous
    with pytest.raises(StoreError):
        asyncio.run(limiter.acheck("a"))


# Another process, since locks of SQLite do not hold within one that has two copies of it.
LOCKER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
other.execute("ROLLBACK")
"""


def test_a_file_that_is_locked_does_not_block_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    limiter = Limiter("5/h", f"sqlite://{path}")
    limiter.check("a")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", LOCKER, str(path)]
    with subprocess.Popen(command, text=True, **pipes) as locker:
        assert locker.stdout.readline() == "locked\n"

        async def watch() -> int:
            asking, turns = asyncio.ensure_future(limiter.acheck("a")), 0
            while turns < 20:
                assert not asking.done()
                turns += 1
                await asyncio.sleep(0.005)
            locker.communicate("free\n")
            return (await asking).remaining

        assert asyncio.run(watch()) == 3


def test_who_is_cancelled_is_not_charged_twice(redis_url: str, unique: str) -> None:
    limiter = Limiter("1000/h", redis_url, policy=unique)

    async def cancel() -> int:
        await limiter.acheck("a")
        cancelled = 0
        for _ in range(50):
            # One that is alone may have its answer already. Of two concurrent ones, one waits.
            tasks = [asyncio.ensure_future(limiter.acheck("a")) for _ in range(2)]
            await asyncio.sleep(0)
            for task in tasks:
                if task.cancel():
                    cancelled += 1
                    with pytest.raises(asyncio.CancelledError):
                        await task
        assert cancelled >= 50
        return (await limiter.apeek("a")).remaining

    # Each of them was charged once or not at all.
    assert 899 <= asyncio.run(cancel()) <= 999
    assert limiter.check("b").remaining == 999


# How often each way to go away is tried.
TRIES = 300


@pytest.mark.parametrize("how", ["cancel", "wait_for"])
@pytest.mark.parametrize("what", ["acquire", "reserve"])
def test_who_is_cancelled_holds_nothing(how: str, what: str, store: str, unique: str) -> None:
    limits = "1000 at once hold 2m" if what == "acquire" else "1000/d via fixed_window"
    limiter = Limiter(limits, store, policy=unique)

    async def ask() -> Slot | Reservation:
        if what == "acquire":
            return await limiter.aacquire("a")
        return await limiter.areserve("a", 1, ttl=120)

    async def cancel_all() -> tuple[list[Slot | Reservation], int]:
        kept, cancelled = [await ask()], 0
        for turn in range(TRIES // 6):
            tasks = [asyncio.ensure_future(ask()) for _ in range(6)]
            for _ in range(turn % 20):
                await asyncio.sleep(0)
            for task in tasks:
                if how == "cancel":
                    task.cancel()
            for task in tasks:
                try:
                    kept.append(await (task if how == "cancel" else asyncio.wait_for(task, 0.0)))
                except (asyncio.CancelledError, asyncio.TimeoutError):
                    cancelled += 1
        return kept, cancelled

    async def comes_to(left: int) -> None:
        for _ in range(2_000):
            if (await limiter.apeek("a")).remaining == left:
                break
        assert (await limiter.apeek("a")).remaining == left

    async def watch() -> tuple[int, int]:
        kept, cancelled = await cancel_all()
        # Answers that nobody waits for come, and are given back.
        await comes_to(1_000 - len(kept))
        for hold in kept:
            assert hold.allowed
            if isinstance(hold, Slot):
                assert await hold.arelease()
            else:
                assert not (await hold.acancel()).already
        await comes_to(1_000)
        return len(kept), cancelled

    kept, cancelled = asyncio.run(watch())
    assert kept + cancelled == TRIES + 1
    # Memory has answered when a task has begun.
    assert cancelled > (0 if limiter.in_memory else 50)


@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_who_is_cancelled_may_ask_again_under_the_same_id(store: str, unique: str) -> None:
    limiter = Limiter("1000 at once hold 2m", store, policy=unique)

    async def twice(number: int) -> None:
        name = f"{unique}-{number:016}"
        task = asyncio.ensure_future(limiter.aacquire("a", id=name))
        for _ in range(number % 20):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        slot = await limiter.aacquire("a", id=name)
        # A refund of the first does not touch the second.
        for _ in range(3):
            await limiter.apeek("b")
        assert slot.allowed and await slot.arelease(), number

    async def watch() -> int:
        for first in range(0, TRIES, 10):
            await asyncio.gather(*(twice(first + place) for place in range(10)))
        for _ in range(2_000):
            if (await limiter.apeek("a")).remaining == 1_000:
                break
        return (await limiter.apeek("a")).remaining

    assert asyncio.run(watch()) == 1_000


def test_a_loop_that_was_closed_in_the_middle(redis_url: str, unique: str) -> None:
    limiter = Limiter("100/h", redis_url, policy=unique)
    loop = asyncio.new_event_loop()
    task = loop.create_task(limiter.acheck("a"))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.close()
    del task, loop
    gc.collect()
    assert limiter.check("b").remaining == 99
    assert asyncio.run(limiter.acheck("b")).remaining == 98


def test_outside_of_a_loop_it_is_said(redis_url: str) -> None:
    coroutine = Limiter("1/h", redis_url).acheck("a")
    with pytest.raises(RuntimeError, match="no running event loop"):
        coroutine.send(None)


def test_the_interpreter_ends_while_questions_are_open() -> None:
    listener, url = silent_server()
    code = """
import asyncio, sys
from tollgate_limiter import Limiter
limiter = Limiter("1/h", sys.argv[1])
async def main():
    task = asyncio.ensure_future(limiter.acheck("a"))
    await asyncio.sleep(0.01)
    print("ends")
asyncio.run(main())
"""
    with listener:
        assert python(code, url, seconds=10) == "ends\n"


def test_uvloop_if_it_is_there(redis_url: str, unique: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    limiter = Limiter("100/h", redis_url, policy=unique)
    loop = uvloop.new_event_loop()
    assert loop.run_until_complete(limiter.acheck("a")).remaining == 99
    loop.close()
