"""A middleware by the policies of a file, in place of a limiter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ._client import ClientAddress
from ._errors import ArgumentError
from ._headers import marked
from ._limiter import Limiter
from ._middleware import Guard, Ruling, ask_later, value
from ._policies import Policies

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._headers import Lines
    from ._middleware import Ask

R = TypeVar("R")

#: The options that mean something here. The file has the others.
_OPTIONS = frozenset(("skip", "on_denied"))

# All that a path may have as it is (RFC 3986). A server has decoded the rest.
_PATH = "/:@!$&'()*+,;=~"


def guard_of(limiter: Any, key: Any, form: str, **options: Any) -> Guard[Any]:
    """The guard of a middleware over a limiter, or over policies."""
    if not isinstance(limiter, Policies):
        return Guard(limiter, key, form, **options)
    return PolicyGuard(limiter, key, form, **options)


class PolicyGuard(Guard[R]):
    """The options of a middleware whose limits, failure rules and bans are those of a file."""

    __slots__ = ("fields", "form", "names", "policies")

    def __init__(
        self,
        policies: Policies,
        key: Any,
        form: str,
        *,
        fields: Callable[[R], Any] | None = None,
        **options: Any,
    ) -> None:
        others = options.keys() - _OPTIONS
        if others:
            raise ArgumentError(f"{', '.join(sorted(others))}: with policies, the file says it")
        # It has the options, and what it counts nobody asks for.
        super().__init__(Limiter("1/s"), key, form, **options)
        self.policies, self.form, self.fields = policies, form, fields
        self.names = frozenset(policies.field_names)
        self._check_callable("fields", False)
        if fields is None and (names := policies.field_names):
            read = ", ".join(f"field.{name}" for name in names)
            raise ArgumentError(f"fields is missing: give a function, since the file reads {read}")

    async def ask(self, request: R, ask: Ask) -> Ruling:
        """The ruling on a request. Its `key` is the user that the file knows."""
        if self.skip is not None and await value(self.skip(request)):
            return Ruling()
        is_address = isinstance(getattr(self.key, "__self__", None), ClientAddress)
        user = None if is_address else await value(self.key(request))
        given = await value(self.fields(request)) if self.fields is not None else {}
        fields = {name: it for name, it in given.items() if it is not None}
        for name in fields:
            if name not in self.names and name not in (names := self.policies.field_names):
                error = ArgumentError(f"fields has {name!r:.60}, and the file reads {names}")
                return self.unusable(error)
        head = head_of_asgi(request) if self.form == "asgi" else head_of_wsgi(request)
        try:
            if ask is ask_later:
                judged = await self.policies.ajudge(*head, user=user, fields=fields)
            else:
                judged = self.policies.judge(*head, user=user, fields=fields)
        except ArgumentError as error:
            return self.unusable(error)
        except UnicodeEncodeError:
            return self.unusable(ArgumentError("the user has a lone surrogate"))
        ruling = Ruling(refusal=judged.refusal)
        ruling.lines = judged.headers
        return ruling

    def lines(self, ruling: Ruling) -> Lines:
        """The headers of the response to a request that passed."""
        return marked(ruling.lines, ruling.marks, self.headers)

    def of_view(self, *_limits: Any, **_options: Any) -> Guard[R]:
        """Refuses: a view's limits are in the file, by its path."""
        raise ArgumentError("limits of a view need a Limiter: with policies, the file has them")


def head_of_asgi(scope: Any) -> tuple[str, str, list[tuple[bytes, bytes]], str | None]:
    """The head of a request of ASGI."""
    query = scope.get("query_string", b"").decode("latin-1")
    peer = scope.get("client")
    raw = scope.get("raw_path")
    target = raw.decode("latin-1") if raw else quote(scope["path"], safe=_PATH)
    target = f"{target}?{query}" if query else target
    return scope["method"], target, list(scope["headers"]), peer[0] if peer else None


def head_of_wsgi(request: Any) -> tuple[str, str, list[tuple[bytes, bytes]], str | None]:
    """The head of a request of WSGI, as Flask and Django have it."""
    environ = getattr(request, "META", None) or getattr(request, "environ", request)
    query = environ.get("QUERY_STRING")
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "") or "/"
    target = quote(path.encode("latin-1", "replace"), safe=_PATH)
    lines = [
        (name[5:].replace("_", "-").lower().encode(), text.encode("latin-1", "replace"))
        for name, text in environ.items()
        if name.startswith("HTTP_")
    ]
    target = f"{target}?{query}" if query else target
    return environ["REQUEST_METHOD"], target, lines, environ.get("REMOTE_ADDR") or None
