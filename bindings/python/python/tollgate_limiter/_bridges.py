"""One bridge for each running loop of asyncio: over it, answers of a store reach the loop."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from ._tollgate import Bridge

_BRIDGES: WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = WeakKeyDictionary()


def bridge() -> tuple[asyncio.AbstractEventLoop, Bridge]:
    """The running loop and its bridge, which is made when the loop first waits for a store."""
    loop = asyncio.get_running_loop()
    found = _BRIDGES.get(loop)
    # A forked child must not read the bytes that are its parent's.
    if found is None or not found.is_ours():
        for other in [loop for loop in _BRIDGES if loop.is_closed()]:
            # Else a question that was open would keep it, and its connections.
            del _BRIDGES[other]
        found = Bridge()
        loop.add_reader(found.fileno(), found.drain)
        _BRIDGES[loop] = found
    return loop, found
