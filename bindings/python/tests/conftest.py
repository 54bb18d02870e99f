"""What the tests share: a Redis server, the program `tollgate`, and processes that are ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(is_there: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Returns when it is there, and fails when it is not in time."""
    end = time.monotonic() + seconds
    while not is_there():
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.02)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


class Redis:
    """A Redis server of its own, which may stop and start again with no counts."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            pytest.skip("redis-server is not installed")
        self.port = free_port()
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        self._command = [program, *words, str(folder)]
        # A busy machine may be late. A late answer is an error, and this is not the subject of a
        # test.
        self.url = f"redis://127.0.0.1:{self.port}?deadline=5s"
        self.start()

    def start(self) -> None:
        self._server = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port), "redis-server")

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server. Its subjects are kept apart by `policy`, as `unique` gives."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.stop()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh store of each kind; on Redis, of one that others use too."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/counts.db"
    return request.getfixturevalue("redis_url")


_NEXT = iter(range(1_000_000))


@pytest.fixture
def unique() -> str:
    """A name that no other test of this run has."""
    return f"t{os.getpid()}-{next(_NEXT)}"


@pytest.fixture(scope="session")
def program() -> str:
    """The program `tollgate`, which is built by cargo."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for place in (
        os.environ.get("TOLLGATE_BIN"),
        target / "debug/tollgate",
        target / "release/tollgate",
    ):
        if place and Path(place).is_file():
            return str(place)
    pytest.skip("the program `tollgate` is not built: cargo build -p tollgate-cli")


def python(code: str, *words: str, seconds: float = 60) -> str:
    """What a fresh interpreter prints for `code`."""
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Starts a server by a command with `PORT` in it, and returns its port."""
    servers: list[subprocess.Popen[bytes]] = []

    def start(*command: str, **environment: str) -> int:
        port = free_port()
        words = [sys.executable, "-m", *(word.replace("PORT", str(port)) for word in command)]
        environ = {**os.environ, "PYTHONPATH": str(HERE / "apps"), **environment}
        # A separate group, so that its workers end with it.
        servers.append(
            subprocess.Popen(words, env=environ, cwd=HERE / "apps", start_new_session=True)
        )
        wait_until(lambda: answers(port), " ".join(command))
        return port

    yield start
    for server in servers:
        os.killpg(server.pid, 15)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, 9)
            server.wait()
