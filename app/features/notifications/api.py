"""/notification-rules: rules, their messages and previews."""

from typing import Any

from sqlalchemy import Row, select

from app.catalog.named_table import NamedRow
from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import EventGroup
from app.features.notifications.message import MAX_SUBJECTS, title_of
from app.features.notifications.pacing import Wait
from app.features.notifications.rule_preview import WITHOUT_HISTORY, Preview
from app.features.notifications.rules import DEFAULTS, TRAITS, Rule
from app.features.notifications.schemas import (
    MAX_SHOWN,
    ChangedNotificationRuleSchema,
    NewNotificationRuleSchema,
    NotificationPreviewSchema,
    NotificationQuestionSchema,
    NotificationRuleSchema,
    SentMessageSchema,
)
from app.features.notifications.store import RULES, stored_value
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from app.kernel.errors import (
    ConflictError,
    InvalidNotificationRuleError,
    NotificationRuleNotFoundError,
)
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.openapi.resource import Resource, same_name
from app.web.services import services
from schema import tables
from schema.states import Severity

rules = Resource(
    "notification-rules",
    "Rules that report matching events to channels; each message is a job of an endpoint.",
    is_tagged=True,
)
# A preview stores nothing, so the read scope is enough.
dry_runs = Resource(
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
    row = RULES.create(services().database, body["name"], stored_value(body), change())
    return tagged(shape(row), row.tag, 201)


@rules.route("GET", "/notification-rules", query=PageQuery, returns=page_schema(NotificationRuleSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List notification rules, newest first."""
    page = RULES.page(services().database, page_request(query))
    return page_answer(page, query, shape)


@rules.route(
    "GET", "/notification-rules/<name>", returns=NotificationRuleSchema, errors=[NotificationRuleNotFoundError]
)
def get(name: str) -> Any:
    """Get a notification rule."""
    row = RULES.get(services().database, name)
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
    row = RULES.replace(services().database, name, stored_value(body), change())
    return tagged(shape(row), row.tag)


@rules.route("DELETE", "/notification-rules/<name>", returns=None, status=204, errors=[NotificationRuleNotFoundError])
def delete(name: str) -> None:
    """Delete a notification rule with its unsent events."""
    RULES.delete(services().database, name, change())


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
    return page_answer(page_of_messages(services().database, name, page_request(query)), query)


def page_of_messages(database: Database, rule: str, wanted: PageRequest) -> Page[dict[str, Any]]:
    """Read a page of the groups of a rule, newest first; raise NotificationRuleNotFoundError."""
    RULES.get(database, rule)
    groups = tables.notification_groups.c
    query = newest_first(select(*groups).where(groups.rule == rule), groups.opened_at, groups.group_id, wanted)
    return page_of(database.fetch(query), "opened_at", "group_id", wanted, shape_stored)


@dry_runs.route(
    "POST",
    "/notification-rules/preview",
    body=NotificationQuestionSchema,
    returns=NotificationPreviewSchema,
    errors=[InvalidNotificationRuleError],
)
def preview_new(body: dict[str, Any]) -> dict[str, Any]:
    """Show the messages that a notification rule would have sent within the last day; nothing is stored or sent."""
    rule = notifications_store.check(body.get("name", "preview"), stored_value(body))
    return shape_preview(rule, Preview(services().database, rule))


@dry_runs.route(
    "GET",
    "/notification-rules/<name>/preview",
    returns=NotificationPreviewSchema,
    errors=[NotificationRuleNotFoundError],
)
def preview_stored(name: str) -> dict[str, Any]:
    """Show the messages that a stored notification rule would have sent within the last day, had it existed."""
    rule = notifications_store.get(services().database, name)
    return shape_preview(rule, Preview(services().database, rule))


def shape(row: NamedRow) -> dict[str, Any]:
    """Return a stored rule with its defaults, as answered."""
    value = {"name": row.name, **DEFAULTS, **row.value, "created_at": row.created_at, "updated_at": row.updated_at}
    return value | {"min_severity": Severity(value["min_severity"])}


def shape_preview(rule: Rule, found: Preview) -> dict[str, Any]:
    groups = found.simulation.groups
    return {
        "since": found.since,
        "until": found.until,
        "truncated": found.is_truncated,
        "not_previewed": sorted(event.value for event in WITHOUT_HISTORY if rule.covers(event)),
        "events": found.simulation.events,
        "repeated": found.simulation.repeated,
        "message_count": len(groups),
        "messages": [
            {"opened_at": each.opened_at, "sent_at": each.sent_at, "waits_for": each.waits_for}
            | _shape_group(each.group)
            for each in groups[-MAX_SHOWN:]
        ],
    }


def shape_stored(row: Row[Any]) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in ("group_id", "opened_at", "waits_until")}
    shown |= {"waits_for": row.waits_for and Wait(row.waits_for), "sent_at": row.closed_at}
    return shown | {"channels": row.messages or []} | _shape_group(EventGroup.from_json(row.told))


def _shape_group(group: EventGroup) -> dict[str, Any]:
    return {
        "event": group.event,
        "severity": TRAITS[group.event].severity,
        "title": title_of(group),
        "count": group.count,
        "subjects": [{"name": name, "count": count} for name, count in group.subjects.most_common(MAX_SUBJECTS)],
        "examples": group.examples,
    }
