"""The time lines of `vectors/holds/` through Python, in memory and on a Redis.

Lines after a `change:` are left out, since a limiter has its limits for good. So are names of holds
that were never placed, which Python cannot say. Holds that callers name have tests of their own.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from conftest import ROOT
from test_vectors import microseconds, us

from tollgate_limiter import ArgumentError, Decision, HoldError, Limiter, ManualClock
from tollgate_limiter._tollgate import Holding, Request

FILES = sorted(it for it in (ROOT / "vectors/holds").glob("*.txt") if it.stem != "names")

# Of a limit: what remains, the wait, and the time until it is fresh.
Column = tuple[int, int | None, int]


def timelines(file: Path) -> list[tuple[str, list[tuple[int, list[str]]]]]:
    found: list[tuple[str, list[tuple[int, list[str]]]]] = []
    changed = False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("limits:"):
            found.append((line.removeprefix("limits:").strip(), []))
            changed = False
        elif line.startswith("change:"):
            changed = True
        elif line and not line.startswith("#") and not changed:
            found[-1][1].append((number, [column.strip() for column in line.split("|")]))
    return found


class Asker:
    """A limiter, and the holds that were placed by name."""

    def __init__(self, limiter: Limiter, subject: str) -> None:
        self.limiter, self.subject = limiter, subject
        self.holds: dict[str, Holding] = {}

    def ask(self, question: str) -> tuple[str, list[Column]] | None:
        """The answer as it is written, and its columns; None if it cannot be asked."""
        word, *rest = question.split()
        limiter, subject = self.limiter, self.subject
        if word in ("check", "peek", "partial"):
            units = int(rest[0].replace("_", ""))
            if word == "peek":
                return said(limiter.peek(subject, units))
            decision = limiter.check_all([subject], units, partial=word == "partial")
            answer, columns = said(decision)
            is_granted = word == "partial" and decision.allowed
            return (f"granted {decision.granted}" if is_granted else answer), columns
        if word == "charge":
            units = int(rest[0].replace("_", ""))
            return f"charged {units}", charged(limiter.charge(subject, units))
        if word == "reset":
            limiter.reset(subject)
            return "reset", []
        name = rest[0]
        if word in ("reserve", "acquire"):
            units = int(rest[1].replace("_", ""))
            request = Request.acquire(subject, units)
            if word == "reserve":
                ttl = microseconds(rest[3]) / 1e6
                request = Request.reserve(subject, units, ttl, rest[-1] == "charging")
            holding = limiter.run(request)
            self.holds.pop(name, None)
            answer, columns = said(holding.decision)
            if not holding.allowed:
                return answer, columns
            self.holds[name] = holding
            return f"until {holding.end_us}", columns
        if name not in self.holds:
            return None
        holding = self.holds[name]
        if word == "release":
            return ("released" if limiter.run(Request.release(holding)) else "not open"), []
        if word == "renew":
            ttl = microseconds(rest[2]) / 1e6 if len(rest) > 1 else None
            is_open = limiter.run(Request.renew(holding, ttl))
            return ("until" if is_open else "not open"), []
        actual = int(rest[1].replace("_", "")) if word == "commit" else 0
        try:
            settled = limiter.run(Request.commit(holding, actual))
        except HoldError:
            return "not open", []
        if settled.already:
            return f"already {settled.actual}", []
        return f"charged {settled.actual}", charged(settled.limits)


def said(decision: Decision) -> tuple[str, list[Column]]:
    answer = "yes" if decision.allowed else "never" if decision.outcome == "never" else "no"
    if decision.until_hold and answer == "no":
        answer = "no, held"
    columns = [(it.remaining, us(it.retry_after), us(it.reset_after)) for it in decision.limits]
    return answer, columns


def charged(each: list) -> list[Column]:
    return [(it.remaining, us(it.retry_after), us(it.reset_after)) for it in each]


def written(answer: str) -> str:
    """An answer in the form of `Asker.ask`."""
    if answer.startswith("until "):
        return f"until {microseconds(answer.removeprefix('until '))}"
    return answer.replace("_", "")


def check_column(column: str, found: Column, place: str) -> None:
    remaining, retry, reset = column.split()[:3]
    wait = None if retry == "-" else microseconds(retry)
    assert found[:2] == (int(remaining.replace("_", "")), wait), place
    least = microseconds(reset.rstrip("+"))
    assert found[2] >= least if reset.endswith("+") else found[2] == least, place


@pytest.mark.parametrize("kind", ["memory", "redis"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_is_answered_as_written(
    file: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = "memory://" if kind == "memory" else request.getfixturevalue("redis_url")
    asked = 0
    for index, (limits, lines) in enumerate(timelines(file)):
        clock = ManualClock()
        asker = Asker(Limiter(limits, url, clock=clock), f"line:{index}")
        for number, (at, question, answer, *columns) in lines:
            clock.set(microseconds(at))
            place = f"{file.name}:{number}"
            found = asker.ask(question)
            if found is None:
                continue
            expected = written(answer)
            if question.startswith("renew"):
                expected = re.sub(r" \d+$", "", expected)
            assert found[0] == expected, place
            assert len(found[1]) == len(columns) or not found[1], place
            for column, numbers in zip(columns, found[1], strict=False):
                check_column(column, numbers, place)
            asked += 1
    assert asked >= 10, f"{file} asks next to nothing"


def test_one_hold_more_than_a_count_can_have_is_an_error_of_its_own() -> None:
    units = Limiter("9999/h via gcra")
    for _ in range(1000):
        units.reserve("bob", 1, 60, charge_at_end=True)
    with pytest.raises(HoldError, match="1000 holds that charge at their end are open"):
        units.reserve("bob", 1, 60, charge_at_end=True)
    assert units.reserve("bob", 1, 60) and units.reserve("ann", 1, 60, charge_at_end=True)


ID = "b1946ac92492d2347c6235b4d2611184"


def test_a_hold_with_an_id_is_one_and_is_settled_by_it() -> None:
    slots = Limiter("2 at once hold 30s")
    first, again = slots.acquire("backend", id=ID), slots.acquire("backend", id=ID)
    assert first.fence == again.fence and slots.peek("backend").remaining == 1
    with pytest.raises(HoldError, match="asked for otherwise"):
        slots.acquire("backend", 2, id=ID)
    assert slots.renew("backend", ID)
    assert slots.release("backend", ID) and not slots.release("backend", ID)
    assert slots.peek("backend").remaining == 2
    # A release that comes first refuses what comes later.
    assert not slots.release("backend", "0123456789abcdef")
    with pytest.raises(HoldError, match="released or committed"):
        slots.acquire("backend", id="0123456789abcdef")
    units = Limiter("100/h")
    assert units.reserve("bob", 70, 60, id=ID)
    assert units.commit("bob", ID, 30).actual == 30
    assert units.commit("bob", ID, 30).already and units.peek("bob").remaining == 70


def test_who_waits_is_not_banned_and_stands_in_line() -> None:
    slots = Limiter("1 at once hold 30s, ban 10m after 2 denials in 1m")
    held = slots.acquire("backend")
    second = "0123456789abcdef"
    for _ in range(4):
        assert not slots.acquire("backend", id=ID, waiting="in_line").allowed
        assert not slots.acquire("backend", id=second, waiting="in_line").allowed
        assert not slots.acquire("backend", waiting="again").allowed
    held.release()
    assert not slots.acquire("backend", id=second, waiting="in_line").allowed
    assert slots.acquire("backend", id=ID, waiting="in_line").allowed
    with pytest.raises(ArgumentError, match=r"^waiting: .*: say `again`"):
        slots.acquire("backend", waiting="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="waiting must be str, not int"):
        slots.acquire("backend", waiting=7)  # type: ignore[arg-type]


def test_an_id_of_asyncio_is_the_same() -> None:
    async def main() -> None:
        slots = Limiter("2 at once hold 30s")
        first = await slots.aacquire("backend", id=ID)
        assert first.fence == (await slots.aacquire("backend", id=ID)).fence
        assert await slots.arenew("backend", ID)
        assert await slots.arelease("backend", ID)
        units = Limiter("100/h")
        assert await units.areserve("bob", 70, 60, id=ID)
        assert (await units.acommit("bob", ID, 30)).actual == 30

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["", "x" * 15, "x" * 257, "a secret of sixteen"])
def test_a_wrong_id_is_refused_and_no_message_repeats_it(wrong: str) -> None:
    slots = Limiter("2 at once hold 30s")
    for call in (
        lambda: slots.acquire("backend", id=wrong),
        lambda: slots.reserve("backend", 1, 1, id=wrong),
        lambda: slots.release("backend", wrong),
    ):
        with pytest.raises(ArgumentError, match=r"^id: .*: give 16 to 256 printable") as raised:
            call()
        assert not wrong or wrong not in str(raised.value)
    with pytest.raises(TypeError, match="id must be str, not int"):
        slots.acquire("backend", id=7)  # type: ignore[arg-type]
