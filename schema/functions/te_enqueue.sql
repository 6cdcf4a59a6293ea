-- te_enqueue: create a job in the caller's own transaction. PostgreSQL only: CockroachDB has neither NOTIFY nor all of
-- PL/pgSQL. Only for jobs that run once: a cron expression and its time zone follow rules in Python, and SQL could not
-- refuse a wrong schedule. It inserts the rows that app/queue/jobs/job_insertion.py inserts;
-- tests/contract/store/test_enqueue.py compares both. Python fills in the names in braces (schema/functions/__init__.py).
--
-- Arguments are written te_enqueue.x where a column has the same name. All other names are pg_catalog's or qualified.
CREATE OR REPLACE FUNCTION {schema}.te_enqueue(
  endpoint text,
  input jsonb DEFAULT '{}',
  idempotency_key text DEFAULT NULL,
  run_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL,
  name text DEFAULT NULL,
  labels jsonb DEFAULT NULL,
  queue text DEFAULT NULL,
  priority bigint DEFAULT NULL,
  traceparent text DEFAULT NULL
) RETURNS TABLE (job_id text, execution_id text, is_new boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_enqueue$
#variable_conflict use_column
DECLARE
  v_input jsonb := COALESCE(te_enqueue.input, '{}');
  v_labels jsonb := NULLIF(te_enqueue.labels, '{}');
  v_now timestamptz := clock_timestamp();
  v_run_at timestamptz;
  v_due timestamptz;
  -- Ids as app/kernel/ids.py makes them: the time in nanoseconds, then 64 random bits.
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
  -- 1. The arguments, by the bounds of the API.
  v_fault := CASE
    WHEN te_enqueue.endpoint IS NULL THEN 'endpoint: needed'
    WHEN char_length(te_enqueue.endpoint) NOT BETWEEN 1 AND {max_name} THEN
      'endpoint: must have 1 to {max_name} characters'
    WHEN jsonb_typeof(v_input) <> 'object' THEN 'input: must be a JSON object'
    WHEN octet_length(v_input::text) > {max_input_bytes} THEN 'input: must have at most {max_input_bytes} bytes'
    WHEN jsonb_path_exists(v_input, 'strict $.**{{max_json_depth}}') THEN
      'input: must be nested no deeper than {max_json_depth} levels'
    WHEN jsonb_path_exists(v_input, 'strict $.** ? (@ > {max_number} || @ < -{max_number})') THEN
      'input: a number is too large'
    WHEN char_length(te_enqueue.idempotency_key) NOT BETWEEN 1 AND {max_idempotency_key} THEN
      'idempotency_key: must have 1 to {max_idempotency_key} characters'
    WHEN starts_with(te_enqueue.idempotency_key, '{own_key_prefix}') THEN
      'idempotency_key: must not begin with {own_key_prefix}, which is reserved'
    WHEN char_length(te_enqueue.name) NOT BETWEEN 1 AND {max_job_name} THEN
      'name: must have 1 to {max_job_name} characters'
    WHEN te_enqueue.queue !~ '{queue_name}' THEN
      'queue: must begin with a letter and have up to 63 lower-case letters, digits, hyphens and underscores'
    WHEN te_enqueue.priority NOT BETWEEN 0 AND {max_priority} THEN 'priority: must be 0 to {max_priority}'
    WHEN te_enqueue.run_at < '{earliest_instant}' OR te_enqueue.run_at >= '{latest_instant}' THEN
      'run_at: must lie between {earliest_instant} and {latest_instant}'
    WHEN te_enqueue.run_at IS NOT NULL AND te_enqueue.delay IS NOT NULL THEN 'delay: not together with run_at'
    WHEN te_enqueue.delay NOT BETWEEN '0' AND {max_delay_ms} * INTERVAL '1 millisecond' THEN
      'delay: must be from 0 to {max_delay_days} days'
    WHEN te_enqueue.traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
      'traceparent: must be of version 00 of W3C Trace Context'
    WHEN jsonb_typeof(v_labels) <> 'object' THEN 'labels: must be a JSON object'
  END;
  IF v_fault IS NULL AND v_labels IS NOT NULL THEN
    SELECT CASE
        WHEN count(*) > {max_labels} THEN 'labels: at most {max_labels}'
        WHEN bool_or(l.key !~ '{label_key}' OR char_length(split_part(l.key, '/', 1)) > {max_label_prefix}) THEN
          'labels: a key is spelt as a label of Kubernetes'
        WHEN bool_or(jsonb_typeof(l.value) <> 'string' OR l.value #>> '{}' !~ '{label_value}') THEN
          'labels: a value is spelt as a label of Kubernetes'
      END INTO v_fault FROM jsonb_each(v_labels) AS l;
  END IF;
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE400', MESSAGE = 'te_enqueue: ' || v_fault;
  END IF;

  -- 2. The grants of the role that logged in. te_send comes with an inline endpoint.
  IF EXISTS (SELECT FROM {schema}.te_grants)
     AND NOT pg_has_role(session_user, current_user, 'MEMBER') -- the owner of the function
     AND NOT EXISTS (
       SELECT FROM {schema}.te_grants g JOIN pg_roles r ON r.rolname = g.role_name
        WHERE pg_has_role(session_user, r.oid, 'MEMBER')
          AND te_enqueue.endpoint LIKE replace(replace(replace(g.pattern, '_', E'\\_'), '*', '%'), '?', '_'))
     AND NOT (starts_with(te_enqueue.endpoint, '{inline_prefix}') AND EXISTS (
       SELECT FROM pg_proc p JOIN pg_roles r ON has_function_privilege(r.oid, p.oid, 'EXECUTE')
        WHERE p.pronamespace = '{schema}'::regnamespace AND p.proname = 'te_send'
          AND pg_has_role(session_user, r.oid, 'MEMBER')))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'TE403',
      MESSAGE = format('te_enqueue: te_grants lets %s create no jobs of %L', quote_ident(session_user),
        te_enqueue.endpoint),
      HINT = format('As an administrator: INSERT INTO te_grants (role_name, pattern) VALUES (%L, %L);', session_user,
        te_enqueue.endpoint);
  END IF;

  -- 3. The settings of the API that started last.
  SELECT s.* INTO v_settings FROM {schema}.enqueue_settings s WHERE s.id = 'enqueue';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'TE503', MESSAGE = 'te_enqueue: the number of shards is not known yet',
      HINT = 'A process of the API writes it when it starts: start one of this release.';
  END IF;

  -- 4. A job with this key that exists already.
  IF te_enqueue.idempotency_key IS NOT NULL THEN
    RETURN QUERY SELECT j.job_id, e.execution_id, false
        FROM {schema}.jobs j
        LEFT JOIN {schema}.executions e ON e.job_id = j.job_id AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
       WHERE j.endpoint = te_enqueue.endpoint AND j.idempotency_key = te_enqueue.idempotency_key;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;

  -- 5. The endpoint. As in the API's insertion, the lock makes a new version and a deletion wait until the commit.
  SELECT e.* INTO v_endpoint FROM {schema}.endpoints e
   WHERE e.name = te_enqueue.endpoint AND e.deleted_at IS NULL FOR KEY SHARE OF e;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'TE404',
      MESSAGE = format('te_enqueue: there is no endpoint named %L', te_enqueue.endpoint);
  END IF;

  -- The lock may have been waited for. A due time before this transaction is visible as open could be missed by polls.
  v_now := clock_timestamp();
  v_run_at := COALESCE(te_enqueue.run_at, v_now + te_enqueue.delay);
  v_due := GREATEST(COALESCE(v_run_at, v_now), v_now);

  -- 6. The top level of its payload spec: required, additionalProperties and types. SQL leaves out the rest.
  SELECT p.schema_json INTO v_schema FROM {schema}.payload_specs p WHERE p.name = v_endpoint.payload_spec_ref;
  IF v_schema = 'false' THEN
    v_fault := 'the payload spec accepts nothing';
  ELSIF jsonb_typeof(v_schema) = 'object' THEN
    SELECT '/input/' || r.field || ': is required' INTO v_fault
      FROM jsonb_array_elements_text(
             CASE WHEN jsonb_typeof(v_schema -> 'required') = 'array' THEN v_schema -> 'required' ELSE '[]' END
           ) AS r (field)
     WHERE NOT v_input ? r.field LIMIT 1;
    IF v_fault IS NULL AND v_schema -> 'additionalProperties' = 'false' AND NOT v_schema ? 'patternProperties' THEN
      SELECT '/input/' || left(f.field, 128) || ': is no property of the payload spec' INTO v_fault
        FROM jsonb_object_keys(v_input) AS f (field)
       WHERE NOT COALESCE(v_schema -> 'properties', '{}') ? f.field LIMIT 1;
    END IF;
    IF v_fault IS NULL AND jsonb_typeof(v_schema -> 'properties') = 'object' THEN
      SELECT '/input/' || p.key || ': must be ' || (p.value ->> 'type') INTO v_fault
        FROM jsonb_each(v_schema -> 'properties') AS p
       WHERE v_input ? p.key AND jsonb_typeof(p.value) = 'object' AND p.value ? 'type'
         AND NOT (
           CASE WHEN jsonb_typeof(p.value -> 'type') = 'array' THEN p.value -> 'type'
                ELSE jsonb_build_array(p.value -> 'type') END
           ?| CASE WHEN jsonb_typeof(v_input -> p.key) <> 'number' THEN ARRAY[jsonb_typeof(v_input -> p.key)]
                   WHEN trunc((v_input ->> p.key)::numeric) = (v_input ->> p.key)::numeric
                     THEN ARRAY['number', 'integer']
                   ELSE ARRAY['number'] END)
       LIMIT 1;
    END IF;
  END IF;
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE422',
      MESSAGE = 'te_enqueue: the input does not match the payload spec: ' || v_fault;
  END IF;

  -- 7. The limit key, as app/catalog/endpoints/limits.py makes it, but for values that need a digest.
  IF v_endpoint.limits #>> '{per_key,key}' IS NOT NULL THEN
    v_value := v_input;
    FOREACH v_step IN ARRAY string_to_array(
      btrim(substring(v_endpoint.limits #>> '{per_key,key}' FROM 'input[.]([^{}]*)'), E' \t\n\r'), '.')
    LOOP
      v_value := CASE jsonb_typeof(v_value) WHEN 'object' THEN v_value -> v_step
        WHEN 'array' THEN CASE WHEN v_step ~ '^[0-9]{1,9}$' THEN v_value -> v_step::integer END END;
    END LOOP;
    v_key := '=' || COALESCE(v_value #>> '{}', CASE WHEN v_value = 'null' THEN 'null' ELSE '' END);
    IF jsonb_typeof(v_value) IN ('object', 'array')
       OR (jsonb_typeof(v_value) = 'number' AND v_value::text ~ '[.]')
       OR char_length(v_key) > 1 + {max_limit_key} OR v_key LIKE '=#%' THEN
      RAISE EXCEPTION USING ERRCODE = 'TE422', MESSAGE = format(
          'te_enqueue: the value of %s in the input must be a whole number, true, false or '
          'up to {max_limit_key} characters that do not begin with #',
          v_endpoint.limits #>> '{per_key,key}'),
        HINT = 'POST /jobs takes such an input.';
    END IF;
  END IF;

  -- 8. The job.
  INSERT INTO {schema}.jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, name,
      labels, queue, priority, limit_key, input, max_attempts, max_age_ms, run_at, trace_context, created_at, followed)
    VALUES (v_job, v_endpoint.name, v_endpoint.version, v_endpoint.endpoint_type,
      CASE WHEN v_run_at IS NULL THEN 'IMMEDIATE' ELSE 'DELAYED' END,
      COALESCE(te_enqueue.idempotency_key, v_job), te_enqueue.name,
      v_labels, te_enqueue.queue, te_enqueue.priority, v_key, v_input,
      COALESCE((v_endpoint.retry_policy ->> 'max_attempts')::bigint, 1),
      (v_endpoint.retry_policy ->> 'max_age_ms')::bigint, v_run_at, te_enqueue.traceparent, v_now,
      NULLIF(CASE WHEN v_endpoint.callbacks ? 'on_success' THEN {followed_on_success} ELSE 0 END
        + CASE WHEN v_endpoint.callbacks ? 'on_failure' THEN {followed_on_failure} ELSE 0 END
        + CASE WHEN v_endpoint.callbacks ? 'on_attempt_failed' THEN {followed_on_attempt_failed} ELSE 0 END, 0))
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    -- Another transaction has committed a job with this key: this statement waited for that commit.
    RETURN QUERY SELECT j.job_id, e.execution_id, false
        FROM {schema}.jobs j
        LEFT JOIN {schema}.executions e ON e.job_id = j.job_id AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
       WHERE j.endpoint = te_enqueue.endpoint AND j.idempotency_key = te_enqueue.idempotency_key;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = '40001',
        MESSAGE = 'te_enqueue: the job with this key is just being deleted; try again';
    END IF;
    RETURN;
  END IF;

  -- 9. Its execution. One that is due beyond the look-ahead waits for the scheduler to promote it.
  v_queue := COALESCE(te_enqueue.queue, v_endpoint.queue, v_endpoint.routed_queue, lower(v_endpoint.endpoint_type));
  v_priority := COALESCE(te_enqueue.priority, v_endpoint.priority);
  v_shard := floor(random() * v_settings.shards)::bigint;
  v_status := CASE WHEN v_due > v_now + v_settings.look_ahead_ms * INTERVAL '1 millisecond' THEN 'PENDING'
                   ELSE 'QUEUED' END;
  INSERT INTO {schema}.executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, max_attempts,
      limit_key, queue, priority, shard, idempotency_key, status, run_at, scheduled_at, expires_at, created_at, followed,
      result_retention_ms)
    SELECT v_execution, j.job_id, j.endpoint, j.endpoint_version, j.endpoint_type, j.max_attempts,
      j.limit_key, v_queue, v_priority, v_shard, j.idempotency_key, v_status, v_due, v_due,
      v_due + j.max_age_ms * INTERVAL '1 millisecond', v_now, j.followed, v_endpoint.result_retention_ms
      FROM {schema}.jobs j WHERE j.job_id = v_job;

  -- 10. A wake-up, sent at the commit, as app/kernel/wakeup.py writes it. The partition is a digest, since every role may
  -- listen. By the due time workers notice a commit so late that polls read behind it.
  IF v_status = 'QUEUED' THEN
    PERFORM pg_notify('te_wakeup', v_queue || E'\t'
      || left(md5(convert_to(concat_ws(E'\t', v_shard, v_endpoint.name, v_key, v_priority), 'UTF8')), 16)
      || E'\t' || floor(extract(epoch FROM v_due) * 1000)::bigint);
  END IF;
  RETURN QUERY SELECT v_job, v_execution, true;
END
$te_enqueue$;

-- It also fails, and takes back the above, if a function of this name with other arguments is left.
COMMENT ON FUNCTION {schema}.te_enqueue IS 'Task Executor: create a job in the transaction of the caller';
