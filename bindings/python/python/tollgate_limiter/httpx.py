"""Transports for httpx that keep to the limits of the service that they call.

import httpx
from tollgate_limiter import Limiter
from tollgate_limiter.httpx import LimitedTransport

limiter = Limiter("20/s, 1000/h")
client = httpx.Client(transport=LimitedTransport(limiter, timeout=60))
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from ._errors import StoreError
from ._failures import required
from ._line import check_seconds
from ._tollgate import wait_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ._failures import OnFailure
    from ._limiter import Limiter
    from ._tollgate import Decision

#: Methods of which a server may have done the first request, too.
_IDEMPOTENT = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")


def host(request: httpx.Request) -> str:
    """The subject of a request by its server: `api.example.com`."""
    return request.url.host


class _Turns:
    """The options of both transports."""

    def __init__(
        self,
        limiter: Limiter,
        key: Callable[[httpx.Request], str],
        timeout: float,
        retries: int,
        on_failure: OnFailure | None,
    ) -> None:
        if not callable(key):
            raise TypeError(f"key must be callable, not {type(key).__name__}")
        if isinstance(retries, bool) or not isinstance(retries, int):
            raise TypeError(f"retries must be int, not {type(retries).__name__}")
        self.limiter, self.key, self.retries = limiter, key, retries
        self.timeout = check_seconds(timeout, "timeout")
        self.failures = required(limiter, on_failure)

    def late(self, request: httpx.Request, decision: Decision | None) -> Exception:
        """The error for a request that has no turn."""
        why = "" if decision is None else f": {decision}"
        where = f"no turn for {self.key(request)} within {self.timeout} s"
        return httpx.PoolTimeout(where + why, request=request)

    def tries(self, request: httpx.Request) -> int:
        """How often it may be sent: a stream once."""
        return 1 + self.retries if isinstance(request.stream, httpx.ByteStream) else 1

    def again(self, request: httpx.Request, response: httpx.Response, done: int) -> bool:
        """Learns the wait that a response asks for. True where it is worth another request."""
        status = response.status_code
        wait = wait_of(status, list(response.headers.raw))
        is_refused = status == 429 or (status == 503 and request.method in _IDEMPOTENT)
        if is_refused and wait is None:
            wait = 2.0**done
        if wait is not None:
            self.limiter.back_off(self.key(request), wait)
        return is_refused


class LimitedTransport(httpx.BaseTransport):
    """A transport for `httpx.Client`: each request waits for its turn, in the order of arrival.

    `key` makes the subject of a request, by default its host. Without a turn within `timeout`
    seconds, of all tries together, a request fails with `httpx.PoolTimeout`. A response that asks
    for a wait, as by `Retry-After` or `RateLimit`, delays all that come after. A 429, and a 503 of
    a method that may be repeated, is tried again up to `retries` times, and returned where there is
    no time for it. `on_failure` says whether requests go out while the limiter's store cannot
    answer; `transport` sends them.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        key: Callable[[httpx.Request], str] = host,
        timeout: float = 60.0,
        retries: int = 2,
        on_failure: OnFailure | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._turns = _Turns(limiter, key, timeout, retries, on_failure)
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        turns, response = self._turns, None
        end = time.monotonic() + turns.timeout
        for done in range(turns.tries(request)):
            left, turn = max(end - time.monotonic(), 0.0), turns.failures.turn
            try:
                decision = turns.limiter.until_ready(turns.key(request), left)
            except StoreError as error:
                if not turns.failures.passes(error, turn):
                    raise
            else:
                turns.failures.answered(turn)
                if not decision and response is None:
                    raise turns.late(request, decision)
                if not decision:
                    break
            if response is not None:
                response.close()
            response = self._transport.handle_request(request)
            if not turns.again(request, response, done):
                break
        assert response is not None
        return response

    def __enter__(self) -> LimitedTransport:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, error, trace)

    def close(self) -> None:
        self._transport.close()


class AsyncLimitedTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`."""

    def __init__(
        self,
        limiter: Limiter,
        *,
        key: Callable[[httpx.Request], str] = host,
        timeout: float = 60.0,
        retries: int = 2,
        on_failure: OnFailure | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._turns = _Turns(limiter, key, timeout, retries, on_failure)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        turns, response = self._turns, None
        end = time.monotonic() + turns.timeout
        for done in range(turns.tries(request)):
            left, turn = max(end - time.monotonic(), 0.0), turns.failures.turn
            try:
                decision = await turns.limiter.auntil_ready(turns.key(request), left)
            except StoreError as error:
                if not turns.failures.passes(error, turn):
                    raise
            else:
                turns.failures.answered(turn)
                if not decision and response is None:
                    raise turns.late(request, decision)
                if not decision:
                    break
            if response is not None:
                await response.aclose()
            response = await self._transport.handle_async_request(request)
            if not turns.again(request, response, done):
                break
        assert response is not None
        return response

    async def __aenter__(self) -> AsyncLimitedTransport:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        await self._transport.aclose()
