-- te_limiter_…: values of rate limiters and barriers of Dramatiq, for ExecutionsLimiterBackend of actor_kit. A value
-- that has expired counts as absent; the chore prune_limiter_values deletes its row. The clock is the database's.

-- Raise TE400 for the first argument out of bounds.
CREATE OR REPLACE FUNCTION {schema}.te_limiter_check(key text, value numeric, ttl_ms numeric) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $te_limiter_check$
DECLARE
  v_fault text := CASE
    WHEN te_limiter_check.key IS NULL OR char_length(te_limiter_check.key) NOT BETWEEN 1 AND {max_limiter_key} THEN
      'key: must have 1 to {max_limiter_key} characters'
    WHEN te_limiter_check.value IS NULL OR abs(te_limiter_check.value) > {max_limiter_value}
        OR trunc(te_limiter_check.value) <> te_limiter_check.value THEN
      'value: must be a whole number from -{max_limiter_value} to {max_limiter_value}'
    WHEN te_limiter_check.ttl_ms IS NULL OR te_limiter_check.ttl_ms NOT BETWEEN 1 AND {max_delay_ms} THEN
      'ttl: must be from 1 ms to {max_delay_days} days'
  END;
BEGIN
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE400', MESSAGE = 'te_limiter: ' || v_fault;
  END IF;
END
$te_limiter_check$;

-- Store a value unless the key has one; return whether it is stored. The parties of an expired barrier of this key lose
-- their answers: a refused party asked last, so its answer may expire after the barrier.
CREATE OR REPLACE FUNCTION {schema}.te_limiter_add(key text, value numeric, ttl_ms numeric) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_limiter_add$
#variable_conflict use_column
BEGIN
  PERFORM {schema}.te_limiter_check(te_limiter_add.key, te_limiter_add.value, te_limiter_add.ttl_ms);
  INSERT INTO {schema}.limiter_values AS l (key, value, expires_at)
    VALUES (te_limiter_add.key, te_limiter_add.value,
      clock_timestamp() + te_limiter_add.ttl_ms::double precision * INTERVAL '1 millisecond')
    ON CONFLICT (key, party) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
      WHERE l.expires_at <= clock_timestamp();
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM {schema}.limiter_values WHERE key = te_limiter_add.key AND party <> '';
  RETURN true;
END
$te_limiter_add$;

-- Add an amount, also below zero, to the value of a key, unless it leaves the bounds (NULL: none), or with `keys` the
-- sum of their values and the amount exceeds the maximum; return whether it is added. A party that asks again gets its
-- first answer, and changes nothing.
CREATE OR REPLACE FUNCTION {schema}.te_limiter_change(
  key text,
  amount numeric,
  minimum numeric,
  maximum numeric,
  ttl_ms numeric,
  keys text[] DEFAULT NULL,
  party text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_limiter_change$
#variable_conflict use_column
DECLARE
  v_keys text[];
  v_is_own boolean := te_limiter_change.key = ANY (te_limiter_change.keys);
  v_found bigint;
  v_value numeric;
  v_sum numeric;
  v_is_added boolean;
  v_expires_at timestamptz;
  v_fault text := CASE
    WHEN cardinality(te_limiter_change.keys) > {max_limiter_keys} THEN
      'keys: a change sums at most {max_limiter_keys}; take a shorter window'
    WHEN EXISTS (SELECT 1 FROM unnest(te_limiter_change.keys) AS k (key)
                  WHERE k.key IS NULL OR char_length(k.key) NOT BETWEEN 1 AND {max_limiter_key}) THEN
      'keys: each must have 1 to {max_limiter_key} characters'
    WHEN te_limiter_change.keys IS NOT NULL AND COALESCE(te_limiter_change.maximum, 'NaN') = 'NaN' THEN
      'maximum: must be a number, since keys are given'
    WHEN te_limiter_change.maximum = 'NaN' THEN 'maximum: must be a number, or NULL for none'
    WHEN te_limiter_change.minimum = 'NaN' THEN 'minimum: must be a number, or NULL for none'
    WHEN char_length(te_limiter_change.party) NOT BETWEEN 1 AND {max_party} THEN
      'party: must have 1 to {max_party} characters'
  END;
BEGIN
  PERFORM {schema}.te_limiter_check(te_limiter_change.key, te_limiter_change.amount, te_limiter_change.ttl_ms);
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TE400', MESSAGE = 'te_limiter: ' || v_fault;
  END IF;
  v_keys := ARRAY(SELECT DISTINCT k.key FROM unnest(te_limiter_change.key || te_limiter_change.keys) AS k (key)
                   ORDER BY k.key);

  -- Lock the rows of all keys, in one order. All of them are inserted first, since an absent row cannot be locked: two
  -- changes of different keys, each of which sums the other's, would both succeed. A row may be pruned in between.
  LOOP
    INSERT INTO {schema}.limiter_values (key, value, expires_at)
      SELECT k.key, 0, '-infinity' FROM unnest(v_keys) AS k (key) ORDER BY k.key
      ON CONFLICT (key, party) DO NOTHING;
    SELECT count(*), COALESCE(sum(l.value) FILTER (WHERE l.key = te_limiter_change.key), 0),
           COALESCE(sum(l.value) FILTER (WHERE l.key <> te_limiter_change.key OR v_is_own), 0)
      INTO v_found, v_value, v_sum
      FROM (SELECT r.key, CASE WHEN r.expires_at > clock_timestamp() THEN r.value ELSE 0 END AS value
              FROM {schema}.limiter_values r WHERE r.key = ANY (v_keys) AND r.party = ''
             ORDER BY r.key FOR UPDATE) AS l;
    EXIT WHEN v_found = cardinality(v_keys);
  END LOOP;

  SELECT l.value = 1 INTO v_is_added FROM {schema}.limiter_values l
   WHERE l.key = te_limiter_change.key AND l.party = te_limiter_change.party AND l.expires_at > clock_timestamp();
  IF FOUND THEN
    RETURN v_is_added;
  END IF;

  v_value := v_value + te_limiter_change.amount;
  v_is_added := v_value >= COALESCE(te_limiter_change.minimum, v_value)
    AND v_value <= COALESCE(te_limiter_change.maximum, v_value)
    AND (te_limiter_change.keys IS NULL OR v_sum + te_limiter_change.amount <= te_limiter_change.maximum);
  v_expires_at := clock_timestamp() + te_limiter_change.ttl_ms::double precision * INTERVAL '1 millisecond';
  IF v_is_added THEN
    PERFORM {schema}.te_limiter_check(te_limiter_change.key, v_value, te_limiter_change.ttl_ms);
    UPDATE {schema}.limiter_values SET value = v_value, expires_at = v_expires_at
     WHERE key = te_limiter_change.key AND party = '';
  END IF;
  IF te_limiter_change.party IS NOT NULL THEN
    INSERT INTO {schema}.limiter_values (key, party, value, expires_at)
      VALUES (te_limiter_change.key, te_limiter_change.party, v_is_added::integer, v_expires_at)
      ON CONFLICT (key, party) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at;
  END IF;
  RETURN v_is_added;
END
$te_limiter_change$;

-- Return the value of a key; NULL without one.
CREATE OR REPLACE FUNCTION {schema}.te_limiter_value(key text) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $te_limiter_value$
  SELECT l.value FROM {schema}.limiter_values l
   WHERE l.key = te_limiter_value.key AND l.party = '' AND l.expires_at > clock_timestamp()
$te_limiter_value$;

-- As for te_enqueue: it also fails if a function of this name with other arguments is left.
COMMENT ON FUNCTION {schema}.te_limiter_add IS 'Task Executor: store a value of a rate limiter of Dramatiq';
COMMENT ON FUNCTION {schema}.te_limiter_change IS 'Task Executor: change a value of a rate limiter of Dramatiq';
COMMENT ON FUNCTION {schema}.te_limiter_value IS 'Task Executor: read a value of a rate limiter of Dramatiq';
