"""Admission: the port of the rules that decide how many executions of a partition may be claimed now.

Before a claim, one loop (`brokers.claimer`) asks each rule for its room and takes the minimum: pause of the
endpoint, limits, breaker and connections of the target, and last the fair share of the endpoint.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from app.kernel.db import Database
from app.queue.claiming.claim import Taken
from app.queue.claiming.partition import ClaimRequest, Partition, Wanted

UNBOUNDED = 1_000_000


class Room(NamedTuple):
    """Number of executions of a partition that a rule admits now.

    Without slots, `closed_until` is the instant on `time.monotonic()` at which to ask again: infinite if the rule opens
    the partition itself (`AdmissionRule.begin`), past if the next claim may ask. `of_endpoint` closes all partitions of
    the endpoint.
    """

    slots: int
    closed_until: float = -inf
    of_endpoint: bool = False


OPEN = Room(UNBOUNDED)


class Opened(NamedTuple):
    """Endpoints and partitions that a rule had closed and opens again."""

    endpoints: Collection[str] = ()
    partitions: Collection[Partition] = ()


NOTHING_OPENED = Opened()


class AdmissionRule:
    """One rule for one queue; belongs to the consumer thread of the queue.

    `now` is `time.monotonic()`. Only `claim` and `answered` do I/O. A rule with `of_settings` is asked only about
    endpoints with rules of their own (`FlowRules`), so it costs other endpoints nothing.
    """

    of_settings = False

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Begin a claim: apply the changes since the last; return early openings."""
        return NOTHING_OPENED

    def room(self, partition: Partition, now: float) -> Room:  # noqa: ARG002
        """Return the room for a partition, in addition to the slots that this claim has reserved."""
        return OPEN

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count slots that the claim reserves for a partition."""

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Take endpoints and limit keys of executions that have ended in this process; called by any thread."""

    def claims(self, partition: Partition) -> bool:  # noqa: ARG002
        """Return whether the rule claims from a partition by its own statement."""
        return False

    def claim(self, database: Database, wanted: Sequence[Wanted], request: ClaimRequest) -> Taken:
        """Claim from the rule's own partitions; raises UnavailableError."""
        raise NotImplementedError

    def answered(self, database: Database, wanted: Sequence[Wanted], taken: Taken, now: float) -> None:
        """Process the answer to its own claim; raises UnavailableError."""
        raise NotImplementedError
