# Asks `tollgate serve --resp` with redis-py: pip install redis
#
#   REDIS_URL=redis://127.0.0.1:6380 python throttle.py user:42
#
# Exit code 0: admitted, 1: denied, 2: no answer. The password is part of the URL:
# redis://:PASSWORD@...

import os
import sys

import redis

client = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), client_name="throttle", socket_timeout=5
)
try:
    # 3 at once, 2 in an hour.
    limited, limit, remaining, retry, reset = client.execute_command(
        "CL.THROTTLE", sys.argv[1], 2, 2, 3600
    )
except redis.RedisError as error:
    sys.exit(print(f"no answer: {error}", file=sys.stderr) or 2)
if limited:
    sys.exit(print(f"denied: retry in {retry} s") or 1)
print(f"admitted: {remaining} of {limit} remain")
