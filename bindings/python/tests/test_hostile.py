"""Whatever a client writes, each front counts it for the same subject, and none answers 500."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fronts import FRONTS, Drf
from test_clients import cases

from tollgate_limiter import ClientAddress, Limiter, Policies

ALL = {**FRONTS, "drf": Drf}

#: Values of `X-Forwarded-For` from a trusted proxy.
HOSTILE: list[bytes] = [
    b"",
    b" ",
    b",",
    b"," * 5_000,
    b"unknown",
    b"garbage",
    b"_hidden",
    b"testclient",
    b"192.0.2.7:4711",
    b"[2001:db8::17]:4711",
    b"2001:db8::17%eth0",
    b"::ffff:192.0.2.7",
    b"010.0.0.1",
    b"1.2.3",
    b"256.1.1.1",
    b"3232235777",
    b"0x7f000001",
    b"192.0.2.7, unknown",
    b"unknown, 192.0.2.7",
    b"192.0.2.7;192.0.2.8",
    b"for=192.0.2.7",
    b"'; DROP TABLE users; --",
    b"<script>alert(1)</script>",
    b"%00",
    b"%0d%0aSet-Cookie: a=b",
    b"\x00",
    b"\x01\x02\x7f",
    b"\xff\xfe\xfd",
    b"\xc3\x28",
    "\u0661\u0669\u0662.0.2.7".encode(),
    "192.0.2.7\u200b".encode(),
    "\uff11\uff19\uff12.0.2.7".encode(),
    b"1" * 70_000,
    b"a," * 35_000,
    b"192.0.2.7," * 7_000 + b"192.0.2.9",
    b"10.0.0.2," * 7_000,
    b"[" * 1_000,
    b":" * 1_000,
    b"%s%n%d",
    b"${jndi:ldap://a}",
    b"-1",
    b"\t192.0.2.7\t",
    b"192.0.2.7/24",
    b"null",
]

#: What a key of one's own may make of them.
KEYS: list[Any] = [it.decode("latin-1") for it in HOSTILE if it != b""] + [
    "",
    "user:",
    "user:\ud800",
    "user:" + "\u0000" * 9,
    "user:" + "é" * 40_000,
    ["user:1", ""],
    [f"user:{number}" for number in range(17)],
]


@pytest.mark.parametrize("name", ALL)
def test_each_front_finds_the_client_as_the_vectors_state(name: str) -> None:
    found: list[str] = []
    for case in cases():
        clients, peer, headers, subject = case.values
        app = ALL[name](
            Limiter("9/h"),
            key=clients,
            on_decision=lambda _, decision: found.append(decision.limits[0].subject),
        )
        lines: dict[str, list[str]] = {}
        for line, value in headers:
            lines.setdefault(line.lower().replace("-", "_"), []).append(value)
        answer = app.get(peer=peer, **lines)
        assert answer.status == (503 if subject is None else 200), case.id
        assert ([] if subject is None else [subject]) == found, case.id
        found.clear()


@pytest.mark.parametrize("name", ALL)
def test_hostile_addresses(name: str) -> None:
    assert len(HOSTILE) > 40
    clients = ClientAddress("10.0.0.0/8", header="x-forwarded-for")
    found: list[str] = []
    app = ALL[name](
        Limiter("100000/h via gcra"),
        key=clients,
        on_decision=lambda _, decision: found.append(decision.limits[0].subject),
    )
    for value in HOSTILE:
        for lines in (value, [value, b"198.51.100.7"]):
            raw = lines if isinstance(lines, list) else [lines]
            expected = clients.subject("10.0.0.1", [(b"x-forwarded-for", it) for it in raw])
            # What a client writes hides nothing that its proxy writes after it.
            assert expected == "ip:198.51.100.7" if len(raw) == 2 else expected is not None
            answer = app.get(peer="10.0.0.1", x_forwarded_for=lines)
            assert (answer.status, found) == (200, [expected]), value[:40]
            found.clear()


@pytest.mark.parametrize("name", ALL)
def test_hostile_keys(name: str) -> None:
    found: list[str] = []
    app = ALL[name](
        Limiter("100000/h via gcra"),
        key=lambda request: KEYS[int(ALL[name].header(request, "who") or 0)],
        on_decision=lambda _, decision: found.append(decision.limits[0].subject),
    )
    limiter = Limiter("100000/h via gcra")
    for who, key in enumerate(KEYS):
        try:
            expected = [limiter.check(key).limits[0].subject if isinstance(key, str) else ""]
        except ValueError:
            expected = [""]
        answer = app.get(who=str(who))
        if expected == [""]:
            assert (answer.status, found) == (400, []), str(key)[:40]
        else:
            assert (answer.status, found) == (200, expected), str(key)[:40]
        found.clear()


POLICIES = """
version = 1

[[policies]]
name = "all"
on_failure = "deny"
shard = "never"
limits = [
    { subject = "ip", limit = "100000/h via gcra" },
    { subject = "user", limit = "100000/h via gcra", absent = "skip" },
]
"""


@pytest.mark.parametrize("name", ALL)
def test_policies_stand_hostile_requests(name: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    clients = ClientAddress("10.0.0.0/8", header="x-forwarded-for")
    users: list[Any] = [it for it in KEYS if isinstance(it, str)]
    app = ALL[name](
        Policies(str(file), "memory://", client=clients),
        key=lambda request: users[int(ALL[name].header(request, "who") or 0)],
    )
    statuses = [app.get(peer="10.0.0.1", x_forwarded_for=it).status for it in HOSTILE]
    # A line with a control character is no header.
    assert set(statuses) == {200, 400} and statuses.count(400) < 5
    # Whatever the user is, it is one or cannot be one.
    assert {app.get(who=str(who)).status for who in range(len(users))} <= {200, 400}
    for path in ("/%00", "/\x00", "/ü", "/" + "a" * 70_000, "/a b", "//", "/?"):
        assert app.get(path).status in (200, 400), path[:20]
