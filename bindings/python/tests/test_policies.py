"""Policies of a file, without the service."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest
from conftest import free_port

from tollgate_limiter import ArgumentError, ClientAddress, Policies, StoreError

FILE = """
version = 1
nodes = 2

[[policies]]
name = "NAME"
on_failure = { local = "50 %" }
shard = "never"

[[policies.limits]]
subject = "ip"
limit = "2/h via fixed_window"

[[policies.limits.overrides]]
when = { user = "mallory" }
limit = "banned"

[[policies.limits]]
subject = "field.tenant"
absent = "skip"
limit = "3/h via fixed_window"
"""


@pytest.fixture
def file(tmp_path: Path, unique: str) -> str:
    path = tmp_path / "policies.toml"
    path.write_text(FILE.replace("NAME", unique))
    return str(path)


def status(ruling: object) -> int:
    refusal = ruling.refusal  # type: ignore[attr-defined]
    return 200 if refusal is None else int(refusal[0])


def test_a_file_decides(file: str, store: str) -> None:
    policies = Policies(file, store, client=ClientAddress("10.0.0.0/8"))

    def get(peer: str | None, **words: object) -> int:
        return status(policies.judge("GET", "/a?b=1", peer=peer, **words))  # type: ignore[arg-type]

    first = policies.judge("GET", "/", peer="192.0.2.7:4711")
    assert first.refusal is None
    assert dict(first.headers)["ratelimit"].endswith(";r=1;t=3600") or first.headers
    assert [get("192.0.2.7") for _ in range(2)] == [200, 429]
    proxied = [(b"X-Forwarded-For", b"192.0.2.7")]
    assert get("10.0.0.1", headers=proxied) == 429
    assert get("192.0.2.8", user="mallory") == 403
    tenants = [get(f"192.0.2.{10 + each}", fields={"tenant": "a"}) for each in range(4)]
    assert tenants == [200, 200, 200, 429]
    for peer in (None, "", "testclient", "192.0.2.300", "x" * 70_000):
        assert get(peer) in (200, 400, 403, 503)
    assert status(policies.judge("GET", "not a target")) == 400

    async def main() -> list[int]:
        asked = [policies.ajudge("GET", "/", peer="192.0.2.99") for _ in range(5)]
        return [status(it) for it in await asyncio.gather(*asked)]

    assert sorted(asyncio.run(main())) == [200, 200, 429, 429, 429]


def test_a_file_is_read_again(file: str) -> None:
    policies = Policies(file, "memory://")
    path = Path(file)
    path.write_text(path.read_text().replace("2/h", "4/h"))
    policies.reload()
    got = [status(policies.judge("GET", "/", peer="192.0.2.7")) for _ in range(5)]
    assert got == [200, 200, 200, 200, 429]
    path.write_text("version = 2")
    with pytest.raises(ArgumentError, match=r"policies\.toml:1"):
        policies.reload()
    assert status(policies.judge("GET", "/", peer="192.0.2.8")) == 200


def test_local_shares_decide_while_the_store_is_away(
    file: str, caplog: pytest.LogCaptureFixture
) -> None:
    policies = Policies(file, f"redis://127.0.0.1:{free_port()}?deadline=100ms")
    with caplog.at_level(logging.WARNING, "tollgate"):
        got = [status(policies.judge("GET", "/", peer="192.0.2.7")) for _ in range(3)]
    assert got == [200, 429, 429]
    assert len([it for it in caplog.messages if "the store does not answer" in it]) == 1


def test_what_is_wrong_is_named(file: str) -> None:
    with pytest.raises(ArgumentError, match="none"):
        Policies("/none.toml", "memory://")
    with pytest.raises(StoreError, match="ftp"):
        Policies(file, "ftp://host")
    with pytest.raises(ArgumentError, match="the secret of API keys"):
        Policies(file, "memory://", api_key=("x-key", "short"))
    with pytest.raises(TypeError):
        Policies(file)  # type: ignore[call-arg]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_counts_in_the_same_file(file: str, tmp_path: Path) -> None:
    policies = Policies(file, f"sqlite://{tmp_path}/counts.db")
    assert status(policies.judge("GET", "/", peer="192.0.2.7")) == 200
    child = os.fork()
    if child == 0:
        os._exit(status(policies.judge("GET", "/", peer="192.0.2.7")) - 200)
    assert os.waitpid(child, 0)[1] == 0
    assert status(policies.judge("GET", "/", peer="192.0.2.7")) == 429
