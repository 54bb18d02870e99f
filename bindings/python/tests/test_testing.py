"""`tollgate_limiter.testing`, and strings of the package `limits`."""

from __future__ import annotations

import inspect

import pytest

import tollgate_limiter
from tollgate_limiter import Limiter, LimitError, Limits, ManualClock, from_limits
from tollgate_limiter.testing import frozen


def test_limiters_that_are_made_meanwhile_stand_still() -> None:
    with frozen() as clock:
        limiter, own = Limiter("1/10s"), Limiter("1/10s", clock=ManualClock(7))
        assert limiter.check("a").at_us == clock.at_us == 1_700_000_000_000_000
        assert limiter.check("a").retry_after == 10
        assert own.check("a").at_us == 7
        with frozen(9) as inner:
            assert Limiter("1/s").check("a").at_us == inner.at_us == 9
        clock.advance(10)
        assert limiter.check("a").allowed
        assert Limiter("1/s").clock is clock
    # They keep it, and later ones have none.
    assert limiter.check("a").retry_after == 10
    assert Limiter("1/s").clock is None


def test_an_application_that_is_made_meanwhile_stands_still() -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from tollgate_limiter.asgi import TollgateMiddleware

    def shop() -> FastAPI:
        app = FastAPI()
        app.add_middleware(TollgateMiddleware, limiter=Limiter("1/h"))
        app.get("/")(lambda: "hello")
        return app

    with frozen() as clock:
        client = TestClient(shop(), client=("192.0.2.7", 4711))
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]
        clock.advance(3600)
        assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("10 per minute", "10/min anchor first-hit via fixed_window"),
        ("10 per Minute", "10/min anchor first-hit via fixed_window"),
        (
            "10/MINUTE|100/hours",
            "10/min anchor first-hit via fixed_window, 100/h anchor first-hit via fixed_window",
        ),
        ("5/second;100 per 2 Hours,1 per day", None),
        ("10perminute", "10/min anchor first-hit via fixed_window"),
        ("10 per month", "10/30d anchor first-hit via fixed_window"),
        ("1 / 3 months", "1/90d anchor first-hit via fixed_window"),
        ("1/year", "1/360d anchor first-hit via fixed_window"),
        ("5000/hour", "5000/h anchor first-hit via fixed_window"),
    ],
)
def test_strings_of_limits_mean_the_same(text: str, full: str | None) -> None:
    limits = from_limits(text, policy="api")
    if full is not None:
        assert limits == Limits(full, policy="api")
    assert Limiter(limits).check("a").allowed
    for strategy in ("moving-window", "sliding-window-counter"):
        assert Limiter(from_limits(text, strategy)).check("a").allowed


@pytest.mark.parametrize("text", ["", "10", "10/fortnight", "10 per minute per second", "-1/hour"])
def test_other_strings_are_refused_in_its_words(text: str) -> None:
    with pytest.raises(LimitError, match="is no limit of `limits`: write 10 per 2 hours"):
        from_limits(text)
    with pytest.raises(LimitError, match="strategy is 'gcra': give one of fixed-window, "):
        from_limits("1/hour", "gcra")  # type: ignore[arg-type]


def public() -> list[tuple[str, object]]:
    """Every public callable of the package, and of its public classes."""
    found: list[tuple[str, object]] = []
    for name in tollgate_limiter.__all__:
        it = getattr(tollgate_limiter, name)
        found += [(name, it)] if callable(it) else []
        if inspect.isclass(it):
            members = [word for word in vars(it) if not word.startswith("_")]
            found += [(f"{name}.{word}", getattr(it, word)) for word in members]
    return [(name, it) for name, it in found if callable(it)]


def test_every_public_callable_has_a_signature_and_a_description() -> None:
    assert len(public()) > 40
    made_here = {"Charged", "Decision", "LimitReport", "Refund", "Settled"}
    for name, it in public():
        if name not in made_here:
            assert inspect.signature(it) is not None, name
        assert inspect.getdoc(it), name
