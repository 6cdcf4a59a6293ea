"""Outbox chore: handles completion events whose writers did not handle them, because they died or were overloaded."""

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from app.queue.ending.handler import Handler
from app.queue.ending.outbox_processor import BATCH, OutboxProcessor, OutboxResult
from app.queue.ending.outbox_rows import DueEvent, Waiting, due_ends, waiting
from app.queue.executions.watermark import LowWater
from app.scheduler.chore import ChoreContext, Counts

RUN_SECONDS = 10.0  # the next run continues, in each shard from the oldest event
MAX_RETRIED = 200  # events that failed before, per run and shard


class Outbox:
    """Handles events of all shards; after new events, retries each failed event alone.

    Reads each shard from the end of the last read on. A scan of the whole outbox, at intervals, finds events that their
    writer has held locked for longer.
    """

    def __init__(self, context: ChoreContext, handlers: Sequence[Handler], *, run_seconds: float = RUN_SECONDS) -> None:
        self._context = context
        self._handler = OutboxProcessor(context.database, handlers=handlers, stopping=context.stopping)
        self._run_seconds = run_seconds
        new_mark = partial(LowWater, pace=context.scan_pace)
        self._marks: dict[int, LowWater] = defaultdict(new_mark)  # by shard

    def handle(self) -> Counts:
        """Handle events that have been due for a second; no shard waits for all events of another shard."""
        done, ends_at, failed_before = OutboxResult(), time.monotonic() + self._run_seconds, list[DueEvent]()
        found = self._find()
        random.shuffle(found.shards)
        for shard in found.shards:
            handled, failed = self._handle_new(shard, found.until, ends_at)
            done, failed_before = done + handled, failed_before + failed
        random.shuffle(failed_before)
        ends_at = time.monotonic() + self._run_seconds  # a time of their own, which new events cannot use up
        for event in failed_before:
            if self._context.stopping() or time.monotonic() >= ends_at:
                break
            done += self._handler.handle_alone(event.end_id)
        return self._report(done)

    def handle_named(self, end_ids: list[str]) -> Counts:
        """Handle events that this process has written."""
        return self._report(self._handler.handle(end_ids))

    def _find(self) -> Waiting:
        """Find the shards with due events; the marks of the other shards advance."""
        began = time.monotonic()
        for shard in range(self._context.served.count):
            self._marks[shard]
        while True:
            found = waiting(self._context.database, {shard: mark.since for shard, mark in self._marks.items()})
            if found.beyond is None:
                break
            self._marks[found.beyond]
        for shard in self._marks.keys() - set(found.shards):
            self._marks[shard].advance(found.until, began, time.monotonic())
        return found

    def _handle_new(self, shard: int, until: datetime, ends_at: float) -> tuple[OutboxResult, list[DueEvent]]:
        """Handle events of a shard that were never tried; return also the first MAX_RETRIED events that failed."""
        mark, done, failed, began = self._marks[shard], OutboxResult(), list[DueEvent](), time.monotonic()
        after = DueEvent(mark.since, "", 0)
        while not self._context.stopping() and time.monotonic() < ends_at:
            found = due_ends(self._context.database, shard, after=after, limit=BATCH)
            failed += [event for event in found if event.tries][: MAX_RETRIED - len(failed)]
            if new := [event.end_id for event in found if not event.tries]:
                done += self._handler.handle(new)
            if len(found) < BATCH:
                # Failed events stay in front of the mark, because a run may end before it has retried all of them.
                mark.advance(min([until, *(event.due_at for event in failed)]), began, time.monotonic())
                break
            after = found[-1]
        return done, failed

    def _report(self, done: OutboxResult) -> Counts:
        self._context.hint_all(done.queues)
        return Counts(ends=done.ends, defer=done.defer)
