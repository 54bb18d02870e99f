"""The decorator `Limiter.limit`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ._errors import Denied, StoreError
from ._failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._failures import OnFailure
    from ._limiter import Limiter
    from ._tollgate import Decision

    _Cost = int | dict[str, int]


def limited(
    limiter: Limiter,
    key: str | Callable[..., str],
    cost: _Cost | Callable[..., _Cost],
    on_denied: Callable[[Decision], Any] | None,
    on_failure: OnFailure | None,
) -> Callable[[Any], Any]:
    """A decorator that checks before each call."""
    if not (isinstance(key, str) or callable(key)):
        raise TypeError(f"key must be str or callable, not {type(key).__name__}")
    if not callable(cost) and (isinstance(cost, bool) or not isinstance(cost, int | dict)):
        raise TypeError(f"cost must be int, dict or callable, not {type(cost).__name__}")

    failures = Failures(on_failure)

    def question(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, _Cost]:
        subject = key if isinstance(key, str) else key(*args, **kwargs)
        return subject, cost(*args, **kwargs) if callable(cost) else cost

    def denied(decision: Decision) -> Any:
        if on_denied is None:
            raise Denied(decision, limiter)
        return on_denied(decision)

    def answered(decision: Decision) -> bool:
        if failures.lost:
            failures.over()
        return decision.allowed

    def lost(error: StoreError) -> None:
        """Returns where the call goes on without a decision."""
        if on_failure is None:
            raise error
        if not failures.passes(error):
            raise Denied(None, limiter) from error

    def decorate(function: Any) -> Any:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("a generator runs when it is read: limit the function that reads it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                decision: Decision | None = None
                try:
                    decision = await limiter.acheck(*question(args, kwargs))
                except StoreError as error:
                    lost(error)
                if decision is None or answered(decision):
                    return await function(*args, **kwargs)
                result = denied(decision)
                return await result if inspect.isawaitable(result) else result

            return call_async

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            decision: Decision | None = None
            try:
                decision = limiter.check(*question(args, kwargs))
            except StoreError as error:
                lost(error)
            if decision is None or answered(decision):
                return function(*args, **kwargs)
            return denied(decision)

        return call

    return decorate
