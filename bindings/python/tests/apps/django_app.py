"""A Django project in one file."""

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("", lambda _request: HttpResponse("hello"))]


def _set_up():
    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="for a test")
        django.setup()


def asgi():
    _set_up()
    return ASGIHandler()


def wsgi():
    _set_up()
    return WSGIHandler()
