"""Strings of the package `limits`, which Flask-Limiter and SlowAPI use."""

from __future__ import annotations

import re
from typing import Literal

from ._errors import LimitError
from ._tollgate import Limits

_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "month": 30 * 86_400,
    "year": 360 * 86_400,
}

_LIMIT = re.compile(rf"\s*(\d+)\s*(?:/|per)\s*(\d*)\s*({'|'.join(_SECONDS)})s?\s*", re.IGNORECASE)

_STRATEGIES = {
    "fixed-window": "anchor first-hit via fixed_window",
    "moving-window": "via sliding_log",
    "sliding-window-counter": "via sliding_window",
}

Strategy = Literal["fixed-window", "moving-window", "sliding-window-counter"]


def from_limits(
    text: str, strategy: Strategy = "fixed-window", *, policy: str | None = None
) -> Limits:
    """The limits of a string of `limits`, with its meaning there.

    A month has 30 days there and a year 360, and a fixed window begins with its first hit.
    `strategy` is the name there.
    """
    via = _STRATEGIES.get(strategy)
    if via is None:
        raise LimitError(f"strategy is {strategy!r:.60}: give one of {', '.join(_STRATEGIES)}")
    found = []
    for part in re.split("[,;|]", text):
        limit = _LIMIT.fullmatch(part)
        if limit is None:
            raise LimitError(f"{part.strip()!r:.60} is no limit of `limits`: write 10 per 2 hours")
        units, many, unit = limit.groups()
        seconds = int(many or 1) * _SECONDS[unit.lower()]
        found.append(f"{units}/{seconds}s {via}")
    return Limits(", ".join(found), policy)
