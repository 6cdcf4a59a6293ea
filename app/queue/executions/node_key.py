"""Key of the job of a workflow's node, from which answers show the place of an execution without a read. Pure."""

from typing import NamedTuple

from schema.job_bounds import OWN_KEY_PREFIX

COMPENSATION = -1
"""Item of the compensation of a node."""

_PREFIX = f"{OWN_KEY_PREFIX}node:"


class NodeKey(NamedTuple):
    """Place of a job in a workflow; item 0 is the node itself, its items count from 1, its runs from 1."""

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
