"""Middleware for WSGI: Flask, Django, Pyramid, Bottle."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ._client import ClientAddress
from ._errors import Denied
from ._headers import MARKS, MERGED, merged, missing
from ._middleware import Response, Ruling, ask_now, now
from ._policy_guard import guard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from typing_extensions import Unpack

    from ._headers import Lines
    from ._limiter import Limiter
    from ._middleware import Guard, Options
    from ._policies import Policies

    Environ: TypeAlias = dict[str, Any]
    StartResponse: TypeAlias = Callable[..., Any]
    App: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]
    Key: TypeAlias = ClientAddress | Callable[[Environ], Any]

_PHRASES = {int(status): status.phrase for status in HTTPStatus}


class TollgateMiddleware:
    """Checks each request before `app`, and answers denied ones.

    `key` is a `ClientAddress`, or makes the subject of a request's environment: text, None (not
    limited), or a list of subjects that are decided together. The other options are those of
    docs/python.md. `on_failure` is required unless the limiter counts in memory.

    The decision is in `environ["tollgate"]`; None where a request passes without one.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter | Policies,
        key: Key | None = None,
        **options: Unpack[Options[Environ]],
    ) -> None:
        self.app = app
        self.guard: Guard[Environ] = guard_of(limiter, key or ClientAddress(), "wsgi", **options)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        ruling = now(self.guard.ask(environ, ask_now))
        environ["tollgate"] = ruling.admitted
        if ruling.refusal is not None:
            return self._refuse(ruling, environ, start_response)
        return self._pass(ruling, environ, start_response)

    def _pass(
        self, ruling: Ruling, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Calls the application, whose response gets headers."""
        guard, is_begun = self.guard, False

        def start_ours(status: str, headers: Lines, *more: Any) -> Any:
            nonlocal is_begun
            if guard.settles and not is_begun:
                response = Response(int(status[:3]), list(headers))
                now(guard.settle(ruling, response, ask_now))
            is_begun = True
            return start_response(status, _merged(headers, guard.lines(ruling)), *more)

        token = MARKS.set(ruling.marks)
        try:
            return self.app(environ, start_ours)
        except Denied as denied:
            if is_begun:
                raise
            return self._refuse(guard.of_denied(denied), environ, start_ours)
        except Exception:
            if guard.settles and not is_begun:
                # Whoever catches it answers so.
                now(guard.settle(ruling, Response(500, []), ask_now))
            raise
        finally:
            MARKS.reset(token)

    def _refuse(
        self, ruling: Ruling, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        assert ruling.refusal is not None
        own = self.guard.own(environ, ruling)
        if own is None:
            return _respond(start_response, ruling.refusal)
        ours = ruling.refusal[1]

        def start_filled(status: str, headers: Lines, *more: Any) -> Any:
            lines = [*headers, *missing(ours, (name for name, _ in headers))]
            return start_response(status, lines, *more)

        if callable(own):
            body: Iterable[bytes] = own(environ, start_filled)
            return body
        return _respond(start_filled, own)


def _merged(lines: Lines, ours: Lines) -> Lines:
    if not ours:
        return lines
    inner = [line for line in lines if line[0].lower() in MERGED]
    others = [line for line in lines if line[0].lower() not in MERGED]
    return [*others, *merged(ours, inner)]


def _respond(
    start_response: StartResponse, response: tuple[int, Any, bytes | str]
) -> Iterable[bytes]:
    status, headers, body = response
    body = body.encode() if isinstance(body, str) else body
    lines = list(headers.items() if hasattr(headers, "items") else headers)
    start_response(
        f"{status} {_PHRASES.get(status, 'Unknown')}",
        [*lines, ("content-length", str(len(body)))],
    )
    return [body]
