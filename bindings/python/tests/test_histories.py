"""Random histories through Python, beside the answers of the oracle: every field is compared.

`cargo xtask wheel` writes them and names the file; by hand:

    cargo run -p tollgate-python --example histories > target/histories.jsonl
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_vectors import us

from tollgate_limiter import Decision, Limiter, Limits, ManualClock

FILE = Path(os.environ.get("TOLLGATE_HISTORIES", ROOT / "target/histories.jsonl"))

# Of all strategies and sets ten times over.
LEAST_STEPS = 8_000


class Replay:
    """One history on one store."""

    def __init__(self, history: dict[str, Any], url: str) -> None:
        self.steps = history["steps"]
        self.texts = history["sets"]
        self.sets = [Limits(text) for text in self.texts]
        self.clock = ManualClock()
        self.limiter = Limiter(self.texts[0], url, clock=self.clock)
        self.decisions: dict[int, Decision] = {}

    def parts(self, number: int, step: dict[str, Any]) -> list[str | tuple[str, str | Limits]]:
        """The subjects of a question, written in each of the forms there are."""
        forms = (self.sets, self.texts)[number % 2]
        is_bare = number % 3 > 0
        return [
            subject if place == 0 and is_bare else (subject, forms[place])
            for subject, place in step["parts"]
        ]

    def call(self, number: int, step: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
        """The method that asks, and what it is passed."""
        kind = step["ask"]
        if kind == "charge":
            return kind, [step["subject"], step["cost"]], {}
        if kind == "reset":
            return kind, [step["subject"]], {}
        if kind == "refund":
            return kind, [self.decisions[step["step"]]], {}
        if kind == "peek":
            return kind, [step["parts"][0][0], step["cost"]], {}
        parts = self.parts(number, step)
        if kind == "check" and len(parts) == 1 and isinstance(parts[0], str):
            return kind, [parts[0], step["cost"]], {}
        return "check_all", [parts, step["cost"]], {"partial": kind == "partial"}

    def compare(self, number: int, step: dict[str, Any], answer: Any) -> str:
        """Compares every field, and says which kind of answer it was."""
        place = f"step {number}: {step}"
        if step["ask"] == "reset":
            assert isinstance(answer, bool), place
            return "reset"
        if step["ask"] == "refund":
            assert (answer.already, answer.given, answer.left) == (False, step["given"], 0), place
            return "refund: something" if any(step["given"]) else "refund: nothing"
        if step["ask"] == "charge":
            found = [
                [it.fits, it.cut, it.remaining, us(it.retry_after), us(it.reset_after)]
                for it in answer
            ]
            assert found == step["each"], place
            return "charge"
        self.decisions[number] = answer
        remaining, retry, reset = step["summary"]
        subject, limit, capacity = step["binding"]
        assert [answer.allowed, bool(answer)] == [step["allowed"]] * 2, place
        assert answer.remaining == remaining, place
        wait = 0 if answer.allowed else us(answer.retry_after)
        assert wait == retry and (answer.outcome == "never") == (retry is None), place
        assert us(answer.reset_after) == reset, place
        binding = answer.limits[answer.binding]
        assert (binding.subject, binding.limit, answer.limit) == (subject, limit, capacity), place
        assert (answer.until_hold, answer.authority) == (False, "store"), place
        assert answer.at_us == step["at"], place
        found = [
            [it.subject, it.limit, it.remaining, us(it.retry_after), us(it.reset_after)]
            for it in answer.limits
        ]
        assert found == step["each"], place
        assert all(it.admits == (it.retry_after == 0) for it in answer.limits), place
        kind = step["ask"]
        if kind == "peek":
            return kind
        assert answer.granted == step["granted"], place
        if kind == "partial":
            less = "less" if answer.granted < step["cost"] else "all"
            return f"partial: {less if answer.granted else 'none'}"
        return {"allowed": "allow", "denied": "not yet"}.get(answer.outcome, answer.outcome)


async def replay(history: dict[str, Any], url: str, by_asyncio: bool) -> Counter[str]:
    run, seen = Replay(history, url), Counter[str]()
    for number, step in enumerate(run.steps):
        run.clock.set(step["at"])
        name, words, options = run.call(number, step)
        if by_asyncio:
            answer = await getattr(run.limiter, f"a{name}")(*words, **options)
        else:
            answer = getattr(run.limiter, name)(*words, **options)
        seen[run.compare(number, step, answer)] += 1
    return seen


@pytest.mark.parametrize("way", ["memory", "redis", "redis by asyncio"])
def test_every_step_is_answered_as_by_the_oracle(
    way: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if not FILE.is_file():
        pytest.skip("no histories: cargo run -p tollgate-python --example histories > " + str(FILE))
    url = "memory://" if way == "memory" else request.getfixturevalue("redis_url")
    histories = [json.loads(line) for line in FILE.read_text().splitlines()]
    seen = Counter[str]()

    async def replay_all() -> None:
        for history in histories:
            seen.update(await replay(history, url, way == "redis by asyncio"))

    asyncio.run(replay_all())
    steps = sum(seen.values())
    with capsys.disabled():
        print(f"\n{way}: {len(histories)} random histories, {steps} steps: {dict(seen)}")
    assert steps >= LEAST_STEPS, seen
    assert len(seen) == 11 and min(seen.values()) * 100 >= steps, seen
