"""Admission: the port of the rules that decide how many executions of a partition may be claimed now.

Before a claim, one loop (`brokers.claimer`) asks each rule for its room and takes the minimum: pause of the
endpoint, limits, breaker and connections of the target, and last the fair share of the endpoint.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from app.kernel.db import Database
from app.queue.claiming.claim import ClaimAnswer
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota

UNBOUNDED = 1_000_000


class Room(NamedTuple):
    """Number of executions of a partition that a rule admits now.

    Without slots, `closed_until` is the instant on `time.monotonic()` at which to ask again: infinite if the rule opens
    the partition itself (`AdmissionRule.begin`), past if the next claim may ask. With `of_endpoint` all partitions of
    the endpoint are closed.
    """

    slots: int
    closed_until: float = -inf
    of_endpoint: bool = False


OPEN = Room(UNBOUNDED)


class Opened(NamedTuple):
    """Endpoints closed by `of_endpoint`, and partitions closed alone, that a rule opens again."""

    endpoints: Collection[str] = ()
    partitions: Collection[Partition] = ()


NOTHING_OPENED = Opened()


class AdmissionRule:
    """One rule for one queue; belongs to the consumer thread of the queue. `now` is `time.monotonic()` in seconds.

    A claim calls `begin` once, then `room` for each candidate partition, and `reserved` for each chosen partition. Only
    `claim` and `answered` do I/O. With `of_settings` the rule is asked only about endpoints with rules of their own
    (`FlowRules`), so that it costs other endpoints nothing. `docs/how-to/extend.md` has an example.
    """

    of_settings = False

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Begin a claim: apply the changes since the last claim, and return what opens before its `closed_until`."""
        return NOTHING_OPENED

    def room(self, partition: Partition, now: float) -> Room:  # noqa: ARG002
        """Return the room for a partition, in addition to the slots that this claim has reserved."""
        return OPEN

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count slots that the claim reserves for a partition; the claim may find fewer executions."""

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Take endpoint and limit key of the executions that have ended in this process; called by any thread."""

    def claims(self, partition: Partition) -> bool:  # noqa: ARG002
        """Return whether the rule claims from a partition by its own `claim`; the first rule that returns true does."""
        return False

    def claim(self, database: Database, wanted: Sequence[PartitionQuota], request: ClaimRequest) -> ClaimAnswer:
        """Claim from the rule's own partitions.

        Raises UnavailableError if the database gives no answer. It may have claimed nevertheless.
        """
        raise NotImplementedError

    def answered(self, database: Database, wanted: Sequence[PartitionQuota], answer: ClaimAnswer, now: float) -> None:
        """Process the answer to the rule's own claim; after an UnavailableError the claims are kept."""
        raise NotImplementedError
