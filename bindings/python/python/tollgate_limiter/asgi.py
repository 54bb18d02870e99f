"""Middleware for ASGI: FastAPI, Starlette, Django, Quart, Litestar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._client import ClientAddress
from ._errors import Denied
from ._headers import MARKS, MERGED, merged, missing
from ._middleware import Response, Ruling, ask_later, value
from ._policy_guard import guard_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping
    from typing import TypeAlias

    from typing_extensions import Unpack

    from ._headers import Lines
    from ._limiter import Limiter
    from ._middleware import Guard, Options
    from ._policies import Policies

    Scope: TypeAlias = MutableMapping[str, Any]
    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
    Key: TypeAlias = ClientAddress | Callable[[Scope], Any]
    Raw: TypeAlias = Iterable[tuple[bytes, bytes]]

_MERGED = frozenset(name.encode() for name in MERGED)


class TollgateMiddleware:
    """Checks each HTTP request before `app`, and answers denied ones.

    `key` is a `ClientAddress`, or makes the subject of a request's scope: text, None (not limited),
    or a list of subjects that are decided together. The other options are those of
    docs/python.md; each function of them may be async. `on_failure` is required unless the
    limiter counts in memory.

    The decision is in `scope["state"]["tollgate"]`; None where a request passes without one. Web
    sockets and lifespans pass.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter | Policies,
        key: Key | None = None,
        **options: Unpack[Options[Scope]],
    ) -> None:
        self.app = app
        self.guard: Guard[Scope] = guard_of(limiter, key or ClientAddress(), "asgi", **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        ruling = await self.guard.ask(scope, ask_later)
        scope.setdefault("state", {})["tollgate"] = ruling.admitted
        if ruling.refusal is not None:
            return await self._refuse(ruling, scope, receive, send)
        await self._pass(ruling, scope, receive, send)

    async def _pass(self, ruling: Ruling, scope: Scope, receive: Receive, send: Send) -> None:
        """Calls the application, whose response gets headers."""
        guard, is_begun = self.guard, False

        async def send_ours(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start" and not is_begun:
                is_begun = True
                message = {**message, "headers": list(message.get("headers", ()))}
                if guard.settles:
                    response = Response(message["status"], _decoded(message["headers"]))
                    await guard.settle(ruling, response, ask_later)
                message["headers"] = _merged(message["headers"], guard.lines(ruling))
            await send(message)

        token = MARKS.set(ruling.marks)
        try:
            await self.app(scope, receive, send_ours)
        except Denied as denied:
            if is_begun:
                raise
            await self._refuse(guard.of_denied(denied), scope, receive, send_ours)
        except Exception:
            if guard.settles and not is_begun:
                # Whoever catches it answers so.
                await guard.settle(ruling, Response(500, []), ask_later)
            raise
        finally:
            MARKS.reset(token)

    async def _refuse(self, ruling: Ruling, scope: Scope, receive: Receive, send: Send) -> None:
        assert ruling.refusal is not None
        own = await value(self.guard.own(scope, ruling))
        if own is None:
            return await _respond(send, ruling.refusal)
        ours = ruling.refusal[1]

        async def send_filled(message: Message) -> None:
            if message["type"] == "http.response.start":
                lines = list(message.get("headers", ()))
                more = missing(ours, (name.decode("latin-1") for name, _ in lines))
                message = {**message, "headers": [*lines, *_encoded(more)]}
            await send(message)

        if callable(own):
            await own(scope, receive, send_filled)
        else:
            await _respond(send_filled, own)


def _merged(lines: list[tuple[bytes, bytes]], ours: Lines) -> Raw:
    inner = [line for line in lines if line[0].lower() in _MERGED] if ours else []
    if not inner:
        return [*lines, *_encoded(ours)]
    lines = [line for line in lines if line[0].lower() not in _MERGED]
    return [*lines, *_encoded(merged(ours, _decoded(inner)))]


def _decoded(lines: Raw) -> Lines:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in lines]


def _encoded(lines: Lines) -> Raw:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines]


async def _respond(send: Send, response: tuple[int, Any, bytes | str]) -> None:
    status, headers, body = response
    body = body.encode() if isinstance(body, str) else body
    lines = headers.items() if hasattr(headers, "items") else headers
    raw = [*_encoded(lines), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
