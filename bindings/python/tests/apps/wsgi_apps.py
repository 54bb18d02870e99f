"""Applications for WSGI servers, each behind the middleware."""

import os

from tollgate_limiter import Limiter
from tollgate_limiter.wsgi import TollgateMiddleware

LIMITER = Limiter(
    os.environ.get("LIMITS", "1000/h"),
    os.environ.get("STORE", "memory://"),
    policy=os.environ.get("POLICY", "api"),
)
ON_FAILURE = os.environ.get("ON_FAILURE", "deny")


def flask():
    from flask import Flask, request

    app = Flask(__name__)

    @app.get("/")
    def home():
        return {"remaining": request.environ["tollgate"].remaining}

    app.wsgi_app = TollgateMiddleware(app.wsgi_app, LIMITER, on_failure=ON_FAILURE)
    return app


def django():
    from django_app import wsgi

    return TollgateMiddleware(wsgi(), LIMITER, on_failure=ON_FAILURE)
