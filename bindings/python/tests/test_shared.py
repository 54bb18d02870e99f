"""Counts that Python shares with the program `tollgate`, on one store."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tollgate_limiter import Limiter


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_count_is_one_for_both(
    kind: str, program: str, tmp_path: Path, request: pytest.FixtureRequest, unique: str
) -> None:
    redis = kind == "redis"
    url = request.getfixturevalue("redis_url") if redis else f"sqlite://{tmp_path}/counts.db"
    subject, limit = f"user:{unique}", "10/h, 7/d burst 7 via gcra"
    limiter = Limiter(limit, url)

    def by_program(word: str, *more: str) -> dict[str, object]:
        command = [program, word, subject, "--limit", limit, "--store", url, "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    assert limiter.check(subject, 2).remaining == 5
    assert by_program("check", "--cost", "3")["allowed"] is True
    assert limiter.peek(subject).remaining == 2
    assert limiter.check(subject, 2).remaining == 0
    assert by_program("check")["allowed"] is False
    denied = limiter.check(subject)
    assert (denied.allowed, denied.limit, denied.binding) == (False, 7, 1)
    assert denied.limits[1].limit == "7/d burst 7 via gcra"
    assert limiter.reset(subject)
    assert by_program("check")["allowed"] is True
    assert limiter.peek(subject).remaining == 6


def test_a_prefix_keeps_environments_apart(redis_url: str, program: str, unique: str) -> None:
    subject, limit = f"user:{unique}", "2/h, 1 at once"
    urls = [redis_url, *(f"{redis_url}&prefix={unique}-{name}" for name in ("staging", "prod"))]
    for turn, url in enumerate(urls):
        limiter = Limiter(limit, url)
        # Whatever the environments before did, this one is fresh, and so is its hold.
        slot = limiter.acquire(subject)
        assert slot.allowed, url
        assert not limiter.acquire(subject).allowed
        assert limiter.peek(subject).remaining == 0
        command = [program, "peek", subject, "--limit", limit, "--json", "--store"]
        left = [
            json.loads(subprocess.run([*command, it], capture_output=True, check=False).stdout)
            for it in urls
        ]
        assert [it["allowed"] for it in left] == [place > turn for place in range(3)]
    # A limiter that ends in one environment ends in no other.
    assert slot.release()
    assert Limiter(limit, urls[0]).peek(subject).remaining == 0
    assert Limiter(limit, urls[-1]).reset(subject)
    assert Limiter(limit, urls[1]).peek(subject).remaining == 0
