"""Exact rate limiting: several limits in one check, in memory, SQLite, Redis and Redis Cluster.

from tollgate_limiter import Limiter

limiter = Limiter("10/s, 240/h")
decision = limiter.check("user:42")
if not decision.allowed:
    print(f"wait {decision.retry_after} s")
"""

import os as _os

from . import _tollgate
from ._client import ClientAddress
from ._errors import ArgumentError, Denied, HoldError, LimitError, StoreError, TollgateError
from ._from_limits import from_limits
from ._holds import Reservation, Slot
from ._limiter import Limiter
from ._policies import Policies
from ._tollgate import (
    Charged,
    Decision,
    LimitReport,
    Limits,
    ManualClock,
    PolicyRuling,
    Refund,
    Settled,
    __version__,
)

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(
        before=_tollgate.before_fork,
        after_in_parent=_tollgate.after_fork_in_parent,
        after_in_child=_tollgate.after_fork_in_child,
    )

__all__ = [
    "ArgumentError",
    "Charged",
    "ClientAddress",
    "Decision",
    "Denied",
    "HoldError",
    "LimitError",
    "LimitReport",
    "Limiter",
    "Limits",
    "ManualClock",
    "Policies",
    "PolicyRuling",
    "Refund",
    "Reservation",
    "Settled",
    "Slot",
    "StoreError",
    "TollgateError",
    "__version__",
    "from_limits",
]
