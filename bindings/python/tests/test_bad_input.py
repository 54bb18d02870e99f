"""Wrong input is an exception that names the argument; nothing is charged for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from tollgate_limiter import (
    ArgumentError,
    ClientAddress,
    Limiter,
    LimitError,
    ManualClock,
    StoreError,
)

LIMITER = Limiter("5/h, 3 at once")
PLAIN = Limiter("5/h")


class Index:
    """An integer of another library, as numpy's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize("cost", [None, True, False, 1.0, math.nan, math.inf, "1", b"1", [1], 1j])
def test_a_cost_of_a_wrong_type(cost: Any) -> None:
    for ask in (PLAIN.check, PLAIN.peek, PLAIN.charge):
        with pytest.raises(TypeError, match=f"cost must be int, not {type(cost).__name__}"):
            ask("a", cost)
    with pytest.raises(TypeError, match="cost must be int"):
        PLAIN.check_all(["a"], cost)
    with pytest.raises(TypeError, match="cost must be int"):
        asyncio.run(PLAIN.acheck("a", cost))
    with pytest.raises(TypeError, match="slots must be int"):
        LIMITER.acquire("a", cost)
    assert PLAIN.peek("a").remaining == 5


@pytest.mark.parametrize("cost", [-1, 0, 2**40 + 1, 2**63, 2**64, 10**400, -(10**400)])
def test_a_cost_out_of_range(cost: int) -> None:
    for ask in (PLAIN.check, PLAIN.peek, PLAIN.charge):
        with pytest.raises(ArgumentError, match="cost"):
            ask("a", cost)
    with pytest.raises(ArgumentError, match=r"cost|slots"):
        LIMITER.acquire("a", cost)
    assert PLAIN.peek("a").remaining == 5


COSTS = "from 1 to 2^40 = 1099511627776"
ACTUAL = "from 0 to 2^40 = 1099511627776"
TIMES = "from 0 to 2^64 - 1"
ID = "b1946ac92492d2347c6235b4d2611184"


@pytest.mark.parametrize(
    ("name", "call", "range_"),
    [
        ("cost", lambda it: PLAIN.check("a", it), COSTS),
        ("cost", lambda it: PLAIN.peek("a", it), COSTS),
        ("cost", lambda it: PLAIN.charge("a", it), COSTS),
        ("cost", lambda it: PLAIN.check_all(["a"], it), COSTS),
        ("cost", lambda it: PLAIN.reserve("a", it, 60), COSTS),
        ("cost", lambda it: asyncio.run(PLAIN.acheck("a", it)), COSTS),
        ("cost", lambda it: PLAIN.limit("a", cost=it)(lambda: 3)(), COSTS),
        ("slots", lambda it: LIMITER.acquire("a", it), COSTS),
        ("actual", lambda it: PLAIN.reserve("b", 1, 60).commit(it), ACTUAL),
        ("actual", lambda it: PLAIN.commit("b", ID, it), ACTUAL),
        ("at_us", lambda it: ManualClock(it), TIMES),
        ("at_us", lambda it: ManualClock().set(it), TIMES),
    ],
)
def test_the_range_is_said_of_a_number_out_of_it(
    name: str, call: Callable[[Any], Any], range_: str
) -> None:
    for number, given in [
        (-1, "-1"),
        (-(2**63), "-9223372036854775808"),
        (-(10**5000), "below -2^63"),
        (2**64, "2^64 or more"),
        (10**5000, "2^64 or more"),
    ]:
        with pytest.raises(ArgumentError) as raised:
            call(number)
        assert str(raised.value) == f"{name} is {given}: give a whole number {range_}"
    assert PLAIN.peek("a").remaining == 5


def test_integers_of_other_libraries_count() -> None:
    assert Limiter("5/h").check("a", Index(2)).remaining == 3
    with pytest.raises(ArgumentError, match="cost is -2: give a whole number from 1 "):
        PLAIN.check("a", Index(-2))


@pytest.mark.parametrize("subject", [None, 42, b"user:42", True, math.nan, ["a"], object()])
def test_a_subject_of_a_wrong_type(subject: Any) -> None:
    for ask in (PLAIN.check, PLAIN.peek, PLAIN.reset, lambda it: PLAIN.charge(it, 1)):
        with pytest.raises(TypeError, match=f"subject must be str, not {type(subject).__name__}"):
            ask(subject)
    with pytest.raises(TypeError, match="subject"):
        PLAIN.check_all([subject])


def test_a_subject_that_is_none() -> None:
    for subject in ("", "user:", "a" * 100_000, "us er:1"):
        with pytest.raises(ArgumentError, match="subject"):
            PLAIN.check(subject)
    with pytest.raises(ArgumentError, match="subject has a lone surrogate at index 5"):
        PLAIN.check("user:\udc80")
    with pytest.raises(ArgumentError, match="limits has a lone surrogate at index 0"):
        Limiter("\ud800")
    # An odd text is counted as a separate subject.
    for subject in ("user:\0", "user:ü,%41\n", "\N{GRINNING FACE}", "a b"):
        assert Limiter("1/h").check(subject).allowed


@pytest.mark.parametrize(
    ("subjects", "error", "what"),
    [
        ([], ArgumentError, "subjects"),
        ("user:42", TypeError, "subjects must be a list"),
        (None, TypeError, "subjects must be a list"),
        ([("a",)], ArgumentError, "subjects has a tuple of 1"),
        ([("a", 3)], TypeError, "limits must be str or Limits, not int"),
        ([("a", "3/parsec")], LimitError, "limits: "),
        (["a", "a"], ArgumentError, "asked twice"),
        ([f"s{n}" for n in range(17)], ArgumentError, "1 to 16 subjects, not 17"),
    ],
)
def test_subjects_that_are_none(subjects: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        PLAIN.check_all(subjects)
    assert PLAIN.peek("a").remaining == 5


@pytest.mark.parametrize(
    "limits", [None, 10, b"10/s", 1.5, [], {}, "", "10", "10/s via gcr", "0/s"]
)
def test_limits_that_are_none(limits: Any) -> None:
    error = LimitError if isinstance(limits, str) else TypeError
    with pytest.raises(error, match="limits"):
        Limiter(limits)


def test_an_error_in_limits_shows_the_place() -> None:
    with pytest.raises(LimitError) as caught:
        Limiter("10/s via gcr")
    assert "did you mean `gcra`?" in str(caught.value) and "\n           ^^^" in str(caught.value)


@pytest.mark.parametrize(
    ("store", "error", "what"),
    [
        (None, TypeError, "store must be str"),
        (3, TypeError, "store must be str"),
        ("postgres://ann:secret@x", StoreError, "unknown kind of store `postgres://`"),
        ("redis://", StoreError, "host is missing"),
        ("redis://h:0", StoreError, "port"),
        ("", StoreError, "PATH"),
    ],
)
def test_stores_that_are_none(store: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what) as caught:
        Limiter("1/s", store)
    assert "secret" not in str(caught.value)


def test_other_arguments() -> None:
    with pytest.raises(TypeError, match="policy must be str"):
        Limiter("1/s", policy=3)
    with pytest.raises(ArgumentError, match="not the name of a policy"):
        Limiter("1/s", policy="a b")
    with pytest.raises(TypeError, match="ManualClock"):
        Limiter("1/s", clock=3)
    with pytest.raises(TypeError):
        Limiter("1/s", nonsense=3)
    with pytest.raises(ArgumentError, match="headers is"):
        PLAIN.headers(PLAIN.peek("a"), "x")
    with pytest.raises(ArgumentError, match="proxies: "):
        ClientAddress("10.0.0.1/8")
    with pytest.raises(TypeError, match="proxies must be str, not int"):
        ClientAddress(4)
    with pytest.raises(ArgumentError, match="hops is -1: give a whole number from 1 to 32"):
        ClientAddress(hops=-1)
    with pytest.raises(ArgumentError, match="hops is "):
        ClientAddress(hops=33)
    with pytest.raises(ArgumentError, match="header needs `proxies` or `hops`"):
        ClientAddress(header="forwarded")
    with pytest.raises(ArgumentError, match="ipv6_prefix is "):
        ClientAddress(ipv6_prefix=16)
    with pytest.raises(TypeError, match="seconds must be int or float"):
        ManualClock().advance("1")
    with pytest.raises(ArgumentError, match="at_us is -1: give a whole number"):
        ManualClock(-1)


@pytest.mark.parametrize(
    ("ttl", "given"),
    [
        (0, "0"),
        (-0.5, "-0.5"),
        (-1, "-1"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
        (10**400, "inf"),
        (1e300, "1e300"),
    ],
)
def test_a_ttl_out_of_range(ttl: float, given: str) -> None:
    right = f"{given}: give seconds above 0, up to 366 days"
    for name, call in [
        ("ttl", lambda: PLAIN.reserve("a", 1, ttl)),
        ("ttl", lambda: PLAIN.renew("a", ID, ttl)),
        ("retry_after", lambda: PLAIN.unavailable(ttl)),
        ("seconds", lambda: ManualClock().advance(ttl)),
    ]:
        with pytest.raises(ArgumentError) as raised:
            call()
        assert str(raised.value) == f"{name} is {right}"


@pytest.mark.parametrize("ttl", [None, "1", True])
def test_a_ttl_of_a_wrong_type(ttl: Any) -> None:
    with pytest.raises(TypeError, match="ttl must be int or float"):
        PLAIN.reserve("a", 1, ttl)


def test_units_that_were_used() -> None:
    reservation = PLAIN.reserve("used", 2, 60)
    for units in (1.0, True, None):
        with pytest.raises(TypeError, match="units must be int"):
            reservation.use(units)
    with pytest.raises(ArgumentError, match="units is -1: give a whole number of 0 or more"):
        reservation.use(-1)
    with pytest.raises(TypeError, match="actual must be int"):
        reservation.commit(1.5)


@pytest.mark.parametrize("key", [None, 3, b"x"])
def test_a_decorator_without_a_key(key: Any) -> None:
    with pytest.raises(TypeError, match="key must be str or callable"):
        PLAIN.limit(key)
    with pytest.raises(TypeError, match="cost must be int, dict or callable"):
        PLAIN.limit("a", cost=1.5)


def test_a_key_that_is_no_text_is_an_error_in_the_call() -> None:
    function: Callable[[], int] = PLAIN.limit(lambda: None)(lambda: 3)
    with pytest.raises(TypeError, match="subject must be str, not NoneType"):
        function()


def test_middleware_options() -> None:
    from tollgate_limiter import asgi, wsgi

    remote = Limiter("1/s", "redis://127.0.0.1:1")
    for module in (asgi, wsgi):
        for options, error, what in [
            ({"limiter": "10/s"}, TypeError, "limiter must be Limiter"),
            ({"limiter": PLAIN, "headers": "x"}, ArgumentError, "headers is 'x'"),
            ({"limiter": PLAIN, "on_failure": "x"}, ArgumentError, "on_failure is 'x'"),
            ({"limiter": PLAIN, "key": "ip"}, TypeError, "key must be callable"),
            ({"limiter": remote}, ArgumentError, "on_failure is missing"),
        ]:
            with pytest.raises(error, match=what):
                module.TollgateMiddleware(None, **options)
        module.TollgateMiddleware(None, remote, on_failure="deny")


@pytest.mark.parametrize("cost", [0, -1, 2**41, 2**70])
def test_a_cost_out_of_range_is_told_in_one_way(cost: int) -> None:
    for call in (PLAIN.check, PLAIN.peek, PLAIN.charge):
        with pytest.raises(ArgumentError) as caught:
            call("b", cost)
        said = str(caught.value)
        assert said.startswith("cost is ") and said.endswith(
            ": give a whole number from 1 to 2^40 = 1099511627776"
        )
