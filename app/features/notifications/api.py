"""/notification-rules and /notifications: rules, messages, previews and test messages."""

from typing import Any

from flask import g
from marshmallow import Schema, fields

from app.catalog.named_table import Named
from app.features.notifications import message_list
from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import EventGroup
from app.features.notifications.message import MAX_SUBJECTS, MESSAGE_SCHEMA, title_of
from app.features.notifications.message_jobs import trial_job
from app.features.notifications.message_list import Listed
from app.features.notifications.pacing import SimulatedGroup
from app.features.notifications.rule_preview import WITHOUT_HISTORY, Preview, preview
from app.features.notifications.rules import DEFAULTS, SEVERITY, Rule
from app.features.notifications.schemas import (
    MAX_SHOWN,
    ChangedNotificationRuleSchema,
    NewNotificationRuleSchema,
    NotificationPreviewSchema,
    NotificationQuestionSchema,
    NotificationRuleSchema,
    SentMessageSchema,
)
from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
    ConflictError,
    EndpointNotFoundError,
    InputValidationError,
    InvalidNotificationRuleError,
    NotificationRuleNotFoundError,
)
from app.queue.jobs.job_creation import Created
from app.web.http import preferences, request_spans
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.idempotency_keys import PARAMETER, key_in_header
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.jobs import creating
from app.web.jobs.answer_schemas import CreatedJobSchema
from app.web.openapi.resource import Resource, same_name
from app.web.services import services
from schema.states import Severity

resource = Resource("notifications", "Messages to people, sent through endpoints.", write_scope=Scope.JOBS_WRITE)


class MessageSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(required=True, metadata={"example": {"type": "object", "title": "Message"}})


@resource.route("GET", "/notifications/schema", returns=MessageSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of notification messages, for payload specs of channels."""
    return {"schema": MESSAGE_SCHEMA}


@resource.route(
    "POST",
    "/endpoints/<name>/test",
    returns=CreatedJobSchema,
    status=201,
    also=(200, 202),
    own_key=PARAMETER,
    header=preferences.PARAMETER,
    errors=[EndpointNotFoundError, InputValidationError],
)
def test(name: str) -> Any:
    """Send a test message through an endpoint, as an ordinary job.

    The response is that of `POST /jobs`; with `Prefer: wait=10` it comes when the message was sent or rejected. If the
    payload spec of the endpoint rejects messages, the response is 422.
    """
    created: Created | None = g.get("created")  # set before the request was suspended
    if created is None:
        trace = request_spans.trace_of_new_jobs()
        created = creating.create(trial_job(name, key_in_header(), trace), trace)
    return creating.answer(created)


rules = Resource(
    "notification-rules",
    "Rules that report matching events to channels; each message is a job of an endpoint.",
    is_tagged=True,
)
# A preview stores nothing, so the read scope is enough.
questions = Resource(
    "notification-previews", "Messages that a notification rule would have sent.", write_scope=Scope.READ
)


@rules.route(
    "POST",
    "/notification-rules",
    body=NewNotificationRuleSchema,
    returns=NotificationRuleSchema,
    status=201,
    errors=[ConflictError, InvalidNotificationRuleError],
)
def create(body: dict[str, Any]) -> Any:
    """Create a notification rule.

    A rule that matches everything needs `"all": true`. All given conditions must match.
    """
    row = notifications_store.create(services().database, body["name"], value_of(body), change())
    return tagged(shape(row), row.tag, 201)


@rules.route("GET", "/notification-rules", query=PageQuery, returns=page_schema(NotificationRuleSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List notification rules, newest first."""
    page = notifications_store.RULES.page(services().database, page_request(query))
    return page_answer(page, shape, query)


@rules.route(
    "GET", "/notification-rules/<name>", returns=NotificationRuleSchema, errors=[NotificationRuleNotFoundError]
)
def get(name: str) -> Any:
    """Get a notification rule."""
    row = notifications_store.RULES.get(services().database, name)
    return unless_known(shape(row), row.tag)


@rules.route(
    "PUT",
    "/notification-rules/<name>",
    body=ChangedNotificationRuleSchema,
    returns=NotificationRuleSchema,
    errors=[NotificationRuleNotFoundError, InvalidNotificationRuleError],
)
def replace(body: dict[str, Any], name: str) -> Any:
    """Replace a notification rule; unsent events follow the new rule."""
    same_name(body, name)
    row = notifications_store.replace(services().database, name, value_of(body), change())
    return tagged(shape(row), row.tag)


@rules.route("DELETE", "/notification-rules/<name>", returns=None, status=204, errors=[NotificationRuleNotFoundError])
def delete(name: str) -> None:
    """Delete a notification rule with its unsent events."""
    notifications_store.RULES.delete(services().database, name, change())


@rules.route(
    "GET",
    "/notification-rules/<name>/messages",
    query=PageQuery,
    returns=page_schema(SentMessageSchema),
    errors=[NotificationRuleNotFoundError],
)
def list_messages(query: dict[str, Any], name: str) -> dict[str, Any]:
    """List the messages of a notification rule, newest first, beginning with the message that waits.

    The executions of a message's job show its delivery.
    """
    found = message_list.page(services().database, name, page_request(query))
    return page_answer(found, _shape_listed, query)


@questions.route(
    "POST",
    "/notification-rules/preview",
    body=NotificationQuestionSchema,
    returns=NotificationPreviewSchema,
    errors=[InvalidNotificationRuleError],
)
def preview_new(body: dict[str, Any]) -> dict[str, Any]:
    """Show the messages that a notification rule would have sent within the last day; nothing is stored or sent."""
    rule = notifications_store.check(body.get("name", "preview"), value_of(body))
    return shape_preview(rule, preview(services().database, rule))


@questions.route(
    "GET",
    "/notification-rules/<name>/preview",
    returns=NotificationPreviewSchema,
    errors=[NotificationRuleNotFoundError],
)
def preview_stored(name: str) -> dict[str, Any]:
    """Show the messages that a stored notification rule would have sent within the last day, had it existed."""
    rule = notifications_store.get(services().database, name)
    return shape_preview(rule, preview(services().database, rule))


def value_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the stored value of a request, without duplicate events and channels."""
    value = {name: each for name, each in body.items() if name != "name"}
    for name in ("events", "channels"):
        value[name] = list(dict.fromkeys(map(str, value[name])))
    if "min_severity" in value:
        value["min_severity"] = str(value["min_severity"])
    return value


def shape(row: Named) -> dict[str, Any]:
    """Return a stored rule with its defaults, as answered."""
    return {"name": row.name, **DEFAULTS, **row.value, "created_at": row.created_at, "updated_at": row.updated_at} | {
        "min_severity": Severity(row.value.get("min_severity", DEFAULTS["min_severity"]))
    }


def shape_preview(rule: Rule, found: Preview) -> dict[str, Any]:
    """Return a preview as answered."""
    simulation = found.simulation
    return {
        "since": found.since,
        "until": found.until,
        "truncated": found.is_truncated,
        "not_previewed": sorted(event.value for event in WITHOUT_HISTORY if rule.covers(event)),
        "events": simulation.events,
        "repeated": simulation.repeated,
        "message_count": len(simulation.groups),
        "messages": [_shape_message(each) for each in simulation.groups[-MAX_SHOWN:]],
    }


def _shape_message(sent: SimulatedGroup) -> dict[str, Any]:
    shown = {"opened_at": sent.opened_at, "sent_at": sent.sent_at, "waits_for": sent.waits and sent.waits.wait}
    return shown | _shape_group(sent.group)


def _shape_listed(listed: Listed) -> dict[str, Any]:
    shown = {name: getattr(listed, name) for name in ("group_id", "opened_at", "waits_for", "waits_until")}
    return shown | {"sent_at": listed.closed_at, "channels": listed.messages} | _shape_group(listed.group)


def _shape_group(group: EventGroup) -> dict[str, Any]:
    return {
        "event": group.event,
        "severity": SEVERITY[group.event],
        "title": title_of(group),
        "count": group.count,
        "subjects": [{"name": name, "count": count} for name, count in group.subjects.most_common(MAX_SUBJECTS)],
        "examples": group.examples,
    }
