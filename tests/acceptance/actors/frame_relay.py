"""Relay between processes with actors and their workers, which acts when a chosen frame passes."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from task_executor_dramatiq.frames import FrameReader, MessageKey, encode, key_of

from tests.waiting import HUNG_SECONDS

OUTCOMES = {"DONE", "AGAIN", "FAILED"}


@dataclass(frozen=True)
class Passing:
    """Frame on its way from one side."""

    kind: str
    is_of_process: bool

    def __str__(self) -> str:
        return f"{self.kind} of a {'process' if self.is_of_process else 'worker'}"


@dataclass
class Trap:
    """Call of a function, once, before or after the relay forwards a frame."""

    frame: Passing
    is_before: bool
    act: Callable[[], None]
    is_over: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.is_over.wait(HUNG_SECONDS), f"no {self.frame} passes"


class FrameRelay:
    """Forwards each frame by itself, with two threads for a connection.

    A process connects to the worker by itself and hands the connection over: the worker sees its credentials, and the
    connection ends with the process.
    """

    def __init__(self, path: Path) -> None:
        self.outcomes: dict[MessageKey, str] = {}
        self.answers: dict[MessageKey, list[bool]] = {}
        self._trap: Trap | None = None
        self._processes = set[socket.socket]()
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def arm(self, frame: Passing, act: Callable[[], None], *, is_before: bool) -> Trap:
        """Act when the next frame of this kind passes; forget the outcomes so far."""
        with self._lock:
            self.outcomes, self.answers = {}, {}
            self._trap = Trap(frame, is_before, act)
            return self._trap

    def cut(self) -> None:
        """Break the connections of all processes; frames that they have sent still arrive, as over a Unix socket."""
        with self._lock:
            for each in self._processes:
                _shut(each, socket.SHUT_RDWR)

    def close(self) -> None:
        _shut(self._listener, socket.SHUT_RDWR)  # a close alone ends no accept
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                process, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(process,), name="relay", daemon=True).start()

    def _join(self, process: socket.socket) -> None:
        with process, suppress(OSError):
            _, handed_over, _, _ = socket.recv_fds(process, 1, 1)
            if handed_over:  # else the process was killed before
                self._relay(process, socket.socket(fileno=handed_over[0]))

    def _relay(self, process: socket.socket, worker: socket.socket) -> None:
        with worker:
            with self._lock:
                self._processes.add(process)
            back = threading.Thread(target=self._forward, args=(worker, process, False), name="relay", daemon=True)
            back.start()
            self._forward(process, worker, is_of_process=True)
            back.join()
            with self._lock:
                self._processes.discard(process)

    def _forward(self, source: socket.socket, target: socket.socket, is_of_process: bool) -> None:
        reader = FrameReader()
        with suppress(OSError):
            while data := source.recv(65_536):
                for frame in reader.feed(data):
                    fields = dict(frame)
                    self._pass(Passing(fields.pop("kind"), is_of_process), fields, target)
        _shut(target, socket.SHUT_WR)
        if not is_of_process:  # a worker that has closed reads nothing
            _shut(target, socket.SHUT_RDWR)

    def _pass(self, passing: Passing, fields: dict[str, Any], target: socket.socket) -> None:
        with self._lock:
            trap = self._trap if self._trap is not None and self._trap.frame == passing else None
            self._trap = self._trap if trap is None else None
        if trap is not None and trap.is_before:
            trap.act()
        with suppress(OSError):  # the receiver is dead
            target.sendall(encode(passing.kind, **fields))
        with self._lock:
            if passing.kind in OUTCOMES:
                self.outcomes[key_of(fields)] = passing.kind
            elif passing.kind == "WRITTEN":
                self.answers.setdefault(key_of(fields), []).append(bool(fields["is_written"]))
        if trap is not None:
            if not trap.is_before:
                trap.act()
            trap.is_over.set()


def _shut(connection: socket.socket, way: int) -> None:
    with suppress(OSError):
        connection.shutdown(way)
