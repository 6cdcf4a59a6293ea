"""Load: a client that creates jobs during failures, and a check of all deliveries afterwards."""

import threading
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import requests

from app.dev.receiver import Receiver
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests import rows
from tests.waiting import HUNG_SECONDS, eventually

_UNAVAILABLE = {503, 504}


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the API: status, duration, and error code."""

    status: int
    seconds: float
    code: str | None


class Load:
    """Creates IMMEDIATE jobs from a thread, and repeats each request with the same key until it is accepted."""

    def __init__(self, api: Api, endpoint: str, *, input_: Any = None) -> None:
        self._api = api
        self._body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "input": input_ or {}}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name="load", daemon=True)
        self.answers: list[Answer] = []
        self.accepted: list[str] = []
        self.broken = 0  # connections that ended without a response

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self.accepted or self._failure, what="the first job")
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop after the current job is accepted; raise the failure of the thread, such as an unexpected response."""
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "the last job was never accepted"
        if self._failure is not None:
            raise self._failure

    @property
    def refusals(self) -> list[Answer]:
        """Return the responses with 503 or 504."""
        return [answer for answer in self.answers if answer.status in _UNAVAILABLE]

    def wait_for_refusals(self, number: int = 1) -> None:
        """Wait until the client has `number` responses with 503 or 504."""
        eventually(lambda: len(self.refusals) >= number or self._failure, what="503")

    def wait_for_more(self, number: int = 5) -> None:
        """Wait until `number` more jobs are accepted."""
        before = len(self.accepted)
        eventually(lambda: len(self.accepted) >= before + number or self._failure, what="more jobs")

    def _guarded(self) -> None:
        try:
            for number in count():
                if self._stopping.is_set():
                    return
                self._create(f"load-{number}")
        except BaseException as error:
            self._failure = error

    def _create(self, key: str) -> None:
        while True:
            began = time.monotonic()
            try:
                response = self._api.request("POST", "/jobs", json=self._body | {"idempotency_key": key})
            except requests.ConnectionError:
                self.broken += 1
                time.sleep(0.1)
                continue
            code = response.json()["error"]["code"] if response.status_code >= 400 else None
            answer = Answer(response.status_code, time.monotonic() - began, code)
            self.answers.append(answer)
            assert answer.seconds < HUNG_SECONDS, answer
            if answer.status in {200, 201}:
                self.accepted.append(response.json()["execution"]["execution_id"])
                time.sleep(0.02)
                return
            assert answer.status in _UNAVAILABLE, f"{answer} {response.text}"
            time.sleep(0.1)


def check_deliveries(database: Database, receiver: Receiver, path: str, accepted: list[str]) -> int:
    """Wait until every job succeeds, check its attempts, and return the number of repeated deliveries.

    Each attempt before a repeated delivery must report that it may have been delivered.
    """

    def unfinished() -> list[str]:
        return [f"{key}: {now}" for key in accepted if (now := rows.execution(database, key).status) != "SUCCESS"]

    eventually(lambda: not unfinished(), what="the success of all jobs")
    assert len(set(accepted)) == len(accepted)
    sent = Counter(
        (r.idempotency_key, int(r.headers["X-Task-Executor-Attempt"])) for r in receiver.wait_for(0, path=path)
    )
    assert {key for key, _ in sent} == set(accepted), "the executions delivered are not exactly the accepted executions"
    assert set(sent.values()) == {1}, "an attempt was sent more than once"
    for execution_id in accepted:
        tried = rows.attempts(database, execution_id)
        assert [attempt.attempt_number for attempt in tried] == list(range(1, len(tried) + 1))
        last = max(number for key, number in sent if key == execution_id)
        for attempt in tried:
            if (execution_id, attempt.attempt_number) in sent and attempt.attempt_number < last:
                assert attempt.error["may_have_been_delivered"] is True, attempt
    return len(sent) - len(accepted)
