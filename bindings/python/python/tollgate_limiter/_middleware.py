"""What the ASGI and the WSGI middleware have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._client import ClientAddress
from ._errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._limiter import Limiter

Profile = Literal["draft", "legacy", "both", "none"]

PROFILES = ("draft", "legacy", "both", "none")


def check_options(limiter: Limiter, headers: str) -> None:
    """Refuses options that would only fail in a request."""
    from ._limiter import Limiter

    if not isinstance(limiter, Limiter):
        raise TypeError(f"limiter must be Limiter, not {type(limiter).__name__}")
    if headers not in PROFILES:
        raise ArgumentError(f"headers is {headers!r:.60}: give one of {', '.join(PROFILES)}")


def is_required(key: Callable[..., object]) -> bool:
    """Whether a request without a subject is refused: of an address, not of your own key."""
    return isinstance(getattr(key, "__self__", None), ClientAddress)
