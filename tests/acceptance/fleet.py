"""The processes of the Procfile, started for one test."""

import os
import sys
from pathlib import Path

import requests

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SECRET_KEY = "dGVzdHMtb25seS10ZXN0cy1vbmx5LXRlc3RzLW9ubHk="
# Soon over once its worker is dead, and not because the machine is busy.
SHORT_LEASE = {"TE_WORKER_TIMEOUT_SEC": "5"}
ENDED_SECONDS = 60.0  # a process that has not ended by then hangs


class Fleet:
    """Web, worker and scheduler processes over one database; whatever still runs at the end is killed."""

    def __init__(self, database_url: str, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TE_")},
            "TE_DATABASE_URL": database_url,
            "TE_SECRET_ENCRYPTION_KEY": SECRET_KEY,
            "TE_STARTUP_TIMEOUT_SEC": "60",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def worker(self, *options: str, module: str = "actors", wait: bool = True, **env: str) -> Child:
        """Start `dramatiq actors` with its own options; waits until its processes claim."""
        child = self.start("worker", [str(BIN / "dramatiq"), module, *(options or ("-p", "1", "-t", "4"))], **env)
        if wait:
            self.wait_for_line(child, "claims from")
        return child

    def scheduler(self, module: str = "app.scheduler", **env: str) -> Child:
        """Start a scheduler."""
        return self.start("scheduler", [sys.executable, "-m", module], **env)

    def web(self, **env: str) -> tuple[Child, str]:
        """Start the API on a free port and wait until it is ready; returns its base URL too."""
        address = f"127.0.0.1:{free_port()}"
        command = [str(BIN / "gunicorn"), "--config", "python:app.api.server", "app:create_app()"]
        child = self.start("web", command, TE_LISTEN_ADDR=address, **env)
        wait_until_ready(f"http://{address}", child)
        return child, f"http://{address}"

    def api_key(self, scopes: str = "admin,jobs:write,read") -> str:
        """Create an API key with the admin command."""
        command = [str(BIN / "flask"), "--app", "app", "api-keys", "create", "tests", "--scopes", scopes]
        child = self.start("api-keys", command)
        assert child.wait(ENDED_SECONDS) == 0, child.tail()
        return child.tail(1).strip()

    def start(self, name: str, command: list[str], **env: str) -> Child:
        """Start any command in the project's folder."""
        log = self._logs / f"{len(self._children)}-{name}.log"
        child = Child(name, command, log=log, env=self._env | env, cwd=ROOT)
        child.start()
        self._children.append(child)
        return child

    def wait_for_line(self, child: Child, words: str, timeout: float = 60.0) -> None:
        """Wait until a process has written a line that holds `words`."""

        def written() -> bool:
            assert child.is_running, f"{child.name} ended with {child.returncode}:\n{child.tail()}"
            return words in child.log.read_text()

        eventually(written, timeout=timeout, what=f"{words!r} in the output of {child.name}")

    def output(self) -> str:
        """Everything that every process has written."""
        return "\n".join(child.log.read_text() for child in self._children)

    def close(self) -> None:
        """Kill what is left."""
        for child in self._children:
            child.kill()


def children_of(pid: int) -> list[int]:
    """List the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ready(base_url: str, child: Child) -> None:
    """Wait for 200 from /health/ready."""

    def ready() -> bool:
        assert child.is_running, f"{child.name} ended with {child.returncode}:\n{child.tail()}"
        try:
            return requests.get(f"{base_url}/health/ready", timeout=30).status_code == 200
        except requests.ConnectionError:
            return False

    eventually(ready, what=f"{base_url}/health/ready")
