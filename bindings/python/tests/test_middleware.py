"""The options of the middleware, which mean the same in each front."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fronts import FRONTS

from tollgate_limiter import (
    ArgumentError,
    ClientAddress,
    Decision,
    Limiter,
    Limits,
    ManualClock,
    Policies,
)

Front = Callable[..., Any]


@pytest.fixture(params=list(FRONTS))
def front(request: pytest.FixtureRequest) -> Front:
    return FRONTS[request.param]


def statuses(app: Any, *paths: str) -> list[int]:
    return [app.get(path).status for path in paths]


def test_a_key_may_make_several_subjects_decided_together(front: Front) -> None:
    limiter = Limiter("2/h", policy="api")
    keys: list[Any] = [["user:1", ("all:1", "3/h")], ["user:2", ("all:1", "3/h")]]

    def key(request: Any) -> Any:
        return keys[int(front.header(request, "who") or 0)]

    app = front(limiter, key=key)
    assert [app.get(who="0").status for _ in range(3)] == [200, 200, 429]
    # The denied request charged neither, so one is left for all.
    answer = app.get(who="1")
    assert answer.status == 200
    assert answer["ratelimit-policy"] == '"api/user";q=2;w=3600, "api/all";q=3;w=3600'
    assert answer["ratelimit"] == '"api/all";r=0;t=3600'
    assert app.get(who="1").status == 429
    assert limiter.peek("user:2").remaining == 1


def test_an_address_is_a_key_and_one_of_several(front: Front) -> None:
    limiter = Limiter("1/h", clock=ManualClock())
    clients = ClientAddress("10.0.0.0/8", header="x-forwarded-for")
    app = front(limiter, key=clients)
    assert app.get(peer="10.1.1.1", x_forwarded_for="192.0.2.9").status == 200
    assert app.get(peer="10.1.1.1", x_forwarded_for="192.0.2.9").status == 429
    assert limiter.peek("ip:192.0.2.9").remaining == 0
    app = front(limiter, key=lambda request: [None, "user:1"])
    assert statuses(app, "/", "/") == [200, 429]
    for nobody in (None, [], [None]):
        app = front(limiter, key=lambda request, it=nobody: it)
        assert statuses(app, "/", "/") == [200, 200]
    answer = front(limiter).get(peer=None)
    assert answer.status == 503 and answer["retry-after"] == "5"


def test_limits_by_request(front: Front) -> None:
    plans: dict[str | None, Any] = {"small": "1/h", "large": Limits("2/h", policy="large")}
    limiter = Limiter("3/h", policy="api")

    def limits(request: Any) -> Any:
        return plans.get(front.header(request, "plan"))

    app = front(limiter, key=lambda request: "user:1", limits=limits)
    assert [app.get(plan="small").status for _ in range(2)] == [200, 429]
    assert [app.get(plan="large").status for _ in range(3)] == [200, 200, 429]
    # Within one policy, a change of numbers is no new count.
    assert [app.get().status for _ in range(3)] == [200, 200, 429]
    assert app.get(plan="small")["ratelimit-policy"] == '"api";q=1;w=3600'
    assert app.get(plan="large")["ratelimit-policy"] == '"large";q=2;w=3600'


def test_a_cost_is_a_number_units_or_of_the_request(front: Front) -> None:
    assert statuses(front(Limiter("5/h"), cost=2), "/", "/", "/") == [200, 200, 429]
    units = Limiter("9/h, 5/h of tokens")
    assert statuses(front(units, cost={"requests": 1, "tokens": 3}), "/", "/") == [200, 429]
    app = front(Limiter("5/h"), cost=lambda request: 4 if front.path(request) == "/export" else 1)
    assert statuses(app, "/", "/export", "/") == [200, 200, 429]
    # What waiting does not help is no 429, and an unusable cost no 500.
    assert statuses(front(Limiter("5/h"), cost=6), "/") == [422]
    assert statuses(front(Limiter("5/h"), cost=lambda request: 0), "/") == [400]


def test_what_is_skipped_is_not_limited(front: Front) -> None:
    app = front(Limiter("1/h"), skip=lambda request: front.path(request) == "/health")
    assert statuses(app, "/health", "/", "/health", "/") == [200, 200, 200, 429]
    assert not app.get("/health").all("ratelimit")


def test_a_denial_of_ones_own_has_the_headers_that_it_does_not_set(front: Front) -> None:
    said: list[Any] = []

    def on_denied(request: Any, decision: Decision, refusal: Any) -> Any:
        said.append((front.path(request), decision.allowed, refusal[0]))
        return front.own(418, "later")

    app = front(Limiter("1/h", policy="api"), on_denied=on_denied)
    assert statuses(app, "/") == [200]
    answer = app.get("/x")
    assert (answer.status, answer.body) == (418, b"later")
    assert said == [("/x", False, 429)]
    assert answer["retry-after"] == "3600" and answer["ratelimit"] == '"api";r=0;t=3600'
    assert "problem" not in "".join(answer.all("content-type"))


def test_a_charge_is_given_back_by_the_response(front: Front) -> None:
    """Only failed log-ins count."""
    limiter = Limiter("2/h")
    app = front(limiter, refund_when=lambda response: response.status_code < 400)
    assert statuses(app, *["/"] * 5, "/status/401", "/status/401", "/") == [200] * 5 + [401] * 2 + [
        429
    ]


def test_more_is_charged_by_the_response(front: Front) -> None:
    def extra(response: Any) -> int:
        return int(response.headers.get("x-units") or 0)

    limiter = Limiter("10/h")
    app = front(limiter, extra_cost=extra)
    assert statuses(app, "/units/6", "/") == [200, 200]
    assert limiter.peek("ip:192.0.2.7").remaining == 2
    # Under limits of its own, also those that are not the limiter's.
    app = front(limiter, key=lambda request: [("user:1", "10/h"), "user:2"], extra_cost=extra)
    assert app.get("/units/6").status == 200
    assert limiter.peek("user:2").remaining == 3
    both = limiter.check_all([("user:1", "10/h"), "user:2"])
    assert [it.remaining for it in both.limits] == [2, 2]


def test_an_exception_of_the_application_is_a_500_for_the_charge() -> None:
    for name in ("asgi", "wsgi"):
        limiter = Limiter("2/h")
        app = FRONTS[name](limiter, refund_when=lambda response: response.status_code >= 500)
        with pytest.raises(RuntimeError):
            app.get("/raise")
        assert limiter.peek("ip:192.0.2.7").remaining == 2


def test_each_decision_is_told(front: Front) -> None:
    told: list[tuple[str, bool]] = []
    app = front(
        Limiter("1/h"),
        on_decision=lambda request, decision: told.append((front.path(request), decision.allowed)),
    )
    statuses(app, "/", "/x")
    assert told == [("/", True), ("/x", False)]


def test_headers_of_several_middlewares_appear_once_outer_first(front: Front) -> None:
    app = front(Limiter("3/h", policy="inner"), headers="both")
    app.inside(Limiter("100/h", policy="outer"), headers="both")
    answer = app.get()
    assert answer["ratelimit-policy"] == '"outer";q=100;w=3600, "inner";q=3;w=3600'
    assert answer["ratelimit"] == '"outer";r=99;t=3600, "inner";r=2;t=3600'
    # The numbers are those of the limit with the least left.
    assert answer["x-ratelimit-limit"] == "3" and answer["x-ratelimit-remaining"] == "2"
    assert statuses(app, "/", "/") == [200, 200]
    answer = app.get()
    assert answer.status == 429 and answer["retry-after"] == "3600"
    assert answer["ratelimit"] == '"outer";r=96;t=3600, "inner";r=0;t=3600'
    assert json.loads(answer.body)["violated-policies"] == ["inner"]
    app = front(Limiter("100/h", policy="inner"), headers="legacy")
    app.inside(Limiter("3/h", policy="outer"), headers="both")
    answer = app.get()
    assert answer["x-ratelimit-limit"] == "3" and answer["ratelimit-policy"].count(";q=") == 1


def test_a_key_that_cannot_be_one_is_a_400(front: Front, caplog: pytest.LogCaptureFixture) -> None:
    keys = ["", "x" * 70_000, "user:\ud800", ["user:1", ""]]
    app = front(Limiter("9/h"), key=lambda request: keys[int(front.header(request, "who"))])
    with caplog.at_level(logging.WARNING, "tollgate"):
        for who in range(len(keys)):
            answer = app.get(who=str(who))
            assert answer.status == 400
            assert answer["content-type"] == "application/problem+json"
    assert len([it for it in caplog.records if it.name == "tollgate"]) == 1


def test_options_are_checked_when_it_is_made() -> None:
    for front in (FRONTS["asgi"], FRONTS["wsgi"], FRONTS["flask"]):
        for options, error, what in [
            ({"cost": "2"}, TypeError, "cost must be int"),
            ({"cost": 2**50}, ValueError, "give a whole number from 1"),
            ({"skip": "/health"}, TypeError, "skip must be callable"),
            ({"limits": "10/s"}, TypeError, "limits must be callable"),
            ({"on_denied": 3}, TypeError, "on_denied must be callable"),
            ({"skp": None}, TypeError, "skp"),
        ]:
            with pytest.raises(error, match=what):
                front(Limiter("1/h"), **options)


def test_an_option_that_is_async_is_refused_where_nothing_waits() -> None:
    import asyncio

    async def key(request: Any) -> str:
        await asyncio.sleep(0)
        return "user:1"

    assert FRONTS["asgi"](Limiter("1/h"), key=key).get().status == 200
    with pytest.raises(TypeError, match="give plain functions"):
        FRONTS["wsgi"](Limiter("1/h"), key=key).get()


def test_a_key_that_returns_no_subject_is_a_bad_request(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    for key in (("tenant:a", "10/m"), [(None, "9/m")], ["a", 7], 7):
        app = front(Limiter("1/h"), key=lambda request, key=key: key)
        assert statuses(app, "/", "/") == [400, 400], key
    assert len([it for it in caplog.messages if "give str, None, or a list" in it]) == 4
    # Nobody's limits are asked for.
    none = front(Limiter("1/h"), key=lambda request: None, limits=lambda request: {}["no tenant"])
    assert statuses(none, "/", "/") == [200, 200]


TENANT = 'subject = "field.tenant", limit = "1/h", absent = "skip"'

POLICIES = """
version = 1

[[policies]]
name = "shop"
on_failure = "deny"
when = { path = "/shop/*" }
shard = "never"
limits = [
    { subject = "ip", limit = "2/h" },
    { subject = "user", limit = "1/h", absent = "skip" },
]
"""


def app_of_tenant(front: Front, file: Path) -> Any:
    file.write_text(POLICIES.replace('subject = "ip", limit = "2/h"', TENANT))
    policies = Policies(str(file), "memory://")
    return front(policies, fields=lambda request: {"tenant": front.header(request, "tenant")})


def test_policies_of_a_file_take_the_place_of_a_limiter(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    app = front(
        Policies(str(file), "memory://"),
        key=lambda request: front.header(request, "who"),
        skip=lambda request: front.path(request) == "/shop/health",
        on_denied=lambda request, decision, refusal: front.own(refusal[0], "later"),
    )
    answer = app.get("/shop/a", who="ann")
    assert answer.status == 200 and answer["ratelimit"] == '"shop/user";r=0;t=3600'
    answer = app.get("/shop/a", who="ann")
    assert (answer.status, answer.body) == (429, b"later") and answer["retry-after"] == "3600"
    assert app.get("/shop/a", who="bob").status == 200
    assert app.get("/shop/a?x=y", who="eve").status == 429
    assert statuses(app, "/shop/health", "/") == [200, 200]
    # A path that had to be encoded is no bad request.
    assert statuses(app, "/a b", "/a%3Fb", "/\u00e9", "/[x]|<y>") == [200] * 4
    tenant = app_of_tenant(front, file)
    assert tenant.get("/shop/a", tenant="a").status == 200
    assert tenant.get("/shop/a", tenant="a").status == 429
    assert tenant.get("/shop/a", tenant="b").status == 200
    with pytest.raises(ArgumentError, match=r"fields is missing: .* reads field\.tenant"):
        front(Policies(str(file), "memory://"))
    wrong = front(Policies(str(file), "memory://"), fields=lambda request: {"tenat": "a"})
    assert wrong.get("/shop/a").status == 400
    with pytest.raises(ArgumentError, match="cost: with policies, the file says it"):
        front(Policies(str(file), "memory://"), cost=2)
