"""Commands: what is asked of this process, carried out between two heartbeats."""

import logging
from collections.abc import Mapping

from app.kernel.db import Database
from app.kernel.function_types import Call
from app.kernel.processes import worker_commands

log = logging.getLogger(__name__)


class Commands:
    """Belongs to te-health: one heartbeat brings a command, and the next one tells that it is carried out."""

    def __init__(self, database: Database, worker_id: str, acts: Mapping[str, Call]) -> None:
        """`acts`, by the command, must not block, and may be called again."""
        self._database = database
        self._worker_id = worker_id
        self._acts = acts
        self._done: set[str] = set()  # not acknowledged yet
        self._unknown: set[str] = set()

    def beat(self) -> bool:
        """Acknowledge what was done and do what has come since; returns whether there is something to acknowledge.

        Raises UnavailableError; what is not acknowledged then is so by a later beat.
        """
        if self._done:
            worker_commands.acknowledge(self._database, self._worker_id, sorted(self._done))
            self._done.clear()
        for row in worker_commands.pending(self._database, self._worker_id):
            act = self._acts.get(row.command)
            if act is not None:
                act()
                self._done.add(row.command_id)
            elif row.command_id not in self._unknown:
                self._unknown.add(row.command_id)
                log.warning("command %s to %s is of a later release, and left alone", row.command_id, row.command)
        return bool(self._done)
