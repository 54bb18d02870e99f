"""`acheck` on Redis beside the async limiters of `limits` and throttled-py, on the same Redis.

Each is asked by one task, and by twenty at once, in turns, and of each the median of the turns
counts. Peers are given what makes them fast: hiredis, and for `limits` both clients that it takes.
It needs a wheel of release, `limits`, `throttled-py`, `redis`, `hiredis`, `coredis<6` and a Redis
server:

    python bench/on_redis.py redis://127.0.0.1:6379 [TURNS] [uvloop]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from statistics import median
from time import perf_counter, process_time

from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from throttled.asyncio import RedisStore, Throttled, rate_limiter

from tollgate_limiter import Limiter

CALLS = 1_000
UNITS = 1_000_000

# The requirements.
BAR = 1.5

Ask = Callable[[str], Awaitable[object]]


def of_limits(url: str, kind: Callable[..., FixedWindowRateLimiter], client: str) -> Ask:
    strategy = kind(RedisStorage(f"async+{url}", implementation=client))
    item = RateLimitItemPerSecond(UNITS)

    async def ask(subject: str) -> object:
        return await strategy.hit(item, subject)

    return ask


def of_throttled(url: str, using: str) -> Ask:
    quota = rate_limiter.per_sec(UNITS, burst=UNITS)
    throttle = Throttled(using=using, quota=quota, store=RedisStore(server=url))
    return throttle.limit


async def turn(ask: Ask, tasks: int) -> tuple[float, float]:
    """Calls a second, and the processor time of this process in microseconds a call."""

    async def some() -> None:
        for _ in range(CALLS // tasks):
            await ask("user:42")

    start, used = perf_counter(), process_time()
    await asyncio.gather(*(some() for _ in range(tasks)))
    return CALLS / (perf_counter() - start), (process_time() - used) / CALLS * 1e6


async def main() -> int:
    url = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    ours = {
        f"tollgate {strategy}": Limiter(f"{UNITS}/s via {strategy}", url + "?deadline=5s").acheck
        for strategy in ("gcra", "fixed_window")
    }
    fixed, sliding = FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
    theirs = {
        "limits, redis-py, fixed window": of_limits(url, fixed, "redispy"),
        "limits, redis-py, sliding counter": of_limits(url, sliding, "redispy"),
        "limits, coredis, fixed window": of_limits(url, fixed, "coredis"),
        "limits, coredis, sliding counter": of_limits(url, sliding, "coredis"),
        "throttled-py fixed_window": of_throttled(url, "fixed_window"),
        "throttled-py gcra": of_throttled(url, "gcra"),
    }
    everybody = {**ours, **theirs}
    packages = ("limits", "throttled-py", "redis", "hiredis", "coredis")
    print(", ".join(f"{name} {version(name)}" for name in packages))
    for ask in everybody.values():
        await turn(ask, 1)
    for tasks in (1, 20):
        all_turns: dict[str, list[tuple[float, float]]] = {name: [] for name in everybody}
        for _ in range(turns):
            for name, ask in everybody.items():
                all_turns[name].append(await turn(ask, tasks))
        medians = {name: median(rate for rate, _ in of) for name, of in all_turns.items()}
        used = {name: median(used for _, used in of) for name, of in all_turns.items()}
        fastest = max(theirs, key=lambda name: medians[name])
        print(f"{tasks} tasks at once, {turns} turns of {CALLS} calls, medians")
        for name, rate in medians.items():
            print(f"{name:34} {rate:8.0f} calls a second, {used[name]:4.0f} us of processor time")
        for name in ours:
            ratio = medians[name] / medians[fastest]
            verdict = "holds" if ratio >= BAR else "is missed"
            print(f"{name}: {ratio:.2f} times {fastest}; {BAR} times {verdict}")
    return 0


if __name__ == "__main__":
    if sys.argv[3:] == ["uvloop"]:
        import uvloop

        sys.exit(uvloop.run(main()))
    sys.exit(asyncio.run(main()))
