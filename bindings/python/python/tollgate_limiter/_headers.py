"""The headers of several decisions on one response, each once and in declared order."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._limiter import Limiter
    from ._tollgate import Decision

    Lines = list[tuple[str, str]]
    Marks = list[tuple[Limiter, Decision]]

Profile = Literal["draft", "legacy", "both", "none"]

PROFILES = ("draft", "legacy", "both", "none")

#: Decisions of functions below a middleware, which writes their headers. None without one.
MARKS: ContextVar[Marks | None] = ContextVar("tollgate_marks", default=None)

_LISTS = frozenset(("ratelimit-policy", "ratelimit"))
_REMAINING = "x-ratelimit-remaining"
_NUMBERS = frozenset(("x-ratelimit-limit", _REMAINING, "x-ratelimit-reset"))

#: The headers that are merged with those of a response.
MERGED = _LISTS | _NUMBERS


def merged(outer: Lines, inner: Lines) -> Lines:
    """One line of each list, the outer's values first; the numbers of the limit with least left."""
    if not inner:
        return outer
    lines = dict(outer)
    numbers: dict[str, str] = {}
    for name, value in inner:
        name = name.lower()
        if name in _NUMBERS:
            numbers[name] = value
        elif name in _LISTS and name in lines:
            lines[name] += f", {value}"
        else:
            lines[name] = value
    if _REMAINING not in lines or _left(numbers) <= _left(lines):
        lines.update(numbers)
    return list(lines.items())


def _left(lines: dict[str, str]) -> float:
    text = lines.get(_REMAINING, "")
    # Another program may have written anything.
    return int(text) if text.isdecimal() and len(text) < 20 else float("inf")


def marked(lines: Lines, marks: Marks, profile: Profile) -> Lines:
    """The lines of a middleware, with those of the decisions below it."""
    for limiter, decision in marks:
        lines = merged(lines, limiter.headers(decision, profile))
    return lines


def put(headers: Any, lines: Lines) -> None:
    """Writes lines into the headers of a response object, merged with those that it has."""
    inner = [(name, headers[name]) for name in MERGED if name in headers]
    for name, value in merged(lines, inner):
        headers[name] = value


def missing(lines: Lines, present: Iterable[str]) -> Lines:
    """The lines of a refusal that a response of one's own does not set."""
    names = {name.lower() for name in present} | {"content-type", "content-length"}
    return [(name, value) for name, value in lines if name not in names]


def headers_of(response: Any) -> Any:
    """The headers of a response of Starlette, Django or Flask; None for another object."""
    headers = getattr(response, "headers", None)
    return headers if hasattr(response, "status_code") and hasattr(headers, "setdefault") else None
