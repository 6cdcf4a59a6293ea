"""Load of processes that do nothing on their database: connections and statements."""

from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from app.features.rollups.rollup_slots import SHORT_S
from app.kernel.db import Database
from app.kernel.db.connection_pool import IDLE_SECONDS
from tests.acceptance.conftest import stack_over
from tests.pg_proxy import Fault, PgProxy
from tests.waiting import eventually

pytestmark = [pytest.mark.postgresql_only, pytest.mark.timeout(400)]

PROCESSES = 6
MOST_CONNECTIONS = 20
MOST_STATEMENTS = 40  # a second, without COMMIT; a busy machine only lowers the number
AFTER_SLOW_ANSWERS = "DISCARD PLANS"  # not counted: a busy machine sends more of them
CONNECTIONS = text(
    "SELECT application_name, count(*) AS number FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name IN ('te-web', 'te-worker', 'te-scheduler', 'te-heartbeat', 'te-listener') GROUP BY 1"
)
BEATS = text(
    "SELECT count(*) AS processes, min(last_beat_at) AS first, clock_timestamp() AS now FROM region_heartbeats"
)
# The first process begins with the present hour; it computes up to 360 slots at once.
BEHIND = text("SELECT now() - min(reached) > INTERVAL '1 minute' AS is_behind FROM rollup_marks WHERE step_s = :step")


class CountingProxy(PgProxy):
    """Proxy that counts the statements of all connections by their beginnings."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.sent: Counter[str] = Counter()

    def take(self, query: str) -> Fault | None:
        if query != AFTER_SLOW_ANSWERS:
            self.sent[" ".join(query.split())[:60]] += 1
        return None


def heartbeats_of_all(database: Database) -> float:
    """Wait until each process has written another heartbeat; return the seconds that this took."""
    began = database.fetch(BEATS)[0].now
    eventually(lambda: database.fetch(BEATS)[0].first > began, what="another heartbeat of each process")
    return (database.fetch(BEATS)[0].now - began).total_seconds()


def test_two_processes_of_each_kind_need_few_connections_and_statements(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    proxy = CountingProxy(urlsplit(database_url).port or 5432)
    with proxy, stack_over(proxy.url(database_url), tmp_path) as stack:
        stack.web(TE_WEB_WORKERS="2")
        stack.worker(processes=2, threads=8)
        stack.scheduler()
        stack.scheduler()
        eventually(lambda: database.fetch(BEATS)[0].processes == PROCESSES, what="the heartbeats of all processes")
        heartbeats_of_all(database)  # the first runs of all chores do more
        eventually(
            lambda: database.fetch(BEHIND, {"step": SHORT_S})[0].is_behind is False,
            what="rollups of all slots until now",
        )
        proxy.sent.clear()
        seconds = heartbeats_of_all(database)
        assert proxy.sent.total() / seconds <= MOST_STATEMENTS, proxy.sent.most_common(20)
        # On a busy machine the first statements overlap: their connections are closed once they are idle for long.
        eventually(
            lambda: sum(row.number for row in database.fetch(CONNECTIONS)) <= MOST_CONNECTIONS,
            timeout=3 * IDLE_SECONDS,
            what=f"at most {MOST_CONNECTIONS} connections",
        )
