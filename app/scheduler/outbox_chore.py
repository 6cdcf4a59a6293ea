"""Outbox chore: handles completion events whose writers did not handle them, because they died or were overloaded."""

import random
import time
from collections.abc import Sequence

from app.kernel.formats import EPOCH
from app.queue.ending.handler import Handler
from app.queue.ending.outbox_processor import BATCH, Handled, OutboxProcessor
from app.queue.ending.outbox_rows import DueEvent, due_ends, shards_with_ends
from app.scheduler.chore import ChoreContext, Counts

RUN_SECONDS = 10.0  # the next run continues, in each shard from the oldest event
MAX_RETRIED = 200  # events that failed before, per run and shard


class Outbox:
    """Handles events of all shards; after new events, retries each failed event alone."""

    def __init__(self, context: ChoreContext, handlers: Sequence[Handler], *, run_seconds: float = RUN_SECONDS) -> None:
        self._context = context
        self._handler = OutboxProcessor(context.database, handlers=handlers, stopping=context.stopping)
        self._run_seconds = run_seconds

    def handle(self) -> Counts:
        """Handle events that have been due for a second; no shard waits for all events of another shard."""
        done, until, failed_before = Handled(), time.monotonic() + self._run_seconds, list[str]()
        shards = shards_with_ends(self._context.database)
        random.shuffle(shards)
        for shard in shards:
            handled, failed = self._handle_new(shard, until)
            done, failed_before = done + handled, failed_before + failed
        random.shuffle(failed_before)
        until = time.monotonic() + self._run_seconds  # a time of their own, which new events cannot use up
        for end_id in failed_before:
            if self._context.stopping() or time.monotonic() >= until:
                break
            done += self._handler.handle_alone(end_id)
        return self._report(done)

    def handle_named(self, end_ids: list[str]) -> Counts:
        """Handle events that this process has written."""
        return self._report(self._handler.handle(end_ids))

    def _handle_new(self, shard: int, until: float) -> tuple[Handled, list[str]]:
        """Handle events of a shard that were never tried; return also the first MAX_RETRIED events that failed."""
        done, after, failed = Handled(), DueEvent(EPOCH, "", 0), list[str]()
        while not self._context.stopping() and time.monotonic() < until:
            found = due_ends(self._context.database, shard, after=after, limit=BATCH)
            failed += [event.end_id for event in found if event.tries][: MAX_RETRIED - len(failed)]
            if new := [event.end_id for event in found if not event.tries]:
                done += self._handler.handle(new)
            if len(found) < BATCH:
                break
            after = found[-1]
        return done, failed

    def _report(self, done: Handled) -> Counts:
        self._context.hint_all(done.queues)
        return Counts(ends=done.ends, put_off=done.put_off)
