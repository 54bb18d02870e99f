"""What happens while the store cannot answer."""

from __future__ import annotations

import logging
import os
from threading import Lock
from typing import TYPE_CHECKING, Literal

from ._errors import ArgumentError

if TYPE_CHECKING:
    from ._errors import StoreError
    from ._limiter import Limiter

OnFailure = Literal["allow", "deny"]

_LOG = logging.getLogger("tollgate")


class Failures:
    """The rule while the store cannot answer. It logs the loss of the store and its return.

    Who asks passes on the `turn` from before: an answer to an older question, as another thread may
    have it, is neither a loss nor a return.
    """

    __slots__ = ("_lock", "_pid", "lost", "rule", "turn")

    def __init__(self, rule: OnFailure | None) -> None:
        if rule not in ("allow", "deny", None):
            raise ArgumentError(f"on_failure is {rule!r:.60}: give 'allow' or 'deny'")
        self.rule = rule
        self._lock, self._pid = Lock(), os.getpid()
        #: How many questions had no answer since the store was lost.
        self.lost = 0
        #: How often it was lost or came back.
        self.turn = 0

    def _guard(self) -> Lock:
        if self._pid != os.getpid():
            # A thread of the parent may have held it at the fork.
            self._lock, self._pid = Lock(), os.getpid()
        return self._lock

    def passes(self, error: StoreError, turn: int) -> bool:
        """Whether what was asked for may go on without an answer."""
        with self._guard():
            is_loss = self.lost == 0 and turn == self.turn
            self.turn += is_loss
            self.lost += is_loss or self.lost > 0
        if is_loss:
            what = "pass" if self.rule == "allow" else "are refused"
            _LOG.warning("no decision: %s. Requests %s until the store answers", error, what)
        return self.rule == "allow"

    def answered(self, turn: int) -> None:
        """The store has answered."""
        if self.lost == 0 or turn != self.turn:
            return
        with self._guard():
            lost = self.lost if turn == self.turn else 0
            if lost:
                self.turn += 1
                self.lost = 0
        if lost:
            _LOG.warning("the store answers again: %d requests had no decision", lost)


def required(limiter: Limiter, rule: OnFailure | None) -> Failures:
    """The rule of a middleware, which has to be given unless the limiter counts in memory."""
    failures = Failures(rule)
    if rule is None and not limiter.in_memory:
        raise ArgumentError(
            "on_failure is missing: say whether requests pass ('allow') or get a 503 ('deny') "
            "while the store cannot answer"
        )
    return failures
