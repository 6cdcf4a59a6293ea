"""Transactions of an application that creates jobs by te_enqueue, and commits or rolls back."""

import json
import random
from contextlib import suppress
from functools import partial
from typing import TypeVar

import psycopg2

from app.dev.verify import stored
from app.dev.verify.evidence import AcceptedJob
from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Run
from app.kernel.threads import BackgroundThread
from schema.states import Trigger

_ENQUEUE = "SELECT job_id, is_new FROM te_enqueue(%s, CAST(%s AS JSONB), idempotency_key => %s)"
_ROLLED_BACK_SHARE, _LONG_SHARE = 0.3, 0.2
_MAX_OPEN_SECONDS = 3.0
_EVERY_SECONDS = 0.3
_RETRY_SECONDS = 0.2

T = TypeVar("T")


class Transactions(BackgroundThread):
    """Thread with one connection to the database, and one transaction after another."""

    def __init__(
        self, url: str, client: LoadClient, endpoints: VerifyEndpoints, database: Database, *, seed: int
    ) -> None:
        super().__init__("te-verify-transactions")
        self._url = url
        self._client = client
        self._endpoints = endpoints
        self._database = database
        self._seed = seed
        self._connection: psycopg2.extensions.connection | None = None
        self.rolled_back = set[str]()
        """Ids of jobs whose transactions never committed."""

    def start(self) -> None:
        """Start, unless the database has no te_enqueue."""
        if not self._database.is_cockroach:
            super().start()

    def run(self) -> None:
        number = 0
        while not self.stopping.wait(_EVERY_SECONDS):
            number += 1
            self._enqueue(number, random.Random(f"{self._seed}-enqueue-{number}"))
        self._close()

    def _enqueue(self, number: int, dice: random.Random) -> None:
        """Create a job and commit, or roll back; repeat a commit with an unknown outcome under the same key."""
        endpoint, key = self._endpoints.choose(dice), f"{self._endpoints.topic}-enqueued-{number}"
        commits = dice.random() >= _ROLLED_BACK_SHARE
        open_seconds = dice.uniform(0.0, _MAX_OPEN_SECONDS) if dice.random() < _LONG_SHARE else 0.0
        arguments = (endpoint, json.dumps({"key": key}), key)
        if not commits:
            try:
                self._abandon(arguments, open_seconds)
            except psycopg2.Error:
                self._close()
            return
        job_id = self._until_answered(partial(self._commit, arguments, open_seconds))
        visible_at = self._until_answered(partial(stored.now, self._database))
        if job_id is not None:
            self._client.accept(AcceptedJob(job_id, key, Trigger.IMMEDIATE, visible_at=visible_at))

    def _abandon(self, arguments: tuple[str, ...], open_seconds: float) -> None:
        self.rolled_back.add(self._call(arguments))
        self.stopping.wait(open_seconds)
        self._opened().rollback()

    def _commit(self, arguments: tuple[str, ...], open_seconds: float) -> str:
        job_id = self._call(arguments)
        self.stopping.wait(open_seconds)
        self._opened().commit()
        return job_id

    def _call(self, arguments: tuple[str, ...]) -> str:
        with self._opened().cursor() as cursor:
            cursor.execute(_ENQUEUE, arguments)
            job_id, _is_new = cursor.fetchone() or ("", True)
        return str(job_id)

    def _until_answered(self, act: Run[T]) -> T | None:
        """Repeat until the database answers; None if the run stops before."""
        while not self._client.stopping.is_set():
            try:
                return act()
            except (psycopg2.Error, UnavailableError):
                self._close()
                self._client.stopping.wait(_RETRY_SECONDS)
        return None

    def _opened(self) -> "psycopg2.extensions.connection":
        if self._connection is None:
            self._connection = psycopg2.connect(self._url, application_name="te-verify-application")
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None
