"""FastAPI, Flask, Django and its REST framework, each by its own test client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from apps.django_app import set_up
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tollgate_limiter import ClientAddress, Denied, Limiter, ManualClock
from tollgate_limiter.asgi import TollgateMiddleware

CLIENT = ("192.0.2.7", 4711)


def fast_client(app: Any) -> Any:
    from fastapi.testclient import TestClient

    return TestClient(app, client=CLIENT)


def test_fastapi_decorated_below_the_middleware() -> None:
    app = FastAPI()
    app.add_middleware(TollgateMiddleware, limiter=Limiter("100/h", policy="api"))
    search, twice = Limiter("2/h", policy="search"), Limiter("9/h", policy="twice")

    @app.get("/search")
    @search.limit(key=lambda q: f"query:{q}")
    async def searched(q: str) -> dict[str, str]:
        return {"q": q}

    @app.get("/sync")
    @twice.limit("all")
    @search.limit("all")
    def synced() -> str:
        return "done"

    client = fast_client(app)
    answer = client.get("/search?q=x")
    assert answer.headers["ratelimit"] == '"api";r=99;t=3600, "search";r=1;t=3600'
    assert client.get("/search?q=x").status_code == 200
    # No handler is needed: the middleware answers, by the limiter that denied.
    answer = client.get("/search?q=x")
    assert (answer.status_code, answer.json()["violated-policies"]) == (429, ["search"])
    assert answer.headers["ratelimit"] == '"api";r=97;t=3600, "search";r=0;t=3600'
    assert answer.headers["retry-after"] == "3600"
    answer = client.get("/sync")
    names = [it.split(";")[0] for it in answer.headers["ratelimit-policy"].split(", ")]
    assert names == ['"api"', '"twice"', '"search"']


def test_fastapi_decorated_alone() -> None:
    app = FastAPI()
    limiter, other = Limiter("2/h", policy="one"), Limiter("1/h", policy="other")

    # As with slowapi: a parameter `response`, or a response that is returned.
    @app.get("/parameter")
    @limiter.limit(key=lambda request, response: f"ip:{request.client.host}")
    async def parameter(request: Request, response: Response) -> dict[str, int]:
        return {"a": 1}

    @app.get("/returned")
    @other.limit("all", headers="legacy", on_denied=lambda decision: Response("later", 418))
    def returned() -> Response:
        return JSONResponse({"a": 1})

    @app.exception_handler(Denied)
    async def denied(_request: Request, error: Denied) -> Response:
        status, headers, body = error.refusal()
        return Response(body, status, dict(headers))

    client = fast_client(app)
    assert client.get("/parameter").headers["ratelimit"] == '"one";r=1;t=3600'
    assert client.get("/parameter").status_code == 200
    answer = client.get("/parameter")
    assert (answer.status_code, answer.headers["ratelimit"]) == (429, '"one";r=0;t=3600')
    answer = client.get("/returned")
    assert answer.headers["x-ratelimit-remaining"] == "0" and "ratelimit" not in answer.headers
    answer = client.get("/returned")
    assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (
        418,
        "later",
        "3600",
    )


@pytest.fixture
def shop() -> Any:
    """A shop of Flask: limits of the application, of a blueprint and of routes."""
    from flask import Blueprint, Flask, g

    from tollgate_limiter.flask import Tollgate

    app, clock = Flask(__name__), ManualClock()
    tollgate = Tollgate(limiter=Limiter("10/h", policy="shop", clock=clock))
    tollgate.init_app(app)
    admin = tollgate.limit("3/h")(Blueprint("admin", __name__, url_prefix="/admin"))

    @app.get("/")
    def home() -> dict[str, Any]:
        return {"left": g.tollgate.remaining if g.tollgate else None}

    @app.get("/login")
    @tollgate.limit("2/h", policy="login")
    def login() -> str:
        return "welcome"

    @app.get("/health")
    @tollgate.exempt
    def health() -> str:
        return "fine"

    @app.get("/status")
    @tollgate.exempt
    @tollgate.limit("1/h", key=lambda request: f"all:{request.path}")
    def status() -> str:
        return "fine"

    @admin.get("/users")
    def users() -> str:
        return "users"

    app.register_blueprint(admin)
    return app


def test_flask_limits_of_routes_and_blueprints_are_one_decision(shop: Any) -> None:
    client = shop.test_client()
    assert client.get("/").json == {"left": 9}
    answers = [client.get("/login") for _ in range(3)]
    assert [it.status_code for it in answers] == [200, 200, 429]
    policies = answers[0].headers["ratelimit-policy"]
    assert policies == '"shop";q=10;w=3600, "login";q=2;w=3600'
    # What the route denied, the application's limit has not charged.
    assert client.get("/").json == {"left": 6}
    answers = [client.get("/admin/users") for _ in range(4)]
    assert [it.status_code for it in answers] == [200, 200, 200, 429]
    assert '"blueprint.admin";q=3;w=3600' in answers[0].headers["ratelimit-policy"]
    assert client.get("/").json == {"left": 2}


def test_flask_exempts_from_the_applications_limits(shop: Any) -> None:
    client = shop.test_client()
    answer = client.get("/health")
    assert answer.status_code == 200 and "ratelimit" not in answer.headers
    assert [client.get("/status").status_code for _ in range(2)] == [200, 429]
    assert client.get("/").json == {"left": 9}
    # A page that is not there is limited as well.
    assert client.get("/missing").status_code == 404
    assert client.get("/").json == {"left": 7}


def test_flask_with_limits_of_routes_alone_and_decorated_functions() -> None:
    from flask import Flask

    from tollgate_limiter.flask import Tollgate

    app = Flask(__name__)
    tollgate = Tollgate(app, Limiter("10/h", policy="shop"), default=False)
    mails = Limiter("1/h", policy="mails")

    @app.get("/mail")
    @tollgate.limit("5/h", policy="route")
    def mail() -> str:
        return mails.limit("all")(lambda: "sent")()

    @app.get("/plan")
    @tollgate.limit(lambda request: request.args.get("limits"))
    def plan() -> str:
        return "planned"

    app.get("/free")(lambda: "free")
    client = app.test_client()
    assert "ratelimit" not in client.get("/free").headers
    assert [client.get("/plan").status_code for _ in range(2)] == [200, 200]
    assert [client.get("/plan?limits=1/h").status_code for _ in range(2)] == [200, 429]
    assert client.get("/mail").headers["ratelimit"] == '"route";r=4;t=3600, "mails";r=0;t=3600'
    answer = client.get("/mail")
    assert answer.status_code == 429 and answer.json["violated-policies"] == ["mails"]


@pytest.fixture
def project() -> Iterator[Any]:
    """The settings of a project of Django, whose views a test gives."""
    import sys
    from types import ModuleType

    set_up()
    from django.conf import settings
    from django.test import override_settings
    from django.urls import clear_url_caches, set_urlconf

    urls = ModuleType("tollgate_test_urls")
    sys.modules[urls.__name__] = urls
    middleware = ["tollgate_limiter.django.TollgateMiddleware"]
    limiter = Limiter("10/h", policy="site", clock=ManualClock())
    with override_settings(
        ROOT_URLCONF=urls.__name__,
        MIDDLEWARE=middleware,
        TOLLGATE={"limiter": limiter, "key": "test_frameworks.django_key"},
    ):
        clear_url_caches()
        yield settings, urls
    clear_url_caches()
    set_urlconf(None)


def django_key(request: Any) -> str | None:
    return f"who:{request.headers.get('who', 'nobody')}"


def test_django_middleware_and_decorated_views(project: Any) -> None:
    from django.http import HttpResponse, JsonResponse
    from django.test import AsyncClient, Client
    from django.urls import path
    from django.utils.decorators import method_decorator
    from django.views import View

    from tollgate_limiter.django import ratelimit

    _, urls = project

    def home(request: Any) -> Any:
        return JsonResponse({"left": request.tollgate.remaining})

    @ratelimit("2/h", policy="login", skip=lambda request: request.method == "HEAD")
    def login(request: Any, name: str) -> Any:
        return HttpResponse(name)

    @ratelimit(lambda request: {"ann": "1/h"}.get(request.headers["who"]))
    def own(request: Any) -> Any:
        return HttpResponse("own")

    @ratelimit("2/h", policy="login")
    async def later(request: Any) -> Any:
        return HttpResponse("later")

    @method_decorator(ratelimit("1/h"), name="dispatch")
    class Page(View):
        def get(self, request: Any) -> Any:
            return HttpResponse("page")

    class Other(Page):
        pass

    class Made(View):
        def get(self, request: Any) -> Any:
            return HttpResponse("made")

    mails = Limiter("1/h", policy="mails")

    def mail(request: Any) -> Any:
        return HttpResponse(mails.limit("all")(lambda: "sent")())

    urls.urlpatterns = [
        path("", home),
        path("login/<name>", login),
        path("later", later),
        path("own", own),
        path("page", Page.as_view()),
        path("other", Other.as_view()),
        path("made", ratelimit("1/h")(Made.as_view())),
        path("mail", mail),
    ]
    client = Client(headers={"who": "ann"})
    assert client.get("/").json() == {"left": 9}
    answer = client.get("/login/ann")
    assert answer.headers["ratelimit"] == '"site";r=8;t=3600, "login";r=1;t=3600'
    assert client.head("/login/ann").status_code == 200
    # One policy is one count, for a view that is async too.
    assert asyncio.run(AsyncClient().get("/later", headers={"who": "ann"})).status_code == 200
    answer = client.get("/login/ann")
    assert (answer.status_code, answer.json()["violated-policies"]) == (429, ["login"])
    assert answer.headers["ratelimit"] == '"site";r=5;t=3600, "login";r=0;t=3600'
    assert [client.get("/page").status_code for _ in range(2)] == [200, 429]
    assert [client.get("/own").status_code for _ in range(2)] == [200, 429]
    bob = Client(headers={"who": "bob"})
    assert [bob.get("/own").status_code for _ in range(2)] == [200, 200]
    # Text without a policy counts under the view's name, which is that of a class.
    for page, name in [("/page", "Page"), ("/other", "Other"), ("/made", "Made")]:
        answer = bob.get(page)
        assert answer.headers["ratelimit"].endswith(f'.{name}";r=0;t=3600'), answer.headers
        assert bob.get(page).status_code == 429
    bob = Client(headers={"who": "bob's brother"})
    assert bob.get("/mail").headers["ratelimit"].endswith('"mails";r=0;t=3600')
    answer = bob.get("/mail")
    assert (answer.status_code, answer.json()["violated-policies"]) == (429, ["mails"])


def test_django_settings_are_checked() -> None:
    set_up()
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    from tollgate_limiter.django import TollgateMiddleware as Middleware

    redis = Limiter("1/h", "redis://127.0.0.1:1")
    for given, error, what in [
        (None, ImproperlyConfigured, "TOLLGATE is missing"),
        ({"limiter": "10/h"}, TypeError, "limiter must be Limiter"),
        ({"limiter": Limiter("1/h"), "skp": 1}, TypeError, "skp"),
        ({"limiter": Limiter("1/h"), "key": "no.such.key"}, ImportError, "no"),
        ({"limiter": redis}, ValueError, "on_failure is missing"),
    ]:
        with override_settings(TOLLGATE=given), pytest.raises(error, match=what):
            Middleware(lambda request: None)


def test_rest_framework_throttles(project: Any) -> None:
    settings, urls = project
    settings.MIDDLEWARE = []
    clock = ManualClock()
    settings.TOLLGATE = {
        "limiter": Limiter("3/h", policy="api", clock=clock),
        "key": ClientAddress(),
        "on_failure": "deny",
    }
    settings.REST_FRAMEWORK = {"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []}
    from django.urls import path
    from rest_framework.response import Response
    from rest_framework.test import APIClient
    from rest_framework.views import APIView

    from tollgate_limiter.drf import TollgateThrottle

    class Uploads(TollgateThrottle):
        limits = "1/10s"
        policy = "uploads"
        key = lambda request: f"user:{request.headers.get('who')}"  # noqa: E731

    class Large(TollgateThrottle):
        options = {"cost": 5}  # noqa: RUF012

    class Page(APIView):
        renderer_classes = (__import__("rest_framework.renderers").renderers.JSONRenderer,)
        throttle_classes = (TollgateThrottle,)

        def get(self, request: Any) -> Any:
            return Response({"left": request.tollgate.remaining})

    class Upload(Page):
        throttle_classes = (Uploads,)

    class Export(Page):
        throttle_classes = (Large,)

    urls.urlpatterns = [
        path("", Page.as_view()),
        path("upload", Upload.as_view()),
        path("export", Export.as_view()),
    ]
    client = APIClient(REMOTE_ADDR="192.0.2.7")
    answer = client.get("/")
    assert (answer.json(), answer.headers["ratelimit"]) == ({"left": 2}, '"api";r=2;t=3600')
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    answer = client.get("/")
    assert (answer.headers["retry-after"], answer.headers["ratelimit"]) == (
        "3600",
        '"api";r=0;t=3600',
    )
    assert client.get("/upload", headers={"who": "ann"}).status_code == 200
    clock.advance(2.5)
    answer = client.get("/upload", headers={"who": "ann"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "8")
    assert answer.json()["detail"] == "Request was throttled. Expected available in 8 seconds."
    assert client.get("/upload", headers={"who": "bob"}).status_code == 200
    # The exact wait is the throttle's.
    from rest_framework.test import APIRequestFactory

    throttle, view = Uploads(), Upload()
    view.headers = {}
    assert not throttle.allow_request(APIRequestFactory().get("/", headers={"who": "ann"}), view)
    assert throttle.wait() == 7.5
    # What waiting does not help is no 429, and nobody gets a 500.
    assert client.get("/export").status_code == 422
    assert APIClient(REMOTE_ADDR="").get("/").status_code == 503
