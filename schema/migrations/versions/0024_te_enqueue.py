"""te_enqueue: a job in the caller's own transaction, for applications that use the same PostgreSQL database.

PostgreSQL only: CockroachDB has neither NOTIFY nor all of PL/pgSQL. The table is on both, with the settings of the API
that the function needs; the API writes it when it starts.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0024"
down_revision = "0023"

TYPES = "text, jsonb, text, timestamptz, text, jsonb, text, bigint, text"

# Arguments are named te_enqueue.x where a column has the same name. Everything else is pg_catalog's or has its schema.
FUNCTION = r"""
CREATE OR REPLACE FUNCTION te_enqueue(
  endpoint text, input jsonb DEFAULT '{{}}', idempotency_key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
  name text DEFAULT NULL, labels jsonb DEFAULT NULL, queue text DEFAULT NULL, priority bigint DEFAULT NULL,
  traceparent text DEFAULT NULL
) RETURNS TABLE (job_id text, execution_id text, is_new boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_enqueue$
#variable_conflict use_column
DECLARE
  v_input jsonb := COALESCE(te_enqueue.input, '{{}}');
  v_labels jsonb := NULLIF(te_enqueue.labels, '{{}}');
  v_now timestamptz := clock_timestamp();
  v_due timestamptz := GREATEST(COALESCE(te_enqueue.run_at, v_now), v_now);
  v_start text := lpad(to_hex((extract(epoch FROM v_now) * 1000000)::bigint * 1000), 16, '0');
  v_job text := 'job_' || v_start || left(md5(gen_random_uuid()::text), 16);
  v_execution text := 'exec_' || v_start || left(md5(gen_random_uuid()::text), 16);
  v_settings {schema}.enqueue_settings%ROWTYPE;
  v_endpoint {schema}.endpoints%ROWTYPE;
  v_schema jsonb;
  v_fault text;
  v_key text := '';
  v_value jsonb;
  v_step text;
  v_queue text;
  v_priority bigint;
  v_shard bigint;
  v_status text;
BEGIN
  v_fault := CASE
    WHEN te_enqueue.endpoint IS NULL THEN 'endpoint: needed'
    WHEN jsonb_typeof(v_input) <> 'object' THEN 'input: must be a JSON object'
    WHEN octet_length(v_input::text) > 1048576 THEN 'input: must have at most 1048576 bytes'
    WHEN char_length(te_enqueue.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'idempotency_key: must have 1 to 255 characters'
    WHEN char_length(te_enqueue.name) NOT BETWEEN 1 AND 200 THEN 'name: must have 1 to 200 characters'
    WHEN te_enqueue.queue !~ '^[a-z][a-z0-9_-]{{0,62}}$' THEN
      'queue: must begin with a letter and have up to 63 lower-case letters, digits, hyphens and underscores'
    WHEN te_enqueue.priority NOT BETWEEN 0 AND 255 THEN 'priority: must be 0 to 255'
    WHEN te_enqueue.run_at >= '2200-01-01Z' OR te_enqueue.run_at < '1970-01-01Z' THEN 'run_at: must lie between 1970 and 2200'
    WHEN te_enqueue.traceparent !~ '^00-[0-9a-f]{{32}}-[0-9a-f]{{16}}-[0-9a-f]{{2}}$' THEN 'traceparent: is none of version 00'
    WHEN jsonb_typeof(v_labels) <> 'object' THEN 'labels: must be a JSON object'
  END;
  IF v_fault IS NULL AND v_labels IS NOT NULL THEN
    SELECT CASE
        WHEN count(*) > 32 THEN 'labels: at most 32'
        WHEN bool_or(l.key !~ '^([a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?$'
                     OR char_length(l.key) > 317)
          THEN 'labels: a key is spelt as a label of Kubernetes'
        WHEN bool_or(jsonb_typeof(l.value) <> 'string' OR l.value #>> '{{}}' !~ '^([A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?)?$')
          THEN 'labels: a value is spelt as a label of Kubernetes'
      END INTO v_fault FROM jsonb_each(v_labels) AS l;
  END IF;
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE400', MESSAGE = 'te_enqueue: ' || v_fault;
  END IF;

  SELECT s.* INTO v_settings FROM {schema}.enqueue_settings s WHERE s.id = 'enqueue';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'TE503', MESSAGE = 'te_enqueue: the number of shards is not known yet',
      HINT = 'A process of the API writes it when it starts: start one of this release.';
  END IF;

  IF te_enqueue.idempotency_key IS NOT NULL THEN
    RETURN QUERY SELECT j.job_id, e.execution_id, false
        FROM {schema}.jobs j LEFT JOIN {schema}.executions e ON e.job_id = j.job_id AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
       WHERE j.endpoint = te_enqueue.endpoint AND j.idempotency_key = te_enqueue.idempotency_key;
    IF FOUND THEN RETURN; END IF;
  END IF;

  -- As a job of the API does, one of ours keeps a new version and a deletion of the endpoint waiting until its commit.
  SELECT e.* INTO v_endpoint FROM {schema}.endpoints e
   WHERE e.name = te_enqueue.endpoint AND e.deleted_at IS NULL FOR KEY SHARE OF e;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'TE404', MESSAGE = format('te_enqueue: there is no endpoint named %L', te_enqueue.endpoint);
  END IF;

  -- What the payload spec says at its top: the rest of JSON Schema is not for SQL.
  SELECT p.schema_json INTO v_schema FROM {schema}.payload_specs p WHERE p.name = v_endpoint.payload_spec_ref;
  IF v_schema = 'false' THEN
    v_fault := 'the payload spec accepts nothing';
  ELSIF jsonb_typeof(v_schema) = 'object' THEN
    SELECT '/input/' || r.field || ': is required' INTO v_fault
      FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(v_schema -> 'required') = 'array' THEN v_schema -> 'required' ELSE '[]' END) AS r (field)
     WHERE NOT v_input ? r.field LIMIT 1;
    IF v_fault IS NULL AND v_schema -> 'additionalProperties' = 'false' AND NOT v_schema ? 'patternProperties' THEN
      SELECT '/input/' || f.field || ': is no property of the payload spec' INTO v_fault
        FROM jsonb_object_keys(v_input) AS f (field)
       WHERE NOT COALESCE(v_schema -> 'properties', '{{}}') ? f.field LIMIT 1;
    END IF;
    IF v_fault IS NULL AND jsonb_typeof(v_schema -> 'properties') = 'object' THEN
      SELECT '/input/' || p.key || ': must be ' || (p.value ->> 'type') INTO v_fault
        FROM jsonb_each(v_schema -> 'properties') AS p
       WHERE v_input ? p.key AND jsonb_typeof(p.value) = 'object' AND p.value ? 'type'
         AND NOT (CASE WHEN jsonb_typeof(p.value -> 'type') = 'array' THEN p.value -> 'type' ELSE jsonb_build_array(p.value -> 'type') END
                  ?| CASE WHEN jsonb_typeof(v_input -> p.key) <> 'number' THEN ARRAY[jsonb_typeof(v_input -> p.key)]
                          WHEN trunc((v_input ->> p.key)::numeric) = (v_input ->> p.key)::numeric THEN ARRAY['number', 'integer']
                          ELSE ARRAY['number'] END)
       LIMIT 1;
    END IF;
  END IF;
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE422', MESSAGE = 'te_enqueue: the input does not match the payload spec: ' || v_fault;
  END IF;

  -- The limit key, as app/catalog/endpoints/limit_key.py makes it.
  IF v_endpoint.limits #>> '{{per_key,key}}' IS NOT NULL THEN
    v_value := v_input;
    FOREACH v_step IN ARRAY string_to_array(btrim(substring(v_endpoint.limits #>> '{{per_key,key}}' FROM 'input[.]([^{{}}]*)'), E' \t\n\r'), '.') LOOP
      v_value := CASE jsonb_typeof(v_value) WHEN 'object' THEN v_value -> v_step
        WHEN 'array' THEN CASE WHEN v_step ~ '^[0-9]{{1,9}}$' THEN v_value -> v_step::integer END END;
    END LOOP;
    v_key := '=' || COALESCE(v_value #>> '{{}}', CASE WHEN v_value = 'null' THEN 'null' ELSE '' END);
    IF jsonb_typeof(v_value) IN ('object', 'array') OR (jsonb_typeof(v_value) = 'number' AND v_value::text ~ '[.]')
       OR char_length(v_key) > 101 OR v_key LIKE '=#%' THEN
      RAISE EXCEPTION USING ERRCODE = 'TE422', MESSAGE = format(
        'te_enqueue: the value of %s in the input must be a whole number, true, false or up to 100 characters that do not begin with #',
        v_endpoint.limits #>> '{{per_key,key}}'), HINT = 'POST /jobs takes such an input.';
    END IF;
  END IF;

  INSERT INTO {schema}.jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, name, labels,
      queue, priority, limit_key, input, max_attempts, run_at, trace_context, created_at)
    VALUES (v_job, v_endpoint.name, v_endpoint.version, v_endpoint.endpoint_type,
      CASE WHEN te_enqueue.run_at IS NULL THEN 'IMMEDIATE' ELSE 'DELAYED' END, COALESCE(te_enqueue.idempotency_key, v_job),
      te_enqueue.name, v_labels, te_enqueue.queue, te_enqueue.priority, v_key, v_input,
      COALESCE((v_endpoint.retry_policy ->> 'max_attempts')::bigint, 1), te_enqueue.run_at, te_enqueue.traceparent, v_now)
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    -- Somebody else has committed it meanwhile: this statement waited for that.
    RETURN QUERY SELECT j.job_id, e.execution_id, false
        FROM {schema}.jobs j LEFT JOIN {schema}.executions e ON e.job_id = j.job_id AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
       WHERE j.endpoint = te_enqueue.endpoint AND j.idempotency_key = te_enqueue.idempotency_key;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'te_enqueue: the job with this key is just being deleted; try again';
    END IF;
    RETURN;
  END IF;

  v_queue := COALESCE(te_enqueue.queue, v_endpoint.queue, v_endpoint.routed_queue, lower(v_endpoint.endpoint_type));
  v_priority := COALESCE(te_enqueue.priority, v_endpoint.priority);
  v_shard := floor(random() * v_settings.shards)::bigint;
  v_status := CASE WHEN v_due > v_now + v_settings.look_ahead_ms * INTERVAL '1 millisecond' THEN 'PENDING' ELSE 'QUEUED' END;
  INSERT INTO {schema}.executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, max_attempts, limit_key,
      queue, priority, shard, idempotency_key, status, run_at, scheduled_at, created_at)
    SELECT v_execution, j.job_id, j.endpoint, j.endpoint_version, j.endpoint_type, j.max_attempts, j.limit_key,
      v_queue, v_priority, v_shard, j.idempotency_key, v_status, v_due, v_due, v_now
      FROM {schema}.jobs j WHERE j.job_id = v_job;

  -- It is sent at the commit, if there is one, and names the lane: workers that look by time might have passed it by.
  IF v_status = 'QUEUED' THEN
    PERFORM pg_notify('te_wakeup', v_queue || E'\t' || v_shard || E'\t' || v_endpoint.name || E'\t'
      || regexp_replace(encode(convert_to(v_key, 'UTF8'), 'hex'), '(..)', '%\1', 'g') || E'\t' || v_priority);
  END IF;
  RETURN QUERY SELECT v_job, v_execution, true;
END
$te_enqueue$
"""


def upgrade() -> None:
    """Create both; each step may be repeated, and grants of the function stay."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS enqueue_settings (id TEXT NOT NULL, shards BIGINT NOT NULL, "
            "look_ahead_ms BIGINT NOT NULL, updated_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
            "CONSTRAINT pk_enqueue_settings PRIMARY KEY (id), "
            "CONSTRAINT chk_enqueue_settings CHECK (shards >= 1 AND look_ahead_ms >= 0))"
        )
    )
    if online.is_cockroach():
        return
    (schema,) = op.get_bind().execute(text("SELECT quote_ident(current_schema())")).one()
    op.execute(text(FUNCTION.format(schema=schema)))
    op.execute(text(f"REVOKE ALL ON FUNCTION te_enqueue({TYPES}) FROM PUBLIC"))


def downgrade() -> None:
    """Drop both."""
    if not online.is_cockroach():
        op.execute(text(f"DROP FUNCTION IF EXISTS te_enqueue({TYPES})"))
    op.execute(text("DROP TABLE IF EXISTS enqueue_settings"))
