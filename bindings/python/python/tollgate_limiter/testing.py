"""For tests of programs: a clock that a test moves, for all limiters that are made meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._limiter import FROZEN
from ._tollgate import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ManualClock", "frozen"]


@contextmanager
def frozen(at_us: int = 1_700_000_000_000_000) -> Iterator[ManualClock]:
    """A clock that only moves by `advance` and `set`, for the limiters that are made inside.

    A limiter with a `clock` of its own keeps it. It holds for all threads, and may be nested.
    """
    clock = ManualClock(at_us)
    FROZEN.append(clock)
    try:
        yield clock
    finally:
        FROZEN.remove(clock)
