"""A Django project in one file."""

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path, re_path


def hello(_request):
    return HttpResponse("hello")


def answer(_request, rest):
    from fronts import answer_of

    status, lines = answer_of(f"/{rest}")
    return HttpResponse("hello", status=status, headers=dict(lines))


urlpatterns = [path("", hello), re_path("^(.+)$", answer)]


def set_up():
    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="for a test")
        django.setup()


def asgi():
    set_up()
    return ASGIHandler()


def wsgi():
    set_up()
    return WSGIHandler()
