-- Physical tuning on PostgreSQL.

-- Room on each page keeps the new version of a row beside the old one. Where no index changes, PostgreSQL then updates
-- in place (HOT).
ALTER TABLE jobs SET (fillfactor = 80);
ALTER TABLE executions SET (fillfactor = 80);
ALTER TABLE gates SET (fillfactor = 50);
ALTER TABLE gate_windows SET (fillfactor = 50);
ALTER TABLE breakers SET (fillfactor = 50);

-- Rows of queue tables die young: vacuum at 2 % of dead rows instead of 20 %.
ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.05);
-- Retention leaves dead entries at the front of their indexes, which the planner reads for each list.
ALTER TABLE attempts SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE execution_logs SET (autovacuum_vacuum_scale_factor = 0.02);
-- Nearly empty at all times: a share of its rows says nothing.
ALTER TABLE execution_ends SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
