"""A throttle for Django REST framework."""

# It has no types.
# mypy: disable-error-code="import-untyped, misc"

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework.exceptions import APIException

from ._headers import put
from ._middleware import Guard, ask_now, now
from .django import configured, of_django

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.request import Request
    from rest_framework.views import APIView

    from ._client import ClientAddress
    from ._errors import Refusal
    from ._tollgate import Limits


class Refused(APIException):
    """A refusal that is no 429: no address, a store that cannot answer, a cost above a limit."""

    def __init__(self, refusal: Refusal) -> None:
        status, lines, body = refusal
        said = json.loads(body)
        super().__init__(said.get("detail") or said["title"])
        self.status_code = status
        retry_after = dict(lines).get("retry-after")
        #: The seconds of `Retry-After`; None without one.
        self.wait = None if retry_after is None else int(retry_after)


# Not a `BaseThrottle`, whose module reads the settings when it is imported.
class TollgateThrottle:
    """Checks the requests of a view: `throttle_classes = [TollgateThrottle]`.

    It counts in the store of the setting `TOLLGATE`, whose options hold. A subclass has `limits`
    or a `key` of its own. Denials are answered in the form of the project's views.
    """

    #: Limits of its own, or a function of the request; None: those of the project.
    limits: str | Limits | Callable[[Request], Any] | None = None
    #: The policy within which the text of `limits` counts; None: the name of the class.
    policy: str | None = None
    #: A function of the request, as a `key` of docs/python.md; None: that of the project.
    key: ClientAddress | Callable[[Request], Any] | None = None
    #: Other options than the project's, such as `cost` and `skip`.
    options: ClassVar[dict[str, Any]] = {}

    _made: tuple[object, Guard[Any] | None] = (None, None)

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Whether the request is admitted. The view's response gets the headers."""
        guard = self._guard()
        ruling = now(guard.ask(request, ask_now))
        self._ruling = ruling
        request.tollgate = ruling.admitted
        decision = ruling.decision
        lines = ruling.lines
        if decision is not None:
            lines = guard.limiter.headers(decision, guard.headers)
        put(view.headers, lines)
        if ruling.refusal is None:
            return True
        if ruling.refusal[0] != 429:
            raise Refused(ruling.refusal)
        return False

    def wait(self) -> float | None:
        """The exact wait after a denial, in seconds."""
        decision, refusal = self._ruling.decision, self._ruling.refusal
        if decision is not None or refusal is None:
            return decision.retry_after if decision is not None else None
        wait = dict(refusal[1]).get("retry-after")
        return None if wait is None else float(wait)

    def _guard(self) -> Guard[Any]:
        """The guard of the class."""
        kind, base = type(self), configured()
        if kind.limits is None and kind.key is None and not kind.options:
            return base
        of: object
        guard: Guard[Any] | None
        of, guard = kind.__dict__.get("_made", (None, None))
        if guard is None or of is not base:
            name = f"{kind.__module__}.{kind.__qualname__}"
            # Of the class, else a function would be a method.
            limits, key = kind.limits, of_django(kind.key)
            guard = base.of_view(limits, kind.policy, name, key, **kind.options)
            kind._made = (base, guard)
        return guard
