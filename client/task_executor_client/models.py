"""The bodies of requests and answers, as dictionaries with known fields.

Written by `make client` from the OpenAPI document; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict


class Detail(TypedDict):
    pointer: NotRequired[str]
    """JSON pointer into the body, or a parameter's name."""
    message: NotRequired[str]


class NewPayloadSpec(TypedDict):
    name: str
    schema: Mapping[str, Any] | None
    """JSON Schema 2020-12."""


class PayloadSpec(TypedDict):
    name: str
    schema: dict[str, Any]
    """JSON Schema 2020-12."""
    created_at: str
    updated_at: str


class PayloadSpecPage(TypedDict):
    items: list[PayloadSpec]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedPayloadSpec(TypedDict):
    name: NotRequired[str]
    schema: Mapping[str, Any] | None
    """JSON Schema 2020-12."""


class NewConfig(TypedDict):
    name: str
    values: Mapping[str, Any]


class Config(TypedDict):
    name: str
    values: dict[str, Any]
    created_at: str
    updated_at: str


class ConfigPage(TypedDict):
    items: list[Config]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedConfig(TypedDict):
    name: NotRequired[str]
    values: Mapping[str, Any]


class NewSecret(TypedDict):
    name: str
    value: str


class Secret(TypedDict):
    name: str
    created_at: str
    updated_at: str


class SecretPage(TypedDict):
    items: list[Secret]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedSecret(TypedDict):
    name: NotRequired[str]
    value: str


class RateSpec(TypedDict):
    count: int
    per: str
    """`1s` to `24h`."""
    burst: NotRequired[int]
    """Starts of a burst, the last 100 ms of which are paced; what 100 ms bring when absent."""
    window: NotRequired[Literal["sliding"]]
    """`sliding`: never more than `count` in any `per`, in whatever order; without a burst."""


class KeyLimitsSpec(TypedDict):
    key: str
    """One placeholder of the input."""
    max_in_flight: NotRequired[int]
    rate: NotRequired[RateSpec]


class LimitsSpec(TypedDict):
    max_in_flight: NotRequired[int]
    """How many may run at the same time."""
    rate: NotRequired[RateSpec]
    per_key: NotRequired[KeyLimitsSpec]


class BreakerSpec(TypedDict):
    failure_ratio: NotRequired[float]
    """0.5 when absent."""
    min_results: NotRequired[int]
    """10 when absent."""
    window: NotRequired[str]
    """`1m` when absent."""
    open_for: NotRequired[str]
    """`30s` when absent."""


class SigningSpec(TypedDict):
    secret: str
    previous_secret: NotRequired[str]


class HttpSpec(TypedDict):
    url: str
    """May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    method: NotRequired[Literal["GET", "POST", "PUT", "PATCH", "DELETE"]]
    headers: NotRequired[dict[str, str]]
    """Not those that the service sets itself. May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    body_template: NotRequired[Any]
    """May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    signing: NotRequired[SigningSpec]
    """May hold `{{secret.…}}`."""
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`: an attempt that takes longer goes on, and leaves a WARN line and an event at once."""
    expected_status_codes: NotRequired[list[int]]


class KafkaSpec(TypedDict):
    bootstrap_servers: str
    """May hold `{{config.…}}`, `{{secret.…}}`."""
    topic: str
    """May hold `{{config.…}}`."""
    key_template: NotRequired[str | None]
    """May hold `{{config.…}}`, `{{input.…}}`."""
    value_template: Any
    """May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    headers: NotRequired[dict[str, str]]
    """Not those that the service sets itself. May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    properties: NotRequired[dict[str, Any]]
    """May hold `{{config.…}}`, `{{secret.…}}`."""
    acks: NotRequired[Literal["0", "1", "all"]]
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`: an attempt that takes longer goes on, and leaves a WARN line and an event at once."""


class RedisStreamSpec(TypedDict):
    redis_url: str
    """May hold `{{config.…}}`, `{{secret.…}}`."""
    stream: str
    """May hold `{{config.…}}`."""
    fields_template: dict[str, Any]
    """May hold `{{config.…}}`, `{{input.…}}`, `{{secret.…}}`."""
    max_len: NotRequired[int | str]
    """May hold `{{config.…}}`."""
    approximate_trimming: NotRequired[bool]
    metadata: NotRequired[bool]
    """Add the fields `te-job-id`, `te-execution-id`, `te-idempotency-key`, `te-attempt`, `te-scheduled-at` and
    `traceparent` to each entry.
    """
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`: an attempt that takes longer goes on, and leaves a WARN line and an event at once."""


class NotificationSpec(TypedDict):
    url: str | list[str]
    """Of Apprise, one or up to 10; what is secret is a placeholder May hold `{{config.…}}`, `{{secret.…}}`."""
    title: NotRequired[str]
    """May hold `{{config.…}}`, `{{input.…}}`."""
    body: NotRequired[str]
    """May hold `{{config.…}}`, `{{input.…}}`."""
    severity: NotRequired[str]
    """What it renders to, `info`, `warning` or `critical`, is the kind of the message May hold `{{config.…}}`,
    `{{input.…}}`.
    """
    timeout_ms: NotRequired[int]
    soft_timeout_ms: NotRequired[int]
    """Below `timeout_ms`: an attempt that takes longer goes on, and leaves a WARN line and an event at once."""


class RetryPolicySpec(TypedDict):
    max_attempts: NotRequired[int]
    backoff: NotRequired[Literal["fixed", "linear", "exponential", "custom", "decorrelated"]]
    initial_delay_ms: NotRequired[int]
    max_delay_ms: NotRequired[int]
    delays_ms: NotRequired[list[int]]
    """Of `custom`, which needs them: the waits; the last one repeats."""
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
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """What is final: looked at first."""
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
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """What is final too, marked `rejected`: it needs nobody's attention."""
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
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """What counts as a success, with the error kept."""
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
                "INTERNAL_ERROR",
                "WORKER_LOST",
                "STUCK",
            ]
            | dict[str, Any]
        ]
    ]
    """What is tried again; where it is given, no other error is, not even a lost worker."""
    max_age_ms: NotRequired[int | None]
    """Since `scheduled_at`: a retry that would start later is not made."""


class NewCallbacks(TypedDict):
    on_success: NotRequired[str | None]
    on_failure: NotRequired[str | None]
    on_attempt_failed: NotRequired[str | None]


class NewEndpoint(TypedDict):
    queue: NotRequired[str | None]
    """Where its executions wait from now on; that of the routes or of its transport when absent."""
    priority: NotRequired[int | None]
    """Of its executions from now on, 0 to 255, higher first; 128 when absent."""
    limits: NotRequired[LimitsSpec | None]
    """Over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The usual one when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution that is created from now on keeps what the receiver answered, `1m`
    to `365d`; as long as executions are kept when absent.
    """
    name: str
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
    payload_spec: NotRequired[str | None]
    config: NotRequired[str | None]
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec
    """That of the type."""
    retry_policy: NotRequired[RetryPolicySpec | None]
    keep_response: NotRequired[Literal["always", "on_error", "never"]]
    """Whether the receiver's words are stored: `always`, `on_error` (of failed attempts only) or `never`;
    without them, its status and the size of its answer.
    """
    callbacks: NotRequired[NewCallbacks | None]
    """Whom to tell how its executions end; nobody when absent."""


class Callbacks(TypedDict):
    on_success: NotRequired[str | None]
    on_failure: NotRequired[str | None]
    on_attempt_failed: NotRequired[str | None]


class Endpoint(TypedDict):
    name: str
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
    payload_spec: str | None
    config: str | None
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec
    """As it was given."""
    retry_policy: RetryPolicySpec
    """With its defaults."""
    keep_response: Literal["always", "on_error", "never"]
    callbacks: Callbacks | None
    queue: str | None
    """As it was given."""
    queue_in_effect: str
    """Its own queue, else that of the routes, else that of its transport."""
    priority: int
    limits: LimitsSpec | None
    """As they were given."""
    breaker: BreakerSpec | Literal["off"] | None
    """As it was given."""
    result_retention: str | None
    """`null`: as long as its executions."""
    paused_at: str | None
    """Since when nothing of it starts."""
    version: int
    created_at: str
    updated_at: str


class EndpointPage(TypedDict):
    items: list[Endpoint]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedEndpoint(TypedDict):
    queue: NotRequired[str | None]
    """Where its executions wait from now on; that of the routes or of its transport when absent."""
    priority: NotRequired[int | None]
    """Of its executions from now on, 0 to 255, higher first; 128 when absent."""
    limits: NotRequired[LimitsSpec | None]
    """Over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The usual one when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution that is created from now on keeps what the receiver answered, `1m`
    to `365d`; as long as executions are kept when absent.
    """
    name: NotRequired[str]
    type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
    payload_spec: NotRequired[str | None]
    config: NotRequired[str | None]
    spec: HttpSpec | KafkaSpec | RedisStreamSpec | NotificationSpec
    """That of the type."""
    retry_policy: NotRequired[RetryPolicySpec | None]
    keep_response: NotRequired[Literal["always", "on_error", "never"]]
    """Whether the receiver's words are stored: `always`, `on_error` (of failed attempts only) or `never`;
    without them, its status and the size of its answer.
    """
    callbacks: NotRequired[NewCallbacks | None]
    """Whom to tell how its executions end; nobody when absent."""


class Flow(TypedDict):
    queue: NotRequired[str | None]
    """Where its executions wait from now on; that of the routes or of its transport when absent."""
    priority: NotRequired[int | None]
    """Of its executions from now on, 0 to 255, higher first; 128 when absent."""
    limits: NotRequired[LimitsSpec | None]
    """Over all workers; none when absent."""
    breaker: NotRequired[BreakerSpec | Literal["off"] | None]
    """The usual one when absent, none when `off`."""
    result_retention: NotRequired[str | None]
    """How long after its end an execution that is created from now on keeps what the receiver answered, `1m`
    to `365d`; as long as executions are kept when absent.
    """


class Gate(TypedDict):
    key: str | None
    """`null` for the endpoint's own."""
    max_in_flight: int | None
    in_flight: int
    """How many run now."""
    rate: RateSpec | None
    """With its defaults."""
    tokens: int | None
    """How many the rate lets start now."""
    next_at: str | None
    """When it lets the next one start."""
    waiting: int
    """Queued, or for a retry; up to 1,000 are counted."""


class LimitsState(TypedDict):
    paused_at: str | None
    gates: list[Gate]
    """The endpoint's own, and that of `key`."""


class NewJob(TypedDict):
    name: NotRequired[str | None]
    """For people and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Pairs of strings to find the job by, spelt as labels of Kubernetes."""
    queue: NotRequired[str | None]
    """Where its executions wait; that of the endpoint when absent."""
    priority: NotRequired[int | None]
    """0 to 255; of what is due a higher one goes first; that of the endpoint when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the execution before, not from tick to tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Which ticks run late when nobody could start them in time; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: at most so many late ticks run, the latest ones; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Whom to tell how its executions end, before those of its endpoint; `null` is nobody."""
    endpoint: str
    trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]
    idempotency_key: NotRequired[str | None]
    """Needed for IMMEDIATE and DELAYED, here or in the Idempotency-Key header."""
    run_at: NotRequired[str | datetime | None]
    """For DELAYED; a time in the past means now."""


class ExecutionSummary(TypedDict):
    execution_id: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    created_at: str


class HttpOutput(TypedDict):
    status_code: int
    body: NotRequired[str]
    """Its first 16 KiB, unless `keep_response` says otherwise."""
    body_bytes: NotRequired[int]
    """Where the body is not kept: its size as text, as far as it was read (24 KiB)."""


class KafkaOutput(TypedDict):
    partition: int
    offset: int | None
    """`null` where the brokers do not say: with `acks: "0"`, or when it had to be resent."""


class RedisStreamOutput(TypedDict):
    message_id: str
    stream: str
    may_be_duplicate: NotRequired[bool]
    """True when an earlier attempt of unknown fate is so old that Redis may have forgotten it."""


class ChannelOutput(TypedDict):
    channel: str
    status_code: NotRequired[int]
    """The last one, of HTTP or SMTP."""
    error: NotRequired[str]
    attempt: NotRequired[int]
    """The one that it was told by, where that was an earlier one."""


class NotificationOutput(TypedDict):
    channels: list[ChannelOutput]


class AttemptError(TypedDict):
    type: str
    message: str
    status_code: NotRequired[int]
    """Of HTTP_ERROR and ANSWER_REFUSED."""
    body: NotRequired[str]
    """With the status: the first 16 KiB of the answer."""
    body_bytes: NotRequired[int]
    """With the status, where the body is not kept: its size as text."""
    retryable: NotRequired[bool]
    """Whether such an error is tried again."""
    rejected: NotRequired[bool]
    """True when `reject_on` names it: a failure that needs nobody's attention."""
    may_have_been_delivered: NotRequired[bool]
    """True when the message was sent and no answer came."""


class IgnoredError(TypedDict):
    status_code: NotRequired[int]
    body: NotRequired[str]
    """The first 16 KiB of the answer, unless it is not kept."""
    body_bytes: NotRequired[int]
    """Where the body is not kept: its size as text."""
    ignored_error: AttemptError


class Result(TypedDict):
    execution_id: str
    job_id: str
    endpoint: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    attempt_count: int
    completed_at: str | None
    """`null` until it is over."""
    duration_ms: int | None
    kept_until: str | None
    """`null`: as long as the execution, or not over yet."""
    output: HttpOutput | KafkaOutput | RedisStreamOutput | NotificationOutput | IgnoredError | None
    """What the receiver answered."""
    error: AttemptError | None
    """Of the last attempt, with the whole answer."""


class CreatedJob(TypedDict):
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
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
    """`null`: that of its endpoint."""
    priority: int | None
    """`null`: that of its endpoint."""
    limit_key: str | None
    """By which it shares `limits.per_key`; `null` where its endpoint had no key."""
    callbacks: Callbacks | None
    """Its own, before those of its endpoint; `null`: those of its endpoint."""
    callback_of: str | None
    """The execution whose end it tells."""
    run_at: NotRequired[str]
    """DELAYED only; after a rescheduling or `POST /jobs/{job_id}/run` the new instant."""
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
    """`{"unreadable": "why"}` stands for one that SQL has stored and that no process can read."""
    execution: NotRequired[ExecutionSummary]
    """IMMEDIATE and DELAYED only."""
    created_at: str
    paused_at: str | None
    retired_at: str | None
    result: NotRequired[Result]
    """With `Prefer: wait` only, once it is over, as long as it is kept."""


class Job(TypedDict):
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
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
    """`null`: that of its endpoint."""
    priority: int | None
    """`null`: that of its endpoint."""
    limit_key: str | None
    """By which it shares `limits.per_key`; `null` where its endpoint had no key."""
    callbacks: Callbacks | None
    """Its own, before those of its endpoint; `null`: those of its endpoint."""
    callback_of: str | None
    """The execution whose end it tells."""
    run_at: NotRequired[str]
    """DELAYED only; after a rescheduling or `POST /jobs/{job_id}/run` the new instant."""
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
    """`{"unreadable": "why"}` stands for one that SQL has stored and that no process can read."""
    execution: NotRequired[ExecutionSummary]
    """IMMEDIATE and DELAYED only."""
    created_at: str
    paused_at: str | None
    retired_at: str | None


class JobPage(TypedDict):
    items: list[Job]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Execution(TypedDict):
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
    endpoint_version: int
    idempotency_key: str | None
    queue: str
    priority: int
    limit_key: str | None
    """By which it shares `limits.per_key` of its endpoint; `null` where it has no key."""
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    input: NotRequired[dict[str, Any]]
    """`{"unreadable": "why"}` stands for one that SQL has stored and that no process can read."""
    output: HttpOutput | KafkaOutput | RedisStreamOutput | NotificationOutput | IgnoredError | None
    """What the receiver answered."""
    last_error: AttemptError | None
    """Of the latest attempt that has ended, if it failed or was ignored; without its `body`."""
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    scheduled_at: str
    run_at: str
    """When it is, or was, due: later after a failed attempt, and for what was queued late."""
    started_at: str | None
    completed_at: str | None
    duration_ms: int | None
    cancel_requested_at: str | None
    """Since when no further attempt may follow."""
    abort_requested_at: str | None
    """Since when the attempt under way is to be broken off."""
    created_at: str


class ExecutionPage(TypedDict):
    items: list[Execution]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Batch(TypedDict):
    jobs: Sequence[Mapping[str, Any]]


class BatchError(TypedDict):
    code: str
    message: str
    details: list[Detail]
    retryable: bool
    """Whether the same request may succeed later."""


class BatchItem(TypedDict):
    status: int
    """As `POST /jobs` would answer."""
    job: NotRequired[Job]
    error: NotRequired[BatchError]


class BatchResult(TypedDict):
    items: list[BatchItem]


class ChangedJob(TypedDict):
    name: NotRequired[str | None]
    """For people and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Pairs of strings to find the job by, spelt as labels of Kubernetes."""
    queue: NotRequired[str | None]
    """Where its executions wait; that of the endpoint when absent."""
    priority: NotRequired[int | None]
    """0 to 255; of what is due a higher one goes first; that of the endpoint when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the execution before, not from tick to tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Which ticks run late when nobody could start them in time; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: at most so many late ticks run, the latest ones; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Whom to tell how its executions end, before those of its endpoint; `null` is nobody."""


class PatchedJob(TypedDict):
    name: NotRequired[str | None]
    """For people and filters; need not be unique."""
    labels: NotRequired[Mapping[str, str] | None]
    """Pairs of strings to find the job by, spelt as labels of Kubernetes."""
    queue: NotRequired[str | None]
    """Where its executions wait; that of the endpoint when absent."""
    priority: NotRequired[int | None]
    """0 to 255; of what is due a higher one goes first; that of the endpoint when absent."""
    cron: NotRequired[str | None]
    """For CRON; five fields."""
    timezone: NotRequired[str | None]
    """For CRON; an IANA time zone."""
    every: NotRequired[str | int | None]
    """For INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least 10 ms."""
    fixed_delay: NotRequired[bool | None]
    """For INTERVAL; count from the end of the execution before, not from tick to tick."""
    starts_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; now when absent."""
    ends_at: NotRequired[str | datetime | None]
    """For CRON and INTERVAL; no tick at or after it."""
    catch_up: NotRequired[Literal["all", "latest", "none"] | None]
    """Which ticks run late when nobody could start them in time; `all` when absent."""
    max_catch_up: NotRequired[int | None]
    """With `catch_up: all`: at most so many late ticks run, the latest ones; 100 when absent, no limit when
    `null`.
    """
    overlap: NotRequired[Literal["allow", "skip"] | None]
    """`skip` drops a tick while an execution of the job is unfinished; `allow` when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    callbacks: NotRequired[NewCallbacks | None]
    """Whom to tell how its executions end, before those of its endpoint; `null` is nobody."""
    status: NotRequired[Literal["ACTIVE", "PAUSED", "RETIRED"]]


class LastExecution(TypedDict):
    execution_id: str
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    started_at: str
    completed_at: str | None
    attempt_number: int


class ActiveExecutions(TypedDict):
    pending: int
    running: int
    total: int


class SkippedTicks(TypedDict):
    catch_up: int
    overlap: int


class CronBlock(TypedDict):
    next_run_at: str | None
    """In the job's time zone."""
    last_tick_at: str | None
    """In the job's time zone."""
    skipped_ticks: SkippedTicks
    expression: str
    timezone: str


class IntervalBlock(TypedDict):
    next_run_at: str | None
    """In the job's time zone."""
    last_tick_at: str | None
    """In the job's time zone."""
    skipped_ticks: SkippedTicks
    every: str
    fixed_delay: bool


class Day(TypedDict):
    total: int
    succeeded: int
    failed: int
    avg_duration_ms: int | None
    p99_duration_ms: int | None


class Stats(TypedDict):
    last_24h: Day
    """Executions that ended within 24 hours, without cancelled ones; durations are `null` when there is none.
    Of a repeating job only its newest 5,000, and those created within 48 hours, count.
    """


class Status(TypedDict):
    job_id: str
    endpoint: str
    endpoint_type: Literal["HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION"]
    trigger: Literal["IMMEDIATE", "DELAYED", "CRON", "INTERVAL"]
    status: Literal["ACTIVE", "PAUSED", "RETIRED"]
    health: Literal["HEALTHY", "DEGRADED", "FAILING", "IDLE"]
    version: int
    last_execution: LastExecution | None
    """The newest that has begun; of each final status only the newest 100 are looked at, so a job of which
    more were cancelled before they began may show an older one.
    """
    active_executions: ActiveExecutions
    """Executions that are not over: `pending` wait, `running` run; at most 10,000 are looked at, so where a
    job has more those that run may be among the others.
    """
    cron: NotRequired[CronBlock]
    """CRON only."""
    interval: NotRequired[IntervalBlock]
    """INTERVAL only."""
    stats: Stats


class Run(TypedDict):
    run_at: str
    local_time: str
    """The same in the schedule's time zone."""
    note: str | None
    """What a change of the clock does to this run."""


class NextRuns(TypedDict):
    timezone: str
    """UTC for all but CRON jobs."""
    runs: list[Run]


class Attempt(TypedDict):
    attempt_id: str
    execution_id: str
    attempt_number: int
    status: Literal["SUCCESS", "FAILED"]
    worker_id: str | None
    started_at: str
    completed_at: str | None
    duration_ms: int | None
    output: HttpOutput | KafkaOutput | RedisStreamOutput | NotificationOutput | IgnoredError | None
    error: AttemptError | None
    """Of a SUCCESS: what `ignore_on` ignores."""
    created_at: str


class AttemptPage(TypedDict):
    items: list[Attempt]
    cursor: str | None
    """Opaque; `null` on the last page."""


class LogLine(TypedDict):
    log_id: str
    execution_id: str
    attempt_number: int
    level: Literal["DEBUG", "INFO", "WARN", "ERROR"]
    message: str
    logged_at: str


class LogLinePage(TypedDict):
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


class History(TypedDict):
    items: list[Step]
    truncated: bool
    """True if only the latest 1,000 attempts and 1,000 other changes are told of, and earlier ones left out."""


class Explanation(TypedDict):
    status: Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"]
    reason: str
    """For programs."""
    explanation: str
    since: str
    until: str | None
    """When it will change, where known."""
    details: dict[str, Any]


class AuditEntry(TypedDict):
    audit_id: str
    actor_id: str | None
    """Id of the API key."""
    actor_name: str
    """Name of the API key, or cli:USER."""
    action: Literal["create", "replace", "delete", "revoke", "flow", "drain"]
    resource_type: Literal[
        "payload_spec", "config", "secret", "endpoint", "api_key", "routes", "queue", "worker", "notification_rule"
    ]
    resource: str
    """Its name; the id of an API key."""
    before_hash: str | None
    """SHA-256 of the canonical JSON, of a secret's ciphertext; null where nothing was."""
    after_hash: str | None
    """SHA-256 of the canonical JSON, of a secret's ciphertext; null where nothing was."""
    request_id: str | None
    occurred_at: str


class AuditEntryPage(TypedDict):
    items: list[AuditEntry]
    cursor: str | None
    """Opaque; `null` on the last page."""


class CronPreviewQuestion(TypedDict):
    cron: str
    """Five fields."""
    timezone: str
    """An IANA time zone."""
    count: NotRequired[int]
    after: NotRequired[str | datetime | None]
    """Runs after this instant; now when absent."""


class CronPreview(TypedDict):
    cron: str
    timezone: str
    description: str
    after: str
    runs: list[Run]
    """Fewer than asked for at the calendar's end."""


class Health(TypedDict):
    status: str


class Queue(TypedDict):
    queue: str
    workers: int
    """Live worker processes that serve it."""
    due: int
    """Executions; up to 10,000 are counted."""
    oldest_due_at: str | None
    """Since when the oldest of them is due."""
    oldest_due_seconds: float | None
    paused_at: str | None
    """Since then nothing of it is claimed."""


class QueuePage(TypedDict):
    items: list[Queue]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Route(TypedDict):
    pattern: str
    """`*` stands for any number of characters, `?` for one."""
    queue: str


class Routes(TypedDict):
    routes: list[Route]
    source: Literal["environment", "api"]
    """TE_ROUTES, or what PUT has set."""


class NewRoutes(TypedDict):
    routes: Sequence[Route]


class RouteQuestion(TypedDict):
    endpoint: str
    routes: NotRequired[Sequence[Route]]


class Move(TypedDict):
    endpoint: str
    before: str
    after: str


class RouteAnswer(TypedDict):
    queue: str | None
    """`null` for that of its transport, where no endpoint has the name."""
    pattern: str | None
    position: int | None
    """Of the route, from 0."""
    is_default: bool
    """No route matches."""
    moves: NotRequired[list[Move]]
    """With `routes`: the first 100 that would move."""
    move_count: NotRequired[int]
    """With `routes`: how many would move."""


class Breaker(TypedDict):
    target: str
    """Scheme, host and port; `kafka:` and the bootstrap servers; with `~` and a digest where endpoints have
    settings of their own.
    """
    state: Literal["closed", "open", "half_open"]
    """`closed` lets all through, `open` nothing, `half_open` a single probe."""
    reason: str | None
    """`FAILURES`, `RETRY_AFTER`, `PROBE`, `PROBE_SUCCEEDED`, `PROBE_FAILED`, `PROBE_UNUSED`, `CLOSED_BY_HAND`,
    `FORGOTTEN`.
    """
    failed: int | None
    """How many of `results` failed when it opened."""
    results: int | None
    changed_at: str
    open_until: str | None
    """From then on what is due next is a probe."""
    probe_worker: str | None
    """The worker that sends the probe."""
    probe_until: str | None
    """From then on another worker may probe."""
    endpoints: list[str]
    """The first 100 that lead to the target, by name."""


class BreakerPage(TypedDict):
    items: list[Breaker]
    cursor: str | None
    """Opaque; `null` on the last page."""


class BreakerEvent(TypedDict):
    event_id: str
    target: str
    """Scheme, host and port; `kafka:` and the bootstrap servers; with `~` and a digest where endpoints have
    settings of their own.
    """
    from_state: Literal["closed", "open", "half_open"]
    to_state: Literal["closed", "open", "half_open"]
    reason: str
    """`FAILURES`, `RETRY_AFTER`, `PROBE`, `PROBE_SUCCEEDED`, `PROBE_FAILED`, `PROBE_UNUSED`, `CLOSED_BY_HAND`,
    `FORGOTTEN`.
    """
    actor: str | None
    """A worker, or the name of the API key that closed it."""
    open_until: str | None
    """Until when it is open, or its probe has time."""
    occurred_at: str


class BreakerEventPage(TypedDict):
    items: list[BreakerEvent]
    cursor: str | None
    """Opaque; `null` on the last page."""


class DeadLetter(TypedDict):
    letter_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    labels: dict[str, Any] | None
    """Of the job."""
    error_type: str
    """Of the last attempt, or why it failed without one: `EXPIRED`."""
    message: str | None
    """Of that error, up to 500 characters."""
    attempt_count: int
    failed_at: str
    resolution: Literal["RETRIED", "REDRIVEN", "ARCHIVED"] | None
    """`null` while it is open; `RETRIED`: its execution was, without the letter."""
    resolved_at: str | None
    resolved_by: str | None
    """The name of the API key."""
    note: str | None
    """Of who archived it."""
    redriven_as: str | None
    """The execution that it goes on as."""


class DeadLetterPage(TypedDict):
    items: list[DeadLetter]
    cursor: str | None
    """Opaque; `null` on the last page."""


class DeadLetterView(TypedDict):
    letter_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    labels: dict[str, Any] | None
    """Of the job."""
    error_type: str
    """Of the last attempt, or why it failed without one: `EXPIRED`."""
    message: str | None
    """Of that error, up to 500 characters."""
    attempt_count: int
    failed_at: str
    resolution: Literal["RETRIED", "REDRIVEN", "ARCHIVED"] | None
    """`null` while it is open; `RETRIED`: its execution was, without the letter."""
    resolved_at: str | None
    resolved_by: str | None
    """The name of the API key."""
    note: str | None
    """Of who archived it."""
    redriven_as: str | None
    """The execution that it goes on as."""
    execution: Execution
    """As it is now, with its input."""
    attempts: list[Attempt]
    """That it failed with, the latest first, up to 100."""
    more_attempts: str | None
    """The list that has all, where these are only the latest 100; otherwise `null`."""


class Redrive(TypedDict):
    endpoint: NotRequired[str | None]
    """Where the new job goes, to its newest version; that of the letter when absent."""
    input: NotRequired[Mapping[str, Any] | None]
    """Of the new job; that of the letter's job when absent."""


class Archive(TypedDict):
    note: str


class Wanted(TypedDict):
    endpoint: NotRequired[str]
    error_type: NotRequired[str]
    labels: NotRequired[Mapping[str, str] | None]
    """Pairs of strings to find the job by, spelt as labels of Kubernetes."""
    failed_after: NotRequired[str | datetime]
    failed_before: NotRequired[str | datetime]


class NewRedrive(TypedDict):
    wanted: Wanted
    all: NotRequired[bool]
    """`true` where `wanted` is empty: all open letters are meant."""
    to_endpoint: NotRequired[str | None]
    """A new job for this endpoint is made of each; without it its execution goes on."""
    rate: NotRequired[int]
    """In a second."""


class RedriveOfSeveral(TypedDict):
    redrive_id: str
    status: Literal["RUNNING", "PAUSED", "STOPPED", "DONE"]
    waits_for_turn: bool
    """`RUNNING`, but no scheduler goes on with it just now: it has only begun, no scheduler runs, or more than
    20 are under way, which take turns.
    """
    wanted: dict[str, Any]
    to_endpoint: str | None
    rate: int
    actor: str | None
    redriven: int
    refused: int
    """That stay open, since they could not be redriven."""
    last_refusal: str | None
    """Why the last one was."""
    reached_at: str | None
    """When the letter failed that it came to last."""
    created_at: str
    ended_at: str | None


class RedriveOfSeveralPage(TypedDict):
    items: list[RedriveOfSeveral]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Preview(TypedDict):
    count: int
    is_complete: bool
    """`false` where more than 10,000 would be looked at."""
    sample: list[DeadLetter]
    """The first ones."""


class WantedExecutions(TypedDict):
    status: NotRequired[Literal["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "CANCELLED"] | None]
    """`retry`: FAILED, which is the default, or CANCELLED; otherwise one in which they wait, and for `cancel`
    RUNNING; without it all in which they wait, and with `if_running` RUNNING.
    """
    endpoint: NotRequired[str]
    queue: NotRequired[str]
    limit_key: NotRequired[str]
    """By which they share `limits.per_key`."""
    job_id: NotRequired[str]
    name: NotRequired[str]
    """Of their jobs."""
    labels: NotRequired[Mapping[str, str] | None]
    """Pairs of strings to find the job by, spelt as labels of Kubernetes."""
    idempotency_key_prefix: NotRequired[str]
    """With which the keys of their jobs begin."""
    created_after: NotRequired[str | datetime]
    created_before: NotRequired[str | datetime]
    scheduled_after: NotRequired[str | datetime]
    scheduled_before: NotRequired[str | datetime]
    error_type: NotRequired[str]
    """Only for `archive`."""
    failed_after: NotRequired[str | datetime]
    """Only for `archive`."""
    failed_before: NotRequired[str | datetime]
    """Only for `archive`."""


class NewBulkOperation(TypedDict):
    action: Literal["cancel", "retry", "reschedule", "archive"]
    wanted: WantedExecutions
    all: NotRequired[bool]
    """`true` where `wanted` names no more than a state: all such executions are meant, or all open dead
    letters.
    """
    if_running: NotRequired[Literal["request", "abort"] | None]
    """`cancel`: as for `POST /executions/{execution_id}/cancel`."""
    run_at: NotRequired[str | datetime | None]
    """`reschedule`: when they are due; a time in the past means now."""
    delay_seconds: NotRequired[int | None]
    """`reschedule`: how much later than now planned, or sooner below 0."""
    spread_seconds: NotRequired[int | None]
    """`reschedule`: each has a place of its own in a span so long, from `run_at`, its delayed time, or now on."""
    note: NotRequired[str | None]
    """Needed for `archive`: why nothing is to follow."""
    rate: NotRequired[int]
    """In a second."""


class BulkOperation(TypedDict):
    operation_id: str
    action: Literal["cancel", "retry", "reschedule", "archive"]
    status: Literal["RUNNING", "PAUSED", "STOPPED", "DONE"]
    waits_for_turn: bool
    """`RUNNING`, but no scheduler goes on with it just now: it has only begun, no scheduler runs, or more than
    20 are under way, which take turns.
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
    """How many executions, those asked to end, too; or how many letters."""
    refused: int
    """That stay as they are, since they had changed, or cannot be."""
    last_refusal: str | None
    """Why the last one was."""
    reached_at: str | None
    """When the execution was created that it came to last; of a letter when it failed."""
    created_at: str
    ended_at: str | None


class BulkOperationPage(TypedDict):
    items: list[BulkOperation]
    cursor: str | None
    """Opaque; `null` on the last page."""


class BulkPreview(TypedDict):
    count: int
    is_complete: bool
    """`false` where more than 10,000 would be looked at."""
    sample: list[Execution]
    """The first ones, without their input; those of the letters."""


class OutcomeSchema(TypedDict):
    schema: dict[str, Any]


QuietHours = TypedDict(
    "QuietHours",
    {
        "from": "str",
        "to": "str",
        "days": "NotRequired[list[Literal['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']] | None]",
        "timezone": "str",
    },
)


class NewNotificationRule(TypedDict):
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
            "test",
        ]
    ]
    """Each has a severity: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning.
    """
    channels: Sequence[str]
    """Endpoints: a message is a job of each of them."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: of jobs that have this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?`
    for one.
    """
    all: NotRequired[bool]
    """Instead of all of these: whatever it is about."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: after so many failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late` and `schedule.overdue`: after so long."""
    group_seconds: NotRequired[int]
    """What comes within so long of the first event is one message."""
    repeat_after_seconds: NotRequired[int]
    """A subject that was told of is not told of again for so long."""
    max_per_hour: NotRequired[int]
    """Messages; what comes beyond is in the next one."""
    quiet_hours: NotRequired[QuietHours | None]
    """What comes within them is told at their end."""


class NotificationRule(TypedDict):
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
    items: list[NotificationRule]
    cursor: str | None
    """Opaque; `null` on the last page."""


class ChangedNotificationRule(TypedDict):
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
            "test",
        ]
    ]
    """Each has a severity: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning.
    """
    channels: Sequence[str]
    """Endpoints: a message is a job of each of them."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: of jobs that have this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?`
    for one.
    """
    all: NotRequired[bool]
    """Instead of all of these: whatever it is about."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: after so many failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late` and `schedule.overdue`: after so long."""
    group_seconds: NotRequired[int]
    """What comes within so long of the first event is one message."""
    repeat_after_seconds: NotRequired[int]
    """A subject that was told of is not told of again for so long."""
    max_per_hour: NotRequired[int]
    """Messages; what comes beyond is in the next one."""
    quiet_hours: NotRequired[QuietHours | None]
    """What comes within them is told at their end."""


class Subject(TypedDict):
    name: str
    count: int


class AtChannel(TypedDict):
    channel: str
    job_id: str | None
    """`null`: it could not be told."""
    fault: str | None
    """Why not."""


class SentMessage(TypedDict):
    opened_at: str
    """When its first event came."""
    sent_at: str | None
    """`null`: it still waits."""
    waits_for: Literal["window", "rate", "quiet"] | None
    """Why it waits."""
    event: Literal[
        "execution.failed",
        "job.failing",
        "job.recovered",
        "schedule.overdue",
        "worker.lost",
        "breaker.opened",
        "queue.late",
        "test",
    ]
    severity: Literal["info", "warning", "critical"]
    title: str
    count: int
    """Of events."""
    subjects: list[Subject]
    examples: list[str]
    group_id: str
    waits_until: str | None
    channels: list[AtChannel]


class SentMessagePage(TypedDict):
    items: list[SentMessage]
    cursor: str | None
    """Opaque; `null` on the last page."""


class NotificationQuestion(TypedDict):
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
            "test",
        ]
    ]
    """Each has a severity: `execution.failed` is warning, `job.failing` is critical, `job.recovered` is info,
    `schedule.overdue` is warning, `worker.lost` is critical, `breaker.opened` is critical, `queue.late` is
    warning.
    """
    channels: Sequence[str]
    """Endpoints: a message is a job of each of them."""
    endpoint: NotRequired[str | None]
    """A pattern of names of endpoints: `*` stands for any number of characters, `?` for one."""
    label: NotRequired[str | None]
    """`key=value`, or a key for any value: of jobs that have this label."""
    queue: NotRequired[str | None]
    """A pattern of queues, for `worker.lost` and `queue.late`: `*` stands for any number of characters, `?`
    for one.
    """
    all: NotRequired[bool]
    """Instead of all of these: whatever it is about."""
    min_severity: NotRequired[Literal["info", "warning", "critical"]]
    failing_after: NotRequired[int]
    """`job.failing`: after so many failures in a row."""
    late_seconds: NotRequired[int]
    """`queue.late` and `schedule.overdue`: after so long."""
    group_seconds: NotRequired[int]
    """What comes within so long of the first event is one message."""
    repeat_after_seconds: NotRequired[int]
    """A subject that was told of is not told of again for so long."""
    max_per_hour: NotRequired[int]
    """Messages; what comes beyond is in the next one."""
    quiet_hours: NotRequired[QuietHours | None]
    """What comes within them is told at their end."""


class WouldBeMessage(TypedDict):
    opened_at: str
    """When its first event came."""
    sent_at: str | None
    """`null`: it still waits."""
    waits_for: Literal["window", "rate", "quiet"] | None
    """Why it waits."""
    event: Literal[
        "execution.failed",
        "job.failing",
        "job.recovered",
        "schedule.overdue",
        "worker.lost",
        "breaker.opened",
        "queue.late",
        "test",
    ]
    severity: Literal["info", "warning", "critical"]
    title: str
    count: int
    """Of events."""
    subjects: list[Subject]
    examples: list[str]


class NotificationPreview(TypedDict):
    since: str
    until: str
    truncated: bool
    """More has happened than is looked at: it is about less than a day."""
    not_previewed: list[str]
    """Events of which nothing is kept."""
    events: int
    """That it matches."""
    repeated: int
    """That it would not have told: their subjects were."""
    message_count: int
    messages: list[WouldBeMessage]
    """The latest 100."""


class MessageSchema(TypedDict):
    schema: dict[str, Any]


class Event(TypedDict):
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
    ]
    at: str
    """When it began to be written; later ones follow."""
    endpoint: str | None
    job_id: str | None
    execution_id: str | None
    subject: str | None
    """Id of a worker, target of a breaker, name in the catalogue."""
    details: dict[str, Any]


class EventPage(TypedDict):
    items: list[Event]
    next: str
    """As `after`, what follows."""


class Worker(TypedDict):
    worker_id: str
    state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"]
    """`DRAINING`: asked to drain, it claims nothing more; `DRAINED`: it has ended then; `LOST`: its lease has
    run out without a word; `DEAD`: it was shut down.
    """
    host: str
    pid: int
    queues: list[str]
    capacity: int
    """Its slots, without the reserve."""
    in_flight: int
    """Executions that it held at its last heartbeat."""
    started_at: str
    last_beat_at: str
    lease_expires_at: str


class WorkerPage(TypedDict):
    items: list[Worker]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Command(TypedDict):
    command_id: str
    worker_id: str
    command: str
    state: Literal["PENDING", "ACKNOWLEDGED", "EXPIRED"]
    """`PENDING`: on its way, for a heartbeat or two; `ACKNOWLEDGED`: the worker carries it out; `EXPIRED`: the
    worker has ended, or has not taken it up within 60 s.
    """
    asked_by: str
    """Name of the API key, or cli:USER."""
    asked_at: str
    expires_at: str
    acknowledged_at: str | None


class WorkerDetail(TypedDict):
    worker_id: str
    state: Literal["ALIVE", "DRAINING", "LOST", "DRAINED", "DEAD"]
    """`DRAINING`: asked to drain, it claims nothing more; `DRAINED`: it has ended then; `LOST`: its lease has
    run out without a word; `DEAD`: it was shut down.
    """
    host: str
    pid: int
    queues: list[str]
    capacity: int
    """Its slots, without the reserve."""
    in_flight: int
    """Executions that it held at its last heartbeat."""
    started_at: str
    last_beat_at: str
    lease_expires_at: str
    commands: list[Command]
    """The last 20, newest first."""


class Scheduler(TypedDict):
    scheduler_id: str
    state: Literal["ALIVE", "LOST", "DEAD"]
    """`LOST`: silent for 15 s; `DEAD`: it was shut down."""
    region: str
    host: str
    pid: int
    version: str
    """Of the program."""
    started_at: str
    last_beat_at: str


class SchedulerPage(TypedDict):
    items: list[Scheduler]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Process(TypedDict):
    process_id: str
    """Of a worker its id."""
    kind: Literal["worker", "scheduler", "web"]
    state: Literal["ALIVE", "LOST", "DEAD"]
    """`LOST`: silent for 15 s; `DEAD`: it was shut down."""
    region: str
    host: str
    pid: int
    version: str
    """Of the program."""
    started_at: str
    last_beat_at: str
    clock_ahead_seconds: float | None
    """Of the database's clock; negative where it is behind, `null` where its release does not tell."""
    clock_bound_seconds: float | None
    """`clock_ahead_seconds` is true to within this, either way."""


class ProcessPage(TypedDict):
    items: list[Process]
    cursor: str | None
    """Opaque; `null` on the last page."""


class Percentiles(TypedDict):
    p50: int | None
    p95: int | None
    p99: int | None


class Deliveries(TypedDict):
    ended: int
    """Cancelled executions included."""
    succeeded: int
    failed: int
    per_second: float
    """Of `ended`."""
    lateness_ms: Percentiles
    """From the instant at which the last attempt was due to its beginning."""
    duration_ms: Percentiles
    """Of the last attempt."""
    in_flight: int
    """Executions that run."""


class EndpointDeliveries(TypedDict):
    ended: int
    """Cancelled executions included."""
    succeeded: int
    failed: int
    per_second: float
    """Of `ended`."""
    lateness_ms: Percentiles
    """From the instant at which the last attempt was due to its beginning."""
    duration_ms: Percentiles
    """Of the last attempt."""
    in_flight: int
    """Executions that run."""
    endpoint: str


class Report(TypedDict):
    covered_seconds: float
    """What the figures are about: less than `seconds` where more than 10,000 executions have ended, of an
    endpoint more than 1,000.
    """
    overall: Deliveries
    endpoints: list[EndpointDeliveries]
    """The 100 of which most has ended, of those that are looked at; `endpoint` tells of any other."""


class UnservedQueue(TypedDict):
    queue: str
    oldest_due_at: str
    oldest_due_seconds: float
    due: int
    """Up to 1,000 are counted."""


class PausedEndpoint(TypedDict):
    name: str
    paused_at: str


class PausedQueue(TypedDict):
    queue: str
    paused_at: str


class Operations(TypedDict):
    unserved_queues: list[UnservedQueue]
    open_breakers: int
    """Open or half open; `GET /breakers` lists them."""
    paused_endpoints: list[PausedEndpoint]
    """The first 100 by name."""
    paused_queues: list[PausedQueue]
    """The first 100 by name."""
