"""Waiting until a check is admitted, in the order of arrival."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ._errors import ArgumentError
from ._tollgate import Pace, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from ._limiter import Limiter
    from ._tollgate import Decision, ManualClock, _Cost


def check_seconds(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be float, not {type(value).__name__}")
    if not value >= 0:
        raise ArgumentError(f"{name} is {value}: give seconds of 0 or more")
    return value


def _timeout(value: float | None) -> float:
    return math.inf if value is None else check_seconds(value, "timeout")


class Line:
    """The waiters for one subject of a limiter: threads, and tasks of any event loop.

    Only the first asks the store, and not before the time that the last admission shows.
    """

    __slots__ = ("_clock", "_cost", "_guard", "_next", "_pace", "_waiters", "until")

    def __init__(self, clock: ManualClock | None) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        # For each waiter the function that tells it its turn.
        self._waiters: deque[Callable[[], object]] = deque()
        self._pace = Pace()
        # No check of this cost is admitted before this time.
        self._cost: _Cost | None = None
        self._next = 0.0
        #: No turn begins before this time.
        self.until = 0.0

    def now(self) -> float:
        """The time in seconds, by a clock that does not go back."""
        return time.monotonic() if self._clock is None else self._clock.at_us / 1e6

    def moved(self, pause: float) -> bool:
        """Whether the clock is a test's, which is moved in place of a pause."""
        if self._clock is None:
            return False
        if pause > 0:
            self._clock.advance(pause)
        return True

    def _enter(self, wake: Callable[[], object]) -> bool:
        """Takes the last place. True where it is the first, too."""
        with self._guard:
            self._waiters.append(wake)
            return len(self._waiters) == 1

    def _leave(self, wake: Callable[[], object]) -> None:
        with self._guard:
            was_first = self._waiters[0] is wake
            self._waiters.remove(wake)
            while was_first and self._waiters:
                try:
                    self._waiters[0]()
                    return
                except RuntimeError:
                    # Its loop has ended, and it with that.
                    self._waiters.popleft()

    @contextmanager
    def place(self, timeout: float) -> Iterator[bool]:
        """A thread's place. True when its turn has come, False when the time is over."""
        turn = threading.Lock()
        turn.acquire()
        wake = turn.release
        is_first = self._enter(wake)
        try:
            yield is_first or turn.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))
        finally:
            self._leave(wake)

    @asynccontextmanager
    async def aplace(self, timeout: float) -> AsyncIterator[bool]:
        """A task's place."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        def wake() -> None:
            loop.call_soon_threadsafe(begin)

        is_first = self._enter(wake)
        try:
            if not is_first:
                await asyncio.wait([turn], timeout=None if math.isinf(timeout) else timeout)
            yield is_first or turn.done()
        finally:
            self._leave(wake)

    def back_off(self) -> Iterator[float]:
        """Pauses until turns may begin. A response may ask for them while the first one sleeps."""
        while (pause := self.until - self.now()) > 0:
            yield pause

    def turn(self, cost: _Cost, end: float) -> Generator[float, Decision, Decision]:
        """The first waiter's part: sleeps as long as it yields, then asks and sends the decision.

        It returns the last one. A wait beyond the end is not waited for.
        """
        pause = self._next - self.now() if cost == self._cost else 0.0
        # Where that is too long, the denial has the wait.
        pause = pause if pause <= end - self.now() else 0.0
        while True:
            decision = yield max(pause, 0.0)
            wait = decision.retry_after
            if decision.allowed:
                self._cost, self._next = cost, self.now() + self._pace.admitted(decision)
            if wait is None or wait > end - self.now():
                return decision
            pause = wait


class Lines:
    """The lines of a limiter, by subject. A forked child has its own."""

    __slots__ = ("_clock", "_guard", "_lines", "_pid")

    def __init__(self, clock: ManualClock | None) -> None:
        self._clock = clock
        self._fresh()

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._lines: dict[str, tuple[Line, int]] = {}

    @contextmanager
    def line(self, subject: str) -> Iterator[Line]:
        """The line of a subject, which is forgotten when nobody is in it."""
        if self._pid != os.getpid():
            self._fresh()
        with self._guard:
            line, users = self._lines.get(subject) or (Line(self._clock), 0)
            self._lines[subject] = (line, users + 1)
        try:
            yield line
        finally:
            with self._guard:
                line, users = self._lines[subject]
                self._lines[subject] = (line, users - 1)
                self._forget(subject)

    def _forget(self, subject: str) -> None:
        line, users = self._lines[subject]
        if users == 0 and line.until <= line.now():
            del self._lines[subject]

    def back_off(self, subject: str, seconds: float) -> None:
        """`Limiter.back_off`."""
        with self.line(subject) as line:
            line.until = max(line.until, line.now() + seconds)
        with self._guard:
            for other in tuple(self._lines):
                self._forget(other)


_MAKING = threading.Lock()


def _lines_of(limiter: Limiter) -> Lines:
    with _MAKING:
        try:
            return limiter._lines
        except AttributeError:
            limiter._lines = Lines(limiter.clock)
            return limiter._lines


def back_off(limiter: Limiter, subject: str, seconds: float) -> None:
    """`Limiter.back_off`."""
    # It refuses other types.
    Request.check(subject)
    _lines_of(limiter).back_off(subject, check_seconds(seconds, "seconds"))


def until_ready(
    limiter: Limiter, subject: str, timeout: float | None, cost: _Cost
) -> Decision | None:
    """`Limiter.until_ready`."""
    timeout = _timeout(timeout)
    with _lines_of(limiter).line(subject) as line:
        end = line.now() + timeout
        with line.place(timeout) as is_ready:
            if not is_ready:
                return None
            turn = line.turn(cost, end)
            pause = next(turn)
            while True:
                if not line.moved(pause):
                    time.sleep(pause)
                for pause in line.back_off():
                    if pause > end - line.now():
                        return None
                    if not line.moved(pause):
                        time.sleep(pause)
                try:
                    pause = turn.send(limiter.check_all([subject], cost, waiting="again"))
                except StopIteration as over:
                    decision: Decision = over.value
                    return decision


async def auntil_ready(
    limiter: Limiter, subject: str, timeout: float | None, cost: _Cost
) -> Decision | None:
    """`Limiter.auntil_ready`."""
    timeout = _timeout(timeout)
    with _lines_of(limiter).line(subject) as line:
        end = line.now() + timeout
        async with line.aplace(timeout) as is_ready:
            if not is_ready:
                return None
            turn = line.turn(cost, end)
            pause = next(turn)
            while True:
                await asyncio.sleep(0 if line.moved(pause) else pause)
                for pause in line.back_off():
                    if pause > end - line.now():
                        return None
                    await asyncio.sleep(0 if line.moved(pause) else pause)
                try:
                    pause = turn.send(await limiter.acheck_all([subject], cost, waiting="again"))
                except StopIteration as over:
                    decision: Decision = over.value
                    return decision
