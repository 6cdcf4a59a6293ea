"""Jobs that repeat: one for each transport and trigger, from the beginning of the load to its end."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from app.dev.stack.stack_client import Api
from app.dev.verify import stored
from app.dev.verify.evidence import Accepted
from app.dev.verify.job_load import ask
from app.dev.verify.ledger import Ledger
from app.dev.verify.verify_definitions import Catalogue
from app.kernel.db import Database
from schema.states import Trigger


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A trigger that repeats, as it is asked for, and the time between its ticks."""

    trigger: Trigger
    fields: dict[str, str]
    step: timedelta


RHYTHMS = [
    Rhythm(Trigger.CRON, {"cron": "* * * * *", "timezone": "UTC"}, timedelta(minutes=1)),
    Rhythm(Trigger.INTERVAL, {"every": "2s"}, timedelta(seconds=2)),
]


class Repeating:
    """Creates the jobs that repeat, and ends them through the API."""

    def __init__(self, api: Api, catalogue: Catalogue, ledger: Ledger, database: Database) -> None:
        self._api = api
        self._catalogue = catalogue
        self._ledger = ledger
        self._database = database
        self._never = threading.Event()
        self._jobs: list[Accepted] = []

    def start(self) -> None:
        """Create one job for each rhythm and transport."""
        for rhythm in RHYTHMS:
            for endpoint in self._catalogue.steady:
                key = f"{endpoint}-{rhythm.trigger.lower()}"
                body: dict[str, Any] = {"endpoint": endpoint, "trigger": rhythm.trigger, "idempotency_key": key}
                answer = ask(
                    self._api, self._ledger, "/jobs", body | rhythm.fields | {"input": {"key": key}}, self._never
                )
                if answer is not None:
                    first = datetime.fromisoformat(answer["next_run_at"]).astimezone(UTC)
                    job = Accepted(answer["job_id"], key, rhythm.trigger, first_tick=first, step=rhythm.step)
                    self._ledger.accept(job)
                    self._jobs.append(job)

    def all_have_ticked(self) -> bool:
        """Return whether the first tick of each is over."""
        instant = stored.now(self._database) - timedelta(seconds=1)
        return all(job.first_tick is not None and job.first_tick <= instant for job in self._jobs)

    def stop(self) -> None:
        """End them. Ticks that were due before are owed; what was materialised ahead of time is cancelled."""
        for job in self._jobs:
            self._ledger.note_end(job.key, stored.now(self._database))
            ask(self._api, self._ledger, f"/jobs/{job.job_id}/cancel", None, self._never)
