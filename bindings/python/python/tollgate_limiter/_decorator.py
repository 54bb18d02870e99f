"""The decorator `Limiter.limit`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import Denied

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._tollgate import Decision

    _Cost = int | dict[str, int]


class Checks(Protocol):
    """What is asked before each call: a limiter."""

    def check(self, subject: str, cost: _Cost = ...) -> Decision: ...

    async def acheck(self, subject: str, cost: _Cost = ...) -> Decision: ...


def limited(
    limiter: Checks,
    key: str | Callable[..., str],
    cost: _Cost | Callable[..., _Cost],
    on_denied: Callable[[Decision], Any] | None,
) -> Callable[[Any], Any]:
    """A decorator that checks before each call."""
    if not (isinstance(key, str) or callable(key)):
        raise TypeError(f"key must be str or callable, not {type(key).__name__}")
    if not callable(cost) and (isinstance(cost, bool) or not isinstance(cost, int | dict)):
        raise TypeError(f"cost must be int, dict or callable, not {type(cost).__name__}")

    def question(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, _Cost]:
        subject = key if isinstance(key, str) else key(*args, **kwargs)
        return subject, cost(*args, **kwargs) if callable(cost) else cost

    def denied(decision: Decision) -> Any:
        if on_denied is None:
            raise Denied(decision)
        return on_denied(decision)

    def decorate(function: Any) -> Any:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("a generator runs when it is read: limit the function that reads it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                decision = await limiter.acheck(*question(args, kwargs))
                if decision.allowed:
                    return await function(*args, **kwargs)
                result = denied(decision)
                return await result if inspect.isawaitable(result) else result

            return call_async

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            decision = limiter.check(*question(args, kwargs))
            return function(*args, **kwargs) if decision.allowed else denied(decision)

        return call

    return decorate
