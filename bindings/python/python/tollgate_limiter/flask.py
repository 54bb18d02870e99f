"""An extension for Flask, with limits of routes and blueprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, current_app, g, make_response
from flask import request as current_request

from ._client import ClientAddress
from ._errors import Denied
from ._headers import MARKS, missing, put
from ._middleware import Guard, Ruling, ask_now, found, now, of_request, under, value
from ._policies import Policies
from ._policy_guard import PolicyGuard

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from flask import Request, Response
    from typing_extensions import Unpack

    from ._limiter import Limiter
    from ._middleware import Options, Subjects
    from ._tollgate import Limits

    Limited = TypeVar("Limited", bound=Blueprint | Callable[..., Any])

_OWN, _EXEMPT = "_tollgate_limits", "_tollgate_exempt"


class _Clients:
    """An address as Flask has it, in the environment."""

    def __init__(self, clients: ClientAddress) -> None:
        self.__self__ = clients

    def __call__(self, request: Request) -> str | None:
        return self.__self__.wsgi(request.environ)


def _of_flask(key: Any) -> Any:
    return _Clients(key) if isinstance(key, ClientAddress) else key


class _Guard(Guard["Request"]):
    """Together with the application's limits, those of the route and its blueprints."""

    __slots__ = ("is_default",)
    is_default: bool

    async def subjects(self, request: Request) -> Subjects:
        marked: list[tuple[str, Any]] = [
            (f"blueprint.{name}", current_app.blueprints[name])
            for name in reversed(request.blueprints)
        ]
        endpoint = request.endpoint or ""
        marked.append((f"route.{endpoint}", current_app.view_functions.get(endpoint)))
        is_exempt = not self.is_default or any(getattr(it, _EXEMPT, False) for _, it in marked)
        subjects = [] if is_exempt else await super().subjects(request)
        for name, it in marked:
            for limits, key, policy in getattr(it, _OWN, ()):
                own = await value(of_request(limits, policy, name)(request))
                if own is not None:
                    key = key or self.key
                    subjects += under(await found(key, key(request), self.limiter.policy), own)
        return subjects


class Tollgate:
    """Checks each request of an application: `Tollgate(app, Limiter("100/m"))`, or `init_app`.

    `key` is a `ClientAddress`, or makes the subject of a request of Flask. The other options are
    those of docs/python.md. With `default=False` only routes and blueprints with limits of their
    own are limited. All limits of a request are decided together.

    The decision is in `g.tollgate`; None where a request passes without one.
    """

    def __init__(
        self,
        app: Flask | None = None,
        limiter: Limiter | Policies | None = None,
        key: ClientAddress | Callable[[Request], Any] | None = None,
        *,
        default: bool = True,
        **options: Unpack[Options[Request]],
    ) -> None:
        by = _of_flask(key or ClientAddress())
        self._guard: Guard[Request]
        if isinstance(limiter, Policies):
            self._guard = PolicyGuard(limiter, by, "", **options)
        else:
            self._guard = _Guard(limiter, by, "", **options)  # type: ignore[arg-type,misc]
            self._guard.is_default = default
        # An application may have several.
        self._name = f"_tollgate_{id(self)}"
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Checks the requests of this application too."""
        app.extensions["tollgate"] = self
        app.before_request(self._before)
        app.after_request(self._after)
        app.teardown_request(_teardown)
        app.register_error_handler(Denied, self._denied)

    def limit(
        self,
        limits: str | Limits | Callable[[Request], Any],
        *,
        key: ClientAddress | Callable[[Request], Any] | None = None,
        policy: str | None = None,
    ) -> Callable[[Limited], Limited]:
        """Limits of a route or a blueprint, beside the application's.

        Text counts under the name of the route or blueprint; two share a count by one `policy`.
        Limits may be a function of the request, where None is no limit.
        """

        if isinstance(self._guard, PolicyGuard):
            self._guard.of_view()
        own = (limits, _of_flask(key), policy)
        of_request(limits, policy, "route")

        def mark(limited: Limited) -> Limited:
            setattr(limited, _OWN, [*getattr(limited, _OWN, ()), own])
            return limited

        return mark

    def exempt(self, limited: Limited) -> Limited:
        """The application's limits do not hold for a route or a blueprint. Its own do."""
        setattr(limited, _EXEMPT, True)
        return limited

    def _before(self) -> Response | None:
        request: Request = current_request._get_current_object()  # type: ignore[attr-defined]
        ruling = now(self._guard.ask(request, ask_now))
        g.tollgate = ruling.admitted
        setattr(g, self._name, ruling)
        if ruling.refusal is not None:
            return self._refused(request, ruling)
        MARKS.set(ruling.marks)
        return None

    def _after(self, response: Response) -> Response:
        ruling: Ruling | None = g.pop(self._name, None)
        if ruling is not None and ruling.refusal is None:
            now(self._guard.settle(ruling, response, ask_now))
            put(response.headers, self._guard.lines(ruling))
        return response

    def _denied(self, denied: Denied) -> Response:
        request: Request = current_request._get_current_object()  # type: ignore[attr-defined]
        return self._refused(request, self._guard.of_denied(denied))

    def _refused(self, request: Request, ruling: Ruling) -> Response:
        assert ruling.refusal is not None
        status, lines, body = ruling.refusal
        own = self._guard.own(request, ruling)
        if own is None:
            return make_response(body, status, lines)
        response = make_response(own)
        for name, line in missing(lines, response.headers.keys()):
            response.headers[name] = line
        return response


def _teardown(_error: BaseException | None) -> None:
    MARKS.set(None)
