"""Asks the rate limiters of some Python packages, for `tollgate judge --command`.

python3 driver.py NAME COUNT PERIOD_S (costs|single) STEP_US

The clock is `now_us` of each question: the functions of `time` that the packages call return it. A
package that counts in steps of STEP_US decides at the step before, and the replies have that time. No
package says that a cost is never admitted; where it denies one above COUNT, the reply does.
"""

import json
import sys
import time

NOW_US = 0


time.time = time.monotonic = lambda: NOW_US / 1_000_000
time.time_ns = time.monotonic_ns = lambda: NOW_US * 1_000

NAME, COUNT, PERIOD = sys.argv[1], *map(int, sys.argv[2:4])
COSTS, STEP_US = sys.argv[4] == "costs", int(sys.argv[5])


def of_limits(strategy):
    from limits import RateLimitItemPerSecond, storage, strategies

    item = RateLimitItemPerSecond(COUNT, PERIOD)
    limiter = getattr(strategies, strategy)(storage.MemoryStorage())

    def ask(subject, cost):
        allowed = limiter.hit(item, subject, cost=cost)
        stats = limiter.get_window_stats(item, subject)
        reply = {"allowed": allowed, "remaining": stats.remaining}
        # Its documentation sleeps until `reset_time` of a fixed window. For the others that is when
        # something is given back, which need not be enough.
        if not allowed and strategy == "FixedWindowRateLimiter":
            reply["retry_after_us"] = round(stats.reset_time * 1_000_000) - NOW_US
        return reply

    return ask


def of_throttled(using):
    from datetime import timedelta

    from throttled import RateLimiterType, Throttled, rate_limiter, store

    quota = rate_limiter.per_duration(timedelta(seconds=PERIOD), COUNT, burst=COUNT)
    limiter = Throttled(
        using=RateLimiterType[using].value, quota=quota, store=store.MemoryStore()
    )

    def ask(subject, cost):
        result = limiter.limit(subject, cost=cost)
        reply = {"allowed": not result.limited, "remaining": result.state.remaining}
        if result.limited:
            reply["retry_after_us"] = round(result.state.retry_after * 1_000_000)
        return reply

    return ask


def of_pyrate(algorithm):
    import pyrate_limiter as pyrate

    rates = [pyrate.Rate(COUNT, PERIOD * 1_000)]
    limiters = {}

    def made():
        way = getattr(pyrate, algorithm)()
        if isinstance(way, pyrate.LogAlgorithm):
            bucket = pyrate.InMemoryBucket(rates, algorithm=way)
        else:
            bucket = pyrate.StateBucket(rates, algorithm=way)
        return pyrate.Limiter(pyrate.SingleBucketFactory(bucket, schedule_leak=False)), bucket

    def ask(subject, cost):
        if subject not in limiters:
            limiters[subject] = made()
        limiter, bucket = limiters[subject]
        allowed = limiter.try_acquire(subject, weight=cost, blocking=False)
        reply = {"allowed": allowed}
        if not allowed and cost <= COUNT:
            item = pyrate.RateItem(subject, NOW_US // 1_000, weight=cost)
            wait = bucket.waiting(item)
            if wait >= 0:
                reply["retry_after_us"] = wait * 1_000
        return reply

    return ask


PACKAGES = {"limits": of_limits, "throttled-py": of_throttled, "pyrate-limiter": of_pyrate}


def main():
    global NOW_US
    package, what = NAME.split(":")
    ask = None
    print(json.dumps({"judge": 1, "clock": True, "costs": COSTS}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        NOW_US = question["now_us"]
        if ask is None:
            ask = PACKAGES[package](what)
        try:
            reply = ask(question["subject"], question["cost"])
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        if question["cost"] > COUNT and reply.get("allowed") is False:
            reply = {"allowed": False, "never": True}
        reply = {"ask": question["ask"], "now_us": NOW_US - NOW_US % STEP_US, **reply}
        print(json.dumps(reply), flush=True)


main()
