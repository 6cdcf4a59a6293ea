"""Arms: the parts of the statements that claim from several partitions at once."""

from collections.abc import Mapping, Sequence

from app.kernel.sql import of_regions
from app.queue.claiming.partition import ClaimRequest, PartitionQuota

MAX_ARMS = 16

# The condition of idx_executions_lanes, written so that PostgreSQL can infer no other index from it. With statistics
# of an empty queue it would choose an index by time, and read the waiting rows of all endpoints.
CLAIMABLE = "status NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')"

# The lease of the worker holds, so a worker that was declared dead claims nothing, and its endpoint rules are current.
# The condition depends on no row, so it is evaluated once.
MAY_CLAIM = """EXISTS (SELECT 1 FROM workers AS w
                      WHERE w.worker_id = :worker AND w.status = 'ALIVE' AND w.lease_expires_at > now())
         AND CAST(:flow_revision AS BIGINT) >= COALESCE((SELECT revision FROM catalog_revision WHERE id = 'flow'), 0)"""


def arms(count: int, columns: str = "", condition: str = "") -> str:
    """Return the beginning of a claim's WITH: `count` arms, one per partition, and `due` with the rows of all.

    Each arm reads one range of idx_executions_lanes in its order, from the partition's mark on. `columns` of executions
    are added to `due`; in a `condition`, `{number}` stands for the number of the arm.
    """
    each = ",".join(
        f"""
    arm_{number} AS MATERIALIZED (
      SELECT execution_id, run_at, CAST({number} AS BIGINT) AS arm{columns} FROM executions
      WHERE queue = :queue AND shard = :shard_{number} AND endpoint = :endpoint_{number} AND limit_key = :key_{number}
      AND priority = :priority_{number} AND {CLAIMABLE}
      AND run_at >= CAST(:since_{number} AS TIMESTAMPTZ)
      AND run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
      AND attempt_count < max_attempts{of_regions()}{condition.replace("{number}", str(number))}
      ORDER BY run_at, execution_id LIMIT :quota_{number} FOR UPDATE SKIP LOCKED)"""  # noqa: S608 - constants of ours
        for number in range(count)
    )
    union = " UNION ALL ".join(f"SELECT * FROM arm_{number}" for number in range(count))  # noqa: S608 - as above
    return f"{each},\n    due AS MATERIALIZED ({union})"


def take(source: str, returning: str = "", condition: str = "") -> str:
    """Return the UPDATE that claims the rows of `source`, a part of the WITH with `execution_id` and `arm`.

    The lock is a hint; the UPDATE repeats the whole condition, and is the guarantee. COALESCE hides that condition from
    the planner, here and in other statements that have the keys of their rows. With statistics from before a burst, an
    index of waiting or running rows seems empty, and each claim would read all of it. The first claim stores the
    revision of the configs, which later attempts use too.
    """
    return f"""
      UPDATE executions AS e
         SET status = 'RUNNING', worker_id = :worker, started_at = now(), attempt_count = e.attempt_count + 1,
             config_revision = CASE WHEN e.attempt_count = 0 OR e.config_revision IS NULL
                                    THEN COALESCE((SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0)
                                    ELSE e.config_revision END
        FROM {source}, jobs AS j
       WHERE e.execution_id = {source}.execution_id AND j.job_id = e.job_id
         AND COALESCE(e.status IN ('QUEUED', 'RETRYING') AND e.attempt_count < e.max_attempts
                      AND e.run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond', false)
         AND {MAY_CLAIM}{condition}
      RETURNING e.execution_id, e.job_id, e.endpoint_version, e.endpoint_type, e.attempt_count, e.max_attempts,
                e.config_revision, e.scheduled_at, e.run_at, e.expires_at, e.followed, j.input,
                COALESCE(e.trace_context, j.trace_context) AS trace_context,
                {source}.arm{returning}"""  # noqa: S608 - as above


def answer(columns: str = "") -> str:
    """Return the SELECT at the end of a claim: the claims, with the rows found in each partition.

    Each row has the clock at the beginning and at the end, and the current revisions of the catalog and of the endpoint
    rules. `found` counts locked rows, not claimed rows: otherwise a partition would look empty after a claim of another
    worker. There is always a row.
    """
    return f"""
    SELECT now() AS db_now, clock_timestamp() AS answered_at,
           (SELECT revision FROM catalog_revision WHERE id = 'catalog') AS revision,
           (SELECT revision FROM catalog_revision WHERE id = 'flow') AS flow_revision,
           counted.arm AS counted_arm, counted.found, counted.seen, claimed.*{columns}
      FROM (SELECT 1 AS one) AS always
      LEFT JOIN (SELECT arm, count(*) AS found, max(run_at) AS seen FROM due GROUP BY arm) AS counted ON true
      LEFT JOIN claimed ON claimed.arm = counted.arm"""  # noqa: S608 - as above


def parameters(wanted: Sequence[PartitionQuota], count: int, request: ClaimRequest) -> dict[str, object]:
    """Return the parameters of a claim with `count` arms; an arm without a wanted partition takes nothing."""
    params = dict(_IDLE[count])
    for names, (partition, quota, since) in zip(_NAMES, wanted, strict=False):
        params.update(zip(names, (*partition, since, quota), strict=True))
    params.update(queue=request.queue, worker=request.worker_id, ahead_ms=request.ahead_ms)
    params["flow_revision"] = request.flow_revision
    return params


_NAMES = [
    tuple(f"{name}_{number}" for name in ("shard", "endpoint", "key", "priority", "since", "quota"))
    for number in range(MAX_ARMS)
]
_IDLE: Mapping[int, Mapping[str, object]] = {
    count: {
        name: value
        for names in _NAMES[:count]
        for name, value in zip(names, (0, "", "", 0, "1970-01-01 00:00:00+00", 0), strict=True)
    }
    for count in (1, 4, MAX_ARMS)
}
