"""The native part of the package. Use what `tollgate` exports."""

from asyncio import Future
from collections.abc import Sequence
from typing import Generic, Literal, TypeAlias, TypeVar, final

from typing_extensions import Self

_T = TypeVar("_T")

# Requests, or an amount of each unit.
_Cost: TypeAlias = int | dict[str, int]

__version__: str

class ClientAddress:
    """How the client of a request is found."""

    def __new__(
        cls,
        proxies: str | None = None,
        *,
        hops: int | None = None,
        header: str | None = None,
        ipv6_prefix: int = 64,
    ) -> ClientAddress: ...
    @property
    def headers(self) -> list[str]:
        """The names of the headers that `find` has to see, in small letters."""
    def find(
        self, peer: str | None, headers: list[tuple[bytes, bytes]]
    ) -> tuple[str | None, str | None]:
        """The subject of a request's client, and a warning that nobody was given before."""

def restored_decision(saved: object) -> Decision: ...
def restored_hold(token: str, decision: Decision | None = None) -> Holding: ...
def unidentified() -> tuple[int, list[tuple[str, str]], bytes]:
    """The response to a request whose key or cost is invalid."""

def wait_of(status: int, headers: list[tuple[bytes, bytes]]) -> float | None:
    """The seconds that a response of somebody else's limiter asks to wait."""

def before_fork() -> None: ...
def after_fork_in_parent() -> None: ...
def after_fork_in_child() -> None: ...
@final
class Limits:
    """Limits that were parsed, for checks over several subjects."""

    def __new__(cls, limits: str, policy: str | None = None) -> Limits: ...
    def __hash__(self) -> int: ...

@final
class LimitReport:
    """What one limit said in a decision."""

    @property
    def subject(self) -> str:
        """The subject, in its written form."""
    @property
    def policy(self) -> str | None:
        """The policy of the limit; None without one."""
    @property
    def identity(self) -> str:
        """The limit's identity: what its count is known by."""
    @property
    def limit(self) -> str:
        """The limit in its full form."""
    @property
    def capacity(self) -> int:
        """The units that a fresh subject can take."""
    @property
    def remaining(self) -> int:
        """The largest cost that it would admit now."""
    @property
    def unit(self) -> Literal["requests", "slots"]:
        """What `capacity` and `remaining` count."""
    @property
    def retry_after(self) -> float | None:
        """The seconds until it admits the cost: 0.0 for now, None for never."""
    @property
    def reset_after(self) -> float:
        """The seconds until it is fresh."""
    @property
    def admits(self) -> bool:
        """Whether this limit would admit the cost."""
    @property
    def carried(self) -> Literal["same", "over", "fresh"]:
        """What became of its count when its numbers had changed."""

@final
class Decision:
    """The result of a check. It is true when the cost was admitted."""

    def __bool__(self) -> bool: ...
    @property
    def allowed(self) -> bool:
        """Whether the cost was admitted."""
    @property
    def outcome(self) -> Literal["allowed", "denied", "never"]:
        """What came of it; `never` where waiting does not help."""
    @property
    def authority(self) -> Literal["store", "lease", "deny_cache"]:
        """What decided."""
    @property
    def limit(self) -> int:
        """The capacity of the binding limit, in units."""
    @property
    def remaining(self) -> int:
        """The largest cost that would be admitted now."""
    @property
    def unit(self) -> Literal["requests", "slots"]:
        """What `limit` and `remaining` count."""
    @property
    def granted(self) -> int:
        """The units that were admitted; 0 on a denial."""
    @property
    def retry_after(self) -> float | None:
        """The wait in seconds after a denial until the same check is admitted: None where it was
        admitted, and where it never will be."""
    @property
    def until_hold(self) -> bool:
        """Whether `retry_after` is an upper bound: settling open holds would shorten it."""
    @property
    def reset_after(self) -> float:
        """The seconds until the binding limit is fresh."""
    @property
    def binding(self) -> int:
        """The place in `limits` of the binding limit: on a denial, the one that denies for
        longest."""
    @property
    def limits(self) -> tuple[LimitReport, ...]:
        """The report of each limit, in the order of the subjects and their limits."""
    @property
    def at_us(self) -> int:
        """The store's time of the decision, in microseconds since 1970."""
    @property
    def receipt(self) -> str | None:
        """The receipt of the charge as text, for `Limiter.refund` in any process on the same store;
        None where nothing was charged."""
    def json(self) -> str:
        """The decision as JSON: every field, as the service answers them."""
    def __copy__(self) -> Decision: ...
    def __deepcopy__(self, _memo: object) -> Decision: ...

@final
class Charged:
    """What a charge without a check, or a commit, did to one limit."""

    @property
    def subject(self) -> str:
        """The subject, in its written form."""
    @property
    def policy(self) -> str | None:
        """The policy of the limit; None without one."""
    @property
    def identity(self) -> str:
        """The limit's identity: what its count is known by."""
    @property
    def limit(self) -> str:
        """The limit in its full form."""
    @property
    def fits(self) -> bool:
        """Whether a check would have admitted the cost."""
    @property
    def cut(self) -> int:
        """The units that were not charged, since the limit cannot owe them."""
    @property
    def remaining(self) -> int:
        """The largest cost that would be admitted now."""
    @property
    def retry_after(self) -> float | None:
        """The seconds until the same cost is admitted: 0.0 for now, None for never."""
    @property
    def reset_after(self) -> float:
        """The seconds until the limit is fresh."""

@final
class Refund:
    """What a refund gave back."""

    @property
    def already(self) -> bool:
        """Whether all of it had been refunded before."""
    @property
    def given(self) -> list[int]:
        """By how many units each limit's `remaining` rose."""
    @property
    def left(self) -> int:
        """The units of the charge that can still be refunded."""

@final
class Settled:
    """What settling a hold did."""

    @property
    def already(self) -> bool:
        """Whether it was settled before. Nothing was done now."""
    @property
    def actual(self) -> _Cost:
        """The units that were charged for it."""
    @property
    def limits(self) -> list[Charged]:
        """What was done to each limit."""

@final
class Holding:
    @property
    def decision(self) -> Decision | None: ...
    @property
    def token(self) -> str | None: ...
    @property
    def allowed(self) -> bool: ...
    @property
    def fence(self) -> int | None: ...
    @property
    def end_us(self) -> int | None: ...

@final
class ManualClock:
    """A clock that stands still until it is moved, for tests."""

    def __new__(cls, at_us: int = 0) -> ManualClock: ...
    def set(self, at_us: int) -> None:
        """Sets the time, in microseconds since 1970. It may go back."""
    def advance(self, seconds: float) -> None:
        """Moves the time forward by so many seconds."""
    @property
    def at_us(self) -> int:
        """The time, in microseconds since 1970."""

@final
class Request(Generic[_T]):
    @staticmethod
    def check(subject: str, cost: _Cost = 1, partial: bool = False) -> Request[Decision]: ...
    @staticmethod
    def check_all(
        subjects: Sequence[str | tuple[str, str | Limits]],
        cost: _Cost = 1,
        partial: bool = False,
        waiting: Literal["again"] | None = None,
    ) -> Request[Decision]: ...
    @staticmethod
    def peek(
        subject: str, cost: _Cost = 1, partial: bool = False, kind: str | None = None
    ) -> Request[Decision]: ...
    @staticmethod
    def charge(subject: str, cost: _Cost) -> Request[list[Charged]]: ...
    @staticmethod
    def reset(subject: str) -> Request[bool]: ...
    @staticmethod
    def refund(decision: Decision | str) -> Request[Refund]: ...
    @staticmethod
    def reserve(
        subject: str, cost: _Cost, ttl: float, charge_at_end: bool = False, id: str | None = None
    ) -> Request[Holding]: ...
    @staticmethod
    def acquire(
        subject: str,
        slots: int = 1,
        id: str | None = None,
        waiting: Literal["again", "in_line"] | None = None,
    ) -> Request[Holding]: ...
    @staticmethod
    def commit(holding: Holding, actual: _Cost) -> Request[Settled]: ...
    @staticmethod
    def release(holding: Holding) -> Request[bool]: ...
    @staticmethod
    def give_back(holding: Holding) -> Request[bool]: ...
    @staticmethod
    def renew(holding: Holding, ttl: float | None = None) -> Request[bool]: ...
    @staticmethod
    def commit_named(subject: str, id: str, actual: _Cost) -> Request[Settled]: ...
    @staticmethod
    def release_named(subject: str, id: str) -> Request[bool]: ...
    @staticmethod
    def renew_named(subject: str, id: str, ttl: float | None = None) -> Request[bool]: ...

@final
class Pace:
    """The time before which no check of the same cost can be admitted."""

    def __new__(cls) -> Pace: ...
    def admitted(self, decision: Decision) -> float:
        """Adds an admission. Returns the seconds until the next one at the earliest."""

_Head: TypeAlias = tuple[
    str,
    str,
    list[tuple[bytes, bytes]],
    str | None,
    str | None,
    str | None,
    dict[str, str],
]

class Policies:
    """The policies of a file and the store in which they count."""

    def __new__(
        cls,
        file: str,
        store: str,
        *,
        client: ClientAddress | None = None,
        headers: Literal["draft", "legacy", "both", "none"] = ...,
        api_key: tuple[str, str] | None = None,
    ) -> Policies: ...
    @property
    def in_memory(self) -> bool:
        """Whether they count in the memory of this process, which answers at once."""
    @property
    def field_names(self) -> list[str]:
        """The names of the fields `field.NAME` that the file reads."""
    def reload(self) -> None:
        """Reads the file again. Where it has problems, the policies stay as they are."""
    def run(self, head: _Head) -> PolicyRuling: ...
    def start(self, head: _Head, bridge: Bridge, future: Future[PolicyRuling]) -> None: ...

@final
class PolicyRuling:
    """The treatment of a request."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers for the response of a request that passes."""
    @property
    def refusal(self) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """The status, headers and body for a request that does not; None for one that passes."""
    @property
    def warnings(self) -> list[str]:
        """Warnings for the log."""

@final
class Bridge:
    def __new__(cls) -> Bridge: ...
    def is_ours(self) -> bool: ...
    def waits(self) -> tuple[int, int]: ...
    def fileno(self) -> int: ...
    def drain(self) -> None: ...
    def readable(self, number: int) -> None: ...
    def writable(self, number: int, fd: int) -> None: ...
    def turn(self) -> None: ...

class Limiter:
    def __new__(
        cls,
        limits: str | Limits,
        store: str = ...,
        *,
        policy: str | None = None,
        clock: ManualClock | None = None,
    ) -> Self: ...
    def check(self, subject: str, cost: _Cost = 1) -> Decision:
        """Checks every limit, and charges the cost if all admit."""
    def run(self, request: Request[_T]) -> _T: ...
    def wait(self, request: Request[_T]) -> _T: ...
    def start(self, request: Request[_T], bridge: Bridge, future: Future[_T]) -> None: ...
    @property
    def in_memory(self) -> bool:
        """Whether it counts in the memory of this process, which answers at once."""
    @property
    def limits(self) -> str:
        """The limits as text."""
    @property
    def policy(self) -> str | None:
        """The name of the policy, within which it counts; None without one."""
    @property
    def store(self) -> str:
        """The URL of the store, as it was given."""
    @property
    def clock(self) -> ManualClock | None:
        """The clock that it was made with; None without one."""
    def headers(
        self, decision: Decision, headers: Literal["draft", "legacy", "both", "none"] = ...
    ) -> list[tuple[str, str]]:
        """The headers of a response to a request that `decision` was made for."""
    def refusal(
        self, decision: Decision, headers: Literal["draft", "legacy", "both", "none"] = ...
    ) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """The status, headers and body for a denied request; None if it was admitted."""
    def unavailable(self, retry_after: float = ...) -> tuple[int, list[tuple[str, str]], bytes]:
        """The status, headers and body where the store could not answer."""
