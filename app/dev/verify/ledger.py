"""Ledger of the run: the jobs that were accepted, and the requests that the HTTP receiver got."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from app.dev.receiver import Received, Record
from app.dev.verify.evidence import Accepted, Arrival, Conduct
from schema.states import EndpointType


class Sightings(Record):
    """Keeps of each request only what is judged, so that a long run fits into memory."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.arrivals: list[Arrival] = []
        self._places: dict[Received, int] = {}
        self._held: Counter[str] = Counter()

    def held(self, gate: str) -> int:
        """Return how many requests came whose answers this gate holds."""
        return self._held[gate]

    def add(self, received: Received) -> int:
        """Note a request, and whether the receiver is going to take it."""
        times = super().add(received)
        behaviour, _, rest = received.path.strip("/").partition("/")
        if behaviour == "held":
            self._held[rest] += 1
        refused = behaviour == "flaky" and times <= int(rest.partition("/")[0])
        refused |= behaviour == "broken"  # until its answer says otherwise
        headers = received.headers
        arrival = Arrival(
            EndpointType.HTTP,
            headers.get("X-Task-Executor-Execution-Id", ""),
            int(headers.get("X-Task-Executor-Attempt", "0")),
            datetime.fromtimestamp(received.time, UTC),
            taken=not refused,
        )
        self._places[received] = len(self.arrivals)
        self.arrivals.append(arrival)
        return times

    def end(self, received: Received) -> None:
        """Note when a request was open no longer."""
        super().end(received)
        place = self._places.pop(received)
        arrival = self.arrivals[place]
        open_for = timedelta(seconds=(received.ended or received.monotonic) - received.monotonic)
        taken = received.status == HTTPStatus.OK if received.path.startswith("/broken/") else arrival.taken
        self.arrivals[place] = replace(arrival, ended=arrival.at + open_for, taken=taken)


class Ledger:
    """The API's answers; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accepted: dict[str, Accepted] = {}
        self.contradictions: list[str] = []
        self.refused: list[str] = []
        self.unanswered = 0
        self.repeats = 0
        self.replays = 0
        self.slowest_answer = 0.0

    @property
    def accepted(self) -> tuple[Accepted, ...]:
        with self._lock:
            return tuple(self._accepted.values())

    def __len__(self) -> int:
        return len(self._accepted)

    def accept(self, job: Accepted) -> None:
        """Note a job; a second one under the same key is a contradiction."""
        with self._lock:
            known = self._accepted.setdefault(job.key, job)
            if known.job_id != job.job_id:
                self.contradictions.append(f"the key {job.key} was answered with {known.job_id} and {job.job_id}")

    def note_cancelled(self, key: str) -> None:
        """Note that the API confirmed a cancel."""
        with self._lock:
            self._accepted[key] = replace(self._accepted[key], cancelled=True)

    def note_end(self, key: str, at: datetime) -> None:
        """Note that a job which repeats is about to be ended."""
        with self._lock:
            self._accepted[key] = replace(self._accepted[key], ended_at=at)

    def note_resumed(self, key: str, at: datetime) -> None:
        """Note that a job which was paused and resumed again and again is active for good from now on."""
        with self._lock:
            self._accepted[key] = replace(self._accepted[key], resumed_at=at)

    @contextmanager
    def counting(self) -> Iterator["Ledger"]:
        """Hold the lock while counts are changed."""
        with self._lock:
            yield self

    def conduct(self, unexpected_ends: list[str]) -> Conduct:
        """Sum up how the API and the processes behaved."""
        return Conduct(
            refused=tuple(self.refused),
            unanswered=self.unanswered,
            slowest_answer=self.slowest_answer,
            repeats=self.repeats,
            unexpected_ends=tuple(unexpected_ends),
        )
