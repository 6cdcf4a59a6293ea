"""Runner of processes: named children with a shared environment, directory and log folder."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from app.dev.process.child import Child, ChildError, Echo
from app.dev.stack.programs import Command

STOP_SECONDS = 40.0  # a worker may take TE_WORKER_SHUTDOWN_TIMEOUT_SEC, 30 by default
LINE_SECONDS = 60.0
_COMMAND_SECONDS = 120.0
_POLL_SECONDS = 0.02

Step = Callable[[str], AbstractContextManager[object]]
"""Takes the description of a step; the context lasts as long as the step."""


def silently(_step: str) -> AbstractContextManager[object]:
    return nullcontext()


class Processes:
    """Children by name; start them from a long-lived thread, see Child."""

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
        """Return a process by name; raises KeyError for an unknown name."""
        return self._children[name]

    def launch(self, name: str, command: Command, **env: str) -> Child:
        """Start a command under a new name; `env` extends the environment of this process only."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        log.unlink(missing_ok=True)
        child = Child(name, self._argv(command), log=log, env=self.env | env, cwd=self._cwd, echo=self._echo)
        child.start()
        self._children[name] = child
        return child

    def start_process(self, name: str) -> Child:
        """Restart an ended process."""
        child = self._children[name]
        child.start()
        self._stopped_on_purpose.discard(name)
        return child

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and its children."""
        self._stopped_on_purpose.add(name)
        self._children[name].kill()

    def terminate(self, name: str) -> int | None:
        """Send SIGTERM, after STOP_SECONDS SIGKILL, and return the exit status."""
        self._stopped_on_purpose.add(name)
        return self._children[name].stop(STOP_SECONDS)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Send SIGTERM to all processes, and SIGKILL after the timeout or a KeyboardInterrupt."""
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
        """Raise ChildError if a process ended unexpectedly."""
        for name, child in self._children.items():
            if not child.is_running and name not in self._stopped_on_purpose:
                raise ChildError(
                    f"{child.name} ended with status {child.returncode}; its last lines ({child.log}):\n{child.tail()}"
                )

    def wait_for_line(self, child: Child, words: str, *, times: int = 1) -> None:
        """Wait until whole lines have `words` at least `times` times; raises ChildError if the process ends first."""
        deadline = time.monotonic() + LINE_SECONDS
        # The text behind the last line break may be a part of a line.
        while child.log.read_text().rpartition("\n")[0].count(words) < times:
            if not child.is_running:
                raise ChildError(f"{child.name} ended with status {child.returncode}:\n{child.tail()}")
            if time.monotonic() > deadline:
                raise ChildError(f"{child.name} did not write {words!r} {times} times:\n{child.tail()}")
            time.sleep(_POLL_SECONDS)

    def output(self) -> str:
        """Return the output of all processes."""
        return "\n".join(child.log.read_text() for child in self._children.values())

    def tails(self, lines: int) -> str:
        """Return the last lines of each process with its name."""
        return "\n".join(f"--- {child.name}\n{child.tail(lines)}" for child in self._children.values())

    def run(self, command: Command, *, timeout: float = _COMMAND_SECONDS, **env: str) -> str:
        """Run a command and return its output; `env` extends its environment; raises ChildError on failure."""
        done = subprocess.run(
            self._argv(command),
            env=self.env | env,
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
        """Return the arguments with the stack's Python; a script's shebang may name another interpreter."""
        return [self._python, "-m", *command]
