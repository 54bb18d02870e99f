"""What happens while the store cannot answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from ._errors import ArgumentError

if TYPE_CHECKING:
    from ._errors import StoreError
    from ._limiter import Limiter

OnFailure = Literal["allow", "deny"]

_LOG = logging.getLogger("tollgate")


class Failures:
    """The rule while the store cannot answer. It logs the loss of the store and its return."""

    __slots__ = ("lost", "rule")

    def __init__(self, rule: OnFailure | None) -> None:
        if rule not in ("allow", "deny", None):
            raise ArgumentError(f"on_failure is {rule!r:.60}: give 'allow' or 'deny'")
        self.rule = rule
        #: How many questions had no answer since the store was lost.
        self.lost = 0

    def passes(self, error: StoreError) -> bool:
        """Whether what was asked for may go on without an answer."""
        if self.lost == 0:
            what = "pass" if self.rule == "allow" else "are refused"
            _LOG.warning("no decision: %s. Requests %s until the store answers", error, what)
        self.lost += 1
        return self.rule == "allow"

    def over(self) -> None:
        """The store answers again."""
        _LOG.warning("the store answers again: %d requests had no decision", self.lost)
        self.lost = 0


def required(limiter: Limiter, rule: OnFailure | None) -> Failures:
    """The rule of a middleware, which has to be given unless the limiter counts in memory."""
    failures = Failures(rule)
    if rule is None and not limiter.in_memory:
        raise ArgumentError(
            "on_failure is missing: say whether requests pass ('allow') or get a 503 ('deny') "
            "while the store cannot answer"
        )
    return failures
