"""The limiter: the native one, with async calls, holds as context managers, and a decorator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ._holds import Reservation, Slot
from ._tollgate import Decision, Holding, Limits, ManualClock, Request, restored_hold
from ._tollgate import Limiter as _Limiter

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Sequence
    from typing import Literal, TypeVar

    from typing_extensions import Self

    from ._headers import Profile
    from ._line import Lines
    from ._tollgate import Charged, Refund, Settled

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])
    # Requests, or an amount of each unit.
    _Cost = int | dict[str, int]
    Subjects = Sequence[str | tuple[str, str | Limits]]


#: The clocks of `testing.frozen`, the innermost last.
FROZEN: list[ManualClock] = []


class Limiter(_Limiter):
    """Limits and the store that counts them.

    `limits` is text, as `10/s, 240/h`, or `Limits`. `store` is `memory://`, `sqlite://PATH`,
    `redis://HOST`, `redis+cluster://HOST,HOST` or `redis+sentinel://HOST,HOST/NAME`, opened at
    the first call, and anew after a fork. `policy` is a name within which the limits count by
    themselves, and under which headers list them. `clock` is for tests.

    Each call has an async form whose name begins with `a`, as `acheck`. It never blocks the event
    loop. A limiter may be shared by threads, tasks and forked processes.
    """

    __slots__ = ("_lines",)

    # Made when it is first needed.
    _lines: Lines

    def __new__(
        cls,
        limits: str | Limits,
        store: str = "memory://",
        *,
        policy: str | None = None,
        clock: ManualClock | None = None,
    ) -> Self:
        clock = FROZEN[-1] if clock is None and FROZEN else clock
        return super().__new__(cls, limits, store, policy=policy, clock=clock)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same store; counts in memory stay here."""
        if self.clock is not None:
            raise TypeError("a limiter with a clock of a test cannot leave its process")
        return (type(self), (Limits(self.limits, self.policy), self.store))

    def __copy__(self) -> Limiter:
        return self

    def __deepcopy__(self, _memo: object) -> Limiter:
        return self

    async def acheck(self, subject: str, cost: _Cost = 1) -> Decision:
        """`check` for asyncio."""
        if self.in_memory:
            return self.check(subject, cost)
        return await self._ask(Request.check(subject, cost))

    def check_all(
        self,
        subjects: Subjects,
        cost: _Cost = 1,
        *,
        partial: bool = False,
        waiting: Literal["again"] | None = None,
    ) -> Decision:
        """Checks several subjects together: all limits admit, or nothing is charged.

        A subject is text, or a tuple of text and its own limits. With `partial`, as much of the
        cost is charged as remains. `waiting` says that you ask again where it is denied, so that
        no ban counts the denial.
        """
        return self.run(Request.check_all(subjects, cost, partial, waiting))

    async def acheck_all(
        self,
        subjects: Subjects,
        cost: _Cost = 1,
        *,
        partial: bool = False,
        waiting: Literal["again"] | None = None,
    ) -> Decision:
        """`check_all` for asyncio."""
        return await self._ask(Request.check_all(subjects, cost, partial, waiting))

    def until_ready(
        self, subject: str, timeout: float | None, *, cost: _Cost = 1
    ) -> Decision | None:
        """Waits until every limit admits, and charges: in the order of arrival of all threads and
        tasks that wait here for this subject. `timeout` is in seconds; None is for ever.

        A denial comes at once where its wait is longer than the time that is left, and None where
        that was over before its turn: nothing was asked. A check without a wait may come between.
        With a `clock`, the wait moves the clock.
        """
        from ._line import until_ready

        return until_ready(self, subject, timeout, cost)

    async def auntil_ready(
        self, subject: str, timeout: float | None, *, cost: _Cost = 1
    ) -> Decision | None:
        """`until_ready` for asyncio. A task that is cancelled meanwhile has charged nothing."""
        from ._line import auntil_ready

        return await auntil_ready(self, subject, timeout, cost)

    def back_off(self, subject: str, seconds: float) -> None:
        """No turn of `until_ready` begins for this subject before so many seconds are over.

        For a service that has limits of its own, and has asked to be left alone for so long.
        """
        from ._line import back_off

        back_off(self, subject, seconds)

    def peek(
        self,
        subject: str,
        cost: _Cost = 1,
        *,
        partial: bool = False,
        kind: Literal["check", "reserve", "acquire"] = "check",
    ) -> Decision:
        """What `check` would answer now, or with `kind` `reserve` or `acquire`. Nothing is charged.

        Of limits such as `20 at once`, a reserve takes one slot and an acquire its cost.
        """
        return self.run(Request.peek(subject, cost, partial, kind))

    async def apeek(
        self,
        subject: str,
        cost: _Cost = 1,
        *,
        partial: bool = False,
        kind: Literal["check", "reserve", "acquire"] = "check",
    ) -> Decision:
        """`peek` for asyncio."""
        return await self._ask(Request.peek(subject, cost, partial, kind))

    def charge(self, subject: str, cost: _Cost) -> list[Charged]:
        """Charges a cost that became known afterwards, also beyond the limits."""
        return self.run(Request.charge(subject, cost))

    async def acharge(self, subject: str, cost: _Cost) -> list[Charged]:
        """`charge` for asyncio."""
        return await self._ask(Request.charge(subject, cost))

    def refund(self, decision: Decision | str) -> Refund:
        """Gives back what a decision charged, once, and only what still counts of it.

        `decision` is the decision, or its `receipt`, which may have left the process.
        """
        return self.run(Request.refund(decision))

    async def arefund(self, decision: Decision | str) -> Refund:
        """`refund` for asyncio."""
        return await self._ask(Request.refund(decision))

    def reset(self, subject: str) -> bool:
        """Deletes the count of a subject. True when there was one."""
        return self.run(Request.reset(subject))

    async def areset(self, subject: str) -> bool:
        """`reset` for asyncio."""
        return await self._ask(Request.reset(subject))

    def reserve(
        self,
        subject: str,
        cost: _Cost,
        ttl: float,
        *,
        charge_at_end: bool = False,
        id: str | None = None,
    ) -> Reservation:
        """Sets a cost aside until it is known what was used, for at most `ttl` seconds.

        Use it by `with`: its end charges the sum of `use` in one step. `id` is your own for it:
        the same one is the same hold.
        """
        return Reservation(self, self.run(Request.reserve(subject, cost, ttl, charge_at_end, id)))

    async def areserve(
        self,
        subject: str,
        cost: _Cost,
        ttl: float,
        *,
        charge_at_end: bool = False,
        id: str | None = None,
    ) -> Reservation:
        """`reserve` for asyncio: `async with await limiter.areserve(...)`.

        A task that is cancelled meanwhile holds nothing.
        """
        request = Request.reserve(subject, cost, ttl, charge_at_end, id)
        return Reservation(self, await self._ask_hold(request))

    def acquire(
        self,
        subject: str,
        slots: int = 1,
        *,
        id: str | None = None,
        waiting: Literal["again", "in_line"] | None = None,
    ) -> Slot:
        """Takes slots of limits such as `20 at once`. Use it by `with`: its end gives them back.

        `id` is your own for it: the same one is the same hold. `waiting` says that you ask again
        where it is denied, so that no ban counts the denial; `"in_line"` also keeps a place in
        line for the `id`, until 10 s after the last question.
        """
        return Slot(self, self.run(Request.acquire(subject, slots, id, waiting)))

    async def aacquire(
        self,
        subject: str,
        slots: int = 1,
        *,
        id: str | None = None,
        waiting: Literal["again", "in_line"] | None = None,
    ) -> Slot:
        """`acquire` for asyncio: `async with await limiter.aacquire(...)`.

        A task that is cancelled meanwhile holds nothing.
        """
        return Slot(self, await self._ask_hold(Request.acquire(subject, slots, id, waiting)))

    def slot(self, token: str) -> Slot:
        """The open slots of a `token`, as of another process."""
        return Slot(self, restored_hold(token))

    def reservation(self, token: str) -> Reservation:
        """The open reservation of a `token`, as of another process."""
        return Reservation(self, restored_hold(token))

    def release(self, subject: str, id: str) -> bool:
        """Gives back the hold with this id. True when it was open until now.

        Where no hold has the id, one that comes later is refused.
        """
        return self.run(Request.release_named(subject, id))

    async def arelease(self, subject: str, id: str) -> bool:
        """`release` for asyncio."""
        return await self._ask(Request.release_named(subject, id))

    def commit(self, subject: str, id: str, actual: _Cost) -> Settled:
        """Charges what was used of the hold with this id, and gives the rest back."""
        return self.run(Request.commit_named(subject, id, actual))

    async def acommit(self, subject: str, id: str, actual: _Cost) -> Settled:
        """`commit` for asyncio."""
        return await self._ask(Request.commit_named(subject, id, actual))

    def renew(self, subject: str, id: str, ttl: float | None = None) -> bool:
        """Lets the hold with this id last `ttl` seconds from now. False when it is not open."""
        return self.run(Request.renew_named(subject, id, ttl))

    async def arenew(self, subject: str, id: str, ttl: float | None = None) -> bool:
        """`renew` for asyncio."""
        return await self._ask(Request.renew_named(subject, id, ttl))

    def limit(
        self,
        key: str | Callable[..., str],
        *,
        cost: _Cost | Callable[..., _Cost] = 1,
        on_denied: Callable[[Decision], Any] | None = None,
        on_failure: Literal["allow", "deny"] | None = None,
        headers: Profile = "draft",
    ) -> Callable[[F], F]:
        """A decorator that checks before each call, for functions and for `async` functions.

        `key` is a subject, or makes one of the call's arguments; so does `cost`. A denied call
        returns what `on_denied` returns, and without it raises `Denied`. While the store cannot
        answer, calls go on with `on_failure="allow"`, raise `Denied` with `"deny"`, and without it
        a `StoreError`.

        Below a middleware of this package the response gets the decision's headers. Without one a
        response that the function returns gets them, or its argument `response`, by `headers`.
        """
        from ._decorator import limited

        return limited(self, key, cost, on_denied, on_failure, headers)

    async def _ask(self, request: Request[T]) -> T:
        if self.in_memory:
            return self.run(request)
        from ._bridges import bridge

        loop, bridge_of_loop = bridge()
        future: Future[T] = loop.create_future()
        self.start(request, bridge_of_loop, future)
        return await future

    async def _ask_hold(self, request: Request[Holding]) -> Holding:
        """Asks for a hold, which is given back if nobody waits for it any more."""
        if self.in_memory:
            return self.run(request)
        from asyncio import shield

        from ._bridges import bridge

        loop, bridge_of_loop = bridge()
        future: Future[Holding] = loop.create_future()
        self.start(request, bridge_of_loop, future)
        try:
            # The answer comes all the same: nobody else knows the hold.
            return await shield(future)
        except BaseException:
            future.add_done_callback(self._give_back)
            raise

    def _give_back(self, asked: Future[Holding]) -> None:
        """Gives back a hold that nobody waits for. Where the store fails, it ends by itself."""
        if asked.cancelled() or asked.exception() is not None or not asked.result().allowed:
            return
        from ._bridges import bridge

        loop, bridge_of_loop = bridge()
        released: Future[bool] = loop.create_future()
        released.add_done_callback(lambda it: it.cancelled() or it.exception())
        self.start(Request.give_back(asked.result()), bridge_of_loop, released)
