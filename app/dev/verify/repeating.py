"""Repeating jobs: one per transport and trigger, and jobs that are paused and resumed continuously."""

import random
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

from app.dev.verify import stored
from app.dev.verify.evidence import AcceptedJob
from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.db import Database
from schema.states import Trigger

_RHYTHMS: list[tuple[dict[str, Any], timedelta]] = [
    ({"trigger": Trigger.CRON, "cron": "* * * * *", "timezone": "UTC"}, timedelta(minutes=1)),
    ({"trigger": Trigger.INTERVAL, "every": "2s"}, timedelta(seconds=2)),
]
_LONGEST_PAUSE_SECONDS = 0.4
_PATIENCE = timedelta(seconds=30)


class RepeatingJobs:
    """Creates the repeating jobs and cancels them at the end; each stormed job has a thread that pauses it."""

    def __init__(
        self, client: LoadClient, endpoints: VerifyEndpoints, database: Database, *, seed: int, has_storm: bool
    ) -> None:
        self._client = client
        self._endpoints = endpoints
        self._database = database
        self._seed = seed
        self._has_storm = has_storm
        self._calm = threading.Event()
        self._jobs: list[AcceptedJob] = []
        self._threads: list[threading.Thread] = []
        self.pauses = Counter[str]()
        """Number of pauses by the key of the job."""

    def start(self) -> None:
        for endpoint in self._endpoints.steady:
            for fields, step in _RHYTHMS:
                self._create(endpoint, fields["trigger"].lower(), fields, step=step)
        if self._has_storm:
            for endpoint in [*self._endpoints.steady, self._endpoints.slow]:
                fields = {"trigger": Trigger.INTERVAL, "every": "1s", "fixed_delay": endpoint == self._endpoints.slow}
                self._create(endpoint, "stormed", fields, is_stormed=True)
        self._threads = [
            threading.Thread(target=self._toss, args=(job,), name=f"storm-{job.key}", daemon=True)
            for job in self._jobs
            if job.is_stormed
        ]
        for thread in self._threads:
            thread.start()

    def calm(self) -> None:
        """End the storm; every job is active afterwards."""
        self._calm.set()
        for thread in self._threads:
            thread.join()
        for job in self._jobs:
            if job.is_stormed:
                self._client.note(job.key, resumed_at=stored.now(self._database))

    def all_continue(self) -> bool:
        """Return whether each stormed job has had a tick, or enough time for one, after its last resume."""
        now = stored.now(self._database)
        return all(
            now > job.resumed_at + _PATIENCE or stored.ticks_after(self._database, job.job_id, job.resumed_at)
            for job in self._client.accepted
            if job.resumed_at is not None
        )

    def all_have_ticked(self) -> bool:
        """Return whether the first tick of each job is over."""
        instant = stored.now(self._database) - timedelta(seconds=1)
        return all(job.first_tick is None or job.first_tick <= instant for job in self._jobs)

    def stop(self) -> None:
        """Cancel the jobs; ticks that were due before are still owed."""
        for job in self._jobs:
            self._client.note(job.key, ended_at=stored.now(self._database))
            self._client.ask(f"/jobs/{job.job_id}/cancel")

    def _create(self, endpoint: str, word: str, fields: dict[str, Any], **facts: Any) -> None:
        body = {"endpoint": endpoint, "idempotency_key": f"{endpoint}-{word}"} | fields
        job = self._client.create(body, **facts)
        if job is not None:
            self._jobs.append(job)

    def _toss(self, job: AcceptedJob) -> None:
        dice = random.Random(f"{self._seed}-{job.key}")
        while not self._calm.wait(dice.uniform(0.0, _LONGEST_PAUSE_SECONDS)):
            for verb in ("pause", "resume"):
                self._client.ask(f"/jobs/{job.job_id}/{verb}", conflict_is_fine=True)
                self._calm.wait(dice.uniform(0.0, _LONGEST_PAUSE_SECONDS))
            self.pauses[job.key] += 1
