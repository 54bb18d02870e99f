local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
