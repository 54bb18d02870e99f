"""Each middleware around one application, so that a test asks all of them in the same way.

The application answers `/status/401` with a 401, and `/units/3` with `X-Units: 3`.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.django_app import set_up

from tollgate_limiter import Limiter, asgi, wsgi

Lines = list[tuple[str, str]]

# A header, of one line or several.
Header = str | bytes | list[str] | list[bytes]


@dataclass
class Answer:
    status: int
    lines: Lines
    body: bytes

    def all(self, name: str) -> list[str]:
        """The values of a header, each of a line."""
        return [value for line, value in self.lines if line.lower() == name]

    def __getitem__(self, name: str) -> str:
        (value,) = self.all(name)
        return value


def answer_of(path: str) -> tuple[int, Lines]:
    kind, _, word = path.strip("/").partition("/")
    if path == "/raise":
        raise RuntimeError("as it was asked for")
    return int(word) if kind == "status" else 200, [("X-Units", word)] if kind == "units" else []


def raw_of(value: Header) -> list[bytes]:
    """The values of a header, each of a line, as they come in."""
    values = value if isinstance(value, list) else [value]
    return [it if isinstance(it, bytes) else it.encode() for it in values]


def scope_of(path: str, peer: str | None, headers: dict[str, Header]) -> dict[str, Any]:
    lines = [
        (name.replace("_", "-").encode(), raw)
        for name, value in headers.items()
        for raw in raw_of(value)
    ]
    scope = {"type": "http", "method": "GET", "path": path, "headers": lines, "query_string": b""}
    return {**scope, "client": (peer, 4711) if peer else None}


class Asgi:
    """A request is a scope."""

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        self.app: Any = asgi.TollgateMiddleware(self.answer, limiter, **options)

    def inside(self, limiter: Limiter, **options: Any) -> None:
        """Puts one more middleware around it."""
        self.app = asgi.TollgateMiddleware(self.app, limiter, **options)

    async def answer(self, scope: Any, _receive: Any, send: Any) -> None:
        status, lines = answer_of(scope["path"])
        raw = [(name.encode(), value.encode()) for name, value in lines]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": b"hello"})

    def get(self, path: str = "/", peer: str | None = "192.0.2.7", **headers: Header) -> Answer:
        return asyncio.run(self._asked(scope_of(path, peer, headers)))

    async def _asked(self, scope: Any) -> Answer:
        sent: list[Any] = []
        is_read = False

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            nonlocal is_read
            if is_read:
                # The client stays until it has the answer.
                await asyncio.Event().wait()
            is_read = True
            return {"type": "http.request", "body": b""}

        await self.app(scope, receive, send)
        lines = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        body = b"".join(it.get("body", b"") for it in sent[1:])
        return Answer(sent[0]["status"], lines, body)

    path = staticmethod(lambda scope: scope["path"])
    header = staticmethod(
        lambda scope, name: next(
            (value.decode() for line, value in scope["headers"] if line.decode() == name), None
        )
    )
    own = staticmethod(lambda status, body: (status, {}, body))


class Wsgi:
    """A request is an environment."""

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        self.app: Any = wsgi.TollgateMiddleware(self.answer, limiter, **options)

    def inside(self, limiter: Limiter, **options: Any) -> None:
        self.app = wsgi.TollgateMiddleware(self.app, limiter, **options)

    def answer(self, environ: Any, start_response: Any) -> list[bytes]:
        status, lines = answer_of(environ["PATH_INFO"])
        start_response(f"{status} Some", lines)
        return [b"hello"]

    def get(self, path: str = "/", peer: str | None = "192.0.2.7", **headers: Header) -> Answer:
        environ: dict[str, Any] = {"PATH_INFO": path, "REMOTE_ADDR": peer or ""}
        environ |= {"REQUEST_METHOD": "GET", "SERVER_NAME": "a", "SERVER_PORT": "80"}
        environ |= {"wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()}
        environ |= {"wsgi.url_scheme": "http", "SERVER_PROTOCOL": "HTTP/1.1"}
        for name, value in headers.items():
            # A server joins the lines of one name.
            environ[f"HTTP_{name.upper()}"] = b",".join(raw_of(value)).decode("latin-1")
        begun: list[Any] = []
        body = self.app(environ, lambda status, lines, *_: begun.append((status, lines)))
        return Answer(int(begun[0][0][:3]), begun[0][1], b"".join(body))

    path = staticmethod(lambda environ: environ["PATH_INFO"])
    header = staticmethod(lambda environ, name: environ.get(f"HTTP_{name.upper()}"))
    own = staticmethod(lambda status, body: (status, {}, body))


class Flask(Wsgi):
    """A request is that of Flask."""

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        self.own_of = (limiter, options)
        self.inside()

    def inside(self, *outer: Limiter, **options: Any) -> None:
        import flask

        from tollgate_limiter.flask import Tollgate

        self.flask = flask.Flask(__name__)
        self.flask.add_url_rule("/", "home", lambda: "hello")
        self.flask.add_url_rule("/<path:path>", "any", self.view)
        self.app = self.flask.wsgi_app
        # The first that is declared is the outer one.
        for limiter in outer:
            Tollgate(self.flask, limiter, **options)
        limiter, options = self.own_of
        self.tollgate = Tollgate(self.flask, limiter, **options)

    def view(self, path: str) -> Any:
        status, lines = answer_of(f"/{path}")
        return b"hello", status, lines

    path = staticmethod(lambda request: request.path)
    header = staticmethod(lambda request, name: request.headers.get(name))
    own = staticmethod(lambda status, body: (body, status))


class Django(Wsgi):
    """A request is that of Django, in the middleware of a project."""

    is_async = False

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        set_up()
        from django.conf import settings
        from django.core.handlers.asgi import ASGIHandler
        from django.core.handlers.wsgi import WSGIHandler

        settings.TOLLGATE = {"limiter": limiter, **options}
        settings.MIDDLEWARE = ["tollgate_limiter.django.TollgateMiddleware"]
        settings.ROOT_URLCONF = "apps.django_app"
        self.app = ASGIHandler() if self.is_async else WSGIHandler()

    def inside(self, limiter: Limiter, **options: Any) -> None:
        from tollgate_limiter import django

        outer = object.__new__(django.TollgateMiddleware)
        outer.get_response, outer._is_async = self.app._middleware_chain, self.is_async
        key = django.of_django(options.pop("key", django.ClientAddress()))
        outer.guard = django.Guard(limiter, key, "", **options)
        self.app._middleware_chain = outer

    header = staticmethod(lambda request, name: request.headers.get(name))
    path = staticmethod(lambda request: request.path)

    @staticmethod
    def own(status: int, body: str) -> Any:
        from django.http import HttpResponse

        return HttpResponse(body, status=status)


class DjangoAsync(Django):
    """The same, asked by ASGI."""

    is_async = True

    def get(self, path: str = "/", peer: str | None = "192.0.2.7", **headers: Header) -> Answer:
        return asyncio.run(Asgi._asked(self, scope_of(path, peer, headers)))  # type: ignore[arg-type]


class Drf(Django):
    """A request is that of Django REST framework, in a throttle."""

    def __init__(self, limiter: Limiter, **options: Any) -> None:
        super().__init__(limiter, **options)
        from django.conf import settings
        from django.core.handlers.wsgi import WSGIHandler

        settings.MIDDLEWARE = []
        settings.ROOT_URLCONF = "apps.drf_urls"
        settings.REST_FRAMEWORK = {"UNAUTHENTICATED_USER": None}
        self.app = WSGIHandler()


FRONTS: dict[str, Callable[..., Any]] = {
    "asgi": Asgi,
    "wsgi": Wsgi,
    "flask": Flask,
    "django": Django,
    "django-async": DjangoAsync,
}
