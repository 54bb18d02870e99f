"""Middleware for ASGI: FastAPI, Starlette, Django, Quart, Litestar."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ._client import ClientAddress
from ._errors import StoreError
from ._failures import required
from ._middleware import check_options, is_required

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from ._failures import OnFailure
    from ._limiter import Limiter
    from ._middleware import Profile

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]
    Key = Callable[[Scope], str | Awaitable[str | None] | None]

#: The subject of a request by the address of its connection, such as `ip:192.0.2.7`.
client: Key = ClientAddress().asgi


class TollgateMiddleware:
    """Checks each HTTP request before `app`, and answers denied ones.

    `key` makes the subject of a request's scope; it may be async. A request for which your own
    returns None is not limited. `headers` is the profile of `docs/headers.md`. `on_failure` says
    what happens while the store cannot answer; it is required unless the limiter counts in memory.

    The decision is in `scope["state"]["tollgate"]`; None where a request passes without one. Web
    sockets and lifespans pass.
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        state = scope.setdefault("state", {})
        state["tollgate"] = None
        found = self.key(scope)
        subject = await found if inspect.isawaitable(found) else found
        limiter = self.limiter
        if subject is None:
            if not self._is_required:
                return await self.app(scope, receive, send)
            return await _respond(send, limiter.unavailable())
        try:
            decision = await limiter.acheck(subject)
        except StoreError as error:
            if self.failures.passes(error):
                return await self.app(scope, receive, send)
            return await _respond(send, limiter.unavailable())
        if self.failures.lost:
            self.failures.over()
        refusal = limiter.refusal(decision, self.headers)
        if refusal is not None:
            return await _respond(send, refusal)
        state["tollgate"] = decision
        ours = [
            (name.encode(), value.encode())
            for name, value in limiter.headers(decision, self.headers)
        ]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *ours]
            await send(message)

        return await self.app(scope, receive, send_with_headers)


async def _respond(send: Send, refusal: tuple[int, list[tuple[str, str]], bytes]) -> None:
    status, headers, body = refusal
    lines = [(name.encode(), value.encode()) for name, value in headers]
    lines.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
