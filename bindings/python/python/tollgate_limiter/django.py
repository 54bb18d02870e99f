"""Middleware, and a decorator of views, for Django."""

# Django has no types.
# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django import conf
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.utils.module_loading import import_string

from ._client import ClientAddress
from ._errors import Denied
from ._headers import MARKS, missing, put
from ._middleware import Guard, Ruling, ask_later, ask_now, now, value
from ._policy_guard import guard_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase
    from typing_extensions import Unpack

    from ._middleware import Ask, ViewOptions
    from ._tollgate import Limits

    View = TypeVar("View", bound=Callable[..., Any])
    Call = Callable[..., Awaitable[HttpResponseBase]]


class _Clients:
    """An address as Django has it, in `META`."""

    def __init__(self, clients: ClientAddress) -> None:
        self.__self__ = clients

    def __call__(self, request: HttpRequest) -> str | None:
        return self.__self__.wsgi(request.META)


_MADE: tuple[object, Guard[HttpRequest] | None] = (None, None)


def configured() -> Guard[HttpRequest]:
    """The guard of the setting `TOLLGATE`, one for all that is in the project."""
    global _MADE
    given = getattr(conf.settings, "TOLLGATE", None)
    if not isinstance(given, dict) or "limiter" not in given:
        raise ImproperlyConfigured('the setting TOLLGATE is missing: {"limiter": Limiter("100/m")}')
    of, guard = _MADE
    if guard is None or of is not given:
        options = {name: _imported(name, it) for name, it in given.items()}
        limiter, key = options.pop("limiter"), options.pop("key", ClientAddress())
        guard = guard_of(limiter, of_django(key), "", **options)
        _MADE = (given, guard)
    return guard


def _imported(name: str, given: Any) -> Any:
    """An option, which may be written as the path of a function."""
    is_path = isinstance(given, str) and name not in ("limiter", "headers", "on_failure")
    return import_string(given) if is_path else given


def of_django(key: Any) -> Any:
    return _Clients(key) if isinstance(key, ClientAddress) else key


class TollgateMiddleware:
    """Checks each request by the setting `TOLLGATE`, and answers denied ones.

    The setting has `limiter`, and the options of docs/python.md; a function may be written as its
    path: `"shop.limits.key"`. The decision is in `request.tollgate`; None where a request passes
    without one. It is sync and async, as the server is.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.guard = configured()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return _answer(self.guard, request, self.get_response, ask_later)
        return now(_answer(self.guard, request, _waited(self.get_response), ask_now))

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """The response to a call that `Limiter.limit` denied in a view."""
        if not isinstance(exception, Denied):
            return None
        return now(_refused(self.guard, request, self.guard.of_denied(exception)))


def ratelimit(
    limits: str | Limits | Callable[[HttpRequest], Any],
    *,
    key: ClientAddress | Callable[[HttpRequest], Any] | None = None,
    policy: str | None = None,
    **options: Unpack[ViewOptions[HttpRequest]],
) -> Callable[[View], View]:
    """A decorator of a view, sync or async: its own limits, counted in the store of `TOLLGATE`.

    Text counts under the view's name; two views share a count by one `policy`. Limits may be a
    function of the request, where None is no limit. The options are
    those of docs/python.md. `key`, `on_denied`, `on_decision`, `headers` and `on_failure` are the
    project's if they are missing.
    """

    guards: dict[str, tuple[object, Guard[HttpRequest]]] = {}

    def guard_of(name: str) -> Guard[HttpRequest]:
        base = configured()
        of, guard = guards.get(name, (None, base))
        if of is not base:
            guard = base.of_view(limits, policy, name, of_django(key), **options)
            guards[name] = (base, guard)
        return guard

    def decorate(view: View) -> View:
        # Once for each request, where `method_decorator` makes a decorator of a method of it.
        guard = guard_of(_name(view))
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def call_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                return await _answer(
                    guard, request, lambda it: view(it, *args, **kwargs), ask_later
                )

            return call_async  # type: ignore[return-value]

        @functools.wraps(view)
        def call(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            waited = _waited(lambda it: view(it, *args, **kwargs))
            return now(_answer(guard, request, waited, ask_now))

        return call  # type: ignore[return-value]

    return decorate


def _name(view: Any) -> str:
    """The name of a view: that of its class, if it has one."""
    method = getattr(view, "func", None)
    kind = getattr(view, "view_class", None) or type(getattr(method, "__self__", None))
    named = view if kind is type(None) else kind
    return f"{named.__module__}.{named.__qualname__}"


def _waited(function: Callable[[HttpRequest], HttpResponseBase]) -> Call:
    async def call(request: HttpRequest) -> HttpResponseBase:
        return function(request)

    return call


async def _answer(
    guard: Guard[HttpRequest], request: HttpRequest, call: Call, ask: Ask
) -> HttpResponseBase:
    """The response to a request, by `call` where it passes."""
    ruling = await guard.ask(request, ask)
    request.tollgate = ruling.admitted
    if ruling.refusal is not None:
        return await _refused(guard, request, ruling)
    token = MARKS.set(ruling.marks)
    try:
        response = await call(request)
    except Denied as denied:
        response = await _refused(guard, request, guard.of_denied(denied))
    finally:
        MARKS.reset(token)
    if guard.settles:
        await guard.settle(ruling, response, ask)
    put(response.headers, guard.lines(ruling))
    return response


async def _refused(
    guard: Guard[HttpRequest], request: HttpRequest, ruling: Ruling
) -> HttpResponseBase:
    assert ruling.refusal is not None
    status, lines, body = ruling.refusal
    own: HttpResponseBase | None = await value(guard.own(request, ruling))
    if own is None:
        return HttpResponse(body, status=status, headers=dict(lines))
    for name, line in missing(lines, own.headers.keys()):
        own.headers[name] = line
    return own
