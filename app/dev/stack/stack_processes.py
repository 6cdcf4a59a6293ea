"""Runner of processes: commands as named children that share an environment, a directory and a place for logs."""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from app.dev.process.child import Child, ChildError, Echo
from app.dev.stack.programs import Command

STOP_SECONDS = 40.0  # a worker may take TE_WORKER_SHUTDOWN_TIMEOUT_SEC, 30 by default
LINE_SECONDS = 60.0
_COMMAND_SECONDS = 120.0
_POLL_SECONDS = 0.02


class Processes:
    """Children by name. Start them from a thread that stays: see Child."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        logs: Path,
        cwd: Path | None = None,
        python: Path | None = None,
        echo: Echo | None = None,
    ) -> None:
        self.env = dict(env)
        self.logs = logs
        self._cwd = cwd
        self._python = str(python or sys.executable)
        self._echo = echo
        self._children: dict[str, Child] = {}
        self._stopped_on_purpose: set[str] = set()

    @property
    def names(self) -> list[str]:
        return list(self._children)

    def process(self, name: str) -> Child:
        """Return a process by name; raises KeyError when there was none."""
        return self._children[name]

    def launch(self, name: str, command: Command, **env: str) -> Child:
        """Start a command under a new name; `env` is what it is told and the others are not."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        log.unlink(missing_ok=True)
        child = Child(name, self._argv(command), log=log, env=self.env | env, cwd=self._cwd, echo=self._echo)
        child.start()
        self._children[name] = child
        return child

    def start_process(self, name: str) -> Child:
        """Start again what has ended."""
        child = self._children[name]
        child.start()
        self._stopped_on_purpose.discard(name)
        return child

    def kill(self, name: str) -> None:
        """End a process and its children with SIGKILL."""
        self._stopped_on_purpose.add(name)
        self._children[name].kill()

    def terminate(self, name: str, timeout: float = STOP_SECONDS) -> int | None:
        """Send SIGTERM, wait for the end (then SIGKILL), and return the exit status."""
        self._stopped_on_purpose.add(name)
        return self._children[name].stop(timeout)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ask all processes to end, and kill those that don't within the timeout.

        A KeyboardInterrupt meanwhile ends the waiting, not the stopping.
        """
        children = list(self._children.values())
        with suppress(KeyboardInterrupt):
            for child in children:
                child.send(signal.SIGTERM)
            deadline = time.monotonic() + timeout
            for child in children:
                child.wait(max(0.0, deadline - time.monotonic()))
        for child in children:
            child.kill()
        self._children.clear()

    def check(self) -> None:
        """Raise ChildError when a process has ended that nobody stopped."""
        for name, child in self._children.items():
            if not child.is_running and name not in self._stopped_on_purpose:
                raise ChildError(
                    f"{child.name} ended with status {child.returncode}; its last lines ({child.log}):\n{child.tail()}"
                )

    def wait_for_line(self, child: Child, words: str, *, times: int = 1) -> None:
        """Wait until so many lines of a process hold these words; raises ChildError when it ends before that."""
        deadline = time.monotonic() + LINE_SECONDS
        while child.log.read_text().count(words) < times:
            if not child.is_running:
                raise ChildError(f"{child.name} ended with status {child.returncode}:\n{child.tail()}")
            if time.monotonic() > deadline:
                raise ChildError(f"{child.name} has not written {words!r} {times} times:\n{child.tail()}")
            time.sleep(_POLL_SECONDS)

    def output(self) -> str:
        """Return everything that every process has written."""
        return "\n".join(child.log.read_text() for child in self._children.values())

    def tails(self, lines: int) -> str:
        """Return the last lines of every process under its name."""
        return "\n".join(f"--- {child.name}\n{child.tail(lines)}" for child in self._children.values())

    def run(self, command: Command, *, timeout: float = _COMMAND_SECONDS) -> str:
        """Run a command to its end and return its output; raises ChildError when it fails."""
        done = subprocess.run(
            self._argv(command),
            env=self.env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode != 0:
            raise ChildError(
                f"`{' '.join(command)}` ended with status {done.returncode}:\n{done.stderr or done.stdout}"
            )
        return done.stdout

    def _argv(self, command: Command) -> list[str]:
        """Run it with one Python: a script's first line may name another one."""
        return [self._python, "-m", *command]
