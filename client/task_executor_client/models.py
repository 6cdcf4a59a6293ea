"""Bodies of requests and answers as TypedDicts.

Written by `make client` from the OpenAPI document; do not edit.

Values are plain dictionaries at run time. A NotRequired field of a request may be left out, and of an answer may be
missing. Times of answers are ISO 8601 texts; requests also take `datetime` with a time zone, and `timedelta`, where the
type says so.

Example:
    job: models.NewJob = {"endpoint": "send-mail", "trigger": "IMMEDIATE", "input": {"user_id": "u_1"}}
    created: models.CreatedJob = te.jobs.create(**job)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NotRequired, TypedDict


class Detail(TypedDict):
    """Part of `ErrorBody`, `BatchError`."""

    pointer: NotRequired[str]
    """JSON pointer into the body, or a parameter's name."""
    message: NotRequired[str]


class NewPayloadSpec(TypedDict):
    """Body of `payload_specs.create`."""

    name: str
    schema: Mapping[str, Any] | None
    """JSON Schema 2020-12."""


class PayloadSpec(TypedDict):
    """Answer of `payload_specs.create`, `payload_specs.get`, `payload_specs.replace`; part of `PayloadSpecPage`."""

    name: str
    schema: dict[str, Any]
    """JSON Schema 2020-12."""
    created_at: str
    updated_at: str


class PayloadSpecPage(TypedDict):
    """Answer of `payload_specs.list`."""

    items: list[PayloadSpec]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedPayloadSpec(TypedDict):
    """Body of `payload_specs.replace`."""

    name: NotRequired[str]
    schema: Mapping[str, Any] | None
    """JSON Schema 2020-12."""


class NewConfig(TypedDict):
    """Body of `configs.create`."""

    name: str
    values: Mapping[str, Any]


class Config(TypedDict):
    """Answer of `configs.create`, `configs.get`, `configs.replace`; part of `ConfigPage`."""

    name: str
    values: dict[str, Any]
    created_at: str
    updated_at: str


class ConfigPage(TypedDict):
    """Answer of `configs.list`."""

    items: list[Config]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedConfig(TypedDict):
    """Body of `configs.replace`."""

    name: NotRequired[str]
    values: Mapping[str, Any]


class NewSecret(TypedDict):
    """Body of `secrets.create`."""

    name: str
    value: str


class Secret(TypedDict):
    """Answer of `secrets.create`, `secrets.get`, `secrets.replace`; part of `SecretPage`."""

    name: str
    created_at: str
    updated_at: str


class SecretPage(TypedDict):
    """Answer of `secrets.list`."""

    items: list[Secret]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedSecret(TypedDict):
    """Body of `secrets.replace`."""

    name: NotRequired[str]
    value: str


class SpecCheckQuestion(TypedDict):
    """Body of `payload_spec_checks.check`."""

    schema: Mapping[str, Any] | None
    """JSON Schema 2020-12."""


class InputFault(TypedDict):
    """Part of `FailedInput`."""

    pointer: str
    message: str


class FailedInput(TypedDict):
    """Part of `SpecCheck`."""

    job_id: str
    endpoint: str
    created_at: str
    faults: list[InputFault]


class SpecCheck(TypedDict):
    """Answer of `payload_spec_checks.check`."""

    endpoints: int
    """Endpoints that use the spec."""
    checked: int
    passed: int
    failed: int
    failures: list[FailedInput]
    """The newest refused inputs, up to 10."""
    is_complete: bool
    """`false` if more than 50 endpoints, or inputs too large, were left out."""


class RateSpec(TypedDict):
    """Part of `KeyLimitsSpec`, `LimitsSpec`, `Gate`."""

    count: int
    per: str
    """`1s` to `24h`."""
    burst: NotRequired[int]
    """Starts of a burst, the last 100 ms of which are paced; when absent, the starts of 100 ms."""
    window: NotRequired[Literal["sliding"]]
    """`sliding`: never more than `count` in any period of `per`; excludes `burst`."""


class KeyLimitsSpec(TypedDict):
    """Part of `LimitsSpec`."""

    key: str
    """One placeholder of the input."""
    max_in_flight: NotRequired[int]
    rate: NotRequired[RateSpec]


class LimitsSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `Flow`."""

    max_in_flight: NotRequired[int]
    """Executions that may run at the same time."""
    rate: NotRequired[RateSpec]
    per_key: NotRequired[KeyLimitsSpec]


class BreakerSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `Flow`."""

    failure_ratio: NotRequired[float]
    """0.5 when absent."""
    min_results: NotRequired[int]
    """10 when absent."""
    window: NotRequired[str]
    """`1m` when absent."""
    open_for: NotRequired[str]
    """`30s` when absent."""


class SigningSpec(TypedDict):
    """Part of `HttpSpec`, `NotificationSpec`, `NewJob`."""

    secret: str
    previous_secret: NotRequired[str]


class HttpSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    url: str
    """May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    method: NotRequired[Literal["GET", "POST", "PUT", "PATCH", "DELETE"]]
    headers: NotRequired[dict[str, str]]
    """Headers that the service sets are not allowed. May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    body_template: NotRequired[Any]
    """May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    signing: NotRequired[SigningSpec]
    """May contain `{{secret.…}}`."""
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event."""
    expected_status_codes: NotRequired[list[int]]


class KafkaSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    bootstrap_servers: str
    """May contain `{{config.…}}`, `{{secret.…}}`."""
    topic: str
    """May contain `{{config.…}}`."""
    key_template: NotRequired[str | None]
    """May contain `{{config.…}}`, `{{input.…}}`."""
    value_template: Any
    """May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    headers: NotRequired[dict[str, str]]
    """Headers that the service sets are not allowed. May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    properties: NotRequired[dict[str, Any]]
    """May contain `{{config.…}}`, `{{secret.…}}`."""
    acks: NotRequired[Literal["0", "1", "all"]]
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event."""


class RedisStreamSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    redis_url: str
    """May contain `{{config.…}}`, `{{secret.…}}`."""
    stream: str
    """May contain `{{config.…}}`."""
    fields_template: dict[str, Any]
    """May contain `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    max_len: NotRequired[int | str]
    """May contain `{{config.…}}`."""
    approximate_trimming: NotRequired[bool]
    metadata: NotRequired[bool]
    """Add the fields `te-job-id`, `te-execution-id`, `te-idempotency-key`, `te-attempt`, `te-scheduled-at` and
    `traceparent` to each entry.
    """
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event."""


class NotificationSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    url: str | list[str]
    """A channel, such as `slack://…`, or up to 10; secrets are placeholders May contain `{{config.…}}`,
    `{{secret.…}}`.
    """
    title: NotRequired[str]
    """May contain `{{config.…}}`, `{{input.…}}`."""
    body: NotRequired[str]
    """May contain `{{config.…}}`, `{{input.…}}`."""
    severity: NotRequired[str]
    """`info`, `warning` or `critical` after rendering; marks the message May contain `{{config.…}}`, `{{input.…}}`."""
    signing: NotRequired[SigningSpec]
    """May contain `{{secret.…}}`."""
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event."""


class WorkflowSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    nodes: list[dict[str, Any]]
    """As `nodes` of `POST /workflows`."""
    on_failure: NotRequired[Literal["stop", "continue", "compensate"]]
    max_parallel: NotRequired[int]
    deadline: NotRequired[str | int]
    """Time from the start, such as `2h`."""
    output: NotRequired[Any]
    """JSON with variables, the body of the output of the execution; when absent, the states of the last nodes."""
    timeout_ms: NotRequired[int]
    """Time to store the workflow; `deadline` bounds its nodes."""


class ActorSpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion`."""

    actor: str
    """Name of the actor."""
    queue: NotRequired[str]
    """Dramatiq queue of the actor."""
    arguments: NotRequired[dict[str, Any] | str]
    """An object: keyword arguments; with `args`, `kwargs` and `options` only: a message May contain `{{config.…}}`,
    `{{input.…}}`, `{{secret.…}}`.
    """
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event."""
    max_lost: NotRequired[int]
    """The execution fails with WORKER_LOST once so many attempts have lost their process."""
    cron: NotRequired[str]
    """Schedule that the process has registered."""
    timezone: NotRequired[str]
    """Time zone of `cron`."""
    interval: NotRequired[str]
    """Interval that the process has registered."""


class RetryPolicySpec(TypedDict):
    """Part of `NewEndpoint`, `Endpoint`, `ChangedEndpoint`, `EndpointVersion` and 1 more."""

    max_attempts: NotRequired[int]
    backoff: NotRequired[Literal["fixed", "linear", "exponential", "custom", "decorrelated"]]
    initial_delay_ms: NotRequired[int]
    max_delay_ms: NotRequired[int]
    delays_ms: NotRequired[list[int]]
    """Waits between attempts, for `custom` only and required there; the last repeats."""
    fail_on: NotRequired[
        list[
            int
            | str
            | Literal[
                "HTTP_ERROR",
                "TIMEOUT",
                "CONNECTION_ERROR",
                "BROKER_ERROR",
                "STREAM_ERROR",
                "NOTIFICATION_ERROR",
                "WORKFLOW_FAILED",
                "PROCESS_LOST",
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """Errors and answers that are final; checked first."""
    reject_on: NotRequired[
        list[
            int
            | str
            | Literal[
                "HTTP_ERROR",
                "TIMEOUT",
                "CONNECTION_ERROR",
                "BROKER_ERROR",
                "STREAM_ERROR",
                "NOTIFICATION_ERROR",
                "WORKFLOW_FAILED",
                "PROCESS_LOST",
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """Final too, and marked `rejected`: needs no attention."""
    ignore_on: NotRequired[
        list[
            int
            | str
            | Literal[
                "HTTP_ERROR",
                "TIMEOUT",
                "CONNECTION_ERROR",
                "BROKER_ERROR",
                "STREAM_ERROR",
                "NOTIFICATION_ERROR",
                "WORKFLOW_FAILED",
                "PROCESS_LOST",
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """Errors that count as a success; the error is kept."""
    retry_on: NotRequired[
        list[
            int
            | str
            | Literal[
                "HTTP_ERROR",
                "TIMEOUT",
                "CONNECTION_ERROR",
                "BROKER_ERROR",
                "STREAM_ERROR",
                "NOTIFICATION_ERROR",
                "WORKFLOW_FAILED",
                "PROCESS_LOST",
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """Errors and answers that are retried; if given, no others are, not even a lost worker."""
    max_age_ms: NotRequired[int | None]
    """Milliseconds since `scheduled_at`; a retry that would start later is not made."""


class NewCallbacks(TypedDict):
    """Part of `NewEndpoint`, `ChangedEndpoint`, `NewJob`, `ChangedJob` and 1 more."""

    on_success: NotRequired[str | None]
    on_failure: NotRequired[str | None]
    on_attempt_failed: NotRequired[str | None]


class NewEndpoint(TypedDict):
    """Body of `endpoints.create`."""

    queue: NotRequired[str | None]
    """Queue of its executions from now on; when absent, the queue of its route or transport."""
    priority: NotRequired[int | None]
    """Priority of executions from now on, 0 to 255, higher first; default 128."""
    limits: NotRequired[LimitsSpec | None]
    """Limits over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The default breaker when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution created from now on keeps the receiver's answer, `1m` to `365d`; as long
    as executions are kept when absent.
    """
    name: str
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    payload_spec: NotRequired[str | None]
    config: NotRequired[str | None]
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec | WorkflowSpec | ActorSpec
    """Spec of the given type."""
    retry_policy: NotRequired[RetryPolicySpec | None]
    keep_response: NotRequired[Literal["always", "on_error", "never"]]
    """When the receiver's answer is stored: `always`, `on_error` (failed attempts only) or `never`; otherwise only
    its status and size are.
    """
    callbacks: NotRequired[NewCallbacks | None]
    """Endpoints to call when its executions end; none when absent."""


class Callbacks(TypedDict):
    """Part of `Endpoint`, `EndpointVersion`, `CreatedJob`, `Job`."""

    on_success: NotRequired[str | None]
    on_failure: NotRequired[str | None]
    on_attempt_failed: NotRequired[str | None]


class Endpoint(TypedDict):
    """Answer of `endpoints.create`, `endpoints.get`, `endpoints.replace`, `endpoints.patch` and 2 more; part of
    `EndpointPage`.
    """

    name: str
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    payload_spec: str | None
    config: str | None
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec | WorkflowSpec | ActorSpec
    """As given."""
    retry_policy: RetryPolicySpec
    """With defaults filled in."""
    keep_response: Literal["always", "on_error", "never"]
    callbacks: Callbacks | None
    queue: str | None
    """As given."""
    queue_in_effect: str
    """Its own queue, else the queue of its route, else the queue of its transport."""
    priority: int
    limits: LimitsSpec | None
    """As given."""
    breaker: BreakerSpec | Literal["off"] | None
    """As given."""
    result_retention: str | None
    """`null`: as long as its executions."""
    paused_at: str | None
    """Time of the pause."""
    paused_by: str | None
    """Name of the API key, or cli:USER, in the answer of `GET /endpoints/{name}`, until the audit log drops it."""
    version: int
    created_at: str
    updated_at: str


class EndpointPage(TypedDict):
    """Answer of `endpoints.list`."""

    items: list[Endpoint]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedEndpoint(TypedDict):
    """Body of `endpoints.replace`."""

    queue: NotRequired[str | None]
    """Queue of its executions from now on; when absent, the queue of its route or transport."""
    priority: NotRequired[int | None]
    """Priority of executions from now on, 0 to 255, higher first; default 128."""
    limits: NotRequired[LimitsSpec | None]
    """Limits over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The default breaker when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution created from now on keeps the receiver's answer, `1m` to `365d`; as long
    as executions are kept when absent.
    """
    name: NotRequired[str]
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    payload_spec: NotRequired[str | None]
    config: NotRequired[str | None]
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec | WorkflowSpec | ActorSpec
    """Spec of the given type."""
    retry_policy: NotRequired[RetryPolicySpec | None]
    keep_response: NotRequired[Literal["always", "on_error", "never"]]
    """When the receiver's answer is stored: `always`, `on_error` (failed attempts only) or `never`; otherwise only
    its status and size are.
    """
    callbacks: NotRequired[NewCallbacks | None]
    """Endpoints to call when its executions end; none when absent."""


class Flow(TypedDict):
    """Body of `endpoints.patch`."""

    queue: NotRequired[str | None]
    """Queue of its executions from now on; when absent, the queue of its route or transport."""
    priority: NotRequired[int | None]
    """Priority of executions from now on, 0 to 255, higher first; default 128."""
    limits: NotRequired[LimitsSpec | None]
    """Limits over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The default breaker when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution created from now on keeps the receiver's answer, `1m` to `365d`; as long
    as executions are kept when absent.
    """


class Gate(TypedDict):
    """Part of `LimitsState`."""

    key: str | None
    """`null`: limit of the endpoint."""
    max_in_flight: int | None
    in_flight: int
    """Number of running executions."""
    rate: RateSpec | None
    """With its defaults."""
    tokens: int | None
    """Executions that may start now."""
    next_at: str | None
    """Earliest start of the next execution."""
    waiting: int
    """Queued or waiting for a retry; counted up to 1,000."""


class LimitsState(TypedDict):
    """Answer of `endpoints.limits`."""

    paused_at: str | None
    gates: list[Gate]
    """Limit of the endpoint, then limit of `key`."""


class EndpointVersion(TypedDict):
    """Answer of `endpoint_versions.get`; part of `EndpointVersionPage`."""

    version: int
    name: str
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    payload_spec: str | None
    config: str | None
    secrets: list[str]
    """Names in its templates."""
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec | WorkflowSpec | ActorSpec
    """As given."""
    retry_policy: RetryPolicySpec | None
    """As given."""
    keep_response: Literal["always", "on_error", "never"]
    callbacks: Callbacks | None
    actor: str | None
    """Name of the API key that stored the version, or cli:USER; `null` once its entry of the audit log was deleted."""
    created_at: str


class EndpointVersionPage(TypedDict):
    """Answer of `endpoint_versions.list`."""

    items: list[EndpointVersion]
    cursor: str | None
    """Opaque; `null` on the last page."""


class UseExample(TypedDict):
    """Part of `Use`."""

    id: str
    """Name or id; of a `workflow_node` the id of its workflow."""
    title: str | None
    """Name of the job or of the node, pattern of the rule, or endpoint version of the execution."""


class Use(TypedDict):
    """Part of `EndpointUses`, `Uses`."""

    kind: Literal[
        "endpoint",
        "callback",
        "workflow_definition",
        "channel",
        "rule",
        "schedule",
        "workflow_node",
        "waiting_execution",
        "running_execution",
    ]
    """`endpoint`: its current version names the value; `callback`: an endpoint that calls back;
    `workflow_definition`: an endpoint of type WORKFLOW with such a node; `channel`: a notification rule that
    sends through the endpoint; `rule`: a notification rule whose pattern matches it; `schedule`: an unretired
    repeating job; `workflow_node`: a node that may still start.
    """
    count: int
    """Up to 1,000 are counted."""
    is_complete: bool
    """False if there may be more than `count`."""
    examples: list[UseExample]
    """Up to 5."""


class Waiting(TypedDict):
    """Part of `EndpointUses`."""

    version: int
    count: int
    """Of the first 1,000."""


class EndpointUses(TypedDict):
    """Answer of `uses.of_endpoint`."""

    name: str
    uses: list[Use]
    waiting: list[Waiting]


class Uses(TypedDict):
    """Answer of `uses.of_payload_spec`, `uses.of_config`, `uses.of_secret`."""

    name: str
    uses: list[Use]


class NewJob(TypedDict):
    """Body of `jobs.create`."""

    url: NotRequired[str | None]
    """Instead of `endpoint` and `trigger`: the HTTP or HTTPS URL to send `body` to; needs the scope `jobs:send`.
    Neither templates nor secrets: those need an endpoint. The other fields decide the trigger when `trigger` is
    absent; without `idempotency_key`, each request creates a job.
    """
    body: NotRequired[Any]
    """With `url`: any JSON value to send; no body when absent."""
    method: NotRequired[Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None]
    """With `url`; `POST` when absent."""
    headers: NotRequired[Mapping[str, str] | None]
    """With `url`."""
    timeout_ms: NotRequired[int | None]
    """With `url`; 30000 when absent."""
    expected_status_codes: NotRequired[Sequence[int] | None]
    """With `url`; 200, 201, 202 and 204 when absent."""
    signing: NotRequired[SigningSpec | None]
    """With `url`."""
    retry_policy: NotRequired[RetryPolicySpec | None]
    """With `url`."""
    name: NotRequired[str | None]
    """For display and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    queue: NotRequired[str | None]
    """Queue of its executions; the endpoint's queue when absent."""
    priority: NotRequired[int | None]
    """0 to 255; higher starts first; the endpoint's priority when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | timedelta | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the last execution, not from the last tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Ticks to run late after an outage; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: maximum number of late ticks to run, keeping the latest; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Endpoints to call when its executions end; override the endpoint's callbacks; `null`: none."""
    endpoint: NotRequired[str]
    trigger: NotRequired[Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]]
    idempotency_key: NotRequired[str | None]
    """Required for IMMEDIATE and DELAYED, here or in the Idempotency-Key header; must not begin with `te:`, which is
    reserved for jobs that the service itself creates.
    """
    run_at: NotRequired[str | datetime | None]
    """For DELAYED, without `delay`; a time in the past means now."""
    delay: NotRequired[str | int | timedelta | None]
    """For DELAYED, instead of `run_at`: time from now, by the clock of the database; `500ms`, `10s`, `5m`, `2h`,
    `1d`, `PT10M` (ISO 8601), or milliseconds; at most 3650d.
    """


class ExecutionSummary(TypedDict):
    """Part of `CreatedJob`, `Job`."""

    execution_id: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    created_at: str


class HttpOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    status_code: int
    body: NotRequired[str]
    """First 16 KiB of the body, unless `keep_response` excludes the body."""
    body_bytes: NotRequired[int]
    """Size of a body that is not kept, in bytes of text, of at most 24 KiB that are read."""


class KafkaOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    partition: int
    offset: int | None
    """`null` if brokers do not report it: with `acks: "0"`, or after a resend."""


class RedisStreamOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    message_id: str
    stream: str
    may_be_duplicate: NotRequired[bool]
    """True if the marker of an earlier attempt with unknown result may have expired in Redis."""


class ChannelOutput(TypedDict):
    """Part of `NotificationOutput`."""

    channel: str
    status_code: NotRequired[int]
    """Last status of HTTP or SMTP."""
    error: NotRequired[str]
    attempt: NotRequired[int]
    """Attempt that delivered the message, if an earlier one."""


class NotificationOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    channels: list[ChannelOutput]


class WorkflowOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    workflow_id: str
    body: Any


class ActorOutput(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    body: NotRequired[Any]
    """The stored result."""
    skipped: NotRequired[bool]
    """True if a middleware of the process skipped the message."""


class AttemptError(TypedDict):
    """Part of `IgnoredError`, `Result`, `Execution`, `Attempt` and 1 more."""

    type: str
    message: str
    status_code: NotRequired[int]
    """Of HTTP_ERROR and ANSWER_REFUSED."""
    body: NotRequired[str]
    """With `status_code`: the first 16 KiB of the answer."""
    body_bytes: NotRequired[int]
    """With `status_code`, if the body is not kept: its size."""
    category: NotRequired[str]
    """Of an actor: `RETRYABLE`, `FATAL`, `EXPECTED`, `INTERRUPTED`, `MALFORMED`."""
    traceback: NotRequired[str]
    """Of an actor: the last 16 KiB."""
    causes: NotRequired[list[str]]
    """Of an actor: types and messages, nearest first."""
    retryable: NotRequired[bool]
    """True if this kind of error is retried."""
    rejected: NotRequired[bool]
    """True if `reject_on` matches: an expected failure."""
    may_have_been_delivered: NotRequired[bool]
    """True if the message was sent and no answer came."""


class IgnoredError(TypedDict):
    """Part of `Result`, `Execution`, `Attempt`."""

    status_code: NotRequired[int]
    body: NotRequired[str]
    """The first 16 KiB of the answer, unless it is not kept."""
    body_bytes: NotRequired[int]
    """If the body is not kept: its size."""
    ignored_error: AttemptError


class Result(TypedDict):
    """Answer of `executions.result`; part of `CreatedJob`."""

    execution_id: str
    job_id: str
    endpoint: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    attempt_count: int
    completed_at: str | None
    """`null` until it has ended."""
    duration_ms: int | None
    kept_until: str | None
    """`null`: as long as the execution, or not ended yet."""
    output: (
        HttpOutput
        | KafkaOutput
        | RedisStreamOutput
        | NotificationOutput
        | WorkflowOutput
        | ActorOutput
        | IgnoredError
        | None
    )
    """The receiver's answer."""
    error: AttemptError | None
    """Error of the last attempt, with the whole answer."""


class CreatedJob(TypedDict):
    """Answer of `jobs.create`, `notifications.test`."""

    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    endpoint_version: int
    trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]
    status: Literal["ACTIVE", "PAUSED", "RETIRED"]
    version: int
    previous_version_id: NotRequired[str | None]
    """CRON and INTERVAL only."""
    replaced_by_id: NotRequired[str | None]
    """CRON and INTERVAL only."""
    idempotency_key: NotRequired[str | None]
    name: str | None
    labels: dict[str, str]
    queue: str | None
    """`null`: the endpoint's queue."""
    priority: int | None
    """`null`: the endpoint's priority."""
    limit_key: str | None
    """Key by which it shares `limits.per_key`; `null` if its endpoint had no key."""
    callbacks: Callbacks | None
    """Override the callbacks of its endpoint; `null`: the endpoint's callbacks."""
    callback_of: str | None
    """For a callback: the execution whose completion it reports."""
    run_at: NotRequired[str]
    """DELAYED only; updated by a rescheduling and by `POST /jobs/{job_id}/run`."""
    cron: NotRequired[str]
    """CRON only."""
    timezone: NotRequired[str]
    """CRON only."""
    every: NotRequired[str]
    """INTERVAL only."""
    fixed_delay: NotRequired[bool]
    """INTERVAL only."""
    starts_at: NotRequired[str]
    """CRON and INTERVAL only."""
    ends_at: NotRequired[str | None]
    """CRON and INTERVAL only."""
    catch_up: NotRequired[Literal["all", "latest", "none"]]
    """CRON and INTERVAL only."""
    max_catch_up: NotRequired[int | None]
    """CRON and INTERVAL only."""
    overlap: NotRequired[Literal["allow", "skip"]]
    """CRON and INTERVAL only."""
    next_run_at: NotRequired[str | None]
    """CRON and INTERVAL only; in the job's time zone."""
    input: dict[str, Any]
    """`{"unreadable": "reason"}` replaces a value that SQL has stored and no process can read."""
    execution: NotRequired[ExecutionSummary]
    """IMMEDIATE and DELAYED only."""
    created_at: str
    paused_at: str | None
    retired_at: str | None
    result: NotRequired[Result]
    """With `Prefer: wait` only, if the execution has ended and its result is kept."""


class Job(TypedDict):
    """Answer of `jobs.get`, `jobs.update`, `jobs.patch`, `jobs.cancel` and 2 more; part of `JobPage`, `BatchItem`."""

    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    endpoint_version: int
    trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]
    status: Literal["ACTIVE", "PAUSED", "RETIRED"]
    version: int
    previous_version_id: NotRequired[str | None]
    """CRON and INTERVAL only."""
    replaced_by_id: NotRequired[str | None]
    """CRON and INTERVAL only."""
    idempotency_key: NotRequired[str | None]
    name: str | None
    labels: dict[str, str]
    queue: str | None
    """`null`: the endpoint's queue."""
    priority: int | None
    """`null`: the endpoint's priority."""
    limit_key: str | None
    """Key by which it shares `limits.per_key`; `null` if its endpoint had no key."""
    callbacks: Callbacks | None
    """Override the callbacks of its endpoint; `null`: the endpoint's callbacks."""
    callback_of: str | None
    """For a callback: the execution whose completion it reports."""
    run_at: NotRequired[str]
    """DELAYED only; updated by a rescheduling and by `POST /jobs/{job_id}/run`."""
    cron: NotRequired[str]
    """CRON only."""
    timezone: NotRequired[str]
    """CRON only."""
    every: NotRequired[str]
    """INTERVAL only."""
    fixed_delay: NotRequired[bool]
    """INTERVAL only."""
    starts_at: NotRequired[str]
    """CRON and INTERVAL only."""
    ends_at: NotRequired[str | None]
    """CRON and INTERVAL only."""
    catch_up: NotRequired[Literal["all", "latest", "none"]]
    """CRON and INTERVAL only."""
    max_catch_up: NotRequired[int | None]
    """CRON and INTERVAL only."""
    overlap: NotRequired[Literal["allow", "skip"]]
    """CRON and INTERVAL only."""
    next_run_at: NotRequired[str | None]
    """CRON and INTERVAL only; in the job's time zone."""
    input: dict[str, Any]
    """`{"unreadable": "reason"}` replaces a value that SQL has stored and no process can read."""
    execution: NotRequired[ExecutionSummary]
    """IMMEDIATE and DELAYED only."""
    created_at: str
    paused_at: str | None
    retired_at: str | None


class JobPage(TypedDict):
    """Answer of `jobs.list`, `jobs.list_versions`."""

    items: list[Job]
    cursor: str | None
    """Opaque; `null` on the last page."""


class NodePlace(TypedDict):
    """Part of `Execution`."""

    workflow_id: str
    node: int
    """Number of the node."""
    item: int
    """Number of the item, from 1 on; 0 without items; -1 - n undoes item n."""
    run: int
    """Number of the run of the node."""


class Execution(TypedDict):
    """Answer of `jobs.run`, `executions.get`, `executions.cancel`, `executions.retry`; part of `ExecutionPage`,
    `DeadLetterView`, `BulkPreview`.
    """

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    endpoint_version: int
    idempotency_key: str | None
    queue: str
    priority: int
    limit_key: str | None
    """Key by which it shares `limits.per_key` of its endpoint; `null` without a key."""
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    input: NotRequired[dict[str, Any]]
    """`{"unreadable": "reason"}` replaces a value that SQL has stored and no process can read."""
    output: (
        HttpOutput
        | KafkaOutput
        | RedisStreamOutput
        | NotificationOutput
        | WorkflowOutput
        | ActorOutput
        | IgnoredError
        | None
    )
    """The receiver's answer."""
    last_error: AttemptError | None
    """Error of the latest attempt that has ended, also if ignored; without `body`."""
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    scheduled_at: str
    run_at: str
    """Latest due time: later than `scheduled_at` after a failed attempt or a late promotion."""
    started_at: str | None
    completed_at: str | None
    duration_ms: int | None
    cancel_requested_at: str | None
    """Time of a request to allow no further attempt."""
    abort_requested_at: str | None
    """Time of a request to abort the running attempt."""
    workflow: NodePlace | None
    """`null` outside of workflows."""
    created_at: str


class ExecutionPage(TypedDict):
    """Answer of `jobs.list_executions`, `executions.list`."""

    items: list[Execution]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Batch(TypedDict):
    """Body of `jobs.create_batch`."""

    jobs: Sequence[Mapping[str, Any]]


class BatchError(TypedDict):
    """Part of `BatchItem`."""

    code: str
    message: str
    details: list[Detail]
    retryable: bool
    """True if the same request may succeed later."""


class BatchItem(TypedDict):
    """Part of `BatchResult`."""

    status: int
    """As of `POST /jobs`."""
    job: NotRequired[Job]
    error: NotRequired[BatchError]


class BatchResult(TypedDict):
    """Answer of `jobs.create_batch`."""

    items: list[BatchItem]


class ChangedJob(TypedDict):
    """Body of `jobs.update`."""

    name: NotRequired[str | None]
    """For display and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    queue: NotRequired[str | None]
    """Queue of its executions; the endpoint's queue when absent."""
    priority: NotRequired[int | None]
    """0 to 255; higher starts first; the endpoint's priority when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | timedelta | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the last execution, not from the last tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Ticks to run late after an outage; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: maximum number of late ticks to run, keeping the latest; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Endpoints to call when its executions end; override the endpoint's callbacks; `null`: none."""


class PatchedJob(TypedDict):
    """Body of `jobs.patch`."""

    name: NotRequired[str | None]
    """For display and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    queue: NotRequired[str | None]
    """Queue of its executions; the endpoint's queue when absent."""
    priority: NotRequired[int | None]
    """0 to 255; higher starts first; the endpoint's priority when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | timedelta | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the last execution, not from the last tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Ticks to run late after an outage; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: maximum number of late ticks to run, keeping the latest; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Endpoints to call when its executions end; override the endpoint's callbacks; `null`: none."""
    status: NotRequired[Literal["ACTIVE", "PAUSED", "RETIRED"]]


class LastExecution(TypedDict):
    """Part of `Status`."""

    execution_id: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    started_at: str
    completed_at: str | None
    attempt_number: int


class ActiveExecutions(TypedDict):
    """Part of `Status`."""

    pending: int
    running: int
    total: int


class SkippedTicks(TypedDict):
    """Part of `CronBlock`, `IntervalBlock`."""

    catch_up: int
    overlap: int


class CronBlock(TypedDict):
    """Part of `Status`."""

    next_run_at: str | None
    """In the job's time zone."""
    last_tick_at: str | None
    """In the job's time zone."""
    skipped_ticks: SkippedTicks
    expression: str
    timezone: str


class IntervalBlock(TypedDict):
    """Part of `Status`."""

    next_run_at: str | None
    """In the job's time zone."""
    last_tick_at: str | None
    """In the job's time zone."""
    skipped_ticks: SkippedTicks
    every: str
    fixed_delay: bool


class Day(TypedDict):
    """Part of `Stats`."""

    total: int
    succeeded: int
    failed: int
    avg_duration_ms: int | None
    p99_duration_ms: int | None


class Stats(TypedDict):
    """Part of `Status`."""

    last_24h: Day
    """Executions that succeeded or failed within 24 hours; durations are `null` if there are none. For a repeating
    job, only its newest 5,000 count, and only if created within 48 hours.
    """


class Status(TypedDict):
    """Answer of `jobs.status`."""

    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"]
    trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]
    status: Literal["ACTIVE", "PAUSED", "RETIRED"]
    health: Literal["HEALTHY", "DEGRADED", "FAILING", "IDLE"]
    version: int
    last_execution: LastExecution | None
    """The newest execution that has begun; only the newest 100 of each final status are searched, so an older
    execution may be shown if more were cancelled before they began.
    """
    active_executions: ActiveExecutions
    """Open executions: `pending` wait, `running` run; at most 10,000 are counted, so a job with more may have
    further running executions.
    """
    cron: NotRequired[CronBlock]
    """CRON only."""
    interval: NotRequired[IntervalBlock]
    """INTERVAL only."""
    stats: Stats


class Run(TypedDict):
    """Part of `NextRuns`, `CronPreview`."""

    run_at: str
    local_time: str
    """`run_at` in the schedule's time zone."""
    note: str | None
    """Effect of a clock change on this run."""


class NextRuns(TypedDict):
    """Answer of `jobs.list_next_runs`."""

    timezone: str
    """UTC for all but CRON jobs."""
    runs: list[Run]


class Attempt(TypedDict):
    """Part of `AttemptPage`, `DeadLetterView`."""

    attempt_id: str
    execution_id: str
    attempt_number: int
    status: Literal["SUCCESS", "FAILED"]
    worker_id: str | None
    due_at: str | None
    """Instant from which it could start; `null` in rows of earlier releases."""
    started_at: str
    completed_at: str | None
    duration_ms: int | None
    output: (
        HttpOutput
        | KafkaOutput
        | RedisStreamOutput
        | NotificationOutput
        | WorkflowOutput
        | ActorOutput
        | IgnoredError
        | None
    )
    error: AttemptError | None
    """For SUCCESS: the error that `ignore_on` ignored."""
    created_at: str


class AttemptPage(TypedDict):
    """Answer of `executions.list_attempts`."""

    items: list[Attempt]
    cursor: str | None
    """Opaque; `null` on the last page."""


class LogLine(TypedDict):
    """Part of `LogLinePage`."""

    log_id: str
    execution_id: str
    attempt_number: int
    level: Literal["DEBUG", "INFO", "WARN", "ERROR"]
    message: str
    logged_at: str


class LogLinePage(TypedDict):
    """Answer of `executions.list_logs`."""

    items: list[LogLine]
    cursor: str | None
    """Opaque; `null` on the last page."""


Step = TypedDict(
    "Step",
    {
        "at": "str",
        "from": "Literal['PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED'] | None",
        "to": "Literal['PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED']",
        "attempt": "int",
        "actor": "str | None",
        "reason": "str",
        "estimated": "bool",
    },
)
"""Part of `History`."""


class History(TypedDict):
    """Answer of `executions.history`."""

    items: list[Step]
    truncated: bool
    """True if earlier changes are left out: only the latest 1,000 attempts and the latest 1,000 other changes are
    listed.
    """


class Explanation(TypedDict):
    """Answer of `executions.explain`."""

    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    reason: str
    """Reason code."""
    explanation: str
    since: str
    until: str | None
    """Time of the next change, if known."""
    details: dict[str, Any]


class Request(TypedDict):
    """Answer of `executions.request`."""

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION", "WORKFLOW", "ACTOR"] | None
    endpoint_version: int
    """Of all its attempts."""
    newest_version: int
    """Of the endpoint, for new jobs."""
    config: str | None
    config_revision: int | None
    """Catalog revision of all its attempts; `null`: no attempt yet, so the present one."""
    idempotency_key: str
    """Which the receiver gets."""
    scheduled_at: str
    secrets: list[str]
    """Names."""
    spec: dict[str, Any] | None
    """Rendered spec with `[secret NAME]` for each secret; `null` if it cannot be rendered."""
    fault: str | None
    """Why it cannot be rendered."""


class UncertainAttempt(TypedDict):
    """Part of `UncertainAttemptPage`."""

    attempt_id: str
    execution_id: str
    """Also the idempotency key that the receiver got."""
    job_id: str
    endpoint: str
    endpoint_version: int
    attempt_number: int
    worker_id: str | None
    due_at: str | None
    started_at: str
    completed_at: str | None
    duration_ms: int | None
    error: AttemptError | None
    execution_status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    """The present one."""
    later_attempts: int
    """Attempts that have begun since."""
    created_at: str


class UncertainAttemptPage(TypedDict):
    """Answer of `attempts.list_uncertain`."""

    items: list[UncertainAttempt]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Explain(TypedDict):
    """Body of `explanations.explain`."""

    executions: Sequence[str]


class ExplainedExecution(TypedDict):
    """Part of `ExplainedExecutions`."""

    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    reason: str
    """Reason code."""
    explanation: str
    since: str
    until: str | None
    """Time of the next change, if known."""
    details: dict[str, Any]
    execution_id: str


class ExplainedExecutions(TypedDict):
    """Answer of `explanations.explain`."""

    items: list[ExplainedExecution]
    left_out: list[str]
    """Unknown executions, and executions beyond the time."""


class AuditEntry(TypedDict):
    """Part of `AuditEntryPage`."""

    audit_id: str
    actor_id: str | None
    """Id of the API key."""
    actor_name: str
    """Name of the API key, or cli:USER."""
    action: Literal["create", "replace", "delete", "revoke", "flow", "drain"]
    resource_type: Literal[
        "payload_spec",
        "config",
        "secret",
        "endpoint",
        "api_key",
        "routes",
        "queue",
        "worker",
        "notification_rule",
        "grant",
    ]
    resource: str
    """Name of the resource, id of an API key, or role and pattern of a grant."""
    before_hash: str | None
    """SHA-256 of the canonical JSON, for a secret of its ciphertext; `null` if it did not exist."""
    after_hash: str | None
    """SHA-256 of the canonical JSON, for a secret of its ciphertext; `null` if it did not exist."""
    request_id: str | None
    occurred_at: str


class AuditEntryPage(TypedDict):
    """Answer of `audit.list`."""

    items: list[AuditEntry]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ApiKey(TypedDict):
    """Part of `ApiKeyPage`."""

    key_id: str
    name: str
    scopes: list[str]
    state: Literal["active", "expired", "revoked"]
    created_at: str
    expires_at: str | None
    """`null`: never."""
    last_used_at: str | None
    """Exact to about a minute; `null`: never used."""


class ApiKeyPage(TypedDict):
    """Answer of `api_keys.list`."""

    items: list[ApiKey]
    cursor: str | None
    """Opaque; `null` on the last page."""


class CronPreviewQuestion(TypedDict):
    """Body of `cron.preview`."""

    cron: str
    """Five fields."""
    timezone: str
    """An IANA time zone."""
    count: NotRequired[int]
    after: NotRequired[str | datetime | None]
    """List runs after this instant; now when absent."""


class CronPreview(TypedDict):
    """Answer of `cron.preview`."""

    cron: str
    timezone: str
    description: str
    after: str
    runs: list[Run]
    """Fewer than `count` at the end of the calendar."""


class BusySchedule(TypedDict):
    """Part of `BusyMinute`."""

    job_id: str
    name: str | None
    endpoint: str


class BusyMinute(TypedDict):
    """Part of `ScheduleDay`."""

    at: str
    starts: int
    schedules: list[BusySchedule]
    """Up to 10, first those with the fewest starts on the day."""
    more: int
    """Further schedules."""


class ClockChange(TypedDict):
    """Part of `ScheduleDay`."""

    at: str
    zone: str
    note: str
    once: int
    """Schedules that run once for all these times."""
    skipped: int
    """Schedules of every hour, which pass over these times."""
    twice: int
    """Schedules that run both times."""


class DaySchedule(TypedDict):
    """Part of `ScheduleDay`."""

    job_id: str
    name: str | None
    endpoint: str
    starts: int
    first_at: str | None
    last_at: str | None
    runs: list[list[int]]
    """Minutes of the day with a start, as `[first, last, step]`."""
    is_estimate: bool
    """Fixed delay: as if executions took no time."""


class ScheduleDay(TypedDict):
    """Answer of `schedules.day`."""

    date: str
    zone: str
    start: str
    end: str
    counted: int
    """Schedules in the sums."""
    starts: int
    is_complete: bool
    """`false` if schedules were left out because of their number."""
    by_minute: list[int]
    """Starts of each minute, from `start` on."""
    busiest: list[BusyMinute]
    """Up to 10 minutes with more than one start, most starts first."""
    clock_changes: list[ClockChange]
    schedules: list[DaySchedule]
    """Schedules with a start on the day, by their first start."""


class Outage(TypedDict):
    """Part of `SimulationQuestion`."""

    start: str | datetime
    end: str | datetime


class SimulationQuestion(TypedDict):
    """Body of `schedules.simulate`."""

    jobs: NotRequired[Sequence[str] | None]
    """Ids of active CRON and INTERVAL jobs."""
    endpoint: NotRequired[str | None]
    name: NotRequired[str | None]
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    cron: NotRequired[str | None]
    """A rule of five fields instead of stored jobs."""
    timezone: NotRequired[str | None]
    """Of `cron`."""
    every: NotRequired[str | int | timedelta | None]
    """An interval instead of stored jobs."""
    start: NotRequired[str | datetime | None]
    """Now when absent; at a given start, earlier ticks count as started."""
    length: NotRequired[str | int | timedelta]
    """Up to 7d."""
    takes: NotRequired[str | int | timedelta]
    """Duration of an execution."""
    outage: NotRequired[Outage | None]
    """Of all schedulers, within the period."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """For all schedules."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`."""
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """For all schedules."""


class SimulatedCounts(TypedDict):
    """Part of `Simulation`."""

    starts: int
    made_up: int
    """Caught up at the end of the outage."""
    skipped_catch_up: int
    skipped_overlap: int


class SimulatedSchedule(TypedDict):
    """Part of `Simulation`."""

    job_id: str | None
    """`null` for `cron` and `every`."""
    name: str
    starts: int
    made_up: int
    """Caught up at the end of the outage."""
    skipped_catch_up: int
    skipped_overlap: int


class Hour(TypedDict):
    """Part of `Simulation`."""

    hour: str
    starts: int


class Collision(TypedDict):
    """Part of `Simulation`."""

    at: str
    starts: int


class LeftOut(TypedDict):
    """Part of `Simulation`."""

    job_id: str | None
    """`null` for `cron` and `every`."""
    name: str
    reason: str


class Simulation(TypedDict):
    """Answer of `schedules.simulate`."""

    start: str
    end: str
    total: SimulatedCounts
    schedules: list[SimulatedSchedule]
    hours: list[Hour]
    collisions: list[Collision]
    """The seconds with most starts; intervals below 10 s are not counted."""
    left_out: list[LeftOut]
    """Schedules that are not in the counts."""
    is_complete: bool
    """`false` if schedules are left out, or more than 500 match."""


class Health(TypedDict):
    """Answer of `health.live`, `health.ready`."""

    status: str


class Finding(TypedDict):
    """Part of `Doctor`."""

    check: str
    """Area of the problem."""
    problem: str
    fix: str
    fixable: bool
    """Whether `flask doctor --fix` repairs it."""


class Doctor(TypedDict):
    """Answer of `doctor.get`."""

    findings: list[Finding]
    unfinished: list[str]
    """Checks that 5 s did not suffice for; `flask doctor` waits for them."""


class Queue(TypedDict):
    """Answer of `queues.pause`, `queues.resume`; part of `QueuePage`, `Figures`."""

    queue: str
    workers: int
    """Live worker processes of the queue."""
    due: int
    """Executions; up to 10,000 are counted."""
    oldest_due_at: str | None
    """`run_at` of the oldest execution."""
    oldest_due_seconds: float | None
    paused_at: str | None
    """Start of the pause."""
    paused_by: str | None
    """Name of the API key, or cli:USER."""


class QueuePage(TypedDict):
    """Answer of `queues.list`."""

    items: list[Queue]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Route(TypedDict):
    """Part of `Routes`, `NewRoutes`, `RouteQuestion`."""

    pattern: str
    """`*` matches any number of characters, `?` one character."""
    queue: str


class Routes(TypedDict):
    """Answer of `routes.get`, `routes.replace`, `routes.delete`."""

    routes: list[Route]
    source: Literal["environment", "api"]
    """Set by TE_ROUTES or by PUT."""


class NewRoutes(TypedDict):
    """Body of `routes.replace`."""

    routes: Sequence[Route]


class RouteQuestion(TypedDict):
    """Body of `route_tests.test`."""

    endpoint: str
    routes: NotRequired[Sequence[Route]]


class Move(TypedDict):
    """Part of `RouteAnswer`."""

    endpoint: str
    before: str
    after: str


class RouteAnswer(TypedDict):
    """Answer of `route_tests.test`."""

    queue: str | None
    """`null` if no endpoint has the name: its transport decides."""
    pattern: str | None
    position: int | None
    """Position of the route, from 0."""
    is_default: bool
    """No route matches."""
    moves: NotRequired[list[Move]]
    """With `routes`: the first 100 endpoints that would move."""
    move_count: NotRequired[int]
    """With `routes`: number of endpoints that would move."""


class Breaker(TypedDict):
    """Answer of `breakers.get`, `breakers.close`; part of `BreakerPage`."""

    target: str
    """Scheme, host and port; `kafka:` and the bootstrap servers; with `~` and a digest for own settings."""
    state: Literal["closed", "open", "half_open"]
    """`closed`: deliver; `open`: hold; `half_open`: send a single probe."""
    reason: str | None
    """`FAILURES`, `RETRY_AFTER`, `PROBE`, `PROBE_SUCCEEDED`, `PROBE_FAILED`, `PROBE_UNUSED`, `CLOSED_BY_HAND`,
    `FORGOTTEN`.
    """
    failed: int | None
    """Failures among `results`."""
    results: int | None
    """Counted when it opened."""
    changed_at: str
    open_until: str | None
    """Then a single delivery probes."""
    probe_worker: str | None
    """Sender of the probe."""
    probe_until: str | None
    """Then any worker may probe."""
    endpoints: list[str]
    """The first 100 of the target."""


class BreakerPage(TypedDict):
    """Answer of `breakers.list`."""

    items: list[Breaker]
    cursor: str | None
    """Opaque; `null` on the last page."""


class BreakerEvent(TypedDict):
    """Part of `BreakerEventPage`."""

    event_id: str
    target: str
    """Scheme, host and port; `kafka:` and the bootstrap servers; with `~` and a digest for own settings."""
    from_state: Literal["closed", "open", "half_open"]
    to_state: Literal["closed", "open", "half_open"]
    reason: str
    """`FAILURES`, `RETRY_AFTER`, `PROBE`, `PROBE_SUCCEEDED`, `PROBE_FAILED`, `PROBE_UNUSED`, `CLOSED_BY_HAND`,
    `FORGOTTEN`.
    """
    actor: str | None
    """A worker, or an API key's name."""
    open_until: str | None
    """Or the deadline of the probe."""
    occurred_at: str


class BreakerEventPage(TypedDict):
    """Answer of `breakers.list_events`."""

    items: list[BreakerEvent]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Offer(TypedDict):
    """Part of `Actor`."""

    worker_id: str
    """The worker that it is connected to."""
    session_id: str
    """Of the process, new at each start."""
    host: str
    pid: int | None
    threads: int
    connected_at: str


class Refusal(TypedDict):
    """Part of `Actor`."""

    worker_id: str
    """The worker that it is connected to."""
    session_id: str
    """Of the process, new at each start."""
    host: str
    pid: int | None
    reason: str
    """Such as a queue that is closed to its API key."""


class Actor(TypedDict):
    """Answer of `actors.get`; part of `ActorPage`."""

    actor: str
    """Its name."""
    endpoint: str
    queue: str
    """Dramatiq queue."""
    priority: int
    timeout_ms: int
    soft_timeout_ms: int | None
    max_lost: int
    cron: str | None
    timezone: str | None
    interval: str | None
    registered_at: str
    process_count: int
    """Processes that offer it now."""
    processes: list[Offer]
    """The newest 20 of a list, the newest 200 of one actor."""
    refusals: list[Refusal]
    """Connected processes that have it, but may not run it, bounded like `processes`."""
    last_seen_at: str | None
    """`null` if no process has offered it for a day; now while a process offers it."""


class ActorPage(TypedDict):
    """Answer of `actors.list`, `actors.list_at_worker`."""

    items: list[Actor]
    cursor: str | None
    """Opaque; `null` on the last page."""


class DeadLetter(TypedDict):
    """Answer of `dead_letters.redrive`, `dead_letters.archive`; part of `DeadLetterPage`, `Preview`."""

    letter_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    labels: dict[str, Any] | None
    """Of the job."""
    error_type: str
    """Of the last attempt, or of a failure without an attempt: `EXPIRED`."""
    message: str | None
    """Of that error, up to 500 characters."""
    attempt_count: int
    failed_at: str
    resolution: Literal["RETRIED", "REDRIVEN", "ARCHIVED"] | None
    """`null` while open; `RETRIED`: its execution was retried directly."""
    resolved_at: str | None
    resolved_by: str | None
    """The name of the API key."""
    note: str | None
    """Reason of the archiving."""
    redriven_as: str | None
    """The execution that repeats it."""


class DeadLetterPage(TypedDict):
    """Answer of `dead_letters.list`."""

    items: list[DeadLetter]
    cursor: str | None
    """Opaque; `null` on the last page."""


class DeadLetterView(TypedDict):
    """Answer of `dead_letters.get`."""

    letter_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    labels: dict[str, Any] | None
    """Of the job."""
    error_type: str
    """Of the last attempt, or of a failure without an attempt: `EXPIRED`."""
    message: str | None
    """Of that error, up to 500 characters."""
    attempt_count: int
    failed_at: str
    resolution: Literal["RETRIED", "REDRIVEN", "ARCHIVED"] | None
    """`null` while open; `RETRIED`: its execution was retried directly."""
    resolved_at: str | None
    resolved_by: str | None
    """The name of the API key."""
    note: str | None
    """Reason of the archiving."""
    redriven_as: str | None
    """The execution that repeats it."""
    execution: Execution
    """In its current state, with its input."""
    attempts: list[Attempt]
    """Attempts up to the failure, latest first, 100 at most."""
    more_attempts: str | None
    """URL of the full list if there are more than 100; otherwise `null`."""


class Redrive(TypedDict):
    """Body of `dead_letters.redrive`."""

    endpoint: NotRequired[str | None]
    """Endpoint of the new job, in its newest version; default: the endpoint of the letter."""
    input: NotRequired[Mapping[str, Any] | None]
    """Of the new job; default: the input of the letter's job."""


class Archive(TypedDict):
    """Body of `dead_letters.archive`."""

    note: str


class LetterGroup(TypedDict):
    """Part of `LetterGroups`."""

    group: str
    """Filter of the list, of redrives and of `archive`."""
    endpoint: str
    error_type: str
    """Of the last attempt, or of a failure without an attempt: `EXPIRED`."""
    status_code: int | None
    """Of the answer."""
    message: str
    """With `…` for ids and `#` for numbers."""
    example: str | None
    """The newest message."""
    count: int
    first_failed_at: str
    last_failed_at: str
    endpoint_versions: list[int]
    letters: list[str]
    """The newest three."""


class LetterGroups(TypedDict):
    """Answer of `dead_letters.groups`."""

    items: list[LetterGroup]
    looked_at: int
    """Letters that were read, the newest first."""
    is_complete: bool
    """`false` if more than 10,000 letters would have to be read."""


class Difference(TypedDict):
    """Part of `SinceFailure`."""

    kind: Literal["endpoint", "config", "secret"]
    name: str
    path: str | None
    before: Any
    after: Any
    at: str | None


class SinceFailure(TypedDict):
    """Answer of `dead_letters.since`."""

    letter_id: str
    failed_at: str
    endpoint: str
    endpoint_version: int
    newest_version: int | None
    is_paused: bool
    is_deleted: bool
    breaker: str | None
    """Of its target, unless closed."""
    succeeded: int
    """Later executions, 100 at most."""
    failed: int
    """Later executions, 100 at most."""
    changes: list[Difference]
    verdict: str
    """Prospects of a redrive, in a sentence."""


class Wanted(TypedDict):
    """Part of `NewRedrive`."""

    endpoint: NotRequired[str]
    error_type: NotRequired[str]
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    group: NotRequired[str]
    """`group` of `GET /dead-letters/groups`."""
    letter_id: NotRequired[str]
    """These dead letters: one id, or up to 100 separated by commas."""
    failed_after: NotRequired[str | datetime]
    failed_before: NotRequired[str | datetime]


class NewRedrive(TypedDict):
    """Body of `redrives.begin`, `redrive_previews.preview`."""

    wanted: Wanted
    all: NotRequired[bool]
    """Must be `true` where `wanted` is empty: confirms that all open dead letters are meant."""
    to_endpoint: NotRequired[str | None]
    """Create a new job for this endpoint from each letter; default: retry the executions."""
    rate: NotRequired[int]
    """Maximum per second."""
    trial: NotRequired[int | None]
    """Number of letters to redrive first; the rest follows once `least` of their executions have succeeded, and the
    redrive stops once that cannot happen any more.
    """
    least: NotRequired[int | None]
    """With `trial`, at most as many; default: all but a tenth of `trial`."""


class RedriveOfSeveral(TypedDict):
    """Answer of `redrives.begin`, `redrives.get`, `redrives.pause`, `redrives.resume` and 1 more; part of
    `RedriveOfSeveralPage`.
    """

    redrive_id: str
    status: Literal["RUNNING", "PAUSED", "STOPPED", "DONE"]
    waits_for_turn: bool
    """`RUNNING`, but no scheduler works on it: it has just begun, no scheduler runs, or more than 20 are running,
    which take turns.
    """
    wanted: dict[str, Any]
    to_endpoint: str | None
    rate: int
    actor: str | None
    redriven: int
    refused: int
    """Letters that stay open because they could not be redriven."""
    last_refusal: str | None
    """Reason of the last refusal."""
    trial: int | None
    least: int | None
    trial_executions: list[str] | None
    """Executions of the trial."""
    trial_result: str | None
    """In words, once it is known."""
    trial_passed_at: str | None
    reached_at: str | None
    """Failure of the last letter processed."""
    created_at: str
    ended_at: str | None


class RedriveOfSeveralPage(TypedDict):
    """Answer of `redrives.list`."""

    items: list[RedriveOfSeveral]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Preview(TypedDict):
    """Answer of `redrive_previews.preview`."""

    count: int
    is_complete: bool
    """`false` if more than 10,000 letters would have to be read."""
    sample: list[DeadLetter]
    """The first letters."""


class WantedExecutions(TypedDict):
    """Part of `NewBulkOperation`."""

    status: NotRequired[
        Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"] | str | None
    ]
    """One, or several separated by commas. `retry`: FAILED (default) and CANCELLED; other actions: waiting states,
    for `cancel` also RUNNING. Default: all waiting states, with `if_running` also RUNNING.
    """
    execution_id: NotRequired[str]
    """These executions: one id, or up to 100 separated by commas."""
    endpoint: NotRequired[str]
    queue: NotRequired[str]
    limit_key: NotRequired[str]
    """Key of `limits.per_key`."""
    job_id: NotRequired[str]
    worker_id: NotRequired[str]
    """The worker process of the current or latest attempt; with `status=RUNNING`, the executions that the process
    holds.
    """
    name: NotRequired[str]
    """Of their jobs."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    idempotency_key: NotRequired[str]
    """Idempotency key of their jobs."""
    idempotency_key_prefix: NotRequired[str]
    """Prefix of the idempotency keys of their jobs."""
    error_type: NotRequired[str]
    """Of the latest attempt that has ended; for `archive` that of the dead letter."""
    uncertain: NotRequired[bool]
    """`true`: an attempt may have been delivered although it failed; `false`: none."""
    late_over: NotRequired[str]
    """Began later than this after the due time of its latest attempt, or has waited for longer since."""
    created_after: NotRequired[str | datetime]
    created_before: NotRequired[str | datetime]
    scheduled_after: NotRequired[str | datetime]
    scheduled_before: NotRequired[str | datetime]
    group: NotRequired[str]
    """`group` of `GET /dead-letters/groups`."""
    letter_id: NotRequired[str]
    """These dead letters: one id, or up to 100 separated by commas."""
    failed_after: NotRequired[str | datetime]
    """Only for `archive`."""
    failed_before: NotRequired[str | datetime]
    """Only for `archive`."""


class NewBulkOperation(TypedDict):
    """Body of `bulk_operations.begin`, `bulk_operation_previews.preview`."""

    action: Literal["cancel", "retry", "reschedule", "archive", "pause", "resume"]
    wanted: WantedExecutions
    all: NotRequired[bool]
    """Must be `true` where `wanted` filters by state only: confirms that all such executions, all open dead letters,
    or all repeating jobs, are meant.
    """
    if_running: NotRequired[Literal["request", "abort"] | None]
    """`cancel`: as for `POST /executions/{execution_id}/cancel`."""
    run_at: NotRequired[str | datetime | None]
    """`reschedule`: new due time; a time in the past means now."""
    delay_seconds: NotRequired[int | None]
    """`reschedule`: delay after the planned time; negative: earlier."""
    spread_seconds: NotRequired[int | None]
    """`reschedule`: spread evenly over this time, starting at `run_at`, at the delayed time, or now."""
    note: NotRequired[str | None]
    """Required for `archive`: the reason."""
    rate: NotRequired[int]
    """Maximum per second."""


class BulkOperation(TypedDict):
    """Answer of `bulk_operations.begin`, `bulk_operations.get`, `bulk_operations.pause`, `bulk_operations.resume`
    and 1 more; part of `BulkOperationPage`.
    """

    operation_id: str
    action: Literal["cancel", "retry", "reschedule", "archive", "pause", "resume"]
    status: Literal["RUNNING", "PAUSED", "STOPPED", "DONE"]
    waits_for_turn: bool
    """`RUNNING`, but no scheduler works on it: it has just begun, no scheduler runs, or more than 20 are running,
    which take turns.
    """
    wanted: dict[str, Any]
    if_running: Literal["request", "abort"] | None
    run_at: str | None
    delay_seconds: int | None
    spread_seconds: int | None
    note: str | None
    rate: int
    actor: str | None
    changed: int
    """Changed executions, including running ones that were asked to end, dead letters or jobs."""
    refused: int
    """Executions left unchanged because their state did not allow it."""
    last_refusal: str | None
    """Reason of the last refusal."""
    reached_at: str | None
    """Creation of the last execution processed, or failure of the last dead letter."""
    created_at: str
    ended_at: str | None


class BulkOperationPage(TypedDict):
    """Answer of `bulk_operations.list`."""

    items: list[BulkOperation]
    cursor: str | None
    """Opaque; `null` on the last page."""


class SampledJob(TypedDict):
    """Part of `BulkPreview`."""

    job_id: str
    name: str | None
    endpoint: str
    status: Literal["ACTIVE", "PAUSED", "RETIRED"]
    next_run_at: str | None


class BulkPreview(TypedDict):
    """Answer of `bulk_operation_previews.preview`."""

    count: int
    is_complete: bool
    """`false` if more than 10,000 rows would have to be read."""
    sample: list[Execution]
    """The first executions, without their input."""
    jobs: list[SampledJob]
    """`pause` and `resume`: the first jobs."""


class OutcomeSchema(TypedDict):
    """Answer of `callbacks.schema`."""

    schema: dict[str, Any]


class Compensation(TypedDict):
    """Part of `NewMember`, `NewNode`."""

    endpoint: str
    input: NotRequired[Mapping[str, Any]]
    """Of its job; may contain `{{workflow.input.…}}`, `{{workflow.id}}`, `{{parents.NAME.…}}`, `{{node.input.…}}`
    and `{{node.output.…}}`.
    """


class NewMember(TypedDict):
    """Part of `NewNode`."""

    name: str
    endpoint: str
    input: NotRequired[Mapping[str, Any]]
    """Of its job; may contain `{{workflow.input.…}}`, `{{workflow.id}}` and `{{parents.NAME.…}}` of nodes before it;
    with `for_each` also `{{item}}` and `{{item_number}}`.
    """
    priority: NotRequired[int]
    """Of its job."""
    queue: NotRequired[str]
    """Of its job."""
    max_attempts: NotRequired[int]
    """Of its job; by the endpoint's retry policy when absent."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    delay: NotRequired[str | int | timedelta]
    """Time from the start of the node until its job is due; as `delay` of a job, at most 3650d."""
    compensate: NotRequired[Compensation]
    """Undoes the job after a failure with `on_failure: compensate`."""


class Tolerance(TypedDict):
    """Part of `NewNode`."""

    count: NotRequired[int]
    percent: NotRequired[float]


class NewNode(TypedDict):
    """Part of `NewWorkflow`."""

    name: str
    endpoint: NotRequired[str]
    """Absent for a group and a gate."""
    input: NotRequired[Mapping[str, Any]]
    """Of its job; may contain `{{workflow.input.…}}`, `{{workflow.id}}` and `{{parents.NAME.…}}` of nodes before it;
    with `for_each` also `{{item}}` and `{{item_number}}`.
    """
    priority: NotRequired[int]
    """Of its job."""
    queue: NotRequired[str]
    """Of its job."""
    max_attempts: NotRequired[int]
    """Of its job; by the endpoint's retry policy when absent."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    delay: NotRequired[str | int | timedelta]
    """Time from the start of the node until its job is due; as `delay` of a job, at most 3650d."""
    compensate: NotRequired[Compensation]
    """Undoes the job after a failure with `on_failure: compensate`."""
    after: NotRequired[Sequence[str]]
    """Names of the nodes that it waits for."""
    run_if: NotRequired[Literal["all_succeeded", "all_done", "any_failed"]]
    """`all_succeeded` (default): starts when all nodes in `after` went well; `all_done`: when they are through;
    `any_failed`: when they are through and at least one did not go well.
    """
    on_failure: NotRequired[Literal["stop", "continue", "compensate"]]
    """After its failure; that of the workflow when absent."""
    for_each: NotRequired[str | Sequence[Any]]
    """A list, or a template of a list, of at most 10,000 items: the node has a job for each item."""
    group: NotRequired[Sequence[NewMember]]
    """Members: the node is through when all their jobs have ended."""
    tolerate: NotRequired[Tolerance]
    """Of `for_each` and `group`; 0 when absent."""
    max_parallel: NotRequired[int]
    """Items that may run at the same time; no limit when absent."""


class NewWorkflow(TypedDict):
    """Body of `workflows.create`."""

    name: str
    """For display and filters; need not be unique."""
    idempotency_key: NotRequired[str]
    """Here or in the Idempotency-Key header: a second request with the key gets the first workflow."""
    labels: NotRequired[Mapping[str, str] | None]
    """Key-value pairs to find the job by, with the syntax of Kubernetes labels."""
    input: NotRequired[Mapping[str, Any]]
    """For `{{workflow.input.…}}`."""
    on_failure: NotRequired[Literal["stop", "continue", "compensate"]]
    """After the failure of a node without an own rule: `stop` (default) starts no further node, except for handlers
    and clean-up, and the workflow fails; `continue` skips the nodes behind it only; `compensate` stops, and
    undoes the succeeded jobs that have `compensate`, the last ended first.
    """
    max_parallel: NotRequired[int]
    """Nodes and items that may run at the same time."""
    deadline: NotRequired[str | int | timedelta]
    """Time from the creation until the workflow is stopped as by a cancellation with `abort`, and FAILED."""
    nodes: Sequence[NewNode]


class WorkflowView(TypedDict):
    """Answer of `workflows.create`, `workflows.get`, `workflows.cancel`, `workflows.pause` and 1 more."""

    workflow_id: str
    name: str
    labels: dict[str, Any]
    status: Literal[
        "RUNNING",
        "PAUSED",
        "STOPPING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "COMPENSATING",
        "COMPENSATED",
        "COMPENSATION_FAILED",
    ]
    """STOPPING: a node failed or the workflow was cancelled; running nodes end, handlers and clean-up run, and other
    nodes are skipped.
    """
    reason: Literal["NODE_FAILED", "CANCELLED", "DEADLINE"] | None
    """Why it stops or stopped early."""
    idempotency_key: str | None
    on_failure: Literal["stop", "continue", "compensate"]
    max_parallel: int | None
    deadline_at: str | None
    nodes: int
    open_nodes: int
    """Nodes that are not through."""
    running: int
    """Unfinished executions of nodes and items."""
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    progress: float
    """Nodes that are through, as a part of all nodes."""
    created_by: str | None
    """Name of the API key."""
    endpoint: str | None
    """With its definition."""
    endpoint_version: int | None
    execution_id: str | None
    """Execution of its endpoint, which ends with the workflow."""
    parent_id: str | None
    """Workflow of which it is a node."""
    parent_node: int | None
    """Number of that node."""
    parent_item: int | None
    """Item of that node, from 1 on."""
    depth: int
    """1, and 1 more for each workflow around it."""
    created_at: str
    ended_at: str | None
    input: dict[str, Any]
    """`{"unreadable": "reason"}` replaces a value that SQL has stored and no process can read."""
    waits_for: list[str]
    """Names of running nodes, at most 10."""


class Workflow(TypedDict):
    """Part of `WorkflowPage`."""

    workflow_id: str
    name: str
    labels: dict[str, Any]
    status: Literal[
        "RUNNING",
        "PAUSED",
        "STOPPING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "COMPENSATING",
        "COMPENSATED",
        "COMPENSATION_FAILED",
    ]
    """STOPPING: a node failed or the workflow was cancelled; running nodes end, handlers and clean-up run, and other
    nodes are skipped.
    """
    reason: Literal["NODE_FAILED", "CANCELLED", "DEADLINE"] | None
    """Why it stops or stopped early."""
    idempotency_key: str | None
    on_failure: Literal["stop", "continue", "compensate"]
    max_parallel: int | None
    deadline_at: str | None
    nodes: int
    open_nodes: int
    """Nodes that are not through."""
    running: int
    """Unfinished executions of nodes and items."""
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    progress: float
    """Nodes that are through, as a part of all nodes."""
    created_by: str | None
    """Name of the API key."""
    endpoint: str | None
    """With its definition."""
    endpoint_version: int | None
    execution_id: str | None
    """Execution of its endpoint, which ends with the workflow."""
    parent_id: str | None
    """Workflow of which it is a node."""
    parent_node: int | None
    """Number of that node."""
    parent_item: int | None
    """Item of that node, from 1 on."""
    depth: int
    """1, and 1 more for each workflow around it."""
    created_at: str
    ended_at: str | None


class WorkflowPage(TypedDict):
    """Answer of `workflows.list`."""

    items: list[Workflow]
    cursor: str | None
    """Opaque; `null` on the last page."""


class WorkflowNode(TypedDict):
    """Part of `WorkflowNodePage`."""

    name: str
    endpoint: str | None
    state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    reason: str | None
    """Of a skip, or of an end without an attempt: UPSTREAM, NOT_NEEDED, STOPPED, ITEMS_FAILED, INPUT_UNRESOLVABLE,
    INPUT_REFUSED, INPUT_TOO_LARGE, RESULTS_TOO_LARGE, ENDPOINT_DELETED, EXECUTION_LOST, or the reason in the
    history of its execution.
    """
    message: str | None
    """Of `reason`."""
    run: int
    """Number of the run; each has a job of its own."""
    job_id: str | None
    execution_id: str | None
    started_at: str | None
    ended_at: str | None
    number: int
    """Larger than the numbers of its parents."""
    kind: Literal["job", "for_each", "group", "gate"]
    compensation: (
        Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"] | None
    )
    """Of its compensation."""
    items: int | None
    """Items in all; `null` before the start and for other kinds of nodes."""
    items_open: int | None
    """Started and not ended."""
    items_failed: int | None
    ready_at: str | None
    """Time when all its parents were through."""


class WorkflowNodePage(TypedDict):
    """Answer of `workflows.list_nodes`."""

    items: list[WorkflowNode]
    cursor: str | None
    """Opaque; `null` on the last page."""


class WorkflowNodeView(TypedDict):
    """Answer of `workflows.get_node`."""

    name: str
    endpoint: str | None
    state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    reason: str | None
    """Of a skip, or of an end without an attempt: UPSTREAM, NOT_NEEDED, STOPPED, ITEMS_FAILED, INPUT_UNRESOLVABLE,
    INPUT_REFUSED, INPUT_TOO_LARGE, RESULTS_TOO_LARGE, ENDPOINT_DELETED, EXECUTION_LOST, or the reason in the
    history of its execution.
    """
    message: str | None
    """Of `reason`."""
    run: int
    """Number of the run; each has a job of its own."""
    job_id: str | None
    execution_id: str | None
    started_at: str | None
    ended_at: str | None
    number: int
    """Larger than the numbers of its parents."""
    kind: Literal["job", "for_each", "group", "gate"]
    compensation: (
        Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"] | None
    )
    """Of its compensation."""
    items: int | None
    """Items in all; `null` before the start and for other kinds of nodes."""
    items_open: int | None
    """Started and not ended."""
    items_failed: int | None
    ready_at: str | None
    """Time when all its parents were through."""
    after: list[str]
    """Nodes before it."""
    before: list[str]
    """Nodes behind it."""
    definition: dict[str, Any]


class WorkflowItem(TypedDict):
    """Part of `WorkflowItemPage`."""

    item: int
    """Number, from 1 on."""
    name: str | None
    """Of a member; `null` with `for_each`."""
    endpoint: str | None
    state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    reason: str | None
    """Of a skip, or of an end without an attempt: UPSTREAM, NOT_NEEDED, STOPPED, ITEMS_FAILED, INPUT_UNRESOLVABLE,
    INPUT_REFUSED, INPUT_TOO_LARGE, RESULTS_TOO_LARGE, ENDPOINT_DELETED, EXECUTION_LOST, or the reason in the
    history of its execution.
    """
    message: str | None
    """Of `reason`."""
    run: int
    """Number of the run; each has a job of its own."""
    job_id: str | None
    execution_id: str | None
    started_at: str | None
    ended_at: str | None


class WorkflowItemPage(TypedDict):
    """Answer of `workflows.list_items`."""

    items: list[WorkflowItem]
    cursor: str | None
    """Opaque; `null` on the last page."""


class WorkflowGraphNode(TypedDict):
    """Part of `WorkflowGraph`."""

    number: int
    """Larger than the numbers of its parents."""
    name: str
    endpoint: str | None
    kind: Literal["job", "for_each", "group", "gate"]
    state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    items: int | None
    compensation: (
        Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"] | None
    )


class WorkflowGraph(TypedDict):
    """Answer of `workflows.graph`."""

    nodes: list[WorkflowGraphNode]
    edges: list[list[int]]
    """Pairs of numbers: a node, and a node that waits for it."""


class CriticalNode(TypedDict):
    """Part of `CriticalPath`."""

    name: str
    state: Literal["WAITING", "READY", "EXPANDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    ready_at: str
    started_at: str | None
    """Start of its first attempt; of a gate or a list: its own."""
    ended_at: str | None
    waited_ms: int
    """From ready to its start."""
    ran_ms: int
    """From its start to its end."""


class CriticalPath(TypedDict):
    """Answer of `workflows.critical_path`."""

    nodes: list[CriticalNode]


class WorkflowExplanation(TypedDict):
    """Answer of `workflows.explain`."""

    status: Literal[
        "RUNNING",
        "PAUSED",
        "STOPPING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "COMPENSATING",
        "COMPENSATED",
        "COMPENSATION_FAILED",
    ]
    explanation: str


WorkflowChange = TypedDict(
    "WorkflowChange",
    {
        "at": "str",
        "from": "Literal['RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'COMPENSATING', 'COMPENSATED', 'COMPENSATION_FAILED'] | None",
        "to": "Literal['RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'COMPENSATING', 'COMPENSATED', 'COMPENSATION_FAILED']",
        "actor": "str | None",
        "reason": "str | None",
    },
)
"""Part of `WorkflowHistory`."""


class WorkflowHistory(TypedDict):
    """Answer of `workflows.history`."""

    items: list[WorkflowChange]


class RetryWorkflow(TypedDict):
    """Body of `workflows.retry`."""

    from_nodes: NotRequired[Sequence[str]]
    """Names of the first nodes that run again."""
    failed: NotRequired[bool]
    """All failed and cancelled nodes."""
    dry_run: NotRequired[bool]
    """Answers, and changes nothing."""


class WorkflowRetry(TypedDict):
    """Answer of `workflows.retry`."""

    workflow_id: str
    status: Literal[
        "RUNNING",
        "PAUSED",
        "STOPPING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "COMPENSATING",
        "COMPENSATED",
        "COMPENSATION_FAILED",
    ]
    """After the retry."""
    dry_run: bool
    again: list[str]
    """Nodes that run again, each after its parents."""
    kept: list[str]
    """Nodes that keep their results."""


class Topology(TypedDict):
    """Answer of `workflows.topology`."""

    roots: list[str]
    """Nodes without parents."""
    leaves: list[str]
    """Nodes without children."""
    dependencies: list[str] | None
    """All nodes, of the node `of`; `null` without it."""
    dependents: list[str] | None
    """All nodes, of the node `of`; `null` without it."""


QuietHours = TypedDict(
    "QuietHours",
    {
        "from": "str",
        "to": "str",
        "days": "NotRequired[list[Literal['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']] | None]",
        "timezone": "str",
    },
)
"""Part of `NewNotificationRule`, `NotificationRule`, `ChangedNotificationRule`, `NotificationQuestion`."""


class NewNotificationRule(TypedDict):
    """Body of `notification_rules.create`."""

    name: str
    events: Sequence[
        Literal[
            "execution.failed",
            "job.failing",
            "job.recovered",
            "schedule.overdue",
            "worker.lost",
            "breaker.opened",
            "queue.late",
            "workflow.failed",
            "workflow.late",
            "test",
        ]
    ]
    """Severities: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning, `workflow.failed` is critical, `workflow.late` is warning.
    """
    channels: Sequence[str]
    """Endpoints that each get a job per message."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: jobs with this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?` for one."""
    all: NotRequired[bool]
    """Match everything; excludes endpoint, label and queue."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: number of failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late`, `schedule.overdue`: tolerated delay; `workflow.late`: time left."""
    group_seconds: NotRequired[int]
    """Events within this time of the first event are one message."""
    repeat_after_seconds: NotRequired[int]
    """Time for which a reported subject is not reported again."""
    max_per_hour: NotRequired[int]
    """Messages; further events wait for the next message."""
    quiet_hours: NotRequired[QuietHours | None]
    """Events within them are reported at their end."""


class NotificationRule(TypedDict):
    """Answer of `notification_rules.create`, `notification_rules.get`, `notification_rules.replace`; part of
    `NotificationRulePage`.
    """

    name: str
    events: list[str]
    channels: list[str]
    endpoint: str | None
    label: str | None
    queue: str | None
    all: bool
    min_severity: Literal["info", "warning", "critical"]
    failing_after: int
    late_seconds: int
    group_seconds: int
    repeat_after_seconds: int
    max_per_hour: int
    quiet_hours: QuietHours | None
    created_at: str
    updated_at: str


class NotificationRulePage(TypedDict):
    """Answer of `notification_rules.list`."""

    items: list[NotificationRule]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedNotificationRule(TypedDict):
    """Body of `notification_rules.replace`."""

    name: NotRequired[str]
    events: Sequence[
        Literal[
            "execution.failed",
            "job.failing",
            "job.recovered",
            "schedule.overdue",
            "worker.lost",
            "breaker.opened",
            "queue.late",
            "workflow.failed",
            "workflow.late",
            "test",
        ]
    ]
    """Severities: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning, `workflow.failed` is critical, `workflow.late` is warning.
    """
    channels: Sequence[str]
    """Endpoints that each get a job per message."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: jobs with this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?` for one."""
    all: NotRequired[bool]
    """Match everything; excludes endpoint, label and queue."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: number of failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late`, `schedule.overdue`: tolerated delay; `workflow.late`: time left."""
    group_seconds: NotRequired[int]
    """Events within this time of the first event are one message."""
    repeat_after_seconds: NotRequired[int]
    """Time for which a reported subject is not reported again."""
    max_per_hour: NotRequired[int]
    """Messages; further events wait for the next message."""
    quiet_hours: NotRequired[QuietHours | None]
    """Events within them are reported at their end."""


class Subject(TypedDict):
    """Part of `SentMessage`, `WouldBeMessage`."""

    name: str
    count: int


class AtChannel(TypedDict):
    """Part of `SentMessage`."""

    channel: str
    job_id: str | None
    """`null`: see `fault`."""
    fault: str | None
    """Reason why no job was created."""


class SentMessage(TypedDict):
    """Part of `SentMessagePage`."""

    opened_at: str
    """Time of the first event."""
    sent_at: str | None
    """`null`: not sent yet."""
    waits_for: Literal["window", "rate", "quiet"] | None
    """Reason to wait."""
    event: Literal[
        "execution.failed",
        "job.failing",
        "job.recovered",
        "schedule.overdue",
        "worker.lost",
        "breaker.opened",
        "queue.late",
        "workflow.failed",
        "workflow.late",
        "test",
    ]
    severity: Literal["info", "warning", "critical"]
    title: str
    count: int
    """Number of events."""
    subjects: list[Subject]
    examples: list[str]
    group_id: str
    waits_until: str | None
    channels: list[AtChannel]


class SentMessagePage(TypedDict):
    """Answer of `notification_rules.list_messages`."""

    items: list[SentMessage]
    cursor: str | None
    """Opaque; `null` on the last page."""


class NotificationQuestion(TypedDict):
    """Body of `notification_previews.preview_new`."""

    name: NotRequired[str]
    events: Sequence[
        Literal[
            "execution.failed",
            "job.failing",
            "job.recovered",
            "schedule.overdue",
            "worker.lost",
            "breaker.opened",
            "queue.late",
            "workflow.failed",
            "workflow.late",
            "test",
        ]
    ]
    """Severities: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning, `workflow.failed` is critical, `workflow.late` is warning.
    """
    channels: Sequence[str]
    """Endpoints that each get a job per message."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: jobs with this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?` for one."""
    all: NotRequired[bool]
    """Match everything; excludes endpoint, label and queue."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: number of failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late`, `schedule.overdue`: tolerated delay; `workflow.late`: time left."""
    group_seconds: NotRequired[int]
    """Events within this time of the first event are one message."""
    repeat_after_seconds: NotRequired[int]
    """Time for which a reported subject is not reported again."""
    max_per_hour: NotRequired[int]
    """Messages; further events wait for the next message."""
    quiet_hours: NotRequired[QuietHours | None]
    """Events within them are reported at their end."""


class WouldBeMessage(TypedDict):
    """Part of `NotificationPreview`."""

    opened_at: str
    """Time of the first event."""
    sent_at: str | None
    """`null`: not sent yet."""
    waits_for: Literal["window", "rate", "quiet"] | None
    """Reason to wait."""
    event: Literal[
        "execution.failed",
        "job.failing",
        "job.recovered",
        "schedule.overdue",
        "worker.lost",
        "breaker.opened",
        "queue.late",
        "workflow.failed",
        "workflow.late",
        "test",
    ]
    severity: Literal["info", "warning", "critical"]
    title: str
    count: int
    """Number of events."""
    subjects: list[Subject]
    examples: list[str]


class NotificationPreview(TypedDict):
    """Answer of `notification_previews.preview_new`, `notification_previews.preview_stored`."""

    since: str
    until: str
    truncated: bool
    """Too many events to read; the preview covers less than a day."""
    not_previewed: list[str]
    """Events without stored history."""
    events: int
    """Number of matching events."""
    repeated: int
    """Events suppressed by `repeat_after_seconds`."""
    message_count: int
    messages: list[WouldBeMessage]
    """The latest 100."""


class MessageSchema(TypedDict):
    """Answer of `notifications.schema`."""

    schema: dict[str, Any]


class Event(TypedDict):
    """Part of `EventPage`."""

    event_id: str
    kind: Literal[
        "job.created",
        "job.updated",
        "job.ended",
        "attempt.failed",
        "execution.succeeded",
        "execution.failed",
        "execution.cancelled",
        "execution.retried",
        "execution.changed",
        "worker.started",
        "worker.stopped",
        "worker.lost",
        "breaker.closed",
        "breaker.open",
        "breaker.half_open",
        "catalogue.changed",
        "workflow.started",
        "workflow.paused",
        "workflow.resumed",
        "workflow.stopping",
        "workflow.succeeded",
        "workflow.failed",
        "workflow.cancelled",
        "workflow.retried",
        "workflow.compensating",
        "workflow.compensated",
        "workflow.compensation_failed",
    ]
    at: str
    """Start of the transaction that wrote the event; orders the events."""
    endpoint: str | None
    job_id: str | None
    execution_id: str | None
    workflow_id: str | None
    """`details` of an execution of a node have its `node`, `item` and `run`."""
    subject: str | None
    """Id of a worker, target of a breaker, or name of a definition or workflow."""
    details: dict[str, Any]


class EventPage(TypedDict):
    """Answer of `events.list`."""

    items: list[Event]
    next: str
    """Cursor of the following events, for `after`."""


class Worker(TypedDict):
    """Part of `WorkerPage`."""

    worker_id: str
    state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"]
    """`DRAINING`: asked to drain, claims nothing; `DRAINED`: ended after a drain; `LOST`: its lease has expired
    without a regular end; `DEAD`: it was shut down.
    """
    host: str
    pid: int
    queues: list[str]
    capacity: int
    """Its slots, without the reserve."""
    in_flight: int
    """Executions held at its last heartbeat."""
    started_at: str
    last_beat_at: str
    lease_expires_at: str


class WorkerPage(TypedDict):
    """Answer of `workers.list`."""

    items: list[Worker]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Command(TypedDict):
    """Answer of `workers.drain`; part of `WorkerDetail`."""

    command_id: str
    worker_id: str
    command: str
    state: Literal["PENDING", "ACKNOWLEDGED", "EXPIRED"]
    """`PENDING`: not yet read by the worker; `ACKNOWLEDGED`: the worker executes it; `EXPIRED`: the worker has
    ended, or did not read it within 60 s.
    """
    asked_by: str
    """Name of the API key, or cli:USER."""
    asked_at: str
    expires_at: str
    acknowledged_at: str | None


class Reclaimed(TypedDict):
    """Part of `WorkerDetail`."""

    executions: int
    last_at: str | None


class WorkerDetail(TypedDict):
    """Answer of `workers.get`."""

    worker_id: str
    state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"]
    """`DRAINING`: asked to drain, claims nothing; `DRAINED`: ended after a drain; `LOST`: its lease has expired
    without a regular end; `DEAD`: it was shut down.
    """
    host: str
    pid: int
    queues: list[str]
    capacity: int
    """Its slots, without the reserve."""
    in_flight: int
    """Executions held at its last heartbeat."""
    started_at: str
    last_beat_at: str
    lease_expires_at: str
    commands: list[Command]
    """The last 20, newest first."""
    reclaimed: Reclaimed | None
    """`null` unless the worker is `LOST`; without losses that a retry policy ignores, and among the first 1,000
    uncertain attempts after its lease; `GET /attempts?uncertain=true&error_type=WORKER_LOST&worker_id=…` lists
    them.
    """


class Scheduler(TypedDict):
    """Part of `SchedulerPage`."""

    state: Literal["ALIVE", "LOST", "DEAD"]
    """`LOST`: silent for 15 s; `DEAD`: it was shut down."""
    region: str
    host: str
    pid: int
    version: str
    """Of the program."""
    started_at: str
    last_beat_at: str
    scheduler_id: str


class SchedulerPage(TypedDict):
    """Answer of `schedulers.list`."""

    items: list[Scheduler]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Process(TypedDict):
    """Part of `ProcessPage`."""

    state: Literal["ALIVE", "LOST", "DEAD"]
    """`LOST`: silent for 15 s; `DEAD`: it was shut down."""
    region: str
    host: str
    pid: int
    version: str
    """Of the program."""
    started_at: str
    last_beat_at: str
    process_id: str
    """Of a worker its id."""
    kind: Literal["worker", "scheduler", "web"]
    tzdata_version: str | None
    """Version of the time zone rules (distribution `tzdata`); `null` for a release without this field."""
    clock_ahead_seconds: float | None
    """Of the database's clock; negative if it is behind, `null` for a release without this field."""
    clock_bound_seconds: float | None
    """`clock_ahead_seconds` is true to within this, either way."""


class ProcessPage(TypedDict):
    """Answer of `processes.list`."""

    items: list[Process]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Percentiles(TypedDict):
    """Part of `Deliveries`, `EndpointDeliveries`, `EndpointState`."""

    p50: int | None
    p95: int | None
    p99: int | None


class Deliveries(TypedDict):
    """Part of `Report`."""

    ended: int
    """Cancelled executions included."""
    succeeded: int
    failed: int
    per_second: float
    """Of `ended`."""
    lateness_ms: Percentiles
    """Time from the due instant of the last attempt to its start."""
    duration_ms: Percentiles
    """Of the last attempt."""
    in_flight: int
    """Running executions."""


class EndpointDeliveries(TypedDict):
    """Part of `Report`."""

    ended: int
    """Cancelled executions included."""
    succeeded: int
    failed: int
    per_second: float
    """Of `ended`."""
    lateness_ms: Percentiles
    """Time from the due instant of the last attempt to its start."""
    duration_ms: Percentiles
    """Of the last attempt."""
    in_flight: int
    """Running executions."""
    endpoint: str


class Report(TypedDict):
    """Answer of `stats.get`."""

    covered_seconds: float
    """Less than `seconds` if more than 10,000 executions ended in that time, for one endpoint 1,000."""
    overall: Deliveries
    endpoints: list[EndpointDeliveries]
    """The 100 endpoints with most ended executions."""


class Held(TypedDict):
    """Part of `Figures`."""

    endpoint: str
    hold: Literal["paused", "concurrency", "rate"]
    """What holds it back."""
    waiting: int
    """Up to 1,000 are counted."""
    seconds: float | None
    """Until its rate admits the next."""


class Fleet(TypedDict):
    """Part of `Figures`."""

    by_state: dict[str, int]
    capacity: int
    in_flight: int


class OpenLetters(TypedDict):
    """Part of `Figures`."""

    endpoint: str
    letters: int
    """Up to 1,000 are counted."""


class Figures(TypedDict):
    """Answer of `figures.figures`."""

    read_at: str
    queues: list[Queue]
    """The first 200; `queues_left_out` more have waiting executions."""
    queues_left_out: int
    held: list[Held]
    """Out of the first 1,000 endpoints that are paused or have limits."""
    paused_endpoints: int
    open_breakers: int
    half_open_breakers: int
    workers: Fleet
    schedules_behind_seconds: float
    """Age of the most overdue tick."""
    letters: list[OpenLetters]
    """Of the first 200 endpoints with open dead letters."""
    late_ends: int
    """Completion events without their effects for 60 s."""


class EndpointState(TypedDict):
    """Part of `EndpointStates`."""

    endpoint: str
    troubles: list[Literal["breaker", "failing", "uncertain", "late", "paused", "held", "letters"]]
    """Reasons to look at it, the most urgent first."""
    attempts: int
    per_second: float
    """Of `attempts`."""
    succeeded: int
    retried: int
    failed: int
    uncertain: int
    """Attempts that may have been delivered."""
    lateness_ms: Percentiles
    duration_ms: Percentiles
    on_time: float | None
    """Share of the attempts that started within 5000 ms."""
    waiting: int | None
    """Of an endpoint that is held back, up to 1,000."""
    held_by: Literal["paused", "concurrency", "rate"] | None
    admits_in_seconds: float | None
    """If its rate holds it."""
    letters: int
    """Open dead letters."""
    breaker: Literal["open", "half_open"] | None
    breaker_until: str | None
    paused_at: str | None
    paused_by: str | None
    """Name of the API key, or cli:USER; `null` once the entry of the audit log was deleted."""
    trend: list[int]
    """Attempts in each of 12 parts of the window."""
    failures_trend: list[int]
    """Of `failed`."""


EndpointStates = TypedDict(
    "EndpointStates", {"from": "str", "until": "str", "endpoints": "list[EndpointState]", "left_out": "int"}
)
"""Answer of `figures.endpoints`."""


class UnservedQueue(TypedDict):
    """Part of `Operations`."""

    queue: str
    oldest_due_at: str
    oldest_due_seconds: float
    due: int
    """Up to 1,000 are counted."""


class PausedEndpoint(TypedDict):
    """Part of `Operations`."""

    name: str
    paused_at: str
    paused_by: str | None
    """Name of the API key, or cli:USER; `null` once the entry of the audit log was deleted."""


class PausedQueue(TypedDict):
    """Part of `Operations`."""

    queue: str
    paused_at: str
    paused_by: str
    """Name of the API key, or cli:USER."""


class Operations(TypedDict):
    """Answer of `operations.operations`."""

    unserved_queues: list[UnservedQueue]
    open_breakers: int
    """Open or half open; `GET /breakers` lists them."""
    paused_endpoints: list[PausedEndpoint]
    """The first 100 by name."""
    paused_queues: list[PausedQueue]
    """The first 100 by name."""


class Classes(TypedDict):
    """Part of `Point`."""

    p50: int | None
    """Upper bound of its class; one more than the last bound if it is larger."""
    p95: int | None
    p99: int | None
    counts: NotRequired[list[int]]
    """By the bounds of the answer; one more class follows."""


class Point(TypedDict):
    """Part of `DeliveryHistory`."""

    at: str
    """Start of the step."""
    counted_seconds: int
    """Seconds of the step that are counted; 0: a gap."""
    attempts: int | None
    succeeded: int | None
    retried: int | None
    """Failed attempts with another to follow."""
    failed: int | None
    """Executions that failed for good."""
    cancelled: int | None
    unsent: int | None
    """Of `failed` and `cancelled`: ended without an attempt."""
    uncertain: int | None
    """Attempts that may have been delivered."""
    lost: int | None
    """Attempts whose worker was lost or stuck."""
    lateness_ms: Classes | None
    """Time from the due instant of an attempt to its start."""
    duration_ms: Classes | None
    due: int | None
    """The most within the step, as are the next four."""
    oldest_due_ms: int | None
    workers: int | None
    in_flight: int | None
    """Of the whole fleet only."""
    slots: int | None
    """Of the whole fleet only."""


class Failure(TypedDict):
    """Part of `DeliveryHistory`."""

    error_type: str
    failed: int
    retried: int
    uncertain: int


DeliveryHistory = TypedDict(
    "DeliveryHistory",
    {
        "from": "str",
        "until": "str",
        "step_seconds": "int",
        "endpoint": "str | None",
        "queue": "str | None",
        "counted_until": "str | None",
        "lateness_bounds_ms": "list[int]",
        "duration_bounds_ms": "list[int]",
        "points": "list[Point]",
        "failures": "list[Failure]",
    },
)
"""Answer of `history.get`."""


class Hit(TypedDict):
    """Part of `Hits`."""

    kind: Literal[
        "execution",
        "job",
        "schedule",
        "workflow",
        "dead_letter",
        "redrive",
        "bulk_operation",
        "endpoint",
        "payload_spec",
        "config",
        "secret",
        "notification_rule",
        "breaker",
        "worker",
    ]
    id: str
    """Id or name."""
    title: str | None
    """Name, endpoint, host, URL or state."""
    matched: Literal["id", "key", "name", "label", "target", "url", "host"]
    """Field that matches."""


class Hits(TypedDict):
    """Answer of `search.find`."""

    items: list[Hit]
