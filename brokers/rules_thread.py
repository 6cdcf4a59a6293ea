"""Flow: the thread of a worker process that polls twice a second for changes."""

import logging
from collections.abc import Callable
from contextlib import ExitStack

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.threads import BackgroundThread
from app.queue.claiming.endpoint_rules import FlowRules
from brokers.flow_state import FlowState, read_flow_state
from brokers.inbox import Inboxes
from brokers.worker_breakers import WorkerBreakers

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
Listen = Callable[[FlowState], None]


class FlowThread(BackgroundThread):
    """Keeps the endpoint rules and the states of breakers current, and passes each state to listeners.

    So a change takes effect within a second without wake-ups, however rarely an idle consumer polls.
    """

    def __init__(
        self, database: Database, worker_id: str, rules: FlowRules, breakers: WorkerBreakers, inboxes: Inboxes
    ) -> None:
        super().__init__("te-flow")
        self._database = database
        self._worker_id = worker_id
        self._rules = rules
        self._breakers = breakers
        self._inboxes = inboxes
        self._listeners: list[Listen] = []
        self._is_away = False

    def on_poll(self, listen: Listen) -> None:
        """Pass each state to `listen`, on this thread; call before `start`. `listen` may raise errors of the database.

        The last listener is called first: the first one writes, and may wait for a lock.
        """
        self._listeners.append(listen)

    def interrupt(self) -> None:
        self._breakers.hurry.set()

    def run(self) -> None:
        """Poll until the thread is stopping; retry after errors."""
        while not self.stopping.is_set():
            try:
                self._poll()
                self._is_away = False
            except (UnavailableError, SQLAlchemyError) as error:
                if not self._is_away:
                    log.warning("cannot read endpoint rules: %s; retrying", explained(error))
                self._is_away = True
            except Exception:
                log.exception("unexpected error in te-flow; continuing")
            self._breakers.hurry.wait(POLL_SECONDS)
            self._breakers.hurry.clear()

    def _poll(self) -> None:
        found = read_flow_state(self._database, self._worker_id)
        self._breakers.learn(found.breakers)  # before the listeners, which may wait
        if self._rules.refresh(found.revision) or self._rules.correct(found.revision):
            self._inboxes.wake()
        with ExitStack() as stack:  # calls all listeners, the last one first, also after an error
            for listen in self._listeners:
                stack.callback(listen, found)
