"""/notification-rules."""

from typing import Any

from app.catalog.named_table import Named
from app.features.notifications import message_list
from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import Group
from app.features.notifications.message import MOST_SUBJECTS
from app.features.notifications.message_list import Listed
from app.features.notifications.pacing import Sent
from app.features.notifications.rule_preview import NOT_KNOWN, Preview, preview
from app.features.notifications.rules import DEFAULTS, SEVERITY, Rule
from app.features.notifications.schemas import (
    MOST_SHOWN,
    ChangedNotificationRuleSchema,
    NewNotificationRuleSchema,
    NotificationPreviewSchema,
    NotificationQuestionSchema,
    NotificationRuleSchema,
    SentMessageSchema,
)
from app.features.notifications.wording import title_of
from app.kernel.access.api_keys import Scope
from app.kernel.errors import ConflictError, InvalidNotificationRuleError, NotificationRuleNotFoundError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.openapi.resource import Resource, same_name
from app.web.services import services
from schema.states import Severity

resource = Resource(
    "notification-rules",
    "Who is told of what: events that match a rule become messages, each a job of an endpoint.",
    is_tagged=True,
)
# It stores nothing, so a key that may only read may ask.
questions = Resource("notification-previews", "What a notification rule would have told.", write_scope=Scope.READ)


@resource.route(
    "POST",
    "/notification-rules",
    body=NewNotificationRuleSchema,
    returns=NotificationRuleSchema,
    status=201,
    errors=[ConflictError, InvalidNotificationRuleError],
)
def create(body: dict[str, Any]) -> Any:
    """Create a notification rule.

    One that matches everything says so by `"all": true`; several conditions have to be met together.
    """
    row = notifications_store.create(services().database, body["name"], value_of(body), change())
    return tagged(shape(row), row.tag, 201)


@resource.route("GET", "/notification-rules", query=PageQuery, returns=page_schema(NotificationRuleSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List notification rules, newest first."""
    page = notifications_store.RULES.page(services().database, page_request(query))
    return page_answer(page, shape, query)


@resource.route(
    "GET", "/notification-rules/<name>", returns=NotificationRuleSchema, errors=[NotificationRuleNotFoundError]
)
def get(name: str) -> Any:
    """Get a notification rule."""
    row = notifications_store.RULES.get(services().database, name)
    return unless_known(shape(row), row.tag)


@resource.route(
    "PUT",
    "/notification-rules/<name>",
    body=ChangedNotificationRuleSchema,
    returns=NotificationRuleSchema,
    errors=[NotificationRuleNotFoundError, InvalidNotificationRuleError],
)
def replace(body: dict[str, Any], name: str) -> Any:
    """Change a notification rule; what it gathers already is told as the new rule says."""
    same_name(body, name)
    row = notifications_store.replace(services().database, name, value_of(body), change())
    return tagged(shape(row), row.tag)


@resource.route(
    "DELETE", "/notification-rules/<name>", returns=None, status=204, errors=[NotificationRuleNotFoundError]
)
def delete(name: str) -> None:
    """Delete a notification rule, with what it has gathered and not told yet."""
    notifications_store.RULES.delete(services().database, name, change())


@resource.route(
    "GET",
    "/notification-rules/<name>/messages",
    query=PageQuery,
    returns=page_schema(SentMessageSchema),
    errors=[NotificationRuleNotFoundError],
)
def list_messages(query: dict[str, Any], name: str) -> dict[str, Any]:
    """List the messages of a notification rule, newest first, beginning with what waits to be told.

    What became of a message after that is in the executions of its job.
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
    """Show what a notification rule would have told within the last day; nothing is stored or sent."""
    rule = notifications_store.check(body.get("name", "preview"), value_of(body))
    return shape_preview(rule, preview(services().database, rule))


@questions.route(
    "GET",
    "/notification-rules/<name>/preview",
    returns=NotificationPreviewSchema,
    errors=[NotificationRuleNotFoundError],
)
def preview_stored(name: str) -> dict[str, Any]:
    """Show what a stored notification rule would have told within the last day, whether or not it was there."""
    rule = notifications_store.get(services().database, name)
    return shape_preview(rule, preview(services().database, rule))


def value_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored of a request; the same events and channels need not come twice."""
    value = {name: each for name, each in body.items() if name != "name"}
    for name in ("events", "channels"):
        value[name] = list(dict.fromkeys(map(str, value[name])))
    if "min_severity" in value:
        value["min_severity"] = str(value["min_severity"])
    return value


def shape(row: Named) -> dict[str, Any]:
    """Return a stored rule as it is shown, with its defaults."""
    return {"name": row.name, **DEFAULTS, **row.value, "created_at": row.created_at, "updated_at": row.updated_at} | {
        "min_severity": Severity(row.value.get("min_severity", DEFAULTS["min_severity"]))
    }


def shape_preview(rule: Rule, found: Preview) -> dict[str, Any]:
    """Return a preview as it is shown."""
    told = found.told
    return {
        "since": found.since,
        "until": found.until,
        "truncated": found.is_truncated,
        "not_previewed": sorted(event.value for event in NOT_KNOWN if rule.wants(event)),
        "events": told.events,
        "repeated": told.repeated,
        "message_count": len(told.groups),
        "messages": [_shape_message(each) for each in told.groups[-MOST_SHOWN:]],
    }


def _shape_message(sent: Sent) -> dict[str, Any]:
    shown = {"opened_at": sent.opened_at, "sent_at": sent.sent_at, "waits_for": sent.waits and sent.waits.wait}
    return shown | _shape_group(sent.group)


def _shape_listed(listed: Listed) -> dict[str, Any]:
    shown = {name: getattr(listed, name) for name in ("group_id", "opened_at", "waits_for", "waits_until")}
    return shown | {"sent_at": listed.closed_at, "channels": listed.messages} | _shape_group(listed.group)


def _shape_group(group: Group) -> dict[str, Any]:
    return {
        "event": group.event,
        "severity": SEVERITY[group.event],
        "title": title_of(group),
        "count": group.count,
        "subjects": [{"name": name, "count": count} for name, count in group.subjects.most_common(MOST_SUBJECTS)],
        "examples": group.examples,
    }
