"""Child processes and their descendants."""

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

_LAUNCH = Path(__file__).with_name("launch.py")

Echo = Callable[[str, str], None]
"""Receives the child's name and a line of its output."""


class ChildError(RuntimeError):
    """Failure of a child process."""


class Child:
    """Process in its own session, unaffected by Ctrl-C at the terminal, that ends with its parent.

    On Linux the kernel ends the process with the *thread* that called start(): start children from long-lived threads.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: tuple[int, int] | None = None,
        death_signal: signal.Signals = signal.SIGTERM,
        echo: Echo | None = None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self._env = dict(os.environ if env is None else env)
        self._cwd = cwd
        self._user = user or (-1, -1)
        self._death_signal = death_signal
        self._echo = echo
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ChildError(f"{self.name} has not been started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit status; None before the end."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self.is_running:
            raise ChildError(f"{self.name} is running already")
        uid, gid = self._user
        launch = [sys.executable, "-I", "-S", str(_LAUNCH)]
        numbers = [os.getpid(), self._death_signal, uid, gid]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launch, *(str(int(number)) for number in numbers), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log if self._echo is None else subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        if self._echo is not None and self._process.stdout is not None:
            self._pump = threading.Thread(
                target=self._copy, args=(self._process.stdout, self._echo), name=f"{self.name}-output"
            )
            self._pump.start()

    def update_env(self, env: Mapping[str, str]) -> None:
        """Change the environment for the next start."""
        self._env |= env

    def wait(self, timeout: float) -> int | None:
        """Wait for the end and return the exit status; None if the process still runs after `timeout` seconds."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, not to its group."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, timeout: float, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send a signal, wait up to `timeout` seconds, then kill the rest of the process group.

        A KeyboardInterrupt ends the wait and kills at once.
        """
        self.send(number)
        with suppress(KeyboardInterrupt):
            self.wait(timeout)
        return self.kill()

    def kill(self) -> int | None:
        """Send SIGKILL to the process group and return the exit status."""
        if self._process is None:
            return None
        with suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        if self._pump is not None:
            self._pump.join()
            self._pump = None
        return status

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of the output."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _copy(self, source: IO[bytes], echo: Echo) -> None:
        with source, self.log.open("ab") as log:
            for line in source:
                log.write(line)
                log.flush()
                echo(self.name, line.decode(errors="replace").rstrip("\n"))


def family(pid: int) -> list[int]:
    """List a process and its descendants, the process first; an empty list after its end.

    psutil's `children` compares start times by the machine's clock, which may be set in between. Its cache skips a
    process once whose number belonged to an earlier process.
    """
    psutil.process_iter.cache_clear()
    children = defaultdict[int, list[int]](list)
    for process in psutil.process_iter(["ppid"]):
        children[process.info["ppid"]].append(process.pid)
    found = [pid] if psutil.pid_exists(pid) else []
    for member in found:
        found += children[member]
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to all processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(pid: int) -> list[int]:
    """Stop a process and its descendants, and return them; a process may start another one before it stops."""
    frozen: list[int] = []
    while new := [member for member in family(pid) if member not in frozen]:
        signal_all(new, signal.SIGSTOP)
        frozen += new
    return frozen
