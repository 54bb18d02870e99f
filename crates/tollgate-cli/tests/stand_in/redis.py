"""Stands in for redis-py where it is not installed: as much of it as examples/redis/limit.py uses."""

import hashlib
import socket
from urllib.parse import urlparse


class RedisError(Exception):
    pass


class ResponseError(RedisError):
    pass


class Redis:
    @classmethod
    def from_url(cls, url, socket_timeout, retry, decode_responses):
        assert retry is None and decode_responses
        return cls(urlparse(url), socket_timeout)

    def __init__(self, url, timeout):
        if url.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(url.path)
        else:
            self.socket = socket.create_connection((url.hostname, url.port or 6379), timeout)
        self.file = self.socket.makefile("rb")

    def execute_command(self, *words):
        request = [f"*{len(words)}\r\n".encode()]
        for word in words:
            word = str(word).encode()
            request.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(request))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise RedisError("the connection was closed")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise ResponseError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            text = self.file.read(int(rest) + 2)
            return text[:-2].decode()
        return rest

    def register_script(self, text):
        return Script(self, text)


class Script:
    def __init__(self, client, text):
        self.client, self.text = client, text
        self.sha = hashlib.sha1(text.encode()).hexdigest()

    def __call__(self, keys, args):
        call = ("EVALSHA", self.sha, len(keys), *keys, *args)
        try:
            return self.client.execute_command(*call)
        except ResponseError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        assert self.client.execute_command("SCRIPT", "LOAD", self.text) == self.sha
        return self.client.execute_command(*call)
