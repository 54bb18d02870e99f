"""Whose turn it is: 50 tasks under 20/s for 20 s, beside a loop and aiolimiter.

Of each it prints the least and the most turns of a task, the longest wait, all turns, and how often
the limiter was asked. It needs aiolimiter and a wheel of any build:

    python bench/waiting.py [SECONDS]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from aiolimiter import AsyncLimiter

from tollgate_limiter import Limiter

TASKS = 50
RATE = 20

Wait = Callable[[], Awaitable[None]]


class Asked:
    """A limiter that counts its questions."""

    def __init__(self, limits: str) -> None:
        self.count = 0
        counted = self

        class Counting(Limiter):
            __slots__ = ()

            async def acheck_all(self, *words: object, **options: object) -> object:  # type: ignore[override]
                counted.count += 1
                return await super().acheck_all(*words, **options)  # type: ignore[arg-type]

        self.limiter = Counting(limits)

    async def in_line(self) -> None:
        assert await self.limiter.auntil_ready("api", None)

    async def by_loop(self) -> None:
        while not (decision := await self.limiter.acheck_all(["api"])):
            await asyncio.sleep(decision.retry_after)


async def run(wait: Wait, seconds: float) -> tuple[list[int], float]:
    """The turns of each task, and the longest wait."""
    # The first units are free to take before others have come.
    for _ in range(RATE):
        await wait()
    end = time.monotonic() + seconds
    longest = 0.0

    async def task() -> int:
        nonlocal longest
        turns = 0
        while True:
            start = time.monotonic()
            await wait()
            now = time.monotonic()
            longest = max(longest, now - start)
            if now > end:
                return turns
            turns += 1

    turns = await asyncio.gather(*(task() for _ in range(TASKS)))
    return turns, longest


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    gcra, log, loop = Asked("20/s via gcra"), Asked("20/s"), Asked("20/s")
    theirs = AsyncLimiter(RATE, 1)
    sides: dict[str, tuple[Wait, Asked | None]] = {
        "auntil_ready, via gcra": (gcra.in_line, gcra),
        "auntil_ready, via sliding_log": (log.in_line, log),
        "acheck and sleep": (loop.by_loop, loop),
        "aiolimiter": (theirs.acquire, None),
    }
    print(f"{'':30} least  most  longest  turns  asked")
    for name, (wait, asked) in sides.items():
        turns, longest = asyncio.run(run(wait, seconds))
        count = "" if asked is None else asked.count
        print(f"{name:30} {min(turns):5} {max(turns):5} {longest:6.2f} s {sum(turns):6} {count:>6}")


if __name__ == "__main__":
    main()
