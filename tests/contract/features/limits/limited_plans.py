"""Generic query plans of limited claims: one index range per partition, one index-only scan per concurrency limit."""

import re

from app.kernel.db import Database
from app.queue.claiming.partition import Partition
from tests.claiming import TARGET
from tests.limited_claims import add_limiters, take_limited
from tests.plans import WORKER, plans

PARTITIONS = [TARGET, *(Partition(0, "target", f"={number}", 128) for number in range(15))]
LIMITS = {
    "max_in_flight": 9,
    "rate": {"count": 9, "per": "1h"},
    "per_key": {"key": "{{input.x}}", "max_in_flight": 2, "rate": {"count": 5, "per": "1h", "window": "sliding"}},
}


def assert_limited_claim_reads_only_its_partitions_and_the_running_executions_under_a_concurrency_limit(
    database: Database, single_connection: Database
) -> None:
    add_limiters(database, PARTITIONS, LIMITS)
    for partitions in (PARTITIONS[:1], PARTITIONS):
        take_limited(single_connection, WORKER, LIMITS, 1, partitions=partitions)
    for name, plan in plans(single_connection).items():
        arms = int(name.removeprefix("executions_claim_limited_"))
        assert not re.search(r"Seq Scan on (executions|jobs)", plan), plan
        assert plan.count("Index Scan using idx_executions_lanes on executions") == arms, plan
        assert len(re.findall(r"\(priority = \$\d+\) AND \(run_at >= \$\d+\) AND \(run_at <= ", plan)) == arms, plan
        assert plan.count("Index Only Scan using idx_executions_running_lanes on executions") == 2, plan
        assert "using pk_executions on executions e" in plan, plan
