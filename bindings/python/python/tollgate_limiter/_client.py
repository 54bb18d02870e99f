"""The client of a request, as the middleware finds it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ._tollgate import ClientAddress as _ClientAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOG = logging.getLogger("tollgate")


class ClientAddress(_ClientAddress):
    """Finds the client of a request by its address, as `docs/identity.md` says.

    Without arguments it is the other end of the connection. Behind proxies, `proxies` has their
    networks, as `10.0.0.0/8, 192.0.2.1`, or `hops` their number, or both; and `header` is the one
    that they write: `x-forwarded-for`, `forwarded`, or the name of one with a single address, as
    `x-real-ip`. The first `ipv6_prefix` bits of an IPv6 address tell clients apart.

    It is a `key` of the middleware. A request without an address, as over a Unix socket, gets a 503
    there. Each likely mistake is logged once.
    """

    __slots__ = ("_known",)

    # The headers to see, as ASGI and WSGI name them; made when they are first needed.
    _known: list[tuple[bytes, str]]

    def _names(self) -> list[tuple[bytes, str]]:
        try:
            return self._known
        except AttributeError:
            meta = [f"HTTP_{name.upper().replace('-', '_')}" for name in self.headers]
            self._known = [(it.encode(), at) for it, at in zip(self.headers, meta, strict=True)]
            return self._known

    def subject(self, peer: str | None, headers: Iterable[tuple[bytes, bytes]] = ()) -> str | None:
        """The subject of a client: `ip:192.0.2.7`, `ip:2001:db8::/64`; None without an address.

        `peer` is the other end of the connection, with or without a port; None at a Unix socket.
        """
        subject, warning = self.find(peer, list(headers))
        if warning is not None:
            _LOG.warning(warning)
        return subject

    def asgi(self, scope: Mapping[str, Any]) -> str | None:
        """The subject of the client of an ASGI scope."""
        peer = scope.get("client")
        # Port 0: the server has believed a proxy, as `uvicorn --forwarded-allow-ips` does.
        if peer and peer[1] == 0:
            return self.subject(peer[0])
        names = [name for name, _ in self._names()]
        lines = [line for line in scope.get("headers", ()) if line[0] in names]
        return self.subject(peer[0] if peer else None, lines)

    def wsgi(self, environ: Mapping[str, Any]) -> str | None:
        """The subject of the client of a WSGI environment, and of `META` of Django."""
        peer = environ.get("REMOTE_ADDR") or None
        # As Django has the port of ASGI.
        if environ.get("REMOTE_PORT") in (0, "0"):
            return self.subject(peer)
        lines = [
            (name, value.encode("latin-1", "replace"))
            for name, at in self._names()
            if (value := environ.get(at))
        ]
        return self.subject(peer, lines)
