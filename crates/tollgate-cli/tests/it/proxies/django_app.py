"""A Django app, which decodes an escaped slash before it routes. Its first line is its port."""

from wsgiref.simple_server import make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path, re_path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=[])


def page(text):
    return HttpResponse(text, headers={"Content-Length": len(text.encode())})


urlpatterns = [
    path("login", lambda request: page("the login")),
    path("admin/", lambda request: page("the admin")),
    re_path("(?P<rest>.*)", lambda request, rest: page(f"other: {rest}")),
]

server = make_server("127.0.0.1", 0, get_wsgi_application())
print(server.server_port, flush=True)
server.serve_forever()
