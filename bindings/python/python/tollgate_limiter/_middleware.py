"""The options that all middleware has, and their meaning for a request."""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._client import ClientAddress
from ._errors import ArgumentError, StoreError
from ._failures import required
from ._headers import PROFILES, marked
from ._tollgate import Limits, Request, unidentified

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import TypedDict

    from ._errors import Denied, Refusal
    from ._failures import OnFailure
    from ._headers import Lines, Marks, Profile
    from ._limiter import Limiter
    from ._tollgate import Decision

    Cost = int | dict[str, int]
    Subjects = list[str | tuple[str, str | Limits]]
    # Asks a limiter, and waits in the way of the middleware.
    Ask = Callable[[Limiter, Request[Any]], Awaitable[Any]]

R = TypeVar("R")
T = TypeVar("T")

if TYPE_CHECKING:

    class ViewOptions(TypedDict, Generic[R], total=False):
        """The options of a view with limits of its own."""

        cost: Cost | Callable[[R], Any]
        skip: Callable[[R], Any] | None
        on_denied: Callable[[R, Any, Refusal], Any] | None
        refund_when: Callable[[Any], Any] | None
        extra_cost: Callable[[Any], Any] | None
        on_decision: Callable[[R, Decision], Any] | None
        headers: Profile
        on_failure: OnFailure | None

    class Options(ViewOptions[R], total=False):
        """The options of every middleware: docs/python.md has the table."""

        limits: Callable[[R], Any] | None
        # With policies alone.
        fields: Callable[[R], Any] | None


_LOG = logging.getLogger("tollgate")


class Response:
    """A response that ASGI or WSGI begins, for `refund_when` and `extra_cost`."""

    __slots__ = ("headers", "status_code")

    def __init__(self, status_code: int, lines: Lines) -> None:
        from wsgiref.headers import Headers

        #: The status, as 200.
        self.status_code = status_code
        #: The headers; their names in any case.
        self.headers = Headers(lines)


class Ruling:
    """What a middleware does with a request."""

    __slots__ = ("decision", "lines", "marks", "refusal", "subjects")

    def __init__(
        self,
        decision: Decision | None = None,
        subjects: Subjects | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        #: The decision, also one that denies.
        self.decision = decision
        self.subjects = subjects or []
        #: The answer instead of the application's; None where the request passes.
        self.refusal = refusal
        #: The headers of policies.
        self.lines: Lines = []
        #: The decisions of decorated functions that the application calls.
        self.marks: Marks = []

    @property
    def admitted(self) -> Decision | None:
        """The decision that admitted the request; None where it was not limited."""
        return self.decision if self.refusal is None else None


class Guard(Generic[R]):
    """The options of a middleware, for requests of one kind."""

    __slots__ = (
        "_has_warned",
        "_is_view",
        "cost",
        "extra_cost",
        "failures",
        "headers",
        "key",
        "limiter",
        "limits",
        "on_decision",
        "on_denied",
        "refund_when",
        "skip",
    )

    def __init__(
        self,
        limiter: Limiter,
        key: ClientAddress | Callable[[R], Any],
        form: str,
        *,
        limits: Callable[[R], Any] | None = None,
        cost: Cost | Callable[[R], Any] = 1,
        skip: Callable[[R], Any] | None = None,
        on_denied: Callable[[R, Any, Refusal], Any] | None = None,
        refund_when: Callable[[Any], Any] | None = None,
        extra_cost: Callable[[Any], Any] | None = None,
        on_decision: Callable[[R, Decision], Any] | None = None,
        headers: Profile = "draft",
        on_failure: OnFailure | None = None,
    ) -> None:
        from ._limiter import Limiter

        if not isinstance(limiter, Limiter):
            raise TypeError(f"limiter must be Limiter, not {type(limiter).__name__}")
        if headers not in PROFILES:
            raise ArgumentError(f"headers is {headers!r:.60}: give one of {', '.join(PROFILES)}")
        if not callable(cost):
            # A cost that no request can have is an error now, not a 400 for each.
            Limiter(limiter.limits).peek("a", cost)
        self.limiter, self.headers, self.cost = limiter, headers, cost
        self.key = of_form(key, form)
        self.limits, self.skip, self.on_denied = limits, skip, on_denied
        self.refund_when, self.extra_cost = refund_when, extra_cost
        self.on_decision = on_decision
        for name in ("key", "limits", "skip", "on_denied", "refund_when", "extra_cost"):
            self._check_callable(name, name == "key")
        self._check_callable("on_decision", False)
        self.failures = required(limiter, on_failure)
        self._has_warned = self._is_view = False

    def _check_callable(self, name: str, is_needed: bool) -> None:
        given = getattr(self, name)
        if not callable(given) and (given is not None or is_needed):
            raise TypeError(f"{name} must be callable, not {type(given).__name__}")

    async def ask(self, request: R, ask: Ask) -> Ruling:
        """The ruling on a request."""
        if self.skip is not None and await value(self.skip(request)):
            return Ruling()
        try:
            subjects = await self.subjects(request)
        except NoClientError:
            return Ruling(refusal=self.limiter.unavailable())
        except ArgumentError as error:
            return self.unusable(error)
        if not subjects:
            return Ruling()
        cost = await value(self.cost(request)) if callable(self.cost) else self.cost
        turn = self.failures.turn
        try:
            decision = await self._decide(subjects, cost, ask)
        except StoreError as error:
            passes = self.failures.passes(error, turn)
            return Ruling() if passes else Ruling(refusal=self.limiter.unavailable())
        except ArgumentError as error:
            return self.unusable(error)
        self.failures.answered(turn)
        if self.on_decision is not None:
            await value(self.on_decision(request, decision))
        refusal = None if decision.allowed else self.limiter.refusal(decision, self.headers)
        return Ruling(decision, subjects, refusal)

    def unusable(self, error: ArgumentError) -> Ruling:
        """The ruling on a request of which nothing can be made. The client learns no reason."""
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("a request gets a 400, as others will without a line here: %s", error)
        return Ruling(refusal=unidentified())

    async def _decide(self, subjects: Subjects, cost: Cost, ask: Ask) -> Decision:
        if len(subjects) > 1 or not isinstance(subjects[0], str):
            request = Request.check_all(subjects, cost)
        elif self.limiter.in_memory:
            # The usual case in memory, where nobody waits.
            return self.limiter.check(subjects[0], cost)
        else:
            request = Request.check(subjects[0], cost)
        decision: Decision = await ask(self.limiter, request)
        return decision

    async def subjects(self, request: R) -> Subjects:
        """The subjects of a request, each with its limits if they are not the limiter's.

        Raises `NoClientError` where the request has no address.
        """
        given = self.key(request)
        if isinstance(given, str) and self.limits is None:
            return [given]
        subjects = await found(self.key, given, self.limiter.policy)
        if not subjects:
            # Nobody to find limits for.
            return []
        limits = self.limits and await value(self.limits(request))
        if not limits:
            return [] if self._is_view else subjects
        return under(subjects, parsed(limits, self.limiter.policy))

    async def settle(self, ruling: Ruling, response: Any, ask: Ask) -> None:
        """Gives the charge of an admitted request back, or charges more, by its response."""
        decision, turn = ruling.admitted, self.failures.turn
        if decision is None:
            return
        try:
            if self.refund_when is not None and await value(self.refund_when(response)):
                await ask(self.limiter, Request.refund(decision))
            more = self.extra_cost and await value(self.extra_cost(response))
            if more and (not isinstance(more, dict) or any(more.values())):
                for request in charges(ruling.subjects, more):
                    await ask(self.limiter, request)
        except StoreError as error:
            # The response is not lost for it.
            self.failures.passes(error, turn)

    def lines(self, ruling: Ruling) -> Lines:
        """The headers of the response to a request that passed."""
        decision = ruling.admitted
        lines = [] if decision is None else self.limiter.headers(decision, self.headers)
        return marked(lines, ruling.marks, self.headers) if ruling.marks else lines

    @property
    def settles(self) -> bool:
        """Whether a response changes what was charged."""
        return self.refund_when is not None or self.extra_cost is not None

    def of_view(
        self, limits: Any, policy: str | None, name: str, key: Any, **options: Any
    ) -> Guard[R]:
        """A guard of a view with limits of its own; for the rest as this one unless it differs."""
        own: dict[str, Any] = {
            "on_denied": self.on_denied,
            "on_decision": self.on_decision,
            "headers": self.headers,
            "on_failure": self.failures.rule,
            "limits": self.limits if limits is None else of_request(limits, policy, name),
            **options,
        }
        guard: Guard[R] = Guard(self.limiter, self.key if key is None else key, "", **own)
        guard._is_view = limits is not None
        if guard.failures.rule == self.failures.rule:
            # One loss of the store is one line of the log.
            guard.failures = self.failures
        return guard

    def of_denied(self, denied: Denied) -> Ruling:
        """The ruling of a decorated function that was not called."""
        return Ruling(denied.decision, refusal=denied.refusal(self.headers))

    def own(self, request: R, ruling: Ruling) -> Any:
        """The response of one's own to a denial; None where there is none."""
        if self.on_denied is None or ruling.refusal is None:
            return None
        if ruling.decision is None and ruling.refusal[0] not in (403, 422, 429):
            # Nothing denied it: no address, no answer of the store.
            return None
        return self.on_denied(request, ruling.decision, ruling.refusal)


async def value(given: Any) -> Any:
    """What an option returned, which may be async."""
    return await given if hasattr(given, "__await__") else given


class NoClientError(Exception):
    """A request without an address, which is limited by its address."""


def of_form(key: Any, form: str) -> Any:
    """The key for requests of a kind; `form` is the method of an address for them."""
    return getattr(key, form) if isinstance(key, ClientAddress) else key


async def found(key: object, given: Any, policy: str | None) -> Subjects:
    """The subjects that a key has made of a request. Limits as text count within the policy."""
    subjects = await value(given)
    if isinstance(subjects, str):
        return [subjects]
    if subjects is None:
        # Without a subject of one's own a request is not limited.
        if isinstance(getattr(key, "__self__", None), ClientAddress):
            raise NoClientError
        return []
    # A tuple may be meant as one subject with its limits.
    if not isinstance(subjects, list):
        raise ArgumentError(f"key returned {type(subjects).__name__}: {_KEYS}")
    return [subject_of(it, policy) for it in subjects if it is not None]


_KEYS = "give str, None, or a list of str and (str, limits)"


def subject_of(entry: Any, policy: str | None) -> str | tuple[str, Limits]:
    """An entry of a list of subjects."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[0], str):
        raise ArgumentError(f"key returned a list with {entry!r:.60}: {_KEYS}")
    return (entry[0], parsed(entry[1], policy))


def under(subjects: Subjects, limits: Limits) -> Subjects:
    """The subjects, under these limits where they have none."""
    return [(it, limits) if isinstance(it, str) else it for it in subjects]


def charges(subjects: Subjects, cost: Cost) -> list[Request[Any]]:
    """The charges of a cost that became known afterwards."""
    own = [it for it in subjects if not isinstance(it, str)]
    plain = [Request.charge(it, cost) for it in subjects if isinstance(it, str)]
    # Limits that are not the limiter's owe nothing: what is left of them is charged.
    return [*plain, Request.check_all(own, cost, True)] if own else plain


@functools.lru_cache(maxsize=1024)
def named(limits: str | Limits, policy: str | None, name: str) -> Limits:
    """The limits of a view: they count by themselves, within a policy or under the view's name."""
    if not isinstance(limits, str):
        return limits
    return Limits(limits, policy or re.sub(r"[^A-Za-z0-9_.-]", "-", name)[-64:])


def of_request(limits: Any, policy: str | None, name: str) -> Callable[[Any], Any]:
    """A function that returns the limits of a view for a request; None: it is not limited."""
    if not callable(limits):
        # Here, and not in a request, a wrong text is an error.
        own = named(limits, policy, name)
        return lambda _request: own

    async def limits_of(request: Any) -> Limits | None:
        own = await value(limits(request))
        return named(own, policy, name) if own else None

    return limits_of


@functools.lru_cache(maxsize=1024)
def parsed(limits: str | Limits, policy: str | None) -> Limits:
    """Limits of one request, which as text count within the limiter's policy."""
    return Limits(limits, policy) if isinstance(limits, str) else limits


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, as of options that are not async."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise TypeError("an option is async, and this middleware is not: give plain functions")


async def ask_now(limiter: Limiter, request: Request[T]) -> T:
    """Asks in this thread."""
    return limiter.run(request)


async def ask_later(limiter: Limiter, request: Request[T]) -> T:
    """Asks, and lets the event loop run."""
    return await limiter._ask(request)
