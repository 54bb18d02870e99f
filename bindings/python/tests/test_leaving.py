"""What leaves the process: by pickle, by copies, as text."""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import pickle
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tollgate_limiter import ArgumentError, Decision, Denied, Limiter, Limits, ManualClock

LIMITS = [
    "3/h",
    "10/s, 240/h via gcra",
    "9/h, 50/d of tokens",
    "7/d burst 9 via token_bucket",
    "100/month in Europe/Berlin",
]


def decisions(limits: str, store: str, policy: str) -> list[Decision]:
    limiter = Limiter(limits, store, policy=policy)
    cost: Any = {"requests": 1, "tokens": 7} if "tokens" in limits else 1
    found = [limiter.check("user:a b/ü%", cost) for _ in range(12)]
    found.append(limiter.peek("user:x"))
    found.append(limiter.check("user:x", 10_000))
    found.append(limiter.check_all(["a", ("b:2", Limits("2/h", policy="own")), "c:3"], cost))
    found += [Limiter("1 at once", store, policy=policy).acquire("a").decision for _ in range(2)]
    return found


@pytest.mark.parametrize("limits", LIMITS)
def test_a_decision_is_the_same_after_pickle(limits: str, store: str, unique: str) -> None:
    for decision in decisions(limits, store, unique):
        again = pickle.loads(pickle.dumps(decision))
        assert type(again) is Decision
        assert again.json() == decision.json() and str(again) == str(decision)
        for name in ("receipt", "until_hold", "at_us", "granted", "binding", "outcome"):
            assert getattr(again, name) == getattr(decision, name), name
        assert copy.copy(decision) is decision and copy.deepcopy([decision]) == [decision]


def test_a_decision_of_another_process_is_refunded(store: str, unique: str) -> None:
    limiter = Limiter("5/h", store, policy=unique)
    decision = limiter.check("user:1", 3)
    receipt = decision.receipt
    assert receipt is not None and limiter.check("user:1", 9).receipt is None
    with pytest.raises(ArgumentError, match="receipt: the first line of a receipt"):
        limiter.refund("no receipt")
    with pytest.raises(TypeError, match="decision must be Decision or str, not int"):
        limiter.refund(3)  # type: ignore[arg-type]
    assert limiter.refund(receipt).given == [3]
    assert limiter.refund(pickle.loads(pickle.dumps(decision))).already
    assert limiter.peek("user:1").remaining == 5


def test_limits_and_limiters_leave(store: str, unique: str) -> None:
    limits = Limits("5/h, 9/d via gcra", policy=unique)
    assert pickle.loads(pickle.dumps(limits)) == limits == copy.deepcopy(limits)
    limiter = Limiter(limits, store)
    limiter.check("user:1")
    assert copy.copy(limiter) is limiter and copy.deepcopy(limiter) is limiter
    again = pickle.loads(pickle.dumps(limiter))
    assert (again.limits, again.policy, again.store) == (limiter.limits, unique, store)
    # Counts in memory stay where they are.
    assert again.peek("user:1").remaining == (5 if limiter.in_memory else 4)
    with pytest.raises(TypeError, match="a clock of a test"):
        pickle.dumps(Limiter("1/s", clock=ManualClock()))


def denied_call(url: str, policy: str) -> None:
    limiter = Limiter("1/h", url, policy=policy)
    for _ in range(2):
        limiter.limit("all")(lambda: None)()


def test_a_denial_comes_out_of_a_pool_of_processes(redis_url: str, unique: str) -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(Denied) as caught:
        pool.submit(denied_call, redis_url, unique).result(20)
    denied = caught.value
    assert denied.decision is not None and not denied.decision.allowed
    status, headers, body = denied.refusal()
    assert (status, json.loads(body)["violated-policies"]) == (429, [unique])
    assert f'"{unique}";q=1;w=3600' in dict(headers)["ratelimit-policy"]
    assert b"redis" not in pickle.dumps(denied)
    lost = pickle.loads(pickle.dumps(Denied(None, Limiter("1/h"))))
    assert lost.decision is None and lost.refusal()[0] == 503
    # A clock of a test stays behind.
    limiter = Limiter("1/h", clock=ManualClock(5))
    limiter.check("a")
    assert pickle.loads(pickle.dumps(Denied(limiter.check("a"), limiter))).decision.at_us == 5


def test_holds_are_settled_by_their_text(store: str, unique: str) -> None:
    limiter = Limiter("9/h, 1 at once", store, policy=unique)
    slot = limiter.acquire("a")
    assert slot.token is not None and limiter.acquire("a").token is None
    again = limiter.slot(slot.token)
    assert again.fence == slot.fence and again.end_us == slot.end_us
    with pytest.raises(AttributeError, match="no decision"):
        _ = again.decision
    assert again.release() and not slot.release()
    reservation = limiter.reserve("a", 5, ttl=20)
    assert reservation.token is not None
    assert limiter.reservation(reservation.token).commit(2).actual == 2
    assert limiter.peek("a").limits[0].remaining == 6
    with pytest.raises(ArgumentError, match="token: the first line of a hold"):
        limiter.slot("no token")


KEY = "k" * 32


def signed(receipt: str) -> str:
    """As docs/python.md shows it."""
    text = receipt.encode()
    signature = hmac.digest(KEY.encode(), text, hashlib.sha256)[:16]
    return urlsafe_b64encode(signature + text).rstrip(b"=").decode()


def test_a_receipt_is_refunded_by_the_service_and_the_reverse(
    redis_url: str, program: str, unique: str
) -> None:
    import os
    import subprocess
    import urllib.request

    from conftest import answers, free_port, wait_until

    port = free_port()
    service = subprocess.Popen(
        [program, "serve", "--listen", f"127.0.0.1:{port}", "--store", redis_url],
        env={**os.environ, "TOLLGATE_RECEIPT_KEY": KEY},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )

    def asked(path: str, **question: object) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            json.dumps(question).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    try:
        wait_until(lambda: answers(port), "the service")
        limiter, subject = Limiter("5/h", redis_url), f"user:{unique}"
        ours = limiter.check(subject, 2)
        assert ours.receipt is not None
        theirs = asked("/v1/check", subject=subject, limit="5/h", cost=2, receipt=True)
        assert theirs["remaining"] == 1
        assert asked("/v1/refund", receipt=signed(ours.receipt))["given"] == [2]
        text = theirs["receipt"]
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        assert signed(raw[16:].decode()) == text
        assert limiter.refund(raw[16:].decode()).given == [2]
        assert limiter.peek(subject).remaining == 5
    finally:
        service.kill()
        service.wait()
