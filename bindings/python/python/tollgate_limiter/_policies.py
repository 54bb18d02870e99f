"""Policies of a file, without the service."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ._tollgate import Policies as _Policies

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Iterable, Mapping

    from ._tollgate import PolicyRuling

    Head = tuple[
        str,
        str,
        list[tuple[bytes, bytes]],
        str | None,
        str | None,
        str | None,
        dict[str, str],
    ]

_LOG = logging.getLogger("tollgate")


class Policies(_Policies):
    """The policies of a file, and the store in which they count: all that the service does with a
    request, in this process.

    `file` is a policy file as the service reads it, in TOML or YAML. `store` is a URL as that of
    `Limiter`. `client` is a `ClientAddress`, `headers` the profile of headers, and `api_key` the
    name of the header with API keys and the secret by which they are hashed. While the store cannot
    answer, the failure rules of the file decide. Give it to a middleware in place of a `Limiter`.
    """

    __slots__ = ()

    def judge(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        peer: str | None = None,
        *,
        user: str | None = None,
        route: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> PolicyRuling:
        """The ruling on a request by its head, which counts it.

        `target` is the path with its query, `peer` the other end of the connection, `fields` are
        the fields `field.NAME` of the file. A ruling has `refusal`, the status, headers and body of
        the response, or None for a request that passes, and then the `headers` for its response.
        """
        head = (method, target, list(headers), peer, user, route, dict(fields or {}))
        return _logged(self.run(head))

    async def ajudge(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        peer: str | None = None,
        *,
        user: str | None = None,
        route: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> PolicyRuling:
        """`judge` for asyncio."""
        head = (method, target, list(headers), peer, user, route, dict(fields or {}))
        if self.in_memory:
            return _logged(self.run(head))
        from ._bridges import bridge

        loop, bridge_of_loop = bridge()
        future: Future[PolicyRuling] = loop.create_future()
        self.start(head, bridge_of_loop, future)
        return _logged(await future)


def _logged(ruling: PolicyRuling) -> PolicyRuling:
    for warning in ruling.warnings:
        _LOG.warning("%s", warning)
    return ruling
