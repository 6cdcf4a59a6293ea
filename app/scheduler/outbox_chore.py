"""The chore that handles ends whose writers did not: they died, could not keep up, or were not the ones to."""

import random
import time
from collections.abc import Sequence

from app.kernel.formats import EPOCH
from app.queue.ending.handler import Handler
from app.queue.ending.outbox_processor import BATCH, Handled, OutboxProcessor
from app.queue.ending.outbox_taking import DueEvent, due_ends, shards_with_ends
from app.scheduler.chore import ChoreContext, Counts

RUN_SECONDS = 10.0  # then the next run goes on, in each shard from the oldest again
MOST_ALONE = 200  # of those that have failed before, in a run and a shard


class Outbox:
    """Handles ends of all shards there are, whatever the setting knows; what has failed before alone and last."""

    def __init__(self, context: ChoreContext, handlers: Sequence[Handler], *, run_seconds: float = RUN_SECONDS) -> None:
        self._database = context.database
        self._handler = OutboxProcessor(context.database, handlers=handlers, stopping=context.stopping)
        self._hint = context.hint
        self._stopping = context.stopping
        self._run_seconds = run_seconds

    def handle(self) -> Counts:
        """Handle what has been due for a second; in no shard only because of what waits in another."""
        done, until, alone = Handled(), time.monotonic() + self._run_seconds, list[str]()
        shards = shards_with_ends(self._database)
        random.shuffle(shards)
        for shard in shards:
            handled, failed_before = self._handle_fresh(shard, until)
            done, alone = done + handled, alone + failed_before
        random.shuffle(alone)
        until = time.monotonic() + self._run_seconds  # of their own, or what keeps coming would leave them none
        for end_id in alone:
            if self._stopping() or time.monotonic() >= until:
                break
            done += self._handler.handle_alone(end_id)
        return self._told(done)

    def handle_named(self, end_ids: list[str]) -> Counts:
        """Handle ends that this process has written."""
        return self._told(self._handler.handle(end_ids))

    def _handle_fresh(self, shard: int, until: float) -> tuple[Handled, list[str]]:
        """Handle what is tried for the first time; returns the first of what has failed before, too."""
        done, after, alone = Handled(), DueEvent(EPOCH, "", 0), list[str]()
        while not self._stopping() and time.monotonic() < until:
            found = due_ends(self._database, shard, after=after, limit=BATCH)
            fresh = [waiting.end_id for waiting in found if not waiting.tries]
            failed_before = [waiting.end_id for waiting in found if waiting.tries]
            alone += failed_before[: MOST_ALONE - len(alone)]
            if fresh:
                done += self._handler.handle(fresh)
            if len(found) < BATCH:
                break
            after = found[-1]
        return done, alone

    def _told(self, done: Handled) -> Counts:
        for queue in done.queues:
            self._hint(queue)
        return Counts(ends=done.ends, put_off=done.put_off)
