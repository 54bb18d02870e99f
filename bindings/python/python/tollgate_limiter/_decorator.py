"""The decorator `Limiter.limit`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ._errors import Denied, StoreError
from ._failures import Failures
from ._headers import MARKS, headers_of, missing, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._failures import OnFailure
    from ._headers import Profile
    from ._limiter import Limiter
    from ._tollgate import Decision

    _Cost = int | dict[str, int]


def limited(
    limiter: Limiter,
    key: str | Callable[..., str],
    cost: _Cost | Callable[..., _Cost],
    on_denied: Callable[[Decision], Any] | None,
    on_failure: OnFailure | None,
    headers: Profile,
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

    def is_marked(decision: Decision) -> bool:
        """Whether a middleware around the call writes the decision's headers."""
        marks = MARKS.get()
        if marks is not None:
            marks.append((limiter, decision))
        return marks is not None

    def with_headers(decision: Decision, result: Any, kwargs: dict[str, Any]) -> Any:
        """The result; if it is a response, with the decision's headers."""
        own = headers_of(result)
        # FastAPI adds the headers of a parameter `response` to those of the result.
        own = headers_of(kwargs.get("response")) if own is None else own
        if own is not None:
            put(own, limiter.headers(decision, headers))
        return result

    def refused(decision: Decision, result: Any) -> Any:
        """The result of `on_denied`; if it is a response, with the headers that it does not set."""
        own, refusal = headers_of(result), limiter.refusal(decision, headers)
        if own is None or refusal is None:
            is_marked(decision)
            return result
        for name, value in missing(refusal[1], own.keys()):
            own[name] = value
        return result

    def answered(decision: Decision, turn: int) -> bool:
        failures.answered(turn)
        return decision.allowed

    def lost(error: StoreError, turn: int) -> None:
        """Returns where the call goes on without a decision."""
        if on_failure is None:
            raise error
        if not failures.passes(error, turn):
            raise Denied(None, limiter) from error

    def decorate(function: Any) -> Any:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("a generator runs when it is read: limit the function that reads it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                turn = failures.turn
                try:
                    decision = await limiter.acheck(*question(args, kwargs))
                except StoreError as error:
                    lost(error, turn)
                    return await function(*args, **kwargs)
                if not answered(decision, turn):
                    result = denied(decision)
                    return refused(
                        decision, await result if inspect.isawaitable(result) else result
                    )
                if is_marked(decision):
                    return await function(*args, **kwargs)
                return with_headers(decision, await function(*args, **kwargs), kwargs)

            return call_async

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            turn = failures.turn
            try:
                decision = limiter.check(*question(args, kwargs))
            except StoreError as error:
                lost(error, turn)
                return function(*args, **kwargs)
            if not answered(decision, turn):
                return refused(decision, denied(decision))
            if is_marked(decision):
                return function(*args, **kwargs)
            return with_headers(decision, function(*args, **kwargs), kwargs)

        return call

    return decorate
