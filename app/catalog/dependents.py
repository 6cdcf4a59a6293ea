"""Dependents: references to a payload spec, config or secret, and rows that prevent the deletion of an endpoint.

A live endpoint refers by its current version. Unfinished executions and unretired repeating jobs refer by the version
with which they were created, which may be older.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, TextClause

from app.kernel.errors import ConflictError, Detail
from app.kernel.sql import statement
from schema.tables.workflows import MAY_BE_UNDONE, MAY_START

SHOWN = 10

# Unfinished executions either wait or run; both predicates are predicates of partial indexes, so only such rows are
# read. Each part of the query has its own limit and no order, so that it stops after the first few rows.
WAITS, RUNS = "completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')", "status = 'RUNNING'"
REFERS = {
    "payload spec": "payload_spec_ref = :name",
    "config": "config_ref = :name",
    "secret": "secret_refs @> jsonb_build_array(CAST(:name AS TEXT))",
}
"""Conditions on `endpoint_versions` by the noun of a named table."""
IS_CALLBACK = """(callbacks->>'on_success' = :name OR callbacks->>'on_failure' = :name
               OR callbacks->>'on_attempt_failed' = :name)"""
IN_NODES = """(spec->'nodes' @> jsonb_build_array(jsonb_build_object('endpoint', CAST(:name AS TEXT)))
               OR spec->'nodes' @> jsonb_build_array(jsonb_build_object('group', jsonb_build_array(
                    jsonb_build_object('endpoint', CAST(:name AS TEXT)))))
               OR spec->'nodes' @> jsonb_build_array(jsonb_build_object('compensate',
                    jsonb_build_object('endpoint', CAST(:name AS TEXT))))
               OR spec->'nodes' @> jsonb_build_array(jsonb_build_object('group', jsonb_build_array(
                    jsonb_build_object('compensate', jsonb_build_object('endpoint', CAST(:name AS TEXT)))))))"""
"""Conditions on endpoints that name another endpoint: as a callback, or in the nodes of a workflow."""
# Ended workflows are left out first (OFFSET 0): to look into the definitions of their nodes would take far longer.
NODES_THAT_NEED = f"""
        (SELECT workflow_id, name FROM workflow_nodes WHERE endpoint = :name AND {MAY_START}
          UNION ALL
         SELECT n.workflow_id, n.name
           FROM (SELECT workflow_id, name, endpoint, state, items_made, items, definition FROM workflow_nodes
                  WHERE other_endpoints IS NOT NULL AND other_endpoints @> jsonb_build_array(CAST(:name AS TEXT))
                    AND workflow_id IN (SELECT workflow_id FROM workflows WHERE ended_at IS NULL)
                 OFFSET 0) AS n
          WHERE CASE WHEN COALESCE({MAY_START}, false) THEN n.endpoint IS DISTINCT FROM :name
                     ELSE {MAY_BE_UNDONE} END)"""  # noqa: S608 - constants
"""Nodes that may still start a job of an endpoint: of their own, of a member, or to undo a job."""
_OF_VERSIONS = """
    WITH v AS (SELECT endpoint, version FROM endpoint_versions WHERE {refers}),
    found AS (
      (SELECT 'endpoint' AS what, e.name AS id FROM endpoints e
         JOIN v ON v.endpoint = e.name AND v.version = e.version WHERE e.deleted_at IS NULL LIMIT :most)
      UNION
      (SELECT 'job', j.job_id FROM jobs j
         JOIN v ON v.endpoint = j.endpoint AND v.version = j.endpoint_version
        WHERE j.trigger_type IN ('CRON', 'INTERVAL') AND j.status <> 'RETIRED' LIMIT :most)
      UNION
      (SELECT 'job', x.job_id FROM executions x
         JOIN v ON v.endpoint = x.endpoint AND v.version = x.endpoint_version
        WHERE x.{waits} LIMIT :most)
      UNION
      (SELECT 'job', x.job_id FROM executions x
         JOIN v ON v.endpoint = x.endpoint AND v.version = x.endpoint_version
        WHERE x.{runs} LIMIT :most))
    SELECT what, id FROM found ORDER BY what, id LIMIT :most
    """
OF_VALUE = {
    noun: statement(f"dependents.of_{noun.replace(' ', '_')}", _OF_VERSIONS, refers=refers, waits=WAITS, runs=RUNS)
    for noun, refers in REFERS.items()
}
# Each part has its own limit and no order, so that it stops after the first few rows.
USES_IN_DEFINITIONS = f"""
      (SELECT 'callback' AS kind, name AS id, CAST(NULL AS TEXT) AS title FROM endpoints
        WHERE {IS_CALLBACK} AND deleted_at IS NULL LIMIT :most)
      UNION ALL
      (SELECT 'workflow_definition', name, NULL FROM endpoints
        WHERE endpoint_type = 'WORKFLOW' AND deleted_at IS NULL
          AND {IN_NODES} LIMIT :most)
      UNION ALL
      (SELECT 'channel', name, NULL FROM notification_rules
        WHERE rule_json->'channels' @> jsonb_build_array(CAST(:name AS TEXT)) LIMIT :most)"""  # noqa: S608 - constants
"""Definitions that name an endpoint, up to `:most` of each kind."""
USES_IN_WORK = f"""
      (SELECT 'schedule' AS kind, job_id AS id, name AS title FROM jobs
        WHERE endpoint = :name AND trigger_type IN ('CRON', 'INTERVAL') AND status <> 'RETIRED' LIMIT :most)
      UNION ALL
      (SELECT 'workflow_node', workflow_id, name FROM {NODES_THAT_NEED} AS n LIMIT :most)
      UNION ALL
      (SELECT 'waiting_execution', execution_id, CAST(endpoint_version AS TEXT) FROM executions
        WHERE endpoint = :name AND {WAITS} LIMIT :most)
      UNION ALL
      (SELECT 'running_execution', execution_id, CAST(endpoint_version AS TEXT) FROM executions
        WHERE endpoint = :name AND {RUNS} LIMIT :most)"""  # noqa: S608 - constants
"""Jobs, nodes and executions that need an endpoint, up to `:most` of each kind."""
# A workflow endpoint may name itself.
_OF_ENDPOINT = """
    WITH found AS ({uses})
    SELECT DISTINCT CASE WHEN kind IN ('callback', 'workflow_definition') THEN 'endpoint'
                         WHEN kind = 'channel' THEN 'notification rule' WHEN kind = 'schedule' THEN 'job'
                         WHEN kind = 'workflow_node' THEN 'workflow' ELSE 'execution' END AS what, id
      FROM found WHERE kind <> 'workflow_definition' OR id <> :name ORDER BY what, id LIMIT :most
    """
OF_ENDPOINT = tuple(
    statement(f"dependents.endpoint_in_{where}", _OF_ENDPOINT, uses=uses)
    for where, uses in (("definitions", USES_IN_DEFINITIONS), ("work", USES_IN_WORK))
)


def refuse(connection: Connection, queries: Sequence[TextClause], noun: str, name: str) -> None:
    """Raise ConflictError, with the names of the dependents, if a query finds any."""
    params = {"name": name, "most": SHOWN + 1}
    rows = (row for query in queries for row in connection.execute(query, params))
    found = [f"{row.what} {row.id}" for row in rows]
    if not found:
        return
    shown = found[:SHOWN]
    details: list[Detail] = [{"pointer": "", "message": f"In use by {dependent}."} for dependent in shown]
    more = " and others" if len(found) > SHOWN else ""
    raise ConflictError(
        f"The {noun} {name!r} cannot be deleted, because it is in use by {', '.join(shown)}{more}. End each use first: "
        "change or delete endpoints and rules, cancel jobs, executions and workflows.",
        details,
    )
