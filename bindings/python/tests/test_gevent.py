"""Greenlets of gevent: while one waits for a store, the others run."""

from __future__ import annotations

from conftest import python

SILENT = """
from gevent import monkey; monkey.patch_all()
import socket, sys, time, gevent
from tollgate_limiter import Limiter, StoreError
silent = socket.create_server(("127.0.0.1", 0))
limiter = Limiter("5/h", f"redis://127.0.0.1:{silent.getsockname()[1]}?deadline=300ms")
longest, last, waits = 0.0, time.monotonic(), True

def tick():
    global longest, last
    while waits:
        gevent.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()

ticker = gevent.spawn(tick)
gevent.sleep(0.02)
start = time.monotonic()
try:
    limiter.check("a")
except StoreError as error:
    assert time.monotonic() - start > 0.2
waits = False
ticker.join()
print(longest)
"""

MANY = """
import sys
from tollgate_limiter import Limiter, ArgumentError
made_before = Limiter("50/h", sys.argv[1], policy=sys.argv[2])
from gevent import monkey; monkey.patch_all()
import gevent
asked = [gevent.spawn(made_before.check, "all") for _ in range(200)]
gevent.joinall(asked)
assert sum(it.get().allowed for it in asked) == 50
with made_before.reserve("all", 1, ttl=9) as held:
    assert not held.allowed
assert made_before.check_all(["all", "b"]).allowed is False
try:
    made_before.check("")
except ArgumentError as error:
    print(error)
"""


def test_a_silent_store_stalls_no_other_greenlet() -> None:
    assert float(python(SILENT)) < 0.15


def test_counts_are_exact_over_greenlets(redis_url: str, unique: str) -> None:
    assert python(MANY, redis_url, unique).startswith("subject: ")
