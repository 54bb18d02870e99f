"""FastAPI, Starlette, Django and Flask under real servers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

UVICORN = ("uvicorn", "--port", "PORT", "--log-level", "warning", "--factory")
WAITRESS = ("waitress", "--listen", "127.0.0.1:PORT", "--threads", "8", "--call")
GUNICORN = (
    "gunicorn",
    "--bind",
    "127.0.0.1:PORT",
    "--workers",
    "2",
    "--preload",
    "--log-level",
    "error",
)

REQUESTS, ADMITTED = 1_200, 1_000

Serve = Callable[..., int]


def get(port: int, path: str = "/", **headers: str) -> tuple[int, dict[str, str], bytes]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=names)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            status, lines, body = response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        status, lines, body = error.code, error.headers, error.read()
    return status, {name.lower(): value for name, value in lines.items()}, body


def admitted_of(port: int) -> int:
    """How many of 1,200 requests by 20 clients at once got a 200: by ab, if it is there."""
    ab = shutil.which("ab")
    if ab is not None:
        command = [ab, "-q", "-l", "-n", str(REQUESTS), "-c", "20", f"http://127.0.0.1:{port}/"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        numbers = dict(re.findall(r"^([^:\n]+):\s+(\d+)", said, re.MULTILINE))
        assert numbers["Complete requests"] == str(REQUESTS), said
        return REQUESTS - int(numbers.get("Non-2xx responses", 0))
    statuses: list[int] = []

    def ask() -> None:
        statuses.extend(get(port)[0] for _ in range(REQUESTS // 20))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == REQUESTS and set(statuses) <= {200, 429}
    return statuses.count(200)


SERVERS = {
    "fastapi": (*UVICORN, "asgi_apps:fastapi"),
    "django-asgi": (*UVICORN, "--lifespan", "off", "asgi_apps:django"),
    "flask": (*WAITRESS, "wsgi_apps:flask"),
    "django-wsgi": (*WAITRESS, "wsgi_apps:django"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_exactly_a_thousand_of_twelve_hundred(name: str, serve: Serve) -> None:
    pytest.importorskip(name.split("-")[0])
    port = serve(*SERVERS[name])
    assert admitted_of(port) == ADMITTED
    status, headers, body = get(port)
    assert (status, headers["content-type"]) == (429, "application/problem+json")
    assert headers["ratelimit-policy"] == '"api";q=1000;w=3600'
    assert 0 < int(headers["retry-after"]) <= 3600
    assert json.loads(body)["violated-policies"] == ["api"]


FORKING = {
    "gunicorn": (*GUNICORN, "wsgi_apps:flask()"),
    "uvicorn": (*UVICORN, "--workers", "2", "asgi_apps:fastapi"),
}


@pytest.mark.parametrize("name", FORKING)
def test_workers_count_together_on_redis(
    name: str, serve: Serve, redis_url: str, unique: str
) -> None:
    pytest.importorskip(name)
    port = serve(*FORKING[name], STORE=redis_url, POLICY=unique)
    assert admitted_of(port) == ADMITTED


def test_fastapi_sees_the_decision_and_the_decorator(serve: Serve) -> None:
    port = serve(*SERVERS["fastapi"], LIMITS="5/h")
    status, headers, body = get(port)
    assert (status, body) == (200, b'{"remaining":4}')
    assert re.fullmatch(r'"api";r=4;t=3[56]\d\d', headers["ratelimit"])
    assert get(port, "/search?q=x")[0] == 200
    status, _, body = get(port, "/search?q=x")
    assert status == 429 and json.loads(body)["wait"] > 3_500
    assert get(port, "/search?q=y")[0] == 200


def test_starlette_with_a_key_and_both_profiles(serve: Serve) -> None:
    port = serve(*UVICORN, "asgi_apps:starlette", LIMITS="1/h")
    status, headers, body = get(port, x_key="one")
    assert (status, body, headers["x-ratelimit-remaining"]) == (200, b"hello", "0")
    assert get(port, x_key="one")[0] == 429
    assert get(port, x_key="two")[0] == 200
    status, headers, _ = get(port)
    assert status == 200 and "ratelimit" not in headers


@pytest.mark.parametrize("name", ["fastapi", "flask"])
@pytest.mark.parametrize(("rule", "status"), [("deny", 503), ("allow", 200)])
def test_without_its_store(name: str, rule: str, status: int, serve: Serve) -> None:
    path = "/" if name == "fastapi" else "/missing"
    port = serve(*SERVERS[name], STORE="redis://127.0.0.1:1", ON_FAILURE=rule)
    answer, headers, _ = get(port, path)
    if rule == "deny":
        assert (answer, headers["retry-after"]) == (503, "5")
    else:
        # Flask has no such page: what matters is that the application answered.
        assert answer == (status if name == "fastapi" else 404)


def test_a_request_without_an_address_is_not_let_through(caplog: pytest.LogCaptureFixture) -> None:
    from tollgate_limiter import Limiter, asgi, wsgi

    answered: list[object] = []

    async def asgi_app(scope: object, receive: object, send: object) -> None:
        answered.append(scope)

    def wsgi_app(environ: object, start_response: object) -> list[bytes]:
        answered.append(environ)
        return []

    async def asked(app: asgi.TollgateMiddleware) -> list[int]:
        said: list[int] = []

        async def send(message: asgi.Message) -> None:
            said.append(message.get("status", 0))

        async def receive() -> asgi.Message:
            return {}

        for _ in range(2):
            await app({"type": "http", "client": None}, receive, send)
        return said

    limiter = Limiter("5/h")
    assert asyncio.run(asked(asgi.TollgateMiddleware(asgi_app, limiter))) == [503, 0, 503, 0]
    statuses: list[str] = []
    app = wsgi.TollgateMiddleware(wsgi_app, limiter)
    for _ in range(2):
        app({"REMOTE_ADDR": ""}, lambda status, headers: statuses.append(status))
    assert statuses == ["503 Service Unavailable"] * 2
    assert not answered
    warned = [record.message for record in caplog.records]
    assert len(warned) == 2 and "no address" in warned[0]
    # A key of one's own says that nothing is limited.
    app = wsgi.TollgateMiddleware(wsgi_app, limiter, key=lambda environ: None)
    app({"REMOTE_ADDR": ""}, lambda status, headers: None)
    asyncio.run(asked(asgi.TollgateMiddleware(asgi_app, limiter, key=lambda scope: None)))
    assert len(answered) == 3
