"""Deletion of inline endpoints that no job, open dead letter, callback of an endpoint or notification rule names."""

from app.catalog.endpoints.inline_names import IS_INLINE
from app.kernel.db.deletion import MAX_NAMED, has_locked_child, named, unlocked_children
from app.kernel.sql import statement

_VERSION_KEY = ["endpoint", "version"]
_IS_UNUSED = """e.updated_at < now() - INTERVAL '1 hour'
         AND NOT EXISTS (SELECT 1 FROM used AS u WHERE u.endpoint = e.name)
         AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.endpoint = e.name)
         AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.endpoint = e.name AND d.resolved_at IS NULL)"""
PRUNE = statement(
    "inline_endpoints.prune",
    """
    WITH used AS MATERIALIZED (
      SELECT unnest(ARRAY[o.callbacks->>'on_success', o.callbacks->>'on_failure', o.callbacks->>'on_attempt_failed'])
             AS endpoint
        FROM endpoints AS o WHERE o.callbacks IS NOT NULL AND o.deleted_at IS NULL
      UNION
      SELECT jsonb_array_elements_text(r.rule_json->'channels') FROM notification_rules AS r),
    page AS MATERIALIZED (
      SELECT e.name AS endpoint FROM endpoints AS e
       WHERE e.name > CAST(:since AS TEXT) AND {is_inline} AND {is_unused}
       ORDER BY e.name LIMIT :limit FOR UPDATE SKIP LOCKED),
    {unlocked_versions},
    free AS MATERIALIZED (
      SELECT endpoint FROM page WHERE NOT {has_locked_version}),
    versions AS (
      DELETE FROM endpoint_versions WHERE endpoint IN (SELECT endpoint FROM free) RETURNING endpoint),
    gone AS (
      DELETE FROM endpoints WHERE name IN (SELECT endpoint FROM free) RETURNING name)
    SELECT (SELECT count(*) FROM gone) AS deleted,
           ARRAY(SELECT {named} FROM endpoints AS e
                  WHERE {is_inline} AND {is_unused} AND (SELECT count(*) FROM page) < CAST(:limit AS BIGINT)
                    AND name NOT IN (SELECT endpoint FROM free)
                  ORDER BY name LIMIT {most}) AS locked,
           (SELECT max(endpoint) FROM page) AS reached
    """,
    is_inline=IS_INLINE,
    is_unused=_IS_UNUSED,
    unlocked_versions=unlocked_children("endpoint_versions", _VERSION_KEY, "endpoint", "page"),
    has_locked_version=has_locked_child("endpoint_versions", _VERSION_KEY, "endpoint", "page"),
    named=named("endpoints", ["name"]),
    most=MAX_NAMED,
)
