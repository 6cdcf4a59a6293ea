"""Example endpoint specs of each transport, and a check of a changed example."""

import copy

from app.catalog.check_spec import check_spec
from schema.states import EndpointType

HTTP, KAFKA, REDIS = EndpointType.HTTP, EndpointType.KAFKA, EndpointType.REDIS_STREAM

# One endpoint of each transport, with a variable in most of its fields.
EXAMPLES = {
    HTTP: (
        {
            "url": "{{config.api_base_url}}/emails/welcome",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{secret.email_api_key}}", "Content-Type": "application/json"},
            "body_template": {"user_id": "{{input.user_id}}", "sender": "{{config.sender}}"},
            "timeout_ms": 5000,
            "expected_status_codes": [200, 201, 202, 204],
        },
        {"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"},
    ),
    KAFKA: (
        {
            "bootstrap_servers": "{{config.bootstrap_servers}}",
            "topic": "{{config.topic}}",
            "key_template": "{{input.order_id}}",
            "value_template": {"event_type": "{{input.event_type}}", "amount": "{{input.amount}}"},
            "headers": {"ce-type": "order.{{input.event_type}}", "ce-source": "task-executor"},
            "acks": "all",
            "timeout_ms": 10000,
        },
        {"bootstrap_servers": "kafka-1:9092,kafka-2:9092", "topic": "order.events.v1"},
    ),
    REDIS: (
        {
            "redis_url": "{{config.redis_url}}",
            "stream": "{{config.stream_name}}",
            "fields_template": {"user_id": "{{input.user_id}}", "title": "{{input.title}}"},
            "max_len": "{{config.max_stream_length}}",
            "approximate_trimming": True,
            "timeout_ms": 3000,
        },
        {"redis_url": "redis://redis:6379", "stream_name": "notifications:outbound", "max_stream_length": 100000},
    ),
}
REMOVED = object()


def check(transport, changes, *, config=REMOVED, secrets=("email_api_key",), schema=None, stuck=300_000):
    spec, default_config = copy.deepcopy(EXAMPLES[transport])
    spec |= changes
    spec = {name: value for name, value in spec.items() if value is not REMOVED}
    return check_spec(
        transport,
        spec,
        config=default_config if config is REMOVED else config,
        secret_names_exist=lambda names: set(names) & set(secrets),
        payload_schema=schema,
        stuck_timeout_ms=stuck,
    )


HEADER = "/spec/headers/"
