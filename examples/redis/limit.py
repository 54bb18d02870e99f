"""Asks a limit on Redis from Python, with redis-py: python3 -m pip install redis

limit.json is made once, wherever `tollgate` is:
  tollgate scripts "2/h via gcra" --format json > limit.json
Then: python3 limit.py user 42
"""

import json
import os
import secrets
import sys

import redis

with open("limit.json", encoding="utf-8") as file:
    LIMIT = json.load(file)

# Without `retry=None` redis-py may send a command again after a lost connection, and a check that
# is sent twice may be charged twice.
CLIENT = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"),
    socket_timeout=0.25,
    retry=None,
    decode_responses=True,
)
# EVALSHA; and when the server has forgotten the script, SCRIPT LOAD and EVALSHA again.
SCRIPT = CLIENT.register_script(LIMIT["script"])


def written(dimension, value):
    """A subject as it stands in a key: what could be mistaken for something else is escaped."""
    plain = "".join(
        chr(byte) if 0x21 <= byte <= 0x7E and byte not in b"%,{}" else f"%{byte:02X}"
        for byte in value.encode()
    )
    return f"{dimension}:{plain}"


def check(dimension, value, cost=1):
    """True and 0; or False and the seconds to wait, None when no wait would help."""
    subject = written(dimension, value)
    keys = [key["pattern"].replace("SUBJECT", subject) for key in LIMIT["keys"]]
    mine = secrets.token_hex(8)
    back, granted, _now, *fields = SCRIPT(keys=keys, args=[cost, mine])
    if back != mine:
        raise RuntimeError("this is the answer to another question")
    if granted:
        return True, 0
    # For each limit: what remains, how long to wait, how long until all of it is free.
    waits = [fields[3 * i + 1] for i in range(len(LIMIT["limits"][0]["limits"]))]
    return False, None if -1 in waits else max(waits) / 1_000_000


if __name__ == "__main__":
    admitted, wait = check(*sys.argv[1:3])
    print("allow" if admitted else f"deny: wait {wait} s")
    sys.exit(0 if admitted else 1)
