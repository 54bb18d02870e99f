"""Calling a service that limits: turns, the waits that it asks for, and tries."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tollgate_limiter import ArgumentError, Limiter, ManualClock, StoreError
from tollgate_limiter._tollgate import wait_of
from tollgate_limiter.httpx import AsyncLimitedTransport, LimitedTransport
from tollgate_limiter.wsgi import TollgateMiddleware

Answers = list[tuple[int, dict[str, str]]]
Get = Callable[..., httpx.Response]


class Server:
    """A server with answers that were written before, then 200s."""

    def __init__(self, answers: Answers, clock: ManualClock) -> None:
        self.answers, self.clock = answers, clock
        #: The time of each request, in seconds.
        self.times: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.times.append(self.clock.at_us / 1e6)
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        return httpx.Response(status, headers=headers, text="answer")


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Callable[..., tuple[Server, Get]]:
    """Makes a server and a client of either kind, over a limiter of a manual clock."""

    def make(answers: Answers, limits: str = "100/s", **options: Any) -> tuple[Server, Get]:
        clock = ManualClock()
        limiter, server = Limiter(limits, clock=clock), Server(answers, clock)
        options = {"transport": httpx.MockTransport(server), **options}
        if request.param == "sync":
            with_turns = httpx.Client(transport=LimitedTransport(limiter, **options))

            def get(method: str = "GET", **words: Any) -> httpx.Response:
                return with_turns.request(method, "http://api.example.com/", **words)

            return server, get

        async def aget(method: str, **words: Any) -> httpx.Response:
            transport = AsyncLimitedTransport(limiter, **options)
            async with httpx.AsyncClient(transport=transport) as each:
                return await each.request(method, "http://api.example.com/", **words)

        return server, lambda method="GET", **words: asyncio.run(aget(method, **words))

    return make


def test_requests_keep_to_the_limits(client: Callable[..., tuple[Server, Get]]) -> None:
    server, get = client([], "1/10s via gcra")
    assert [get().status_code for _ in range(4)] == [200] * 4
    assert server.times == [0, 10, 20, 30]


def test_a_server_that_asks_for_a_wait_gets_it(client: Callable[..., tuple[Server, Get]]) -> None:
    answers: Answers = [
        (429, {"retry-after": "7"}),
        (200, {"ratelimit": '"a";r=0;t=20'}),
        (200, {}),
        (503, {"retry-after": "5"}),
    ]
    server, get = client(answers)
    assert [get().status_code for _ in range(3)] == [200] * 3
    assert server.times == [0, 7, 27, 27, 32]


def test_tries_come_to_an_end(client: Callable[..., tuple[Server, Get]]) -> None:
    # Without a wait in the answers, each is twice the one before.
    server, get = client([(429, {})] * 5)
    assert get().status_code == 429
    assert server.times == [0, 1, 3]
    # There is no time for the wait that the server asks for.
    server, get = client([(429, {"retry-after": "61"})])
    assert (get().status_code, server.times) == (429, [0])
    with pytest.raises(httpx.PoolTimeout, match=r"no turn for api\.example\.com within 60\.0 s"):
        get()
    # A server may have done what a 503 is the answer to.
    server, get = client([(503, {"retry-after": "1"})])
    assert (get("POST", json={}).status_code, server.times) == (503, [0])
    server, get = client([(429, {"retry-after": "1"})])
    assert (get("POST", json={}).status_code, server.times) == (200, [0, 1])
    server, get = client([(429, {"retry-after": "1"})], retries=0)
    assert (get().status_code, server.times) == (429, [0])


def test_a_stream_is_sent_once() -> None:
    def body() -> Iterator[bytes]:
        yield b"once"

    clock = ManualClock()
    server = Server([(429, {"retry-after": "1"})], clock)
    limiter = Limiter("100/s", clock=clock)
    transport = LimitedTransport(limiter, transport=httpx.MockTransport(server))
    with httpx.Client(transport=transport) as client:
        assert client.post("http://api.example.com/", content=body()).status_code == 429


def test_a_request_without_a_turn_is_not_sent(client: Callable[..., tuple[Server, Get]]) -> None:
    server, get = client([], "1/h via gcra", timeout=5)
    assert get().status_code == 200
    with pytest.raises(httpx.TimeoutException, match=r"within 5 s: deny api\.example\.com"):
        get()
    assert server.times == [0]


def test_threads_call_a_service_of_ours() -> None:
    calls: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        calls.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [b""]

    # It says whole seconds: the limits of the client are those of the server.
    limited = TollgateMiddleware(app, Limiter("3/200ms via fixed_window"))
    inner = httpx.WSGITransport(limited)
    transport = LimitedTransport(Limiter("1000/s"), transport=inner, retries=9, timeout=60)
    with httpx.Client(transport=transport) as client:
        threads = [
            threading.Thread(target=client.get, args=(f"http://api.example.com/{name}",))
            for name in range(6)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sorted(calls) == [f"/{name}" for name in range(6)]


def test_the_store_of_the_limiter_may_be_away() -> None:
    away = Limiter("1/s", "redis://127.0.0.1:1?deadline=100ms")
    server = httpx.MockTransport(lambda request: httpx.Response(200))
    with pytest.raises(ArgumentError, match="on_failure is missing"):
        LimitedTransport(away)
    with (
        httpx.Client(transport=LimitedTransport(away, on_failure="deny", transport=server)) as it,
        pytest.raises(StoreError),
    ):
        it.get("http://api.example.com/")
    with httpx.Client(transport=LimitedTransport(away, on_failure="allow", transport=server)) as it:
        assert it.get("http://api.example.com/").status_code == 200


def test_bad_options_are_refused() -> None:
    limiter = Limiter("1/s")
    with pytest.raises(TypeError, match="key must be callable"):
        LimitedTransport(limiter, key="api")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="timeout is -1"):
        LimitedTransport(limiter, timeout=-1)
    with pytest.raises(TypeError, match="retries must be int"):
        LimitedTransport(limiter, retries="2")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="seconds is -1"):
        limiter.back_off("api", -1)
    with pytest.raises(TypeError, match="subject"):
        limiter.back_off(7, 1)  # type: ignore[arg-type]


def test_no_turn_begins_while_a_subject_backs_off() -> None:
    clock = ManualClock()
    limiter = Limiter("100/s", clock=clock)
    limiter.back_off("api", 5)
    limiter.back_off("api", 2)
    assert limiter.until_ready("api", 4) is None
    assert limiter.until_ready("other", 0)
    assert limiter.until_ready("api", 60)
    assert clock.at_us == 5_000_000
    assert limiter._lines._lines == {}


def test_waits_are_read() -> None:
    assert wait_of(429, [(b"Retry-After", b"7")]) == 7
    assert wait_of(200, [(b"x-ratelimit-remaining", b"3")]) is None


def test_one_that_sleeps_for_its_turn_is_delayed_too() -> None:
    limiter = Limiter("1/50ms via uniform")

    async def main() -> float:
        assert limiter.check("api")
        head = asyncio.create_task(limiter.auntil_ready("api", 60))
        thread = asyncio.create_task(asyncio.to_thread(limiter.until_ready, "api", 60))
        await asyncio.sleep(0.01)
        start = time.monotonic()
        limiter.back_off("api", 0.3)
        assert await head
        assert await thread
        return time.monotonic() - start

    assert asyncio.run(main()) >= 0.3
