"""Records of the connected processes: rows that the API and operators read."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from actors.dispatch.actor_link.process_session import Session
from app.kernel.errors import UnavailableError
from app.kernel.formats import storable
from app.kernel.processes.actor_processes import ActorProcess

log = logging.getLogger(__name__)

RecordProcess = Callable[[ActorProcess], None]
"""Writes the state of a process; blocks, and raises UnavailableError."""
RETRY_SECONDS = 1.0


class ProcessRecords:
    """Writes the latest state of each process, one after the other; belongs to the event loop."""

    def __init__(self, write: RecordProcess, run: Callable[[Any], None]) -> None:
        """Take the function that writes, and one that runs a coroutine."""
        self._write = write
        self._run = run
        self._changed = dict[str, Session]()
        self._is_writing = self._is_away = False

    def note(self, session: Session) -> None:
        """Write the state of a session soon."""
        self._changed[session.session_id] = session
        if not self._is_writing:
            self._is_writing = True
            self._run(self._write_all())

    async def _write_all(self) -> None:
        """Write until nothing is left; the state of a session is read when its turn comes."""
        try:
            while self._changed:
                session_id = next(iter(self._changed))
                session = self._changed.pop(session_id)
                try:
                    await asyncio.to_thread(self._write, _record_of(session))
                except UnavailableError as error:
                    if not self._is_away:
                        log.warning("cannot record the process %s: %s; retrying", session.pid, error.message)
                    self._is_away = True
                    self._changed.setdefault(session_id, session)
                    await asyncio.sleep(RETRY_SECONDS)
                except Exception:  # one record must not stop the records of other processes
                    log.exception("cannot record the process %s", session.pid)
                else:
                    if self._is_away:
                        self._is_away = False
                        log.warning("recorded the process %s: the database answers again", session.pid)
        finally:
            self._is_writing = False


def _record_of(session: Session) -> ActorProcess:
    return ActorProcess(
        session_id=storable(session.session_id),
        host=storable(session.host),
        pid=session.pid,
        threads=session.threads,
        endpoints=session.offered,
        refused={storable(endpoint): storable(reason) for endpoint, reason in session.refused.items()},
        is_connected=not session.is_forgotten,
    )
