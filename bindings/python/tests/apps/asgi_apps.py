"""Applications for ASGI servers, each behind the middleware."""

import os

from tollgate_limiter import Denied, Limiter
from tollgate_limiter.asgi import TollgateMiddleware

LIMITER = Limiter(
    os.environ.get("LIMITS", "1000/h"),
    os.environ.get("STORE", "memory://"),
    policy=os.environ.get("POLICY", "api"),
)
ON_FAILURE = os.environ.get("ON_FAILURE", "deny")


def fastapi():
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

    app = FastAPI()
    app.add_middleware(TollgateMiddleware, limiter=LIMITER, on_failure=ON_FAILURE)
    searches = Limiter("1/h")

    @app.get("/")
    async def home(request: Request):
        decision = request.state.tollgate
        return {"remaining": decision.remaining if decision else None}

    @app.get("/search")
    @searches.limit(key=lambda q: f"query:{q}")
    async def search(q: str):
        return {"q": q}

    @app.exception_handler(Denied)
    async def denied(_request: Request, error: Denied):
        status, headers, _ = error.refusal()
        return JSONResponse({"wait": error.decision.retry_after}, status, dict(headers))

    return app


def starlette():
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    def key(scope):
        names = dict(scope["headers"])
        return f"key:{names[b'x-key'].decode()}" if b"x-key" in names else None

    middleware = Middleware(
        TollgateMiddleware, limiter=LIMITER, key=key, headers="both", on_failure=ON_FAILURE
    )
    route = Route("/", lambda _request: PlainTextResponse("hello"))
    return Starlette(routes=[route], middleware=[middleware])


def django():
    from django_app import asgi

    return TollgateMiddleware(asgi(), LIMITER, on_failure=ON_FAILURE)
