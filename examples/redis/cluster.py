"""Asks a limit on a Redis Cluster from Python, with redis-py: python3 -m pip install redis

limit.json is made once, wherever `tollgate` is:
  tollgate scripts "2/h via gcra" --format json > limit.json
Then: python3 cluster.py user 42, with some nodes of the cluster in REDIS_NODES
"""

import json
import os
import secrets
import sys

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError
from redis.retry import Retry

with open("limit.json", encoding="utf-8") as file:
    LIMIT = json.load(file)


def node(address):
    host, port = address.rsplit(":", 1)
    return ClusterNode(host, int(port))


def connect():
    return RedisCluster(
        startup_nodes=[node(n) for n in os.environ.get("REDIS_NODES", "127.0.0.1:6379").split(",")],
        # Without this, redis-py sends a command again after a lost connection or a timeout, and a
        # check that is sent twice may be charged twice. It still follows MOVED and ASK.
        retry=Retry(NoBackoff(), 0),
        socket_timeout=0.25,
        decode_responses=True,
    )


def written(dimension, value):
    """A subject as it stands in a key: what could be mistaken for something else is escaped."""
    plain = "".join(
        chr(byte) if 0x21 <= byte <= 0x7E and byte not in b"%,{}" else f"%{byte:02X}"
        for byte in value.encode()
    )
    return f"{dimension}:{plain}"


def check(script, dimension, value, cost=1):
    """True and 0; or False and the seconds to wait, None when no wait would help."""
    subject = written(dimension, value)
    # All of them have the same {...}, so they lie in one slot.
    keys = [key["pattern"].replace("SUBJECT", subject) for key in LIMIT["keys"]]
    mine = secrets.token_hex(8)
    back, granted, _now, *fields = script(keys=keys, args=[cost, mine])
    if back != mine:
        raise RuntimeError("this is the answer to another question")
    if granted:
        return True, 0
    # For each limit: what remains, how long to wait, how long until all of it is free.
    waits = [fields[3 * i + 1] for i in range(len(LIMIT["limits"][0]["limits"]))]
    return False, None if -1 in waits else max(waits) / 1_000_000


if __name__ == "__main__":
    try:
        # EVALSHA; and when a node does not know the script, SCRIPT LOAD on all and EVALSHA again.
        limit = connect().register_script(LIMIT["script"])
        admitted, wait = check(limit, *sys.argv[1:3])
    except RedisError as error:
        # A connection that was lost leaves open whether the check was charged.
        print(f"no answer: {error}", file=sys.stderr)
        sys.exit(2)
    print("allow" if admitted else f"deny: wait {wait} s")
    sys.exit(0 if admitted else 1)
