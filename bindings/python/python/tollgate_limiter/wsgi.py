"""Middleware for WSGI: Flask, Django, Pyramid, Bottle."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ._client import ClientAddress
from ._errors import StoreError
from ._failures import required
from ._middleware import check_options, is_required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._failures import OnFailure
    from ._limiter import Limiter
    from ._middleware import Profile

    Environ = dict[str, Any]
    StartResponse = Callable[..., Any]
    App = Callable[[Environ, StartResponse], Iterable[bytes]]
    Key = Callable[[Environ], str | None]

#: The subject of a request by the address of its connection, such as `ip:192.0.2.7`.
client: Key = ClientAddress().wsgi


class TollgateMiddleware:
    """Checks each request before `app`, and answers denied ones.

    `key` makes the subject of a request's environment. A request for which your own returns None is
    not limited. `headers` is the profile of `docs/headers.md`. `on_failure` says what happens while
    the store cannot answer; it is required unless the limiter counts in memory.

    The decision is in `environ["tollgate"]`; None where a request passes without one.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter,
        key: Key = client,
        *,
        headers: Profile = "draft",
        on_failure: OnFailure | None = None,
    ) -> None:
        check_options(limiter, headers)
        if not callable(key):
            raise TypeError(f"key must be callable, not {type(key).__name__}")
        self.app = app
        self.limiter = limiter
        self.key = key
        self.headers: Profile = headers
        self.failures = required(limiter, on_failure)
        self._is_required = is_required(key)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ["tollgate"] = None
        subject = self.key(environ)
        limiter = self.limiter
        if subject is None:
            if not self._is_required:
                return self.app(environ, start_response)
            return _respond(start_response, limiter.unavailable())
        try:
            decision = limiter.check(subject)
        except StoreError as error:
            if self.failures.passes(error):
                return self.app(environ, start_response)
            return _respond(start_response, limiter.unavailable())
        if self.failures.lost:
            self.failures.over()
        refusal = limiter.refusal(decision, self.headers)
        if refusal is not None:
            return _respond(start_response, refusal)
        environ["tollgate"] = decision
        ours = limiter.headers(decision, self.headers)

        def start_with_headers(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *ours], *more)

        return self.app(environ, start_with_headers)


def _respond(
    start_response: StartResponse, refusal: tuple[int, list[tuple[str, str]], bytes]
) -> Iterable[bytes]:
    status, headers, body = refusal
    line = f"{status} {HTTPStatus(status).phrase}"
    start_response(line, [*headers, ("content-length", str(len(body)))])
    return [body]
