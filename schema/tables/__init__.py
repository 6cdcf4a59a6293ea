"""Every table, in types that CockroachDB and PostgreSQL share (TEXT, BYTEA, BIGINT, BOOLEAN, TIMESTAMPTZ, JSONB).

Ids are made by the client, so a repeated statement is recognised; on CockroachDB no primary key leads with a time.
Indexes that workers read in time order lead with `queue` and `shard`; list pages are read by (created_at, id).
"""

from schema.tables.catalog import catalog_revision as catalog_revision
from schema.tables.catalog import configs as configs
from schema.tables.catalog import endpoint_versions as endpoint_versions
from schema.tables.catalog import endpoints as endpoints
from schema.tables.catalog import payload_specs as payload_specs
from schema.tables.catalog import secrets as secrets
from schema.tables.catalog import superseded_configs as superseded_configs
from schema.tables.columns import metadata as metadata
from schema.tables.ending import bulk_operations as bulk_operations
from schema.tables.ending import dead_letters as dead_letters
from schema.tables.ending import execution_ends as execution_ends
from schema.tables.ending import redrives as redrives
from schema.tables.executions import attempts as attempts
from schema.tables.executions import execution_events as execution_events
from schema.tables.executions import execution_logs as execution_logs
from schema.tables.executions import executions as executions
from schema.tables.jobs import jobs as jobs
from schema.tables.jobs import time_zone_rules as time_zone_rules
from schema.tables.jobs import unfinished_changes as unfinished_changes
from schema.tables.limits import breaker_counts as breaker_counts
from schema.tables.limits import breaker_endpoints as breaker_endpoints
from schema.tables.limits import breaker_events as breaker_events
from schema.tables.limits import breakers as breakers
from schema.tables.limits import gate_windows as gate_windows
from schema.tables.limits import gates as gates
from schema.tables.limits import paused_queues as paused_queues
from schema.tables.limits import routes as routes
from schema.tables.notifications import notification_conditions as notification_conditions
from schema.tables.notifications import notification_groups as notification_groups
from schema.tables.notifications import notification_parts as notification_parts
from schema.tables.notifications import notification_rules as notification_rules
from schema.tables.notifications import notification_subjects as notification_subjects
from schema.tables.rollups import delivery_rollups as delivery_rollups
from schema.tables.rollups import failure_rollups as failure_rollups
from schema.tables.rollups import queue_samples as queue_samples
from schema.tables.rollups import rollup_marks as rollup_marks
from schema.tables.service import actor_processes as actor_processes
from schema.tables.service import api_keys as api_keys
from schema.tables.service import audit_log as audit_log
from schema.tables.service import console_sessions as console_sessions
from schema.tables.service import enqueue_settings as enqueue_settings
from schema.tables.service import idempotency_keys as idempotency_keys
from schema.tables.service import limiter_values as limiter_values
from schema.tables.service import region_heartbeats as region_heartbeats
from schema.tables.service import region_status as region_status
from schema.tables.service import signing_keys as signing_keys
from schema.tables.service import te_grants as te_grants
from schema.tables.service import worker_commands as worker_commands
from schema.tables.service import workers as workers
from schema.tables.workflows import workflow_edges as workflow_edges
from schema.tables.workflows import workflow_events as workflow_events
from schema.tables.workflows import workflow_nodes as workflow_nodes
from schema.tables.workflows import workflows as workflows
