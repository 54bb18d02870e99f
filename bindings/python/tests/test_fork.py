"""After a fork, as servers do that fork their workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import python

from tollgate_limiter import Limiter

# Four children after the parent has asked, each asks twenty times; some by asyncio.
FORKED = """
import asyncio, os, sys
from tollgate_limiter import Limiter
limiter = Limiter("50/h", sys.argv[1], policy=sys.argv[2])
first = [limiter.check("a").allowed for _ in range(10)]
asyncio.run(limiter.apeek("a"))
children = []
for index in range(4):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        async def ask():
            return [(await limiter.acheck("a")).allowed for _ in range(20)]
        if index % 2:
            admitted = asyncio.run(ask())
        else:
            admitted = [limiter.check("a").allowed for _ in range(20)]
        os.write(writer, bytes([sum(admitted)]))
        os._exit(0)
    children.append((pid, reader))
print(sum(first), *(os.read(reader, 1)[0] for _, reader in children), limiter.peek("a").remaining)
for pid, _ in children:
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_in_memory_each_process_counts_for_itself() -> None:
    first, *children, remaining = map(int, python(FORKED, "memory://", "p").split())
    # Each child has a copy of what the parent had counted.
    assert (first, children, remaining) == (10, [20, 20, 20, 20], 40)


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_on_a_shared_store_all_processes_count_together(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, unique: str
) -> None:
    redis = kind == "redis"
    url = request.getfixturevalue("redis_url") if redis else f"sqlite://{tmp_path}/counts.db"
    first, *children, remaining = map(int, python(FORKED, url, unique).split())
    assert (first, sum(children), remaining) == (10, 40, 0)


# A thread asks all the time while the process forks.
BUSY = """
import os, sys, threading
from tollgate_limiter import Limiter
limiter = Limiter("100000/h via gcra", sys.argv[1], policy=sys.argv[2])
ends = threading.Event()
def ask():
    while not ends.is_set():
        limiter.check("busy")
threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
limiter.check("a")
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        limiter.check("child")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
ends.set()
for thread in threads: thread.join()
print(100000 - limiter.peek("child").remaining)
"""


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_a_fork_in_the_middle(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, unique: str
) -> None:
    url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/counts.db"}.get(kind)
    url = url or request.getfixturevalue("redis_url")
    charged = int(python(BUSY, url, unique))
    # Units of the rate that have come back meanwhile are not counted.
    assert charged == 0 if kind == "memory" else 1 <= charged <= 20


# It says each charge that was answered, until it is killed.
KILLED = """
import sys
from tollgate_limiter import Limiter
limiter = Limiter("1000/h", sys.argv[1], policy=sys.argv[2])
while True:
    print(limiter.check("a").remaining, flush=True)
"""


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_worker_that_is_killed_charges_nothing_twice(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, unique: str
) -> None:
    redis = kind == "redis"
    url = request.getfixturevalue("redis_url") if redis else f"sqlite://{tmp_path}/counts.db"
    command = [sys.executable, "-c", KILLED, url, unique]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    seen = [int(worker.stdout.readline()) for _ in range(100)]
    os.kill(worker.pid, signal.SIGKILL)
    seen.extend(int(line) for line in worker.stdout.read().splitlines() if line.strip())
    worker.wait()
    worker.stdout.close()
    assert seen[:100] == list(range(999, 899, -1))
    # A question in flight when it was killed may have been charged: one check.
    remaining = Limiter("1000/h", url, policy=unique).peek("a").remaining
    assert remaining in (seen[-1], seen[-1] - 1), (remaining, seen[-1])
