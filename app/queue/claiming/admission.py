"""Admission: the port of the rules that decide how many executions of a partition may be claimed now.

A claim asks each rule for its room, in one loop (`brokers.claimer`), and takes the least. The rules are the pause of an
endpoint, its limits, its breaker, the connections to its target, and last its fair share of the process.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from app.kernel.db import Database
from app.queue.claiming.partition import Partition, Wanted
from app.queue.claiming.taken import Taken
from app.queue.executions.database_clock import DatabaseClock

UNBOUNDED = 1_000_000


class Room(NamedTuple):
    """How many executions of a partition a rule lets a worker process claim now.

    With no slots, `closed_until` is the instant on `time.monotonic()` at which to ask again, infinite where the rule
    opens by itself (`AdmissionRule.begin`). One that is not ahead means: after the next claim. `of_endpoint` closes all
    partitions of the endpoint.
    """

    slots: int
    closed_until: float = -inf
    of_endpoint: bool = False


OPEN = Room(UNBOUNDED)


class Opened(NamedTuple):
    """Endpoints and partitions that a rule has closed and that may be asked for again."""

    endpoints: Collection[str] = ()
    partitions: Collection[Partition] = ()


NOTHING_OPENED = Opened()


class ClaimRequest(NamedTuple):
    """What all statements of one claim have in common; see `app.queue.claiming.claim.claim`."""

    queue: str
    worker_id: str
    ahead_ms: int
    flow_revision: int
    clock: DatabaseClock


class AdmissionRule:
    """One rule as the consumer of one queue asks it; belongs to the thread of that consumer.

    `now` is `time.monotonic()`. The methods do no I/O, but for `claim` and `answered`. A rule that is `of_settings` is
    asked only about endpoints with settings of their own (`FlowRules`): all others pay nothing for it.
    """

    of_settings = False

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Begin a claim: take in what has changed since the last; returns what was closed and has opened early."""
        return NOTHING_OPENED

    def room(self, partition: Partition, now: float) -> Room:  # noqa: ARG002
        """Return how much of a partition may be claimed, beside what this claim has reserved already."""
        return OPEN

    def reserved(self, partition: Partition, slots: int) -> None:
        """Note that the claim reserves slots for a partition."""

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Note endpoints and limit keys of executions that have ended in this process; called by any thread."""

    def claims(self, partition: Partition) -> bool:  # noqa: ARG002
        """Return whether the rule claims from a partition itself, by its own statement."""
        return False

    def claim(self, database: Database, wanted: Sequence[Wanted], request: ClaimRequest) -> Taken:
        """Claim from partitions that are the rule's own; raises UnavailableError."""
        raise NotImplementedError

    def answered(self, database: Database, wanted: Sequence[Wanted], taken: Taken, now: float) -> None:
        """Take in the answer to its own claim, after the partitions have; raises UnavailableError."""
        raise NotImplementedError
