"""Costs of several units."""

from __future__ import annotations

import asyncio

import pytest

from tollgate_limiter import ArgumentError, Limiter

LIMITS = "60/h via gcra, 100000/h of tokens via gcra"


def left(limiter: Limiter) -> list[int]:
    """The remaining amount of each limit."""
    peek = limiter.peek("bob", {"requests": 1, "tokens": 1})
    return [limit.remaining for limit in peek.limits]


def test_each_limit_counts_its_unit() -> None:
    limiter = Limiter(LIMITS)
    decision = limiter.check("bob", {"requests": 1, "tokens": 800})
    assert [(it.unit, it.remaining) for it in decision.limits] == [
        ("requests", 59),
        ("tokens", 99_200),
    ]
    # The requests admit 59 more of them, and the tokens 124.
    assert (decision.unit, decision.remaining, decision.limit) == ("requests", 59, 60)
    denied = limiter.check("bob", {"requests": 1, "tokens": 99_201})
    assert (denied.allowed, denied.unit) == (False, "tokens")
    assert limiter.refund(decision).given == [1, 800]
    assert left(limiter) == [60, 100_000]


def test_a_commit_names_some_of_the_units() -> None:
    limiter = Limiter(LIMITS)
    estimate = {"requests": 1, "tokens": 4_000}
    with limiter.reserve("bob", estimate, ttl=60, charge_at_end=True) as held:
        held.use({"tokens": 800})
        held.use({"tokens": 512})
    assert left(limiter) == [59, 98_688]
    held = limiter.reserve("bob", estimate, ttl=60)
    settled = held.commit({"tokens": 688})
    assert (settled.already, settled.actual) == (False, {"tokens": 688})
    assert held.commit({"tokens": 1}).actual == {"tokens": 688}
    assert left(limiter) == [59, 98_000]
    assert limiter.reserve("bob", estimate, ttl=60, charge_at_end=True).cancel().actual == 0
    assert limiter.charge("bob", {"tokens": 1_000})[1].remaining == 97_000
    assert asyncio.run(limiter.acheck("bob", {"requests": 2})).allowed
    assert left(limiter) == [57, 97_000]


def test_a_decorated_function_costs_several_units() -> None:
    limiter = Limiter(LIMITS)

    @limiter.limit("bob", cost=lambda words: {"requests": 1, "tokens": words})
    def answer(words: int) -> int:
        return words

    assert answer(300) == 300
    assert left(limiter) == [59, 99_700]


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        ({"requests": 1, "token": 5}, "no limit counts `token`"),
        ({"Tokens": 5}, "not the name of a unit"),
        ({"tokens": 0}, "without any amount above 0"),
        ({"tokens": -1}, "give a whole number from 0"),
        ({"tokens": 2**41}, "give a whole number from 0"),
        ({}, "without any amount above 0"),
        ({7: 5}, "a unit is a str"),
    ],
)
def test_bad_costs_are_refused(cost: dict[str, int], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Limiter(LIMITS).check("bob", cost)


def test_an_amount_is_a_whole_number() -> None:
    with pytest.raises(TypeError):
        Limiter(LIMITS).check("bob", {"tokens": 1.5})
