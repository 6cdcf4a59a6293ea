"""A process that is killed at one of its statements, and the scheduler that continues its workflows."""

from typing import Any

from sqlalchemy import event

from app.features.workflows import Workflows
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.db import Database
from app.scheduler.chore import ChoreContext
from tests.contract.races.interleaving import Body
from tests.contract.races.racing import never


class KilledError(BaseException):
    """End of a process before one of its statements or commits."""


class Mortal:
    """A process that is killed before its statement or commit with a number."""

    def __init__(self, url: str, dies_at: int) -> None:
        self.database = db.connect(url, pool_size=1, application_name="te-test-mortal")
        self._left = dies_at
        event.listen(self.database.engine, "before_cursor_execute", self._live)
        event.listen(self.database.engine, "commit", self._live)

    def _live(self, *_: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise KilledError

    def run(self, body: Body) -> bool:
        """Run a body; returns whether it ended before the kill."""
        try:
            body(self.database)
        except KilledError:
            return False
        finally:
            self.database.close()
        return True


def chores(database: Database) -> None:
    """Run the chore of workflows once."""
    context = ChoreContext(database, Settings(), hint=lambda _queue: None, stopping=never)
    (chore,) = (each for each in Workflows().chores(context) if each.name == "workflows")
    chore.run()
