"""Client of the load: repeats each request until it has an answer, and records the answers."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from app.dev.stack.stack_client import Api
from app.dev.verify.evidence import AcceptedJob, Conduct
from schema.states import Trigger

ANSWER_SECONDS = 40.0  # longer than any answer of a working API
_PATIENCE_SECONDS = 90.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 1.0  # an outage must not become a flood of repeated requests
_REPEATED = {429, 502, 503, 504}
_CROWD_THREADS = 16


class LoadClient:
    """Thread-safe client with one session per thread; after stop() it repeats no request."""

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._key = key
        self._sessions = threading.local()
        self._opened: list[Api] = []
        self._lock = threading.Lock()
        self._accepted: dict[str, AcceptedJob] = {}
        self._refused: list[str] = []
        self._unanswered = self._repeats = 0
        self._slowest_answer = 0.0
        self.contradictions: list[str] = []
        self.stopping = threading.Event()

    @property
    def accepted(self) -> tuple[AcceptedJob, ...]:
        with self._lock:
            return tuple(self._accepted.values())

    def conduct(self, unexpected_ends: Iterable[str] = ()) -> Conduct:
        """Return the conduct of the API, together with the given ends of processes."""
        return Conduct(
            refused=tuple(self._refused),
            unanswered=self._unanswered,
            slowest_answer=self._slowest_answer,
            repeats=self._repeats,
            unexpected_ends=tuple(unexpected_ends),
        )

    def ask(self, path: str, body: Any = None, *, method: str = "POST", conflict_is_fine: bool = False) -> Any:
        """Send a request until it has an answer; None if it was refused, or had no answer in time."""
        deadline, pause = time.monotonic() + _PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS
        while time.monotonic() < deadline:
            response = self._send(method, path, body)
            if response is not None and response.ok:
                return response.json()
            if response is not None and response.status_code not in _REPEATED:
                if not (conflict_is_fine and response.status_code == 409):
                    self._refused.append(f"{method} {path}: {response.status_code} {response.text[:200]}")
                return None
            with self._lock:
                self._repeats += 1
            if self.stopping.wait(pause):
                break
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        with self._lock:
            self._unanswered += 1
        return None

    def create(
        self, body: dict[str, Any], *, step: timedelta | None = None, is_stormed: bool = False
    ) -> AcceptedJob | None:
        """Create a job whose input contains its key and record it; a second job for a key is a contradiction."""
        key = body["idempotency_key"]
        answer = self.ask("/jobs", body | {"input": {**body.get("input", {}), "key": key}})
        if answer is None:
            return None
        first_tick = datetime.fromisoformat(answer["next_run_at"]).astimezone(UTC) if step else None
        job = AcceptedJob(
            answer["job_id"], key, Trigger(body["trigger"]), first_tick=first_tick, step=step, is_stormed=is_stormed
        )
        self.accept(job)
        return job

    def accept(self, job: AcceptedJob) -> None:
        """Record an accepted job; a second job for its key is a contradiction."""
        with self._lock:
            known = self._accepted.setdefault(job.key, job)
        if known.job_id != job.job_id:
            self.contradictions.append(f"the key {job.key} was answered with {known.job_id} and {job.job_id}")

    def create_all(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Create jobs that are due at once as fast as the API takes them, in about this order."""
        with ThreadPoolExecutor(_CROWD_THREADS, thread_name_prefix="crowd") as pool:
            list(pool.map(self._create_unless_stopping, bodies))

    def note(self, key: str, **changes: Any) -> None:
        """Change the record of an accepted job."""
        with self._lock:
            self._accepted[key] = replace(self._accepted[key], **changes)

    def close(self) -> None:
        """Close the sessions of all threads."""
        for api in self._opened:
            api.close()

    def _create_unless_stopping(self, body: dict[str, Any]) -> None:
        if not self.stopping.is_set():
            self.create({"trigger": Trigger.IMMEDIATE, **body})

    def _send(self, method: str, path: str, body: Any) -> requests.Response | None:
        """Send a request once and record the time until its answer; None if the connection broke."""
        if not hasattr(self._sessions, "api"):
            self._sessions.api = Api(self._base_url, self._key)
            self._opened.append(self._sessions.api)
        sent_at, response, is_answer = time.monotonic(), None, True
        try:
            response = self._sessions.api.request(method, path, json=body, timeout=ANSWER_SECONDS)
        except requests.RequestException as error:
            is_answer = isinstance(error, requests.Timeout)
        if is_answer:
            with self._lock:
                self._slowest_answer = max(self._slowest_answer, time.monotonic() - sent_at)
        return response
