"""Plans of the service's metrics: read by indexes in index order, with any table statistics."""

import re
from collections import Counter
from functools import partial

from sqlalchemy import TextClause, text

from app.features.control import deliveries, reclaimed, statistics
from app.features.limits import store as limits_store
from app.features.queues import store as queues_store
from app.kernel.db import Database, chunked_scan

SEVERAL_ENDPOINTS: dict[str, object] = {f"endpoint_{number}": "target" for number in range(limits_store.AT_ONCE)}
READS: list[tuple[TextClause, dict[str, object], dict[str, int]]] = [
    (queues_store.DUE_OF_ONE, {"queue": "http", "first": 0, "of_shard": 1000}, {"idx_executions_pickup": 2}),
    (
        queues_store.DUE,
        {"queue": "http", "first": 0, "of_shard": 1000},
        {"idx_executions_pickup": queues_store.AT_ONCE + 1},
    ),
    (deliveries.RUNNING, {"endpoint": None}, {"idx_executions_running_lanes": 1}),
    (
        limits_store.WAITING_OF_ENDPOINTS,
        SEVERAL_ENDPOINTS | {"most": 1000},
        {"idx_executions_waits_of_endpoint": limits_store.AT_ONCE},
    ),
    (statistics.LAG, {}, {"idx_jobs_cron_due": 1}),
]
IN_ORDER: list[tuple[TextClause, dict[str, object], dict[str, int]]] = [
    (
        reclaimed.RECLAIMED,
        {"since": "2026-01-01", "workers": "{w}", "ends": "{2026-01-01}", "reason": "WORKER_LOST", "most": 1000},
        {"idx_attempts_uncertain": 1},
    ),
    (deliveries.ENDED[1], {"seconds": 60}, {"idx_executions_finished": 1}),
    (deliveries.ENDED[16], {"seconds": 60}, {"idx_executions_finished": 16}),
    (deliveries.ENDED_OF_MANY, {"seconds": 60, "shards": list(range(256))}, {"idx_executions_finished": 1}),
    (
        deliveries.ENDED_OF_ENDPOINT,
        {"seconds": 60, "endpoint": "target"},
        {"idx_executions_ended_of_endpoint": 3},
    ),
]


def assert_metrics_are_read_by_indexes_alone(database: Database) -> None:
    for read, reads in ((database.fetch, READS), (partial(chunked_scan.in_order, database), IN_ORDER)):
        for statement, params, indexes in reads:
            plan = "\n".join(line[0] for line in read(text("EXPLAIN " + statement.text), params))
            assert not re.search(r"Seq Scan on (executions|jobs)", plan), plan
            found = re.findall(r"(?:using|Bitmap Index Scan on) (idx_\w+)", plan)
            assert Counter(found) == indexes, plan
