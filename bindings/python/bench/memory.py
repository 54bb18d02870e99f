"""`check` in memory beside the memory limiters of `limits` and throttled-py.

Each is asked for one subject under a limit that admits all of it, in turns, and of each the median
of the turns counts. It needs a wheel of release, `limits` and `throttled-py`:

    python bench/memory.py [TURNS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    SlidingWindowCounterRateLimiter,
)
from throttled import MemoryStore, Throttled, rate_limiter

from tollgate_limiter import Limiter

CALLS = 20_000
UNITS = 1_000_000_000

# The requirements.
BAR = 10.0


def of_limits(kind: Callable[..., object]) -> Callable[[str], object]:
    strategy = kind(MemoryStorage())
    # A log of the events of a moving window has as many entries as units.
    item = RateLimitItemPerSecond(UNITS if kind is not MovingWindowRateLimiter else 1_000)
    return lambda subject: strategy.hit(item, subject)


def of_throttled(using: str) -> Callable[[str], object]:
    quota = rate_limiter.per_sec(UNITS, burst=UNITS)
    throttle = Throttled(using=using, quota=quota, store=MemoryStore())
    return lambda subject: throttle.limit(subject)


def of_tollgate(limits: str) -> Callable[[str], object]:
    return Limiter(limits).check


OURS = {
    "tollgate gcra": of_tollgate(f"{UNITS // 1000}/s via gcra"),
    "tollgate fixed_window": of_tollgate(f"{UNITS // 1000}/s via fixed_window"),
    "tollgate two limits": of_tollgate("1000000/s via gcra, 90000000/m via gcra"),
}
THEIRS = {
    "limits fixed window": of_limits(FixedWindowRateLimiter),
    "limits moving window": of_limits(MovingWindowRateLimiter),
    "limits sliding window counter": of_limits(SlidingWindowCounterRateLimiter),
    **{
        f"throttled-py {using}": of_throttled(using)
        for using in ("fixed_window", "sliding_window", "token_bucket", "leaking_bucket", "gcra")
    },
}


def turn(ask: Callable[[str], object]) -> float:
    """Nanoseconds a call."""
    subject = "user:42"
    start = perf_counter_ns()
    for _ in range(CALLS):
        ask(subject)
    return (perf_counter_ns() - start) / CALLS


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    times: dict[str, list[float]] = {name: [] for name in (*OURS, *THEIRS)}
    for _ in range(turns):
        for name, ask in (*OURS.items(), *THEIRS.items()):
            times[name].append(turn(ask))
    medians = {name: median(of) for name, of in times.items()}
    fastest = min(THEIRS, key=lambda name: medians[name])
    print(f"Python {sys.version.split()[0]}, {turns} turns of {CALLS} calls, ns a call, medians")
    for name, nanoseconds in medians.items():
        print(f"{name:32} {nanoseconds:8.0f}")
    for name in OURS:
        ratio = medians[fastest] / medians[name]
        verdict = "holds" if ratio >= BAR else "is missed"
        print(f"{name}: {ratio:.1f} times {fastest}; {BAR:.0f} times {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
