"""Connections to Redis that a loop of asyncio carries in its own thread."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from conftest import wait_until

from tollgate_limiter import Limiter, ManualClock, StoreError
from tollgate_limiter._bridges import bridge


def redis(url: str, *words: str) -> str:
    """What a command is answered, as text."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), 20) as line:
        line.sendall((f"*{len(words)}\r\n" + "".join(map(written, words))).encode())
        answer = b""
        while not is_whole(answer):
            answer += line.recv(65536)
        return answer.decode()


def written(word: str) -> str:
    return f"${len(word)}\r\n{word}\r\n"


def is_whole(answer: bytes) -> bool:
    head, is_there, rest = answer.partition(b"\r\n")
    # A text has a length, and nothing has the length -1.
    length = int(head[1:]) if is_there and head[:1] == b"$" else -1
    return bool(is_there) and (length < 0 or len(rest) >= length + 2)


def connections(url: str) -> int:
    # One of them asks this.
    return redis(url, "CLIENT", "LIST").count("addr=") - 1


# The server serves nobody, and reads nothing, until this many microseconds are over.
BUSY = """
local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local until_us = now() + ARGV[1]
while now() < until_us do end
"""


def test_an_answer_that_came_while_the_loop_was_busy_is_not_late(
    redis_url: str, unique: str
) -> None:
    limiter = Limiter("100/h", redis_url.replace("5s", "100ms"), policy=unique)

    async def ask() -> list[int]:
        await limiter.acheck("a")
        asking = [asyncio.ensure_future(limiter.acheck("a")) for _ in range(5)]
        for _ in range(3):
            # All of them are sent.
            await asyncio.sleep(0)
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            pass
        return sorted([(await one).remaining for one in asking])

    assert asyncio.run(ask()) == [94, 95, 96, 97, 98]


def test_connections_end_with_their_loop(redis_url: str, unique: str) -> None:
    limiter = Limiter("100/h", redis_url, policy=unique)
    before = connections(redis_url)
    for turn in range(10):
        assert asyncio.run(limiter.acheck("a")).remaining == 99 - turn
    gc.collect()
    # The last one may live until the next loop comes.
    wait_until(lambda: connections(redis_url) <= before + 1, "the end of the connections")


def test_connections_end_with_a_loop_that_was_closed_in_the_middle(
    redis_url: str, unique: str
) -> None:
    limiter = Limiter("100/h", redis_url, policy=unique)
    before = connections(redis_url)
    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(limiter.acheck("a"))
        tasks = [loop.create_task(limiter.acheck("a")) for _ in range(3)]
        loop.call_soon(loop.stop)
        loop.run_forever()
        for task in tasks:
            task.cancel()
        loop.close()
    del loop, task, tasks
    asyncio.run(limiter.acheck("a"))
    gc.collect()
    wait_until(lambda: connections(redis_url) <= before + 1, "the end of the connections")


def test_connections_end_with_their_limiter(redis_url: str, unique: str) -> None:
    async def ask() -> int:
        first = connections(redis_url)
        for _ in range(10):
            await Limiter("100/h", redis_url, policy=unique).acheck("a")
        while connections(redis_url) > first:
            await asyncio.sleep(0.01)
        return (await Limiter("100/h", redis_url, policy=unique).acheck("a")).remaining

    assert asyncio.run(asyncio.wait_for(ask(), 20)) == 89


def test_a_connection_that_was_lost_is_made_anew(redis_url: str, unique: str) -> None:
    limiter = Limiter("100/h", redis_url, policy=unique)
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(limiter.acheck("a")).remaining == 99
    redis(redis_url, "CLIENT", "KILL", "TYPE", "normal")
    # The loop did not run meanwhile, so it has not seen the end.
    time_left = time.monotonic() + 0.2
    while time.monotonic() < time_left:
        pass
    assert loop.run_until_complete(limiter.acheck("a")).remaining == 98

    async def lost_while_it_runs() -> int:
        redis(redis_url, "CLIENT", "KILL", "TYPE", "normal")
        while True:
            await asyncio.sleep(0.02)
            try:
                return (await limiter.acheck("a")).remaining
            except StoreError as error:
                # It was lost twice within a second, so nobody waits for the next connection.
                assert error.transient and not error.ambiguous

    lost = asyncio.wait_for(lost_while_it_runs(), 20)
    assert loop.run_until_complete(lost) == 97
    loop.close()


def test_more_than_a_socket_takes_at_once(redis_url: str, unique: str) -> None:
    limiter = Limiter("20000/h via gcra", redis_url, policy=unique)
    subjects = [f"{number}{'x' * 1000}" for number in range(4_000)]

    async def ask() -> int:
        await limiter.acheck("a")
        busy = threading.Thread(target=redis, args=(redis_url, "EVAL", BUSY, "0", "700000"))
        busy.start()
        decisions = await asyncio.gather(*(limiter.acheck(subject) for subject in subjects))
        busy.join()
        return sum(decision.remaining == 19_999 for decision in decisions)

    assert asyncio.run(ask()) == len(subjects)


def test_one_clock_for_all_ways_to_ask(redis_url: str) -> None:
    limiter = Limiter("10/h", redis_url, clock=ManualClock(5_000_000))
    assert limiter.check("a").remaining == 9
    assert asyncio.run(limiter.acheck("a")).remaining == 8
    assert limiter.check("a").remaining == 7


def test_a_subject_that_is_wrong_fails_alone(redis_url: str, unique: str) -> None:
    limiter = Limiter("10/h", redis_url, policy=unique)

    async def ask() -> list[object]:
        subjects = ["a", "", "a"]
        asked = (limiter.acheck(subject) for subject in subjects)
        return await asyncio.gather(*asked, return_exceptions=True)

    first, wrong, second = asyncio.run(ask())
    assert (first.remaining, second.remaining) == (9, 8)
    assert isinstance(wrong, ValueError)


def test_who_asks_without_pause_lets_others_run(redis_url: str, unique: str) -> None:
    limiter = Limiter("1000000/h via gcra", redis_url, policy=unique)
    calls, turns = 2_000, 0

    async def ask() -> None:
        for _ in range(calls):
            await limiter.acheck("a")

    async def watch() -> None:
        nonlocal turns
        asking = asyncio.ensure_future(ask())
        while not asking.done():
            turns += 1
            await asyncio.sleep(0)
        await asking

    asyncio.run(watch())
    # At most eight answers in a row are waited for in place.
    assert turns >= calls // 9


async def far(url: str) -> asyncio.Server:
    """A way to the server that takes two milliseconds back."""
    place = urlsplit(url)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(place.hostname, place.port)

        async def copy(one: asyncio.StreamReader, other: asyncio.StreamWriter, late: float) -> None:
            while some := await one.read(65536):
                await asyncio.sleep(late)
                other.write(some)
            other.close()

        await asyncio.gather(copy(reader, forth, 0), copy(back, writer, 0.002))

    return await asyncio.start_server(carry, "127.0.0.1", 0)


def test_a_server_that_is_far_is_not_waited_for_in_place(redis_url: str, unique: str) -> None:
    def serve() -> None:
        async def run() -> None:
            server = await far(redis_url)
            ports.append(server.sockets[0].getsockname()[1])
            started.set()
            await asyncio.to_thread(ended.wait)
            server.close()

        asyncio.run(run())

    ports: list[int] = []
    started, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    assert started.wait(20)

    async def ask() -> tuple[int, int]:
        url = f"redis://127.0.0.1:{ports[0]}?deadline=5s"
        limiter = Limiter("1000000/h via gcra", url, policy=unique)
        for _ in range(300):
            await limiter.acheck("a")
        return bridge()[1].waits()

    came, in_vain = asyncio.run(ask())
    ended.set()
    thread.join()
    # After each wait without success twice as many are not waited for.
    assert came == 0 and 4 <= in_vain <= 9, (came, in_vain)


def test_questions_of_many_tasks_are_not_waited_for_in_place(redis_url: str, unique: str) -> None:
    limiter = Limiter("1000000/h via gcra", redis_url, policy=unique)

    async def ask() -> int:
        async def some() -> None:
            for _ in range(50):
                await limiter.acheck("a")

        await asyncio.gather(*(some() for _ in range(20)))
        return sum(bridge()[1].waits())

    assert asyncio.run(ask()) <= 20


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_every_task_gets_its_own_answer(tasks: int, redis_url: str, unique: str) -> None:
    limiter = Limiter("1000/h via gcra", redis_url, policy=unique)

    async def work(number: int) -> list[tuple[str, int]]:
        decisions = [await limiter.acheck(f"user:{number}") for _ in range(20)]
        return [(decision.limits[0].subject, decision.remaining) for decision in decisions]

    async def everybody() -> list[list[tuple[str, int]]]:
        return await asyncio.gather(*map(work, range(tasks)))

    for number, answers in enumerate(asyncio.run(everybody())):
        assert answers == [(f"user:{number}", left) for left in range(999, 979, -1)]
