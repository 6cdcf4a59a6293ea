"""Web process: gunicorn with the application, started as in the Procfile."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import requests

from app.dev.process.ports import free_port
from app.dev.stack import programs
from app.kernel import db
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope

ROOT = Path(__file__).parents[3]
*COMMAND, APPLICATION = sys.executable, "-m", *programs.WEB


class Web:
    """Running gunicorn; a context manager, so that a failing test leaves no process behind."""

    def __init__(self, url: str, application: str = APPLICATION, **environment: str) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        environment = {"TE_LISTEN_ADDR": f"127.0.0.1:{self.port}", "TE_WEB_WORKERS": "1"} | environment
        self.process = subprocess.Popen(
            [*COMMAND, application],
            cwd=ROOT,
            env=os.environ | {"TE_DATABASE_URL": url} | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        # Read continuously, so that the process never blocks on its output.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += iter(self.process.stderr.readline, "")

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def is_ready(self) -> bool:
        try:
            return requests.get(f"{self.base}/health/ready", timeout=30).ok
        except requests.ConnectionError:
            return False

    def refusal(self, path: str, headers: dict[str, str]) -> tuple[requests.Response] | None:
        """Return an answer other than 200, in a tuple, since such an answer is falsy itself; None for 200."""
        answer = requests.get(self.base + path, headers=headers, timeout=60)
        return None if answer.status_code == 200 else (answer,)

    def raw(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """Send bytes; return the status and the JSON of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Send TERM and return the exit status, also of a process that has ended by itself."""
        assert self.process.stderr is not None
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self._reader.join(10)
            self.process.stderr.close()


def key_for(url: str) -> str:
    database = db.connect(url, pool_size=1, application_name="te-test")
    try:
        return api_keys.create(database, "test", [Scope.ADMIN], None)
    finally:
        database.close()
