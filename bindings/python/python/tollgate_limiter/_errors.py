"""The exceptions. A denial of a check is not an error: it is a `Decision`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._headers import Profile
    from ._limiter import Limiter
    from ._tollgate import Decision

    Refusal = tuple[int, list[tuple[str, str]], bytes]


class TollgateError(Exception):
    """The base of all exceptions of this package, but for `TypeError` on wrong types."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class LimitError(TollgateError, ValueError):
    """A text that is not a limit. The message says where, and what would be right."""


class ArgumentError(TollgateError, ValueError):
    """An argument with a value that is out of range. The message names it."""


class HoldError(TollgateError):
    """A hold that is not open: it has ended by itself, was reset, or never was.

    Also an `id` that another hold had, and one hold more than a count can have.
    """


class StoreError(TollgateError):
    """The store could not answer.

    `transient` is True when the same call may succeed later. `ambiguous` is True when the check may
    have been charged nevertheless, as after a lost connection.
    """

    transient: bool
    ambiguous: bool

    def __init__(self, message: str, transient: bool = False, ambiguous: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        self.ambiguous = ambiguous

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, bool, bool]]:
        return (type(self), (str(self), self.transient, self.ambiguous))


class Denied(TollgateError):
    """What `Limiter.limit` raises instead of calling the function.

    `decision` says why. It is None where the store could not answer and `on_failure="deny"`.
    """

    decision: Decision | None

    def __init__(self, decision: Decision | None, limiter: Limiter) -> None:
        super().__init__("the store could not answer" if decision is None else str(decision))
        self.decision = decision
        self._limiter = limiter

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the store: the response needs the limits alone, and a URL may have a password.
        return (_denied, (self.decision, self._limiter.limits, self._limiter.policy))

    def refusal(self, headers: Profile = "draft") -> Refusal:
        """The status, headers and body of a response: 429, 422 or 503."""
        # A decision that denies is false, too.
        if self.decision is None:
            return self._limiter.unavailable()
        return self._limiter.refusal(self.decision, headers) or self._limiter.unavailable()


def _denied(decision: Decision | None, limits: str, policy: str | None) -> Denied:
    """A denial of another process."""
    from ._limiter import Limiter

    return Denied(decision, Limiter(limits, policy=policy))
