"""Catalog: payload specs, configs, secrets, endpoints and their versions."""

from sqlalchemy import Column, ForeignKeyConstraint, LargeBinary

from schema.states import EndpointType, KeepResponse
from schema.tables.columns import count, index, instant, json, one_of, priority_range, table, word

payload_specs = table(
    "payload_specs",
    word("name", key=True),
    json("schema_json", required=True),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
)

configs = table(
    "configs",
    word("name", key=True),
    json("values_json", required=True),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
)

secrets = table(
    "secrets",
    word("name", key=True),
    Column("encrypted_value", LargeBinary, nullable=False),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
)

# Change counters, read with each claim so that the next claim sees every change. One row each for configs and secrets
# (catalog), limits, breakers and pauses (flow), routes (routes), and callbacks of endpoints (callbacks).
catalog_revision = table(
    "catalog_revision",
    word("id", key=True),
    count("revision", default=0),
)

# Values of a config before the catalog revision `superseded_by`, for executions that began before that revision.
superseded_configs = table(
    "superseded_configs",
    word("name", key=True),
    count("superseded_by", key=True),
    json("values_json", required=True),
    instant("superseded_at", default_now=True),
)

endpoints = table(
    "endpoints",
    word("name", key=True),
    word("endpoint_type", required=True),
    word("payload_spec_ref"),
    word("config_ref"),
    json("spec", required=True),
    json("retry_policy"),
    word("keep_response", default=KeepResponse.ALWAYS),
    # Endpoints to call back, by name of the event; NULL: none.
    json("callbacks"),
    count("version", default=1),
    # Live settings, from here to `flow_revision`, which counts their changes. They are not part of a version.
    word("queue"),
    # The queue according to the routes; NULL: no route matches.
    word("routed_queue"),
    count("priority", default=128),
    json("limits"),
    json("breaker"),
    instant("paused_at"),
    # For new executions; NULL: results are kept as long as their executions.
    count("result_retention_ms"),
    count("flow_revision", default=0),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    instant("deleted_at"),
    ForeignKeyConstraint(["payload_spec_ref"], ["payload_specs.name"], name="fk_endpoints_payload_spec"),
    ForeignKeyConstraint(["config_ref"], ["configs.name"], name="fk_endpoints_config"),
    one_of("endpoint_type", "chk_endpoints_type_known", EndpointType),
    one_of("keep_response", "chk_endpoints_keep_response", KeepResponse),
    priority_range("endpoints"),
    index("idx_endpoints_type", "endpoint_type"),
    # The few endpoints whose live settings workers read.
    index("idx_endpoints_flow", "name", where="limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL"),
)

# Immutable: a job keeps the version it was created with, and workers cache a version for ever.
endpoint_versions = table(
    "endpoint_versions",
    word("endpoint", key=True),
    count("version", key=True),
    word("endpoint_type", required=True),
    word("payload_spec_ref"),
    word("config_ref"),
    json("secret_refs", default="[]"),
    json("spec", required=True),
    json("retry_policy"),
    word("keep_response", default=KeepResponse.ALWAYS),
    json("callbacks"),
    instant("created_at", default_now=True),
    one_of("endpoint_type", "chk_endpoint_versions_type_known", EndpointType),
    one_of("keep_response", "chk_endpoint_versions_keep_response", KeepResponse),
)
