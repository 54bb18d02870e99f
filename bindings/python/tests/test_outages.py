"""Redis stops and starts again under load: FastAPI, Flask, Django and its REST framework."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Redis, wait_until
from fronts import FRONTS, Answer, Asgi, Drf

from tollgate_limiter import Limiter

LIMIT = 40


class FastApi(Asgi):
    """An application of FastAPI behind the middleware."""

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        from fastapi import FastAPI

        from tollgate_limiter.asgi import TollgateMiddleware

        self.app = FastAPI()
        self.app.add_middleware(TollgateMiddleware, limiter=limiter, **options)
        self.app.get("/")(lambda: "hello")


ALL = {"fastapi": FastApi, "drf": Drf} | {it: FRONTS[it] for it in ("flask", "django")}


class Load:
    """Four threads that ask without a pause."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self.seen: Counter[str] = Counter()
        self._ask, self._ends, self._guard = ask, False, threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._ends:
            answer = self._ask()
            # A decision has headers.
            kind = "decided" if answer.all("ratelimit") else "undecided"
            with self._guard:
                self.seen[f"{kind} {answer.status}"] += 1

    def until(self, kind: str) -> None:
        """Waits until there are more of a kind, of which there is no end."""
        before = self.seen[kind]
        wait_until(lambda: self.seen[kind] > before, kind)

    def end(self) -> None:
        self._ends = True
        for thread in self._threads:
            thread.join()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path)
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("name", "rule", "status"),
    [
        ("fastapi", "allow", 200),
        ("flask", "allow", 200),
        ("flask", "deny", 503),
        ("django", "deny", 503),
        ("drf", "deny", 503),
    ],
)
def test_redis_stops_and_starts_under_load(
    name: str, rule: str, status: int, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = Limiter(f"{LIMIT}/h", redis.url, policy="api")
    app = ALL[name](limiter, on_failure=rule)
    load = Load(app.get)
    try:
        with caplog.at_level(logging.WARNING, "tollgate"):
            load.until("decided 429")
            wait_until(lambda: load.seen["decided 200"] == LIMIT, "every thread's answer")
            assert set(load.seen) == {"decided 200", "decided 429"}
            redis.stop()
            load.until(f"undecided {status}")
            assert load.seen["decided 200"] == LIMIT
            redis.start()
            # It has lost its counts, and the limit holds anew.
            wait_until(lambda: load.seen["decided 200"] == 2 * LIMIT, "the limit anew")
            load.until("decided 429")
    finally:
        load.end()
    assert load.seen["decided 200"] == 2 * LIMIT, load.seen
    assert set(load.seen) == {"decided 200", "decided 429", f"undecided {status}"}
    said = [it.getMessage() for it in caplog.records if it.name == "tollgate"]
    assert len(said) == 2, said
    assert "no decision" in said[0] and "the store answers again: " in said[1]
    # Without those whose loss came to light after the return.
    assert 0 < int(said[1].split()[4]) <= load.seen[f"undecided {status}"]
