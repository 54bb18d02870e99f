"""What a limiter answers: the same on every store."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tollgate_limiter
from tollgate_limiter import ArgumentError, HoldError, Limiter, Limits, ManualClock, StoreError


def test_a_check_has_its_numbers(store: str, unique: str) -> None:
    limiter = Limiter("3/h", store, policy=unique)
    first = limiter.check("user:42")
    assert (first.allowed, first.granted, first.remaining, first.limit) == (True, 1, 2, 3)
    assert (first.retry_after, first.outcome, first.binding) == (None, "allowed", 0)
    [report] = first.limits
    assert (report.subject, report.limit) == ("user:42", "3/h via sliding_log")
    assert (report.policy, report.capacity, first.authority) == (unique, 3, "store")
    assert first.at_us > 1_700_000_000_000_000
    assert bool(first) and str(first).startswith("allow user:42: 2 of 3 left")
    assert limiter.check("user:42", 2).remaining == 0
    denied = limiter.check("user:42", cost=1)
    assert not denied and (denied.granted, denied.remaining) == (0, 0)
    assert 3_500 < denied.retry_after <= 3_600 and 3_500 < denied.reset_after <= 3_600
    assert repr(denied).startswith("<Decision deny user:42: retry in")
    never = limiter.check("user:42", 4)
    assert (never.outcome, never.retry_after) == ("never", None)
    assert limiter.check("user:43").remaining == 2


def test_several_limits_are_all_or_nothing(store: str, unique: str) -> None:
    limiter = Limiter("2/s, 3/h", store, policy=unique)
    decision = limiter.check("a", 2)
    reports = decision.limits
    assert [(it.limit, it.admits, it.remaining) for it in reports] == [
        ("2/s via sliding_log", True, 0),
        ("3/h via sliding_log", True, 1),
    ]
    assert reports[0].subject == "a" and reports[0].retry_after == 0.0
    assert reports[0].unit == decision.unit == "requests"
    assert 0 < reports[0].reset_after <= 1 < reports[1].reset_after
    denied = limiter.check("a", 3)
    assert not denied.allowed and limiter.peek("a").limits[1].remaining == 1


def test_a_check_that_waits_counts_for_no_ban(store: str, unique: str) -> None:
    limiter = Limiter("1/h, ban 10m after 2 denials in 1m", store, policy=unique)
    assert limiter.check("a").allowed
    for _ in range(4):
        assert not limiter.check_all(["a"], waiting="again").allowed
    assert limiter.peek("a").limits[1].admits
    assert not limiter.check("a").allowed and not limiter.check("a").allowed
    assert not limiter.peek("a").limits[1].admits
    with pytest.raises(ArgumentError, match="no slot to wait in line for"):
        limiter.check_all(["b"], waiting="in_line")  # type: ignore[arg-type]


def test_several_subjects_are_all_or_nothing(store: str, unique: str) -> None:
    limiter = Limiter("5/h", store, policy=unique)
    own = Limits("1/h", policy=unique)
    assert limiter.check_all(["resource:12", ("consumer:1", own)]).allowed
    denied = limiter.check_all(["resource:12", ("consumer:1", own)])
    assert not denied.allowed and denied.limits[denied.binding].subject == "consumer:1"
    assert limiter.peek("resource:12").remaining == 4
    assert limiter.check_all(["resource:12"], 9, partial=True).granted == 4


def test_a_peek_looks_ahead_to_a_hold(store: str, unique: str) -> None:
    limiter = Limiter("20 at once, 100000/m via gcra", store, policy=unique)
    ahead = limiter.peek("a", 800, kind="reserve")
    assert (ahead.allowed, ahead.unit, ahead.limit) == (True, "slots", 20)
    assert limiter.peek("a", 800, kind="acquire").outcome == "never"
    assert limiter.peek("a", 800).outcome == "never"
    assert "more slots" in str(limiter.peek("a", 21, kind="acquire"))
    with pytest.raises(ArgumentError, match="kind: "):
        limiter.peek("a", kind="hold")  # type: ignore[arg-type]


def test_peek_charge_refund_and_reset(store: str, unique: str) -> None:
    limiter = Limiter("3/h", store, policy=unique)
    assert limiter.peek("a").remaining == limiter.peek("a", 2).remaining == 3
    decision = limiter.check("a", 2)
    refund = limiter.refund(decision)
    assert (refund.given, refund.already, refund.left) == ([2], False, 0)
    assert limiter.refund(decision).already
    [charged] = limiter.charge("a", 4)
    assert (charged.fits, charged.cut, charged.remaining) == (False, 0, 0)
    assert charged.subject == "a" and charged.limit == limiter.limits and charged.identity
    assert charged.retry_after is None and charged.reset_after > 0
    assert limiter.reset("a") and not limiter.reset("a")
    assert limiter.check("a", 3).allowed
    with pytest.raises(ArgumentError, match="decision charged nothing"):
        limiter.refund(limiter.check("a"))
    with pytest.raises(ArgumentError, match="another store"):
        Limiter("3/h").refund(decision)


def test_a_reservation_charges_what_was_used(store: str, unique: str) -> None:
    limiter = Limiter("1000/m via token_bucket", store, policy=unique)
    with limiter.reserve("a", 800, ttl=60) as reservation:
        assert reservation.allowed and reservation.fence and reservation.end_us
        assert limiter.peek("a").remaining <= 201
        assert not limiter.reserve("a", 800, ttl=60)
        reservation.use(200)
        reservation.use(100)
    assert 700 <= limiter.peek("a").remaining <= 710
    reservation = limiter.reserve("a", 10, ttl=60)
    assert reservation.renew(90)
    assert reservation.commit(3).actual == 3
    assert reservation.commit(3).already
    # A block that raised has used the units that it reported by `use`.
    with pytest.raises(ZeroDivisionError), limiter.reserve("b", 500, ttl=60) as failing:
        failing.use(100)
        raise ZeroDivisionError
    assert 900 <= limiter.peek("b").remaining <= 910
    cancelled = limiter.reserve("c", 500, ttl=60)
    assert cancelled.cancel().actual == 0 and limiter.peek("c").remaining == 1000
    limiter.reset("d")
    gone = limiter.reserve("d", 5, ttl=60)
    limiter.reset("d")
    with pytest.raises(HoldError, match="not open"):
        gone.commit(5)


def test_slots_are_given_back(store: str, unique: str) -> None:
    limiter = Limiter("2 at once hold 30s", store, policy=unique)
    with limiter.acquire("backend") as one, limiter.acquire("backend") as two:
        assert one.allowed and two.allowed and two.fence > one.fence
        with limiter.acquire("backend") as three:
            assert not three.allowed and not three.decision.allowed
        assert one.renew()
    assert limiter.acquire("backend", slots=2).release()
    slot = limiter.acquire("backend")
    assert slot.release() and not slot.release()
    with pytest.raises(ArgumentError, match="denied"):
        limiter.acquire("backend", 3).renew()


def test_every_call_has_an_async_form(store: str, unique: str) -> None:
    # Slow enough that nothing recovers meanwhile on a busy machine.
    limiter = Limiter("1000/d via token_bucket", store, policy=unique)
    slots = Limiter("1 at once", store, policy=unique)

    async def all_of_them() -> None:
        decision = await limiter.acheck("a", 2)
        assert decision.remaining == 998
        assert (await limiter.apeek("a")).remaining >= 998
        assert (await limiter.arefund(decision)).given == [2]
        assert (await limiter.acheck_all(["a", "b"], 3)).allowed
        assert (await limiter.acharge("a", 5))[0].fits
        assert await limiter.areset("a") and not await limiter.areset("a")
        async with await limiter.areserve("c", 800, ttl=60) as reservation:
            reservation.use(300)
        assert 700 <= (await limiter.apeek("c")).remaining <= 710
        reservation = await limiter.areserve("c", 10, ttl=60)
        assert await reservation.arenew(90)
        assert (await reservation.acancel()).actual == 0
        async with await slots.aacquire("backend"):
            assert not await slots.aacquire("backend")
        assert await (await slots.aacquire("backend")).arelease()

    asyncio.run(all_of_them())


def test_policies_count_by_themselves(store: str, unique: str) -> None:
    one, two = (Limiter("1/h", store, policy=f"{unique}.{name}") for name in "ab")
    assert one.check("a").allowed and two.check("a").allowed
    assert not one.check("a").allowed
    assert one.policy == f"{unique}.a" and Limiter("1/h").policy is None


def test_a_clock_that_a_test_moves() -> None:
    clock = ManualClock()
    limiter = Limiter("1/10s", clock=clock)
    assert limiter.check("a").allowed
    assert limiter.check("a").retry_after == 10.0
    clock.advance(9.5)
    assert limiter.check("a").retry_after == 0.5
    clock.set(10_000_000)
    assert limiter.check("a").allowed and clock.at_us == 10_000_000


def test_strings_of_the_library_limits_mean_the_same() -> None:
    for theirs, ours in [
        ("10 per minute", "10/m"),
        ("10/minute", "10/m"),
        ("1 per day", "1/d"),
        ("5/5minute", "5/5m"),
        ("10 per 2 minutes", "10/2m"),
        ("5/second;100/hour", "5/s, 100/h"),
        ("10/hour", "10/h"),
        ("5/second, 100 per hour", "5/s, 100/h"),
        ("5 per 1 second", "5/s"),
    ]:
        assert Limits(theirs) == Limits(ours), theirs
        assert hash(Limits(theirs)) == hash(Limits(ours))
    assert Limits("10/m") != Limits("11/m")
    with pytest.raises(tollgate_limiter.LimitError, match="calendar periods"):
        Limits("10 per 2 months")
    assert str(Limits("10/s")) == "10/s via sliding_log"


def test_headers_and_refusals_are_those_of_every_front() -> None:
    limiter = Limiter("2/m via gcra", policy="api", clock=ManualClock(1_000_000))
    admitted = limiter.check("a")
    assert limiter.headers(admitted) == [
        ("ratelimit-policy", '"api";q=2;w=60'),
        ("ratelimit", '"api";r=1;t=30'),
    ]
    assert limiter.refusal(admitted) is None
    limiter.check("a")
    status, headers, body = limiter.refusal(limiter.check("a"), "both")
    assert status == 429 and b'"violated-policies":["api"]' in body
    assert dict(headers)["retry-after"] == "30" and dict(headers)["x-ratelimit-remaining"] == "0"
    assert dict(headers)["content-type"] == "application/problem+json"
    assert limiter.refusal(limiter.check("a", 9))[0] == 422
    assert limiter.headers(admitted, "none") == []
    status, headers, body = limiter.unavailable(2.5)
    assert status == 503 and dict(headers)["retry-after"] == "3"
    assert Limiter("1/h").headers(Limiter("1/h").check("a"))[0][1] == '"client";q=1;w=3600'


def test_the_decorator_checks_each_call() -> None:
    limiter = Limiter("2/h")

    @limiter.limit(key=lambda user, **_: f"user:{user}", cost=lambda _user, cost=1: cost)
    def work(user: str, cost: int = 1) -> str:
        """It works."""
        return f"{user} {cost}"

    assert work("ann", cost=2) == "ann 2" and work.__doc__ == "It works."
    with pytest.raises(tollgate_limiter.Denied) as caught:
        work("ann")
    assert caught.value.decision.retry_after > 3_500 and "deny user:ann" in str(caught.value)
    assert work("bob") == "bob 1"

    @limiter.limit("job", on_denied=lambda decision: decision.limits[0].limit)
    async def job() -> str:
        return "done"

    async def thrice() -> list[str]:
        return [await job() for _ in range(3)]

    assert asyncio.run(thrice()) == ["done", "done", "2/h via sliding_log"]
    with pytest.raises(TypeError, match="a generator runs when it is read"):
        limiter.limit("job")(lambda: (yield))


def test_a_decorator_has_a_rule_for_the_store(caplog: pytest.LogCaptureFixture) -> None:
    away = Limiter("2/h", "redis://127.0.0.1:1")

    def decorated(**options: Any) -> Callable[[], str]:
        @away.limit("job", **options)
        def job() -> str:
            return "done"

        return job

    passes, is_denied = decorated(on_failure="allow"), decorated(on_failure="deny")
    assert [passes() for _ in range(3)] == ["done"] * 3
    for _ in range(2):
        with pytest.raises(tollgate_limiter.Denied) as caught:
            is_denied()
        status, headers, _ = caught.value.refusal()
        assert caught.value.decision is None and status == 503
        assert dict(headers)["retry-after"] == "5"
    with pytest.raises(StoreError):
        decorated()()
    with pytest.raises(ArgumentError, match="on_failure is 'open': give 'allow' or 'deny'"):
        decorated(on_failure="open")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert "Requests pass until" in said[0] and "Requests are refused until" in said[1]


def test_a_denial_has_the_answer_of_its_limiter() -> None:
    limiter = Limiter("1/h", policy="mail")

    @limiter.limit("job")
    def job() -> None: ...

    job()
    with pytest.raises(tollgate_limiter.Denied) as caught:
        job()
    status, headers, body = caught.value.refusal("legacy")
    assert status == 429 and b"mail" in body
    assert dict(headers)["x-ratelimit-remaining"] == "0" and "ratelimit" not in dict(headers)


def test_exceptions_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(StoreError("gone", transient=True, ambiguous=True)))
    assert (str(error), error.transient, error.ambiguous) == ("gone", True, True)
    assert issubclass(tollgate_limiter.LimitError, ValueError) and issubclass(
        ArgumentError, ValueError
    )
    for kind in (
        tollgate_limiter.LimitError,
        ArgumentError,
        HoldError,
        StoreError,
        tollgate_limiter.Denied,
    ):
        assert issubclass(kind, tollgate_limiter.TollgateError)


def test_all_that_is_exported_is_there() -> None:
    for name in tollgate_limiter.__all__:
        assert getattr(tollgate_limiter, name).__doc__ or name == "__version__", name
    assert repr(Limiter("1/s")) == "<Limiter 1/s via sliding_log in memory>"
