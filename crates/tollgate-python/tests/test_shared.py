"""Counts that Python shares with the program `tollgate`, on one store."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tollgate import Limiter


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
    assert (denied.allowed, denied.limit) == (False, "7/d burst 7 via gcra")
    assert limiter.reset(subject)
    assert by_program("check")["allowed"] is True
    assert limiter.peek(subject).remaining == 6
