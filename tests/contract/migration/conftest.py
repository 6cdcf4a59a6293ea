"""Fixtures of the migration tests: a revision per test, a migrator in a thread, and its statements."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

from schema import migrate
from schema.url import database_url as parse_url
from tests.waiting import HUNG_SECONDS, eventually

_REVISION = """
from alembic import op
from sqlalchemy import text
from schema import online, schema_version
revision, down_revision = "9001", schema_version.head()
def upgrade():
    {}
"""
# All changes of `schema.online`, applied to tables of the baseline.
EVERY_CHANGE = (
    "online.add_column('jobs', 'tried', 'BIGINT DEFAULT 1 NOT NULL')",
    "online.create_index('idx_jobs_tried', 'jobs', ['tried', 'job_id'], where='''endpoint <> 'a:b' ''')",
    "online.create_index('idx_jobs_tried_once', 'jobs', ['job_id', 'tried'], unique=True)",
    "online.create_index('idx_attempts_tried', 'attempts', ['started_at'], leads_with_time=True)",
    "online.add_check('jobs', 'chk_jobs_tried', 'tried > 0')",
    "online.add_foreign_key('executions', 'fk_executions_target', ['endpoint'], 'endpoints', ['name'])",
    "online.drop_index('idx_jobs_on_pause')",
    "online.drop_constraint('jobs', 'chk_jobs_overlap')",
    "online.drop_constraint('attempts', 'fk_attempts_execution')",
    "online.drop_column('jobs', 'catch_up')",
)
_BUILDER = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'te-migrate' "
    "AND state = 'active' AND wait_event_type = 'Lock'"
)


class Migrator:
    """Migration in a thread: `finish` returns the revision, or raises the error of the migration."""

    def __init__(self, url: str, folder: Path, **options: float) -> None:
        self._result: str | None = None
        self._error: BaseException | None = None
        self._url, self._folder, self._options = url, folder, options
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> str:
        self._thread.join(HUNG_SECONDS)
        if self._error:
            raise self._error
        assert self._result, "the migration hangs"
        return self._result

    def _run(self) -> None:
        try:
            self._result = migrate.upgrade(self._url, folders=[self._folder], **self._options)
        except BaseException as error:
            self._error = error


@pytest.fixture
def write_revision(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a revision behind the newest revision.

    The function takes the lines of `upgrade` and returns the folder.
    """

    def write(*lines: str) -> Path:
        (tmp_path / "9001_next.py").write_text(_REVISION.format("\n    ".join(lines)))
        return tmp_path

    return write


@pytest.fixture
def observer(database_url: str) -> Iterator[Connection]:
    """A connection in autocommit mode, for use during a migration."""
    engine = create_engine(parse_url(database_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def sent() -> Iterator[list[str]]:
    """List of all statements that migrators of this process have sent, including repeats after a lock timeout."""
    statements: list[str] = []

    def record(connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    yield statements
    event.remove(Engine, "before_cursor_execute", record)


def waiting_builder(observer: Connection) -> int:
    """Wait until a migrator's statement waits for a lock, and return the id of its server process."""
    return eventually(lambda: observer.execute(_BUILDER).scalar() or 0, what="a migrator that waits for a lock")
