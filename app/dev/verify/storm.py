"""Storm: repeating jobs that are paused and resumed all the time, and must go on when it is over."""

import random
import threading
from datetime import timedelta
from typing import Any

from app.dev.stack.stack_client import Api
from app.dev.verify import stored
from app.dev.verify.evidence import Accepted
from app.dev.verify.job_load import NewClient, ask
from app.dev.verify.ledger import Ledger
from app.dev.verify.verify_definitions import Catalogue
from app.kernel.db import Database
from schema.states import Trigger

_LONGEST_PAUSE_SECONDS = 0.4
_PATIENCE = timedelta(seconds=30)


class Storm:
    """Pauses and resumes, in threads of its own, one job of each transport and one that counts from its last end."""

    def __init__(self, client: NewClient, catalogue: Catalogue, ledger: Ledger, database: Database, seed: int) -> None:
        self._client = client
        self._catalogue = catalogue
        self._ledger = ledger
        self._database = database
        self._seed = seed
        self._stopping = threading.Event()
        self._never = threading.Event()
        self._jobs: list[Accepted] = []
        self._threads: list[threading.Thread] = []
        self.pauses = 0

    def start(self) -> None:
        """Create the jobs and begin."""
        api = self._client()
        for endpoint in self._catalogue.steady:
            self._create(api, endpoint, f"{endpoint}-stormed", fixed_delay=False)
        self._create(api, self._catalogue.slow, f"{self._catalogue.slow}-stormed", fixed_delay=True)
        api.close()
        for job in self._jobs:
            thread = threading.Thread(target=self._toss, args=(job,), name=f"storm-{job.key}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def calm(self) -> None:
        """Stop; every job is active afterwards."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for job in self._jobs:
            self._ledger.note_resumed(job.key, stored.now(self._database))

    def all_go_on(self) -> bool:
        """Return whether each has a tick after its last resume, or has had time enough for one."""
        resumed = {job.key: job.resumed_at for job in self._ledger.accepted if job.resumed_at is not None}
        now = stored.now(self._database)
        return all(
            now > resumed[job.key] + _PATIENCE or stored.ticks_after(self._database, job.job_id, resumed[job.key])
            for job in self._jobs
        )

    def stop(self) -> None:
        """End the jobs through the API."""
        api = self._client()
        for job in self._jobs:
            ask(api, self._ledger, f"/jobs/{job.job_id}/cancel", None, self._never)
        api.close()

    def _create(self, api: Api, endpoint: str, key: str, *, fixed_delay: bool) -> None:
        body: dict[str, Any] = {"endpoint": endpoint, "trigger": Trigger.INTERVAL, "every": "1s"}
        body |= {"idempotency_key": key, "input": {"key": key}, "fixed_delay": fixed_delay}
        answer = ask(api, self._ledger, "/jobs", body, self._never)
        if answer is not None:
            job = Accepted(answer["job_id"], key, Trigger.INTERVAL, is_stormed=True)
            self._ledger.accept(job)
            self._jobs.append(job)

    def _toss(self, job: Accepted) -> None:
        api, dice = self._client(), random.Random(f"{self._seed}-{job.key}")
        while not self._stopping.wait(dice.uniform(0.0, _LONGEST_PAUSE_SECONDS)):
            for verb in ("pause", "resume"):
                ask(api, self._ledger, f"/jobs/{job.job_id}/{verb}", None, self._never, conflict_is_fine=True)
                self._stopping.wait(dice.uniform(0.0, _LONGEST_PAUSE_SECONDS))
            with self._ledger.counting():
                self.pauses += 1
        api.close()
