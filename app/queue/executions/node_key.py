"""Key of the job of a workflow's node, from which answers show the place of an execution without a read. Pure."""

from typing import NamedTuple

from schema.job_bounds import OWN_KEY_PREFIX

_PREFIX = f"{OWN_KEY_PREFIX}node:"


def compensation_of(item: int) -> int:
    """Return the item that undoes an item: -1 undoes the job of a node, -2 its first item."""
    return -1 - item


def undone_item(compensation: int) -> int:
    return -1 - compensation


class NodeKey(NamedTuple):
    """Place of a job in a workflow; item 0 is the node itself, its items count from 1, its runs from 1.

    Compensations have negative items.
    """

    workflow_id: str
    node: int
    item: int
    run: int

    @property
    def idempotency_key(self) -> str:
        """Idempotency key of the job, which no client can use."""
        return _PREFIX + ":".join(map(str, self))

    @classmethod
    def parse(cls, idempotency_key: str | None) -> "NodeKey | None":
        """Return the place of a job by its idempotency key; None if the job belongs to no workflow."""
        if idempotency_key is None or not idempotency_key.startswith(_PREFIX):
            return None
        match idempotency_key.removeprefix(_PREFIX).split(":"):
            case [workflow_id, node, item, run] if all(map(str.isdecimal, (node, item.removeprefix("-"), run))):
                return cls(workflow_id, int(node), int(item), int(run))
        return None
