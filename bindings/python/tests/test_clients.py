"""The clients of requests: `vectors/clients.txt`, through both kinds of middleware."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

from tollgate_limiter import ClientAddress, Limiter, asgi

Case = tuple[ClientAddress, str | None, list[tuple[str, str]], str | None]


def cases() -> Iterator[Any]:
    clients = ClientAddress()
    for line in (ROOT / "vectors" / "clients.txt").read_text().splitlines():
        if line.startswith("clients:"):
            pairs = [it.strip().split("=", 1) for it in line.removeprefix("clients:").split(";")]
            given: dict[str, Any] = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
            for name in {"hops", "ipv6_prefix"} & given.keys():
                given[name] = int(given[name])
            clients = ClientAddress(**given)
        elif line and not line.startswith("#"):
            request, subject = line.split(" -> ")
            peer, *lines = request.split(" | ")
            headers = [tuple(line.split(": ", 1)) for line in lines]
            found = None if subject == "none" else subject
            yield pytest.param(clients, None if peer == "none" else peer, headers, found, id=line)


def scope_of(peer: str | None, headers: list[tuple[str, str]]) -> dict[str, Any]:
    lines = [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"type": "http", "client": (peer, 4711) if peer else None, "headers": lines}


@pytest.mark.parametrize(("clients", "peer", "headers", "subject"), list(cases()))
def test_a_client_is_found_as_the_vectors_state(
    clients: ClientAddress, peer: str | None, headers: list[tuple[str, str]], subject: str | None
) -> None:
    assert clients.asgi(scope_of(peer, headers)) == subject
    environ: dict[str, str] = {"REMOTE_ADDR": peer or ""}
    for name, value in headers:
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    assert clients.wsgi(environ) == subject


def test_no_client_makes_the_middleware_fail() -> None:
    limiter = Limiter("1000/h")

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def status(middleware: asgi.TollgateMiddleware, scope: dict[str, Any]) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await middleware(scope, None, send)
        return sent[0]["status"]

    for case in cases():
        clients, peer, headers, subject = case.values
        middleware = asgi.TollgateMiddleware(app, limiter, clients.asgi)
        answer = asyncio.run(status(middleware, scope_of(peer, headers)))
        assert answer == (503 if subject is None else 204), case.id


def test_each_likely_mistake_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clients = ClientAddress()
    with caplog.at_level(logging.WARNING, "tollgate"):
        for _ in range(3):
            clients.asgi(scope_of("10.0.0.1", [("x-forwarded-for", "6.6.6.6")]))
            clients.asgi(scope_of("testclient", []))
        # Whom a server has believed is not warned of.
        believed = {**scope_of("192.0.2.7", [("x-forwarded-for", "192.0.2.7")])}
        assert ClientAddress().asgi({**believed, "client": ("192.0.2.7", 0)}) == "ip:192.0.2.7"
        meta = {"REMOTE_ADDR": "192.0.2.7", "REMOTE_PORT": 0, "HTTP_X_FORWARDED_FOR": "192.0.2.7"}
        assert ClientAddress().wsgi(meta) == "ip:192.0.2.7"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "its peer is not a trusted proxy" in said[0] and "gets a 503" in said[1]


def test_the_usual_key_is_the_peer() -> None:
    assert ClientAddress().asgi(scope_of("192.0.2.7:80", [])) == "ip:192.0.2.7"
    assert ClientAddress().wsgi({"REMOTE_ADDR": "192.0.2.7"}) == "ip:192.0.2.7"
