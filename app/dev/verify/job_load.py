"""Load: jobs created through the API at a steady rate, by a client that must not lose one."""

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from app.dev.stack.stack_client import Api
from app.dev.verify.evidence import Accepted
from app.dev.verify.ledger import Ledger
from app.dev.verify.verify_definitions import Catalogue
from app.kernel.function_types import Run
from schema.states import Trigger

ANSWER_SECONDS = 40.0  # a client that waits this long knows that the API hangs
_PATIENCE_SECONDS = 90.0
_PAUSE_SECONDS = 0.2
_REPEATED = {429, 502, 503, 504}
_MOST_THREADS = 32
_CROWD_THREADS = 16
_DELAYED_SHARE, _CANCELLED_SHARE, _REPLAYED_SHARE = 0.35, 0.04, 0.05
_SHORTEST_DELAY, _LONGEST_DELAY = 0.3, 6.0

NewClient = Run[Api]


class JobLoad:
    """Threads that create one-shot jobs; each request is repeated, with its key, until it has an answer."""

    def __init__(self, client: NewClient, catalogue: Catalogue, ledger: Ledger, *, rate: float, seed: int) -> None:
        self._client = client
        self._catalogue = catalogue
        self._ledger = ledger
        self._rate = rate
        self._seed = seed
        self._lock = threading.Lock()
        self._number = 0
        self._ends_at = 0.0
        self._started_at = 0.0
        self._stopping = threading.Event()
        count = min(_MOST_THREADS, max(4, round(rate / 8)))
        self._threads = [threading.Thread(target=self._run, name=f"load-{n}", daemon=True) for n in range(count)]

    @property
    def is_running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def start(self, seconds: float) -> None:
        """Create jobs for so many seconds."""
        self._started_at = time.monotonic()
        self._ends_at = self._started_at + seconds
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End early, and wait for the answers that are under way."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(ANSWER_SECONDS)

    def _run(self) -> None:
        api = self._client()
        while (number := self._next()) is not None:
            self._one_shot(api, number)
        api.close()

    def _next(self) -> int | None:
        """Wait for the turn of the next job; None when the time is over."""
        with self._lock:
            number, self._number = self._number, self._number + 1
        due = self._started_at + number / self._rate
        if due >= self._ends_at or time.monotonic() >= self._ends_at:
            return None
        return None if self._stopping.wait(max(0.0, due - time.monotonic())) else number

    def _one_shot(self, api: Api, number: int) -> None:
        """Create a job, sometimes twice, and sometimes cancel it: what, the seed and the number decide."""
        dice, ledger, key = random.Random(f"{self._seed}-{number}"), self._ledger, f"{self._catalogue.topic}-{number}"
        body = _body(self._catalogue, key, dice)
        answer = ask(api, ledger, "/jobs", body, self._stopping)
        if answer is None:
            return
        ledger.accept(Accepted(answer["job_id"], key, body["trigger"]))
        if dice.random() < _REPLAYED_SHARE:
            again = ask(api, ledger, "/jobs", body, self._stopping)
            if again is not None:
                ledger.accept(Accepted(again["job_id"], key, body["trigger"]))
        if body["trigger"] is Trigger.DELAYED and dice.random() < _CANCELLED_SHARE:
            path = f"/jobs/{answer['job_id']}/cancel"
            if ask(api, ledger, path, None, self._stopping, conflict_is_fine=True) is not None:
                ledger.note_cancelled(key)


def create_crowd(client: NewClient, ledger: Ledger, endpoint: str, count: int, word: str) -> None:
    """Create so many jobs for an endpoint as fast as the API takes them, each with `word` in its input."""
    keys = [f"{endpoint}-{word}-{number}" for number in range(count)]
    bodies = [{"endpoint": endpoint, "idempotency_key": key, "input": {"key": key, "word": word}} for key in keys]
    create_all(client, ledger, bodies, threading.Event())


def create_all(
    client: NewClient, ledger: Ledger, bodies: Sequence[Mapping[str, Any]], stopping: threading.Event
) -> None:
    """Create jobs that are due at once as fast as the API takes them, in about this order."""
    clients = threading.local()

    def create(body: Mapping[str, Any]) -> None:
        if stopping.is_set():
            return
        if not hasattr(clients, "api"):
            clients.api = client()
        answer = ask(clients.api, ledger, "/jobs", {"trigger": Trigger.IMMEDIATE, **body}, stopping)
        if answer is not None:
            ledger.accept(Accepted(answer["job_id"], body["idempotency_key"], Trigger.IMMEDIATE))

    with ThreadPoolExecutor(_CROWD_THREADS, thread_name_prefix="crowd") as pool:
        for done in [pool.submit(create, body) for body in bodies]:
            done.result()


def _body(catalogue: Catalogue, key: str, dice: random.Random) -> dict[str, Any]:
    (target,) = dice.choices(catalogue.targets, [target.weight for target in catalogue.targets])
    body: dict[str, Any] = {"endpoint": target.name, "idempotency_key": key, "input": {"key": key}}
    if dice.random() >= _DELAYED_SHARE:
        return body | {"trigger": Trigger.IMMEDIATE}
    run_at = datetime.now(UTC) + timedelta(seconds=dice.uniform(_SHORTEST_DELAY, _LONGEST_DELAY))
    return body | {"trigger": Trigger.DELAYED, "run_at": run_at.isoformat()}


def ask(
    api: Api,
    ledger: Ledger,
    path: str,
    body: Any,
    stopping: threading.Event,
    *,
    conflict_is_fine: bool = False,
    method: str = "POST",
) -> Any:
    """Send a request until it has an answer; None when it was refused, or has none after all patience.

    Who is stopping sends it once more at the most: the API may be gone for good.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        response = _send(api, ledger, method, path, body)
        if response is not None and response.ok:
            return response.json()
        if response is not None and response.status_code not in _REPEATED:
            if not (conflict_is_fine and response.status_code == 409):
                with ledger.counting():
                    ledger.refused.append(f"{method} {path}: {response.status_code} {response.text[:200]}")
            return None
        with ledger.counting():
            ledger.repeats += 1
        if stopping.wait(_PAUSE_SECONDS):
            break
    with ledger.counting():
        ledger.unanswered += 1
    return None


def _send(api: Api, ledger: Ledger, method: str, path: str, body: Any) -> requests.Response | None:
    """Send a request once and note how long its answer took; None when the connection broke."""
    sent_at = time.monotonic()
    try:
        response = api.request(method, path, json=body, timeout=ANSWER_SECONDS)
    except requests.RequestException as error:
        _slow(ledger, time.monotonic() - sent_at if isinstance(error, requests.Timeout) else 0.0)
        return None
    _slow(ledger, time.monotonic() - sent_at)
    return response


def _slow(ledger: Ledger, seconds: float) -> None:
    with ledger.counting():
        ledger.slowest_answer = max(ledger.slowest_answer, seconds)
