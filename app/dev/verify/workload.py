"""Workload: everything that the run asks of the API, from the first job to the last cancel."""

import threading
import time
from collections.abc import Callable
from contextlib import closing

from app.dev.receiver import Receiver
from app.dev.verify.flow.flow_load import FlowLoad
from app.dev.verify.job_load import JobLoad, NewClient, ask, create_crowd
from app.dev.verify.ledger import Ledger
from app.dev.verify.repeating import Repeating
from app.dev.verify.storm import Storm
from app.dev.verify.verify_definitions import Catalogue
from app.dev.verify.verify_options import Options
from app.kernel.db import Database
from app.kernel.function_types import Stopping

Until = Callable[[Stopping, str], None]
"""Keeps the run going until a condition holds; the words say what is being waited for."""


class Workload:
    """The one-shot jobs, the jobs that repeat, those of the storm, and the crowds that faults ask for."""

    def __init__(
        self,
        options: Options,
        client: NewClient,
        catalogue: Catalogue,
        ledger: Ledger,
        database: Database,
        *,
        receiver: Receiver,
    ) -> None:
        self._options = options
        self._client = client
        self._catalogue = catalogue
        self._ledger = ledger
        self._repeating = Repeating(client(), catalogue, ledger, database)
        self._storm = Storm(client, catalogue, ledger, database, options.seed) if options.pause_storm else None
        self._load = JobLoad(client, catalogue, ledger, rate=options.rate, seed=options.seed)
        self._flow = FlowLoad(client, catalogue.flow, ledger, receiver)

    @property
    def pauses(self) -> int:
        return self._storm.pauses if self._storm else 0

    def start(self) -> float:
        """Begin; returns the instant at which the load did, on time.monotonic()."""
        self._repeating.start()
        if self._storm is not None:
            self._storm.start()
        self._load.start(self._options.duration)
        self._flow.start(self._options.duration)
        return time.monotonic()

    def is_creating(self) -> bool:
        """Return whether one-shot jobs are still being created."""
        return self._load.is_running or self._flow.is_running

    def wind_down(self, until: Until) -> None:
        """End the jobs that repeat, each after it has shown that it goes on."""
        if self._storm is not None:
            self._storm.calm()
            until(self._storm.all_go_on, "waiting for the next tick of each job that was paused and resumed")
            self._storm.stop()
        until(self._repeating.all_have_ticked, "waiting for the first tick of each job that repeats")
        self._repeating.stop()

    def stop(self) -> None:
        """End early, and wait for the answers that are under way."""
        self._load.stop()
        self._flow.stop()

    def create_crowd(self, endpoint: str, count: int, word: str) -> None:
        """Create so many jobs at once."""
        create_crowd(self._client, self._ledger, endpoint, count, word)

    def write_secret(self) -> None:
        """Write the secret anew, in the background: the API may be starting."""
        threading.Thread(target=self._write_secret, name="write-secret", daemon=True).start()

    def _write_secret(self) -> None:
        path, body = f"/secrets/{self._catalogue.secret_name}", {"value": self._catalogue.canary}
        with closing(self._client()) as api:
            ask(api, self._ledger, path, body, threading.Event(), method="PUT")
