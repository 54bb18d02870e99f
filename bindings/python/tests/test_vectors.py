"""The time lines of `vectors/` through Python, in memory and on a Redis."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

from tollgate_limiter import Decision, Limiter, Limits, ManualClock

STRATEGIES = ("fixed_window", "gcra", "sliding_log", "sliding_window", "token_bucket", "uniform")
FILES = [file for name in STRATEGIES for file in sorted((ROOT / "vectors" / name).glob("*.txt"))]
UNITS = {
    "": 1,
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def microseconds(text: str) -> int:
    digits, unit = re.fullmatch(r"([0-9_]+)([a-z]*)", text).groups()
    return int(digits) * UNITS[unit]


def us(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def timelines(file: Path) -> list[tuple[str, list[tuple[int, list[str]]]]]:
    found: list[tuple[str, list[tuple[int, list[str]]]]] = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("limit:"):
            found.append((line.removeprefix("limit:").strip(), []))
        elif line and not line.startswith("#"):
            found[-1][1].append((number, [column.strip() for column in line.split("|")]))
    return found


def asked(limiter: Limiter, subject: str, limits: Limits, cost: str) -> list[object]:
    """What the columns `allow`, `remaining`, `retry` and `reset` say."""
    word, _, number = cost.rpartition(" ")
    units = int(number.replace("_", ""))
    if word == "charge":
        [charged] = limiter.charge(subject, units)
        allow = "yes" if charged.fits else f"cuts {charged.cut}" if charged.cut else "owes"
        return [allow, charged.remaining, us(charged.retry_after), us(charged.reset_after)]
    decision: Decision
    if word == "peek":
        decision = limiter.peek(subject, units)
    elif word == "partial":
        decision = limiter.check_all([subject], units, partial=True)
    else:
        decision = limiter.check_all([(subject, limits)], units)
    allow = "yes" if decision.allowed else "never" if decision.outcome == "never" else "no"
    if word == "partial":
        allow = str(decision.granted)
    wait = 0 if decision.allowed else us(decision.retry_after)
    return [allow, decision.remaining, wait, us(decision.reset_after)]


@pytest.mark.parametrize("kind", ["memory", "redis"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_line_is_answered_as_written(
    file: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = "memory://" if kind == "memory" else request.getfixturevalue("redis_url")
    lines = 0
    for index, (text, questions) in enumerate(timelines(file)):
        clock = ManualClock()
        limiter = Limiter(text, url, clock=clock)
        for number, (at, cost, allow, remaining, retry, reset) in questions:
            clock.set(microseconds(at))
            wait = None if retry == "-" else microseconds(retry)
            expected = [allow, int(remaining.replace("_", "")), wait, microseconds(reset)]
            allow = allow.replace("_", "")
            expected[0] = allow
            answer = asked(limiter, f"line:{index}", Limits(text), cost)
            assert answer == expected, f"{file.name}:{number}"
            lines += 1
    assert lines >= 3, f"{file} asks next to nothing"


def test_all_strategies_are_there() -> None:
    assert len(FILES) >= 20
