"""Workload: all requests of a run, from the first job to the last cancellation."""

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from app.dev.receiver import Receiver
from app.dev.verify import stored
from app.dev.verify.ending.redriving import Redriving
from app.dev.verify.load_client import ANSWER_SECONDS, LoadClient
from app.dev.verify.queue_pauses import QueuePauses
from app.dev.verify.repeating import RepeatingJobs
from app.dev.verify.transactions import Transactions
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.dev.verify.verify_options import Options
from app.dev.verify.workflows.workflow_load import WorkflowLoad
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.function_types import AnyFunction, Stopping
from schema.states import Trigger

_MAX_THREADS = 32
_DELAYED_SHARE, _CANCELLED_SHARE, _REPLAYED_SHARE = 0.35, 0.04, 0.05
_MIN_DELAY, _MAX_DELAY = 0.3, 6.0
_WAVE_SECONDS = 8.0
_BROKEN_SHARE = 0.4  # of the duration
_BROKEN_SECONDS = 60.0  # after it, at most: a busy machine delivers late


class Workload:
    """All threads of the load.

    They create one-shot jobs at a steady rate, waves of jobs for limited endpoints, repeating jobs, and jobs in
    transactions of an application; redrive dead letters; and pause a queue.
    """

    def __init__(
        self,
        options: Options,
        client: LoadClient,
        endpoints: VerifyEndpoints,
        database: Database,
        receiver: Receiver,
        *,
        database_url: str,
    ) -> None:
        self._options = options
        self._client = client
        self._endpoints = endpoints
        self._receiver = receiver
        self._database = database
        self._repeating = RepeatingJobs(client, endpoints, database, seed=options.seed, has_storm=options.pause_storm)
        self.redriving = Redriving(client, endpoints, database)
        self.transactions = Transactions(database_url, client, endpoints, database, seed=options.seed)
        self.queue_pauses = QueuePauses(client, endpoints, database, seed=options.seed)
        self.workflows = WorkflowLoad(client, endpoints, seed=options.seed)
        self._numbers = itertools.count()  # `next` is atomic
        self._threads: list[threading.Thread] = []
        self.started_at = 0.0
        """Start of the load on time.monotonic()."""

    @property
    def pauses(self) -> int:
        return self._repeating.pauses.total()

    def has_created_all(self) -> bool:
        """Return whether no more one-shot jobs are being created."""
        return not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        for part in (self._repeating, self.redriving, self.transactions, self.queue_pauses, self.workflows):
            part.start()
        self.started_at = time.monotonic()
        for _ in range(min(_MAX_THREADS, max(4, round(self._options.rate / 8)))):
            self._in_background(self._create_jobs)
        self._in_background(self._create_waves)
        self._in_background(self._heal)

    def wind_down(self) -> Iterator[tuple[Stopping, str]]:
        """End the repeating jobs, each after proof that it continues; yields conditions to wait for, in words too."""
        for part in (self.redriving, self.transactions, self.queue_pauses, self.workflows):
            part.stop(threading.TIMEOUT_MAX)  # their last requests count
        self._repeating.calm()
        yield self._repeating.all_continue, "waiting for the next tick of each job that was paused and resumed"
        yield self._repeating.all_have_ticked, "waiting for the first tick of each repeating job"
        self._repeating.stop()

    def stop(self) -> None:
        """End early, and wait for pending answers."""
        self._client.stopping.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)
        self._client.close()

    def create_crowd(self, endpoint: str, count: int, word: str) -> None:
        """Create jobs at once, in the background, with `word` in each input."""
        keys = [f"{endpoint}-{word}-{number}" for number in range(count)]
        bodies = [{"endpoint": endpoint, "idempotency_key": key, "input": {"word": word}} for key in keys]
        self._in_background(self._client.create_all, bodies)

    def write_secret(self) -> None:
        """Store the secret again, in the background because the API may be starting."""
        path, body = f"/secrets/{self._endpoints.secret_name}", {"value": self._endpoints.canary}
        self._in_background(self._client.ask, path, body, method="PUT")

    def _in_background(self, run: AnyFunction, *arguments: Any, **named: Any) -> None:
        thread = threading.Thread(target=run, args=arguments, kwargs=named, name="load", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _sleep_until(self, elapsed: float) -> bool:
        """Sleep until this time of the load; false if the run stops before."""
        return not self._client.stopping.wait(max(0.0, self.started_at + elapsed - time.monotonic()))

    def _create_jobs(self) -> None:
        for number in self._numbers:
            due, elapsed = number / self._options.rate, time.monotonic() - self.started_at
            if max(due, elapsed) >= self._options.duration or not self._sleep_until(due):
                return
            self._create_job(number)

    def _create_job(self, number: int) -> None:
        """Create a job, sometimes twice, and sometimes cancel it; the seed and the number decide."""
        dice = random.Random(f"{self._options.seed}-{number}")
        body = {"endpoint": self._endpoints.choose(dice), "idempotency_key": f"{self._endpoints.topic}-{number}"}
        is_delayed = dice.random() < _DELAYED_SHARE
        body["trigger"] = Trigger.DELAYED if is_delayed else Trigger.IMMEDIATE
        if is_delayed:
            run_at = datetime.now(UTC) + timedelta(seconds=dice.uniform(_MIN_DELAY, _MAX_DELAY))
            body["run_at"] = run_at.isoformat()
        job = self._client.create(body)
        if job is None:
            return
        if dice.random() < _REPLAYED_SHARE:
            self._client.create(body)
        is_cancelled = is_delayed and dice.random() < _CANCELLED_SHARE
        if is_cancelled and self._client.ask(f"/jobs/{job.job_id}/cancel", conflict_is_fine=True) is not None:
            self._client.note(job.key, cancelled=True)

    def _create_waves(self) -> None:
        """Create more jobs at once than the limits of their endpoints admit, again and again."""
        for number in itertools.count():
            if number * _WAVE_SECONDS >= self._options.duration or not self._sleep_until(number * _WAVE_SECONDS):
                return
            self._client.create_all(self._endpoints.wave(number))

    def _heal(self) -> None:
        """Repair the broken receiver during the run, once its breaker has opened, or at the early end."""
        elapsed = self._options.duration * _BROKEN_SHARE
        while self._sleep_until(elapsed) and elapsed < self._options.duration + _BROKEN_SECONDS:
            with suppress(UnavailableError):
                if stored.has_opened(self._database, self._endpoints.broken):
                    break
            elapsed = time.monotonic() - self.started_at + 1.0
        self._receiver.release(self._endpoints.broken_path)
