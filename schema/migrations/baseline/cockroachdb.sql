-- Physical tuning on CockroachDB, beside the indexes with a hash in front.

-- Each change of state leaves an old version of the row and of its index entries. A scan from the oldest end of an
-- index reads all old versions: keep them for ten minutes instead of four hours.
ALTER TABLE jobs CONFIGURE ZONE USING gc.ttlseconds = 600;
ALTER TABLE executions CONFIGURE ZONE USING gc.ttlseconds = 600;
-- Outboxes: each row is inserted, read and deleted.
ALTER TABLE execution_ends CONFIGURE ZONE USING gc.ttlseconds = 600;
ALTER TABLE notification_parts CONFIGURE ZONE USING gc.ttlseconds = 600;
