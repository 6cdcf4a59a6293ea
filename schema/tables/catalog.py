"""Catalog: payload specs, configs, secrets, endpoints and their versions."""

from sqlalchemy import Column, ForeignKeyConstraint, Index, LargeBinary, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import EndpointType, KeepResponse
from schema.tables.columns import count, instant, metadata, one_of, priority_range, word

payload_specs = Table(
    "payload_specs",
    metadata,
    word("name", required=True),
    Column("schema_json", JSONB, nullable=False),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_payload_specs"),
)

configs = Table(
    "configs",
    metadata,
    word("name", required=True),
    Column("values_json", JSONB, nullable=False),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_configs"),
)

secrets = Table(
    "secrets",
    metadata,
    word("name", required=True),
    Column("encrypted_value", LargeBinary, nullable=False),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_secrets"),
)

# Change counters, read with each claim so that the next claim sees every change. One row each for configs and secrets
# (catalog), limits, breakers and pauses (flow), routes (routes), and callbacks of endpoints (callbacks).
catalog_revision = Table(
    "catalog_revision",
    metadata,
    word("id", required=True),
    count("revision", default=0),
    PrimaryKeyConstraint("id", name="pk_catalog_revision"),
)

# Values of a config before the catalog revision `superseded_by`, for executions that began before that revision.
superseded_configs = Table(
    "superseded_configs",
    metadata,
    word("name", required=True),
    count("superseded_by", required=True),
    Column("values_json", JSONB, nullable=False),
    instant("superseded_at", default_now=True),
    PrimaryKeyConstraint("name", "superseded_by", name="pk_superseded_configs"),
)

endpoints = Table(
    "endpoints",
    metadata,
    word("name", required=True),
    word("endpoint_type", required=True),
    word("payload_spec_ref"),
    word("config_ref"),
    Column("spec", JSONB, nullable=False),
    Column("retry_policy", JSONB),
    word("keep_response", default=KeepResponse.ALWAYS),
    # Endpoints to call back, by name of the event; NULL: none.
    Column("callbacks", JSONB),
    count("version", default=1),
    # Live settings, from here to `flow_revision`, which counts their changes. They are not part of a version.
    word("queue"),
    # The queue according to the routes; NULL: no route matches.
    word("routed_queue"),
    count("priority", default=128),
    Column("limits", JSONB),
    Column("breaker", JSONB),
    instant("paused_at"),
    # For new executions; NULL: results are kept as long as their executions.
    count("result_retention_ms"),
    count("flow_revision", default=0),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    instant("deleted_at"),
    PrimaryKeyConstraint("name", name="pk_endpoints"),
    ForeignKeyConstraint(["payload_spec_ref"], ["payload_specs.name"], name="fk_endpoints_payload_spec"),
    ForeignKeyConstraint(["config_ref"], ["configs.name"], name="fk_endpoints_config"),
    one_of("endpoint_type", "chk_endpoint_type", EndpointType),
    one_of("keep_response", "chk_endpoints_keep_response", KeepResponse),
    priority_range("endpoints"),
)
Index("idx_endpoints_type", endpoints.c.endpoint_type)
# The few endpoints whose live settings workers read.
Index(
    "idx_endpoints_flow",
    endpoints.c.name,
    postgresql_where=text("limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL"),
)

# Immutable: a job keeps the version it was created with, and workers cache a version for ever.
endpoint_versions = Table(
    "endpoint_versions",
    metadata,
    word("endpoint", required=True),
    count("version", required=True),
    word("endpoint_type", required=True),
    word("payload_spec_ref"),
    word("config_ref"),
    Column("secret_refs", JSONB, nullable=False, server_default=text("'[]'")),
    Column("spec", JSONB, nullable=False),
    Column("retry_policy", JSONB),
    word("keep_response", default=KeepResponse.ALWAYS),
    Column("callbacks", JSONB),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("endpoint", "version", name="pk_endpoint_versions"),
    one_of("endpoint_type", "chk_endpoint_versions_type", EndpointType),
    one_of("keep_response", "chk_endpoint_versions_keep_response", KeepResponse),
)
