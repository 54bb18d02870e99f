"""`acheck` on Redis beside the async limiters of `limits` and throttled-py, on the same Redis.

Each is asked by one task, and by twenty at once, in turns, and of each the median of the turns
counts. `limits` uses redis-py: its storage does not connect by coredis 6. It needs a wheel of
release, `limits`, `throttled-py`, `redis` and a Redis server:

    python bench/on_redis.py redis://127.0.0.1:6379 [TURNS]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter

from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from throttled.asyncio import RedisStore, Throttled, rate_limiter

from tollgate import Limiter

CALLS = 1_000
UNITS = 1_000_000

# What the issue asks for.
BAR = 1.5

Ask = Callable[[str], Awaitable[object]]


def of_limits(url: str, kind: Callable[..., FixedWindowRateLimiter]) -> Ask:
    strategy = kind(RedisStorage(f"async+{url}", implementation="redispy"))
    item = RateLimitItemPerSecond(UNITS)

    async def ask(subject: str) -> object:
        return await strategy.hit(item, subject)

    return ask


def of_throttled(url: str, using: str) -> Ask:
    quota = rate_limiter.per_sec(UNITS, burst=UNITS)
    throttle = Throttled(using=using, quota=quota, store=RedisStore(server=url))
    return throttle.limit


async def turn(ask: Ask, tasks: int) -> float:
    """Calls a second."""

    async def some() -> None:
        for _ in range(CALLS // tasks):
            await ask("user:42")

    start = perf_counter()
    await asyncio.gather(*(some() for _ in range(tasks)))
    return CALLS / (perf_counter() - start)


async def main() -> int:
    url = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    ours = {
        f"tollgate {strategy}": Limiter(f"{UNITS}/s via {strategy}", url + "?deadline=5s").acheck
        for strategy in ("gcra", "fixed_window")
    }
    fixed, sliding = FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
    theirs = {
        "limits fixed window": of_limits(url, fixed),
        "limits sliding counter": of_limits(url, sliding),
        "throttled-py fixed_window": of_throttled(url, "fixed_window"),
        "throttled-py gcra": of_throttled(url, "gcra"),
    }
    everybody = {**ours, **theirs}
    for tasks in (1, 20):
        rates: dict[str, list[float]] = {name: [] for name in everybody}
        for _ in range(turns):
            for name, ask in everybody.items():
                rates[name].append(await turn(ask, tasks))
        medians = {name: median(of) for name, of in rates.items()}
        fastest = max(theirs, key=lambda name: medians[name])
        print(f"{tasks} tasks at once, {turns} turns of {CALLS} calls, calls a second, medians")
        for name, rate in medians.items():
            print(f"{name:34} {rate:8.0f}")
        for name in ours:
            ratio = medians[name] / medians[fastest]
            verdict = "holds" if ratio >= BAR else "is missed"
            print(f"{name}: {ratio:.2f} times {fastest}; {BAR} times {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
