"""The answers of `vectors/wire/decisions.txt`, which every front gives."""

from __future__ import annotations

import json

from conftest import ROOT

from tollgate_limiter import Limiter, ManualClock, Reservation, Slot

TEXT = (ROOT / "vectors/wire/decisions.txt").read_text()


def plain(value: object) -> object:
    """A value of the file as an attribute has it: a wait is its seconds."""
    return value["seconds"] if isinstance(value, dict) and "seconds" in value else value


def check_attributes(found: object, fields: dict[str, object]) -> None:
    """Every attribute of an object is a field of the file, with its value."""
    # A receipt is asked for there.
    others = {"json", "receipt"}
    names = [name for name in dir(found) if not name.startswith("_") and name not in others]
    for name in names:
        value = getattr(found, name)
        if name == "limits":
            assert len(value) == len(fields[name])
            for each, one in zip(value, fields[name], strict=True):
                check_attributes(each, one)
                assert set(one) <= set(dir(each)), "a field of a limit is missing"
        else:
            assert value == plain(fields[name]), name


def test_decisions_are_those_of_every_front() -> None:
    clock = ManualClock(1_000_000_000_000_000)
    held: Reservation | Slot | None = None
    asked = 0
    limiters: dict[str, Limiter] = {}
    for part in TEXT.strip().split("\n\n"):
        about, question, text = part.split("\n")
        act, _, words = question.partition(" ")
        words, answer = json.loads(words), json.loads(text)
        asked += 1
        if act == "commit":
            check_attributes(held.commit(words["actual"]), answer)
            continue
        subject, limits, cost = words["subject"], words["limit"], words["cost"]
        limiter = limiters.setdefault(limits, Limiter(limits, clock=clock))
        if act == "charge":
            for found, fields in zip(limiter.charge(subject, cost), answer["limits"], strict=True):
                check_attributes(found, fields)
            continue
        if act in ("check", "peek"):
            decision = getattr(limiter, act)(subject, cost)
        else:
            ttl = [float(words["ttl"].replace("1m", "60"))] if "ttl" in words else []
            hold = getattr(limiter, act)(subject, cost, *ttl)
            decision, held = hold.decision, hold if act == "reserve" and hold.allowed else held
            assert (hold.allowed, hold.fence) == (answer["allowed"], answer["fence"]), about
            answer = {name: answer[name] for name in json.loads(decision.json())}
        assert decision.json() == json.dumps(answer, separators=(",", ":")), about
        check_attributes(decision, answer)
    assert asked > 10
