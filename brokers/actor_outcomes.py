"""Outcomes of actors: completions that create jobs, and the report to the processes."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from app.kernel.db import Database
from app.queue.executions.completion import Completion, written
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import Verdict
from app.queue.jobs.following_jobs import Placing, complete_with_jobs
from brokers.inbox import Inboxes
from brokers.unwritten import Batch

SOON_MS = 1_000  # the next poll of an idle consumer would be late for executions that are due within this time


class ActorOutcomes:
    """Writes the completions of a batch that create jobs; belongs to the thread of the finalizer."""

    def __init__(self, database: Database, worker_id: str, placing: Placing, inboxes: Inboxes) -> None:
        self._database = database
        self._worker_id = worker_id
        self._placing = placing
        self._inboxes = inboxes

    def complete(self, batch: Batch[Completion]) -> set[str]:
        """Write the completions with jobs, each in a transaction; return the ids of the executions that changed.

        If no endpoint takes its jobs, a completion becomes a failure without jobs, for the caller to write. Raises the
        errors of the database; a repeated call finds the completions that an earlier call has written.
        """
        effective = set[str]()
        for place, completion in enumerate(batch.items):
            if not completion.then:
                continue
            try:
                queues = complete_with_jobs(
                    self._database,
                    self._worker_id,
                    completion,
                    self._placing,
                    unless_locked=batch.failures > 0,  # a locked row may not delay all other outcomes of the worker
                )
            except DeliveryError as error:
                batch.items[place] = replace(completion, verdict=Verdict.fail(error), then=())
                continue
            if queues is None:
                effective |= written(self._database, [completion])
                continue
            effective.add(completion.claim.execution_id)
            for queue in queues:
                self._inboxes.wake(queue)
        return effective

    def tell(self, completions: Sequence[Completion], effective: Collection[str]) -> None:
        """Report to the processes which outcomes are written, and to the consumers which executions run again soon."""
        for completion in completions:
            if completion.on_written is not None:
                completion.on_written(completion.claim.execution_id in effective)
                if completion.verdict.delay_ms is not None and completion.verdict.delay_ms < SOON_MS:
                    self._inboxes.wake(completion.claim.queue)
