# A transaction with redis-py, whose pipelines are transactions.

import os

import redis

client = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)
with client.pipeline() as pipeline:
    for _ in range(3):
        pipeline.execute_command("CL.THROTTLE", "python", 1, 2, 3600)
    print([answer[0] for answer in pipeline.execute()])
