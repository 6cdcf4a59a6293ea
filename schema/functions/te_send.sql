-- te_send: create a job with a URL instead of an endpoint, in the caller's own transaction. It registers the inline
-- endpoint that app/catalog/endpoints/inline.py would register, and calls te_enqueue for its job.
-- tests/contract/store/test_send.py compares the faults, the names and the rows of both.

-- Write equal values as equal text, for digests, as app.kernel.formats.canonical_json does: 1.0 as 1, 1e22 in digits, and
-- fractions as the nearest double, which is all that JSON parsers keep. Below 0.0001 Python writes an exponent.
CREATE OR REPLACE FUNCTION {schema}.te_canonical_json(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $te_canonical_json$
  SELECT CASE jsonb_typeof(te_canonical_json.value)
    WHEN 'object' THEN '{' || COALESCE((
      SELECT string_agg(to_jsonb(m.key)::text || ':' || {schema}.te_canonical_json(m.value), ',' ORDER BY m.key COLLATE "C")
        FROM jsonb_each(te_canonical_json.value) AS m), '') || '}'
    WHEN 'array' THEN '[' || COALESCE((
      SELECT string_agg({schema}.te_canonical_json(i.value), ',' ORDER BY i.number)
        FROM jsonb_array_elements(te_canonical_json.value) WITH ORDINALITY AS i (value, number)), '') || ']'
    WHEN 'number' THEN CASE
      WHEN trunc(te_canonical_json.value::numeric) = te_canonical_json.value::numeric
        THEN trunc(te_canonical_json.value::numeric)::text
      WHEN abs(te_canonical_json.value::numeric) < 0.0001 THEN te_canonical_json.value::numeric::double precision::text
      ELSE trim_scale(te_canonical_json.value::numeric::double precision::text::numeric)::text END
    ELSE te_canonical_json.value::text END
$te_canonical_json$;

-- Return the first fault of a retry policy that is an object.
CREATE OR REPLACE FUNCTION {schema}.te_policy_fault(policy jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $te_policy_fault$
DECLARE
  v_field text;
  v_is_custom boolean := COALESCE(policy ->> 'backoff' = 'custom', false);
BEGIN
  SELECT f.field INTO v_field FROM jsonb_object_keys(policy) AS f (field)
   WHERE f.field NOT IN ('max_attempts', 'backoff', 'initial_delay_ms', 'max_delay_ms', 'delays_ms', 'max_age_ms',
                         'fail_on', 'reject_on', 'ignore_on', 'retry_on') LIMIT 1;
  IF FOUND THEN
    RETURN left(v_field, 128) || ': is unknown';
  END IF;
  SELECT b.field || ': must be a whole number from ' || b.least || ' to ' || b.most INTO v_field
    FROM (VALUES ('max_attempts', 1, {max_attempts}), ('initial_delay_ms', 0, {max_retry_delay_ms}),
                 ('max_delay_ms', 0, {max_retry_delay_ms}), ('max_age_ms', 1, {max_age_ms}::bigint)) AS b (field, least, most)
   WHERE CASE WHEN NOT policy ? b.field OR (b.field = 'max_age_ms' AND policy -> b.field = 'null') THEN false
              WHEN (policy -> b.field)::text !~ '^[0-9]{1,10}$' THEN true
              ELSE (policy ->> b.field)::bigint NOT BETWEEN b.least AND b.most END LIMIT 1;
  IF FOUND THEN
    RETURN v_field;
  END IF;
  IF policy ? 'backoff'
     AND policy -> 'backoff' NOT IN ('"fixed"', '"linear"', '"exponential"', '"custom"', '"decorrelated"') THEN
    RETURN 'backoff: must be fixed, linear, exponential, custom or decorrelated';
  ELSIF v_is_custom <> (policy ? 'delays_ms') THEN
    RETURN 'delays_ms: is required with backoff custom, and only there';
  ELSIF v_is_custom AND ((policy -> 'delays_ms')::text !~ '^\[[0-9]{1,8}(, [0-9]{1,8})*\]$'
      OR jsonb_array_length(policy -> 'delays_ms') > {max_retry_delays}
      OR jsonb_path_exists(policy, 'strict $.delays_ms[*] ? (@ > {max_retry_delay_ms})')) THEN
    RETURN 'delays_ms: must be a list of 1 to {max_retry_delays} whole numbers up to {max_retry_delay_ms}';
  ELSIF NOT v_is_custom
      AND (policy ->> 'initial_delay_ms')::bigint > COALESCE((policy ->> 'max_delay_ms')::bigint, 60000) THEN
    RETURN 'initial_delay_ms: must be at most max_delay_ms';
  END IF;

  -- Lists of matchers: statuses, classes of them, types of errors, and values in the JSON of an answer.
  SELECT l.field INTO v_field FROM unnest(ARRAY['fail_on', 'reject_on', 'ignore_on', 'retry_on']) AS l (field)
   WHERE CASE WHEN NOT policy ? l.field THEN false
              WHEN jsonb_typeof(policy -> l.field) <> 'array' THEN true
              ELSE jsonb_array_length(policy -> l.field) > {max_matchers} END LIMIT 1;
  IF FOUND THEN
    RETURN v_field || ': must be a list of up to {max_matchers} matchers';
  END IF;
  SELECT l.field INTO v_field
    FROM unnest(ARRAY['fail_on', 'reject_on', 'ignore_on', 'retry_on']) AS l (field)
   CROSS JOIN jsonb_array_elements(policy -> l.field) AS m (matcher)
   WHERE CASE jsonb_typeof(m.matcher)
     WHEN 'number' THEN m.matcher::text !~ '^[1-5][0-9][0-9]$'
     WHEN 'string' THEN m.matcher #>> '{}' !~ '{matcher}'
     WHEN 'object' THEN
       m.matcher - ARRAY['pointer', 'equals', 'in', 'status'] <> '{}'
       OR COALESCE(jsonb_typeof(m.matcher -> 'pointer') <> 'string', true)
       OR m.matcher ->> 'pointer' !~ '{json_pointer}' OR char_length(m.matcher ->> 'pointer') > {max_matched_characters}
       OR COALESCE(m.matcher -> 'status', '200')::text !~ '^(?:[1-5][0-9][0-9]|"[1-5]xx")$'
       OR (m.matcher ? 'equals') = (m.matcher ? 'in')
       OR CASE WHEN jsonb_typeof(COALESCE(m.matcher -> 'in', '[null]')) <> 'array' THEN true
         ELSE jsonb_array_length(COALESCE(m.matcher -> 'in', '[null]')) NOT BETWEEN 1 AND {max_matched_values}
           OR EXISTS (SELECT FROM jsonb_array_elements(COALESCE(m.matcher -> 'in', jsonb_build_array(m.matcher -> 'equals'))) AS v
                       WHERE jsonb_typeof(v.value) IN ('object', 'array')
                          OR (jsonb_typeof(v.value) = 'string'
                              AND char_length(v.value #>> '{}') > {max_matched_characters})) END
     ELSE true END LIMIT 1;
  RETURN CASE WHEN FOUND THEN
    v_field || ': must hold statuses, classes of statuses such as 5xx, types of errors, and objects with pointer and equals or in'
  END;
END
$te_policy_fault$;

-- Return the first fault of a definition, `given` without NULLs, other than missing secrets.
CREATE OR REPLACE FUNCTION {schema}.te_definition_fault(given jsonb, stuck_timeout_ms bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $te_definition_fault$
DECLARE
  v_url text := given ->> 'url';
  v_server text := substring(given ->> 'url' FROM '^[^/?#]*//[^/?#]*');
  v_timeout_ms bigint := COALESCE((given ->> 'timeout_ms')::bigint, 30000);
  v_fault text;
BEGIN
  v_fault := CASE
    WHEN v_url IS NULL THEN 'url: is required'
    WHEN jsonb_path_exists(given, 'strict $.** ? (@ > {max_number} || @ < -{max_number}
                                                  || (@ != 0 && @ > -1e-307 && @ < 1e-307))') THEN
      'retry_policy: a number is out of range'
    WHEN char_length(v_url) NOT BETWEEN 1 AND {max_url} THEN 'url: must have 1 to {max_url} characters'
    WHEN char_length({schema}.te_canonical_json(jsonb_build_array(given - 'retry_policy', given -> 'retry_policy')))
        > {max_definition} THEN 'url: must have, with its settings, at most {max_definition} characters as JSON'
    WHEN v_url !~* '^https?://[^/?#]' THEN 'url: must start with http:// or https:// and a host'
    WHEN v_url ~ '[{][{]|[}][}]' THEN 'url: must not be a template: register an endpoint for it, and use te_enqueue'
    WHEN v_url ~ '{user_in_url}' THEN
      'url: must not hold a user or password: store a secret, and register an endpoint that names it'
    WHEN v_url ~ '[\x01-\x1f\x7f]' THEN 'url: must not contain a control character'
    WHEN v_server ~ '[^\x21-\x7e]' THEN 'url: the host must be written in ASCII, such as xn--bcher-kva.example'
    WHEN v_server !~ '^[a-zA-Z]+://(?:\[[^\[\]]+\]|[^\[\]:]+)(?::[0-9]{0,5})?$'
      OR substring(v_server FROM ':([0-9]+)$')::bigint > 65535 THEN 'url: the host or port is not valid'
    WHEN given ->> 'method' NOT IN ('GET', 'POST', 'PUT', 'PATCH', 'DELETE') THEN
      'method: must be GET, POST, PUT, PATCH or DELETE'
    WHEN v_timeout_ms NOT BETWEEN 1 AND {max_timeout_ms} OR v_timeout_ms >= te_definition_fault.stuck_timeout_ms THEN
      'timeout_ms: must be from 1 to ' || LEAST({max_timeout_ms}, te_definition_fault.stuck_timeout_ms - 1)
    WHEN (given -> 'expected_status_codes')::text !~ '^\[[1-5][0-9][0-9](, [1-5][0-9][0-9])*\]$' THEN
      'expected_status_codes: must be a list of HTTP statuses from 100 to 599'
    WHEN jsonb_typeof(given -> 'headers') <> 'object' THEN 'headers: must be an object of strings'
    WHEN jsonb_typeof(given -> 'signing') <> 'object' OR NOT (given -> 'signing') ? 'secret'
      OR (given -> 'signing') - ARRAY['secret', 'previous_secret'] <> '{}' THEN
      'signing: must be an object with secret, and perhaps previous_secret'
    WHEN jsonb_typeof(given -> 'retry_policy') <> 'object' THEN 'retry_policy: must be an object'
  END;
  IF v_fault IS NULL AND given ? 'headers' THEN
    SELECT 'headers/' || left(h.name, 128) || ': ' || h.fault INTO v_fault FROM (
      SELECT m.key AS name, CASE
          WHEN jsonb_typeof(m.value) <> 'string' THEN 'must be a string'
          WHEN m.key !~ '{header_name}' THEN 'must be a valid header name'
          WHEN lower(m.key COLLATE "C") ~ '{reserved_header}' THEN 'the service sets this header; leave it out'
          WHEN m.value #>> '{}' ~ '[{][{]|[}][}]' THEN 'must not be a template: register an endpoint for it'
          WHEN m.key COLLATE "C" ~* '{secret_header}' OR m.value #>> '{}' ~* '{credentials}' THEN
            'must not hold a secret in clear text: store a secret, and register an endpoint that names it'
          WHEN m.value #>> '{}' ~ '[\x01-\x1f\x7f]' THEN 'must not contain a control character'
          WHEN count(*) OVER (PARTITION BY lower(m.key COLLATE "C")) > 1 THEN 'is given more than once'
        END AS fault FROM jsonb_each(given -> 'headers') AS m) AS h WHERE h.fault IS NOT NULL LIMIT 1;
  END IF;
  IF v_fault IS NULL AND given ? 'signing' THEN
    SELECT 'signing/' || m.key || ': must be one {{secret.NAME}} placeholder' INTO v_fault
      FROM jsonb_each(given -> 'signing') AS m
     WHERE jsonb_typeof(m.value) <> 'string' OR m.value #>> '{}' !~ '^\s*\{\{\s*secret(?:[.][^\s.{}]+)+\s*\}\}\s*$' LIMIT 1;
  END IF;
  RETURN COALESCE(v_fault, 'retry_policy/' || {schema}.te_policy_fault(given -> 'retry_policy'));
END
$te_definition_fault$;

-- Register an inline endpoint, unless another transaction has just done so; one that was deleted gets another version.
CREATE OR REPLACE FUNCTION {schema}.te_register_inline(name text, spec jsonb, policy jsonb, maximum bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $te_register_inline$
#variable_conflict use_column
DECLARE
  v_endpoint {schema}.endpoints%ROWTYPE;
  v_secrets jsonb;
  v_missing text;
  v_queue text;
BEGIN
  IF (SELECT count(*) FROM {schema}.endpoints e WHERE e.name LIKE '{inline_prefix}%' AND e.name ~ '{inline_name}')
      >= te_register_inline.maximum THEN
    RAISE EXCEPTION USING ERRCODE = 'TE409', MESSAGE = format(
        'te_send: there are %s inline endpoints (TE_MAX_INLINE_ENDPOINTS)', te_register_inline.maximum),
      HINT = 'Register an endpoint whose URL is a template of the input, and call te_enqueue.';
  END IF;
  SELECT COALESCE(jsonb_agg(DISTINCT s.name), '[]') INTO v_secrets FROM (
    SELECT substring(m.value #>> '{}' FROM '[.]([^{}[:space:]]+)') AS name
      FROM jsonb_each(COALESCE(te_register_inline.spec -> 'signing', '{}')) AS m) AS s;
  PERFORM FROM {schema}.secrets s WHERE v_secrets ? s.name ORDER BY s.name FOR SHARE;
  SELECT n.name INTO v_missing FROM jsonb_array_elements_text(v_secrets) AS n (name)
   WHERE NOT EXISTS (SELECT FROM {schema}.secrets s WHERE s.name = n.name) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'TE42T',
      MESSAGE = format('te_send: signing: there is no secret named %L', v_missing),
      HINT = 'Create it first: POST /secrets.';
  END IF;
  -- As in app/catalog/routing.py, the lock makes a change of the routes find the new endpoint.
  PERFORM FROM {schema}.catalog_revision c WHERE c.id = 'routes' FOR SHARE;
  SELECT r.queue INTO v_queue FROM {schema}.routes r
   WHERE te_register_inline.name LIKE translate(regexp_replace(r.pattern, '([\\%_])', '\\\1', 'g'), '*?', '%_')
   ORDER BY r.position LIMIT 1;
  INSERT INTO {schema}.endpoints AS e (name, endpoint_type, spec, retry_policy, routed_queue)
    VALUES (te_register_inline.name, 'HTTP', te_register_inline.spec, te_register_inline.policy, v_queue)
    ON CONFLICT (name) DO UPDATE SET endpoint_type = excluded.endpoint_type, spec = excluded.spec,
      retry_policy = excluded.retry_policy, routed_queue = excluded.routed_queue, keep_response = excluded.keep_response,
      version = e.version + 1, created_at = now(), updated_at = now(), deleted_at = NULL
     WHERE e.deleted_at IS NOT NULL
    RETURNING e.* INTO v_endpoint;
  IF FOUND THEN
    INSERT INTO {schema}.endpoint_versions (endpoint, version, endpoint_type, secret_refs, spec, retry_policy)
      VALUES (v_endpoint.name, v_endpoint.version, v_endpoint.endpoint_type, v_secrets, v_endpoint.spec,
        v_endpoint.retry_policy);
    -- As of the job, the instant is not the start of the transaction: readers of events may have passed that.
    INSERT INTO {schema}.audit_log (audit_id, occurred_at, actor_name, action, resource_type, resource, after_hash)
      VALUES ('aud_' || lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000), 16, '0')
          || left(md5(gen_random_uuid()::text), 16),
        clock_timestamp(), session_user, 'create', 'endpoint', v_endpoint.name,
        encode(sha256(convert_to({schema}.te_canonical_json(jsonb_build_object(
          'endpoint_type', v_endpoint.endpoint_type, 'payload_spec_ref', NULL, 'config_ref', NULL,
          'spec', v_endpoint.spec, 'retry_policy', v_endpoint.retry_policy, 'keep_response', v_endpoint.keep_response,
          'callbacks', NULL, 'queue', v_endpoint.queue, 'priority', v_endpoint.priority, 'limits', v_endpoint.limits,
          'breaker', v_endpoint.breaker, 'is_paused', v_endpoint.paused_at IS NOT NULL)), 'UTF8')), 'hex'));
  END IF;
END
$te_register_inline$;

CREATE OR REPLACE FUNCTION {schema}.te_send(
  url text,
  body jsonb DEFAULT NULL,
  method text DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  timeout_ms bigint DEFAULT NULL,
  expected_status_codes jsonb DEFAULT NULL,
  signing jsonb DEFAULT NULL,
  retry_policy jsonb DEFAULT NULL,
  idempotency_key text DEFAULT NULL,
  run_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL,
  name text DEFAULT NULL,
  labels jsonb DEFAULT NULL,
  queue text DEFAULT NULL,
  priority bigint DEFAULT NULL,
  traceparent text DEFAULT NULL
) RETURNS TABLE (job_id text, execution_id text, is_new boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_send$
#variable_conflict use_column
DECLARE
  v_body jsonb := NULLIF(te_send.body, 'null');
  v_policy jsonb := NULLIF(te_send.retry_policy, 'null');
  v_given jsonb;
  v_spec jsonb;
  v_name text;
  v_fault text;
  v_settings {schema}.enqueue_settings%ROWTYPE;
BEGIN
  -- 1. The settings of the API that started last.
  SELECT s.* INTO v_settings FROM {schema}.enqueue_settings s WHERE s.id = 'enqueue';
  IF v_settings.max_inline_endpoints IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE503', MESSAGE = 'te_send: the settings of the service are not known yet',
      HINT = 'A process of the API writes them when it starts: start one of this release.';
  ELSIF v_settings.max_inline_endpoints = 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'TE403',
      MESSAGE = 'te_send: jobs with a URL are turned off (TE_MAX_INLINE_ENDPOINTS=0)',
      HINT = 'Register an endpoint, and call te_enqueue.';
  END IF;

  -- 2. The definition.
  SELECT COALESCE(jsonb_object_agg(g.key, g.value), '{}') INTO v_given
    FROM jsonb_each(jsonb_build_object('url', te_send.url, 'method', te_send.method, 'headers', te_send.headers,
      'timeout_ms', te_send.timeout_ms, 'expected_status_codes', te_send.expected_status_codes,
      'signing', te_send.signing)
      || CASE WHEN v_body IS NULL THEN '{}' ELSE '{"body_template": "{{input.body}}"}'::jsonb END) AS g
   WHERE g.value <> 'null';
  v_fault := {schema}.te_definition_fault(
    v_given || CASE WHEN v_policy IS NULL THEN '{}' ELSE jsonb_build_object('retry_policy', v_policy) END,
    v_settings.stuck_timeout_ms);
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE400', MESSAGE = 'te_send: ' || v_fault;
  END IF;

  -- 3. Its inline endpoint. The lock keeps it from being pruned until the commit.
  v_spec := '{"method": "POST", "headers": {}, "timeout_ms": 30000, "expected_status_codes": [200, 201, 202, 204]}'
    || v_given;
  v_name := '{inline_prefix}' || left(encode(sha256(convert_to(
    {schema}.te_canonical_json(jsonb_build_array(v_spec, v_policy)), 'UTF8')), 'hex'), 32);
  LOOP
    PERFORM FROM {schema}.endpoints e WHERE e.name = v_name AND e.deleted_at IS NULL FOR KEY SHARE OF e;
    EXIT WHEN FOUND;
    PERFORM {schema}.te_register_inline(v_name, v_spec, v_policy, v_settings.max_inline_endpoints);
  END LOOP;

  -- 4. The job.
  RETURN QUERY SELECT * FROM {schema}.te_enqueue(
    v_name, CASE WHEN v_body IS NULL THEN '{}' ELSE jsonb_build_object('body', v_body) END,
    te_send.idempotency_key, te_send.run_at, te_send.delay, te_send.name, te_send.labels, te_send.queue,
    te_send.priority, te_send.traceparent);
END
$te_send$;

COMMENT ON FUNCTION {schema}.te_send IS 'Task Executor: create a job for a URL in the transaction of the caller';
