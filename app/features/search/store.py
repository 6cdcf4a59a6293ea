"""Statements of the search: each reads a bounded number of rows, for any word."""

from app.kernel.sql import statement
from schema.inline_bounds import INLINE_PREFIX

MAX_HITS = 10  # per kind and field
MAX_READ = 2_000  # names of each table, by name or newest first

_LIMITS = {"hits": MAX_HITS, "read": MAX_READ, "inline": INLINE_PREFIX, "length": len(INLINE_PREFIX)}

# A dead letter has the id of its last attempt. Whole names are found here, however many rows a table of names has.
IDS = statement(
    "search.ids",
    """
    SELECT 'execution' AS kind, execution_id AS id, endpoint AS title, 'id' AS matched FROM executions
     WHERE execution_id = :word
    UNION ALL
    SELECT 'execution', execution_id, 'attempt ' || CAST(attempt_number AS TEXT), 'id' FROM attempts
     WHERE attempt_id = :word
    UNION ALL
    SELECT 'job', job_id, COALESCE(name, endpoint), 'id' FROM jobs WHERE job_id = :word
    UNION ALL
    SELECT 'workflow', workflow_id, name, 'id' FROM workflows WHERE workflow_id = :word
    UNION ALL
    SELECT 'dead_letter', letter_id, endpoint, 'id' FROM dead_letters WHERE letter_id = :word
    UNION ALL
    SELECT 'redrive', redrive_id, status, 'id' FROM redrives WHERE redrive_id = :word
    UNION ALL
    SELECT 'bulk_operation', operation_id, action, 'id' FROM bulk_operations WHERE operation_id = :word
    UNION ALL
    SELECT 'endpoint', name, spec->>'url', 'name' FROM endpoints WHERE name = lower(:word) AND deleted_at IS NULL
       AND left(name, {length}) <> '{inline}'
    UNION ALL
    SELECT 'payload_spec', name, NULL, 'name' FROM payload_specs WHERE name = lower(:word)
    UNION ALL
    SELECT 'config', name, NULL, 'name' FROM configs WHERE name = lower(:word)
    UNION ALL
    SELECT 'secret', name, NULL, 'name' FROM secrets WHERE name = lower(:word)
    UNION ALL
    SELECT 'notification_rule', name, NULL, 'name' FROM notification_rules WHERE name = lower(:word)
    """,
    **_LIMITS,
)
NAMES = statement(
    "search.names",
    """
    (SELECT 'endpoint' AS kind, name AS id, url AS title, CASE WHEN name LIKE :pattern THEN 'name' ELSE 'url' END
         AS matched
       FROM (SELECT name, spec->>'url' AS url FROM endpoints
              WHERE deleted_at IS NULL AND left(name, {length}) <> '{inline}' ORDER BY name LIMIT {read}) AS e
      WHERE name LIKE :pattern OR lower(url) LIKE :pattern ORDER BY name LIMIT {hits})
    UNION ALL
    (SELECT 'payload_spec', name, NULL, 'name' FROM (SELECT name FROM payload_specs ORDER BY name LIMIT {read}) AS p
      WHERE name LIKE :pattern ORDER BY name LIMIT {hits})
    UNION ALL
    (SELECT 'config', name, NULL, 'name' FROM (SELECT name FROM configs ORDER BY name LIMIT {read}) AS c
      WHERE name LIKE :pattern ORDER BY name LIMIT {hits})
    UNION ALL
    (SELECT 'secret', name, NULL, 'name' FROM (SELECT name FROM secrets ORDER BY name LIMIT {read}) AS s
      WHERE name LIKE :pattern ORDER BY name LIMIT {hits})
    UNION ALL
    (SELECT 'notification_rule', name, NULL, 'name'
       FROM (SELECT name FROM notification_rules ORDER BY name LIMIT {read}) AS r
      WHERE name LIKE :pattern ORDER BY name LIMIT {hits})
    """,
    **_LIMITS,
)
PLACES = statement(
    "search.places",
    """
    (SELECT 'breaker' AS kind, target AS id, state AS title, 'target' AS matched
       FROM (SELECT target, state FROM breakers ORDER BY target LIMIT {read}) AS b
      WHERE lower(target) LIKE :pattern ORDER BY target LIMIT {hits})
    UNION ALL
    (SELECT 'worker', worker_id, host, CASE WHEN worker_id = :word THEN 'id' ELSE 'host' END
       FROM (SELECT worker_id, host, started_at FROM workers ORDER BY worker_id LIMIT {read}) AS w
      WHERE worker_id = :word OR lower(host) LIKE :pattern ORDER BY started_at DESC, worker_id LIMIT {hits})
    """,
    **_LIMITS,
)
# Names of repeating jobs are searched for a part; names of other jobs, which may be millions, are compared whole.
JOBS = statement(
    "search.jobs",
    """
    (SELECT 'schedule' AS kind, job_id AS id, name AS title, 'name' AS matched
       FROM (SELECT job_id, name, created_at FROM jobs
              WHERE trigger_type IN ('CRON', 'INTERVAL') ORDER BY created_at DESC, job_id DESC LIMIT {read}) AS j
      WHERE lower(name) LIKE :pattern ORDER BY created_at DESC, job_id DESC LIMIT {hits})
    UNION ALL
    (SELECT 'job', job_id, name, 'name'
       FROM (SELECT job_id, name, trigger_type FROM jobs
              WHERE name IS NOT NULL AND name = :word ORDER BY created_at DESC, job_id DESC LIMIT {hits}) AS j
      WHERE trigger_type NOT IN ('CRON', 'INTERVAL'))
    """,
    **_LIMITS,
)
# The index of keys begins with the endpoint: one look-up for each endpoint.
KEYS = statement(
    "search.keys",
    """
    WITH named AS MATERIALIZED (
      (SELECT name FROM endpoints WHERE deleted_at IS NULL AND left(name, {length}) <> '{inline}'
        ORDER BY name LIMIT {read})
      UNION ALL
      (SELECT name FROM endpoints WHERE deleted_at IS NULL AND left(name, {length}) = '{inline}'
        ORDER BY name LIMIT {read}))
    (SELECT 'job' AS kind, j.job_id AS id, COALESCE(j.name, n.name) AS title, 'key' AS matched
       FROM named AS n CROSS JOIN LATERAL (
         SELECT job_id, name FROM jobs WHERE endpoint = n.name AND idempotency_key = :word LIMIT 1) AS j
      ORDER BY n.name LIMIT {hits})
    UNION ALL
    SELECT 'workflow', workflow_id, name, 'key' FROM workflows WHERE idempotency_key = :word
    """,
    **_LIMITS,
)
WORKFLOWS = statement(
    "search.workflows",
    """
    (SELECT 'workflow' AS kind, workflow_id AS id, name AS title, 'name' AS matched
       FROM (SELECT workflow_id, name, created_at FROM workflows
              ORDER BY created_at DESC, workflow_id DESC LIMIT {read}) AS w
      WHERE lower(name) LIKE :pattern ORDER BY created_at DESC, workflow_id DESC LIMIT {hits})
    UNION ALL
    (SELECT 'workflow', workflow_id, name, 'label'
       FROM (SELECT workflow_id, name, labels, created_at FROM workflows
              WHERE labels IS NOT NULL AND CAST(:labels AS JSONB) IS NOT NULL
              ORDER BY created_at DESC, workflow_id DESC LIMIT {read}) AS w
      WHERE COALESCE(labels @> CAST(:labels AS JSONB), false) ORDER BY created_at DESC, workflow_id DESC LIMIT {hits})
    """,
    **_LIMITS,
)
