"""Scene of the kills at frames: processes that are killed and started again, and the messages of one case."""

import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from app.dev.process.child import Child, family, signal_all
from app.dev.servers import Postgres
from app.kernel.db import Database
from tests.acceptance.actors.conftest import Trial, User, trial_of, wait_for_actors
from tests.acceptance.actors.frame_relay import FrameRelay, Passing, Trap
from tests.acceptance.limits import SHORT_LEASE
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

WORKER_STOPS = Passing("DRAIN", False)
FINAL = {"SUCCESS", "FAILED", "CANCELLED"}


class Scene:
    """Worker, scheduler, and a process with one thread, which reaches the worker through a relay.

    Attributes:
        sent: Messages of the case, by endpoint.
        trap: Kill of the case.
    """

    def __init__(self, user: User, database: Database, server: Postgres, relay: FrameRelay) -> None:
        self.user, self.database, self.relay = user, database, relay
        self.tasks: ModuleType
        self.trial: Trial
        self.trap: Trap
        self.sent = Counter[str]()
        self._server = server
        self._words: list[Path] = []
        self._has_answers = True
        adopt_settings(database)
        user.stack.scheduler(**SHORT_LEASE)
        self.worker = user.worker(**SHORT_LEASE)
        self.process = self._first_process = self._start_process()
        wait_for_actors(database, "run", "follow", "hold", "again", "fail")

    def _start_process(self) -> Child:
        return self.user.process(module="frame_tasks", threads=1)

    def begin(self) -> None:
        """Begin a case."""
        self.revive()
        self.sent.clear()
        self._first_process = self.process
        self.trial = trial_of(self.user, self.database)

    def kill_at(self, frame: Passing, victim: str, *, is_before: bool) -> None:
        """Kill the process, the worker or the database when the next frame of this kind passes."""
        self._has_answers = frame != WORKER_STOPS
        self.trap = self.relay.arm(frame, lambda: self._kill(victim), is_before=is_before)

    def _kill(self, victim: str) -> None:
        if victim == "database":
            signal_all(family(self._server.pid), signal.SIGKILL)
            self._server.kill()  # reaps it
        else:
            {"process": self.process, "worker": self.worker}[victim].kill()

    def revive(self) -> None:
        """Start ended processes again, as their supervisor does."""
        if not self._server.is_running:
            self._server.start()
        if not self.worker.is_running:
            self.worker = self.user.worker(**SHORT_LEASE)
        if not self.process.is_running:
            self.process = self._start_process()

    def wait_for(self, probe: Callable[[], bool], what: str) -> None:
        """Wait, and start ended processes again: a worker may lose its lease late after a restart of the database."""

        def revived() -> bool:
            self.revive()
            return probe()

        eventually(revived, what=what)

    def renew_process(self) -> Child:
        """Replace the process, and return the new process."""
        self.process.kill()
        self.process = self._first_process = self._start_process()
        return self.process

    def send(self, actor: str, *args: Any) -> None:
        self.sent[actor] += 1
        getattr(self.tasks, actor).send(*args)

    def hold(self) -> None:
        """Start an actor that runs until `release`."""
        word = Path(tempfile.mkdtemp(dir=self.user.sockets)) / "go"
        self._words.append(word)
        held = self.trial.lines()
        self.send("hold", str(word))
        self.wait_for(lambda: any(line.startswith("hold") for line in self.trial.lines()[len(held) :]), "the start")

    def release(self) -> None:
        """Let the actors end that `hold` has started."""
        while self._words:
            self._words.pop().touch()

    def settle(self) -> None:
        """Wait until each message has ended, and the first process of the case, if it lives, has all answers.

        A process leaves a worker that stops as soon as it has sent its outcomes, and waits for no answers.
        """
        self.wait_for(lambda: self.trial.statuses().keys() <= FINAL, "the end of all messages")
        if self._has_answers and self.process is self._first_process:
            relay = self.relay
            eventually(lambda: relay.outcomes.keys() <= relay.answers.keys(), what="an answer to each outcome")

    def reset(self) -> None:
        """End the messages of a failed case."""
        self.release()
        self.process.kill()
        self.settle()
