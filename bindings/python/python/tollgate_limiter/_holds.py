"""Holds as context managers: slots, and units that are set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._tollgate import Decision, Holding, Request

if TYPE_CHECKING:
    from types import TracebackType

    from ._limiter import Limiter
    from ._tollgate import Settled

    _Cost = int | dict[str, int]


class _Hold:
    """A hold, or the decision that denied it."""

    __slots__ = ("_holding", "_is_settled", "_limiter")

    def __init__(self, limiter: Limiter, holding: Holding) -> None:
        self._limiter = limiter
        self._holding = holding
        self._is_settled = not holding.allowed

    @property
    def allowed(self) -> bool:
        """Whether it was admitted. Otherwise nothing is held."""
        return self._holding.allowed

    def __bool__(self) -> bool:
        return self._holding.allowed

    @property
    def decision(self) -> Decision:
        """The decision, with its numbers. Not of a hold that was made of its `token`."""
        decision = self._holding.decision
        if decision is None:
            raise AttributeError("the token of a hold has no decision")
        return decision

    @property
    def token(self) -> str | None:
        """The hold as text, for `Limiter.slot` or `.reservation`; None on a denial.

        Who has it can settle the hold.
        """
        return self._holding.token

    @property
    def fence(self) -> int | None:
        """A number that rises with each hold of a count, to fence writes; None on a denial."""
        return self._holding.fence

    @property
    def end_us(self) -> int | None:
        """When it was first to end by itself, in microseconds since 1970 by the store's clock."""
        return self._holding.end_us

    def renew(self, ttl: float | None = None) -> bool:
        """Lets it last `ttl` seconds from now. False when it is not open any more."""
        return self._limiter.run(Request.renew(self._holding, ttl))

    async def arenew(self, ttl: float | None = None) -> bool:
        """`renew` for asyncio."""
        return await self._limiter._ask(Request.renew(self._holding, ttl))


class Slot(_Hold):
    """Slots that `Limiter.acquire` took, or its denial."""

    __slots__ = ()

    def release(self) -> bool:
        """Gives the slots back. True when they were held until now."""
        if self._is_settled:
            return False
        released = self._limiter.run(Request.release(self._holding))
        self._is_settled = True
        return released

    async def arelease(self) -> bool:
        """`release` for asyncio."""
        if self._is_settled:
            return False
        released = await self._limiter._ask(Request.release(self._holding))
        self._is_settled = True
        return released

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    async def __aenter__(self) -> Slot:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.arelease()


class Reservation(_Hold):
    """Units that `Limiter.reserve` set aside, or its denial."""

    __slots__ = ("_used",)

    def __init__(self, limiter: Limiter, holding: Holding) -> None:
        super().__init__(limiter, holding)
        self._used: dict[str, int] = {}

    def use(self, units: _Cost) -> None:
        """Adds what was used: requests, or an amount of each unit. The end of `with` charges the
        sums."""
        for unit, amount in units.items() if isinstance(units, dict) else [("requests", units)]:
            if isinstance(amount, bool) or not isinstance(amount, int):
                raise TypeError(f"units must be int or dict, not {type(amount).__name__}")
            if amount < 0:
                from ._errors import ArgumentError

                raise ArgumentError(f"units is {amount}: give a whole number of 0 or more")
            self._used[unit] = self._used.get(unit, 0) + amount

    def commit(self, actual: _Cost) -> Settled:
        """Charges what was used, and gives the rest back. A second commit charges nothing."""
        settled = self._limiter.run(Request.commit(self._holding, actual))
        self._is_settled = True
        return settled

    async def acommit(self, actual: _Cost) -> Settled:
        """`commit` for asyncio."""
        settled = await self._limiter._ask(Request.commit(self._holding, actual))
        self._is_settled = True
        return settled

    def cancel(self) -> Settled:
        """Gives all of it back."""
        return self.commit(0)

    async def acancel(self) -> Settled:
        """`cancel` for asyncio."""
        return await self.acommit(0)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_settled:
            self.commit(self._used or 0)

    async def __aenter__(self) -> Reservation:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_settled:
            await self.acommit(self._used or 0)
