"""A notification rule: its messages and channels, and its form with the events of the last day."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from marshmallow import ValidationError

from app.catalog.named_table import NamedRow
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import ETAG, Fields, change, form, query, refuse
from app.console.http.list_pages import shown_page
from app.console.http.page_rendering import to
from app.console.http.request_values import once_a_request
from app.console.pages.periods import PERIODS
from app.features.control.shared_figures import shared_figures
from app.features.notifications import api as notifications_api
from app.features.notifications import store, trial_messages_api
from app.features.notifications.rule_preview import Preview
from app.features.notifications.rules import DAYS, DEFAULTS, EVENTS, TRAITS, Rule
from app.features.notifications.schemas import ChangedNotificationRuleSchema, NewNotificationRuleSchema
from app.features.notifications.store import RULES, stored_value
from app.features.rollups.delivery_history import OTHERS
from app.kernel.errors import InvalidNotificationRuleError
from app.kernel.formats import marshmallow_faults
from app.web.catalog import similar_endpoints
from app.web.services import services
from schema.states import Severity

DAY = "24h"
MAX_BODY = 20_000  # characters
_TEXTS = ("endpoint", "label", "queue", "min_severity")
_NUMBERS = ("failing_after", "late_seconds", "group_seconds", "repeat_after_seconds", "max_per_hour")
_EMPTY: Mapping[str, Any] = {"name": "", "events": ["execution.failed"], "channels": [], **DEFAULTS}

rule_page = ConsolePage(
    "notification_rule", "/notifications/<name>", "", reads="GET /notification-rules/<name>", under="notifications"
)
edit_page = ConsolePage(
    "notification_edit",
    "/notifications/<name>/edit",
    "",
    reads="PUT /notification-rules/<name>",
    under="notifications",
)
new_page = ConsolePage(
    "notification_new", "/notifications/new", "New rule", reads="POST /notification-rules", under="notifications"
)


@rule_page.show
def show(name: str) -> Values:
    row = _rule(name)
    return {"title": name, "name": name, "rule": notifications_api.shape(row), "etag": row.tag}


@rule_page.region("channels", reads="GET /stats/figures")
def channels(name: str) -> Values:
    """Read the deliveries of the channels on the last day; the counts of rare endpoints may be in the sum of others."""
    counted = shared_figures().endpoints(PERIODS[DAY]).window.endpoints
    return {
        "channels": notifications_api.shape(_rule(name))["channels"],
        "sent": {endpoint: each.counts for endpoint, each in counted.items()},
        "are_all_counted": bool(counted) and OTHERS not in counted,
    }


def _rule(name: str) -> NamedRow:
    return once_a_request("notification_rule", RULES.get, services().database, name)


@rule_page.region("messages")
def messages(name: str) -> Values:
    read = partial(notifications_api.page_of_messages, services().database, name)
    return {"found": shown_page(read, {}, 20)}


@edit_page.show
def edit(name: str) -> Values:
    """Show the form: as stored, or as it was sent for a preview."""
    row = RULES.get(services().database, name)
    stored = notifications_api.shape(row)
    as_stored = _previewed(store.check(name, row.value))
    return _shown(stored, as_stored) | {
        "title": f"Edit {name}",
        "name": name,
        "etag": query().text(ETAG, row.tag),
        "is_new": False,
    }


@new_page.show
def new() -> Values:
    return _shown(_EMPTY, None) | {"name": query().text("name"), "etag": "", "is_new": True}


def _shown(stored: Mapping[str, Any], as_stored: Mapping[str, Any] | None) -> Values:
    """Return the variables of the form, with a preview of the values of the address if it has some."""
    is_sent = query().flag("sent")
    given = _body(query()) if is_sent else {key: stored[key] for key in ("events", "channels", *DEFAULTS)}
    preview, faults = _tried(given, query().text("name")) if is_sent else (None, {})
    quiet = given.get("quiet_hours") or {}
    return {
        "rule": {**DEFAULTS, **given},
        "channels": ", ".join(given["channels"]),
        "quiet": quiet,
        "days": DAYS,
        "events": [(event.value, TRAITS[event].several, TRAITS[event].severity.value) for event in EVENTS],
        "severities": [each.value for each in Severity],
        "is_sent": is_sent,
        "preview": preview,
        "as_stored": as_stored,
        "faults": faults,
        "body": json.dumps(given),
    }


def _body(fields: Fields) -> dict[str, Any]:
    """Return the body of a request; a number that is none stays a text, which the schema refuses."""
    body: dict[str, Any] = {
        "events": fields.many("events"),
        "channels": fields.text("channels").replace(",", " ").split(),
    }
    body |= {name: fields.text(name) for name in _TEXTS if fields.text(name)}
    numbers = {name: fields.text(name) for name in _NUMBERS if fields.text(name)}
    body |= {name: int(text) if text.isascii() and text.isdigit() else text for name, text in numbers.items()}
    if fields.flag("all"):
        body["all"] = True
    if fields.text("quiet_from") or fields.text("quiet_to"):
        days = fields.text("quiet_days").replace(",", " ").split()
        quiet = {"from": fields.text("quiet_from"), "to": fields.text("quiet_to")}
        quiet["timezone"] = fields.text("quiet_timezone", "UTC")
        body["quiet_hours"] = quiet | ({"days": days} if days and len(days) < len(DAYS) else {})
    return body


def _tried(given: dict[str, Any], name: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the preview of a body, or the faults by field."""
    try:
        loaded = ChangedNotificationRuleSchema().load(given)
        return _previewed(store.check(name or "preview", stored_value(loaded))), {}
    except ValidationError as error:
        return None, {str(path[0]): message for path, message in marshmallow_faults(error.messages)}
    except InvalidNotificationRuleError as error:
        return None, {
            each["pointer"].strip("/").partition("/")[0]: each["message"]
            for each in similar_endpoints.explained(error).details
        }


def _previewed(rule: Rule) -> dict[str, Any]:
    return notifications_api.shape_preview(rule, Preview(services().database, rule))


@action("PUT /notification-rules/<name>")
def replace(name: str) -> Done:
    RULES.replace(services().database, name, stored_value(_loaded(ChangedNotificationRuleSchema())), change())
    return Done(f"Saved the rule {name}.", to("notification_rule", name=name))


@action("POST /notification-rules")
def create() -> Done:
    name = form().text("name")
    RULES.create(services().database, name, stored_value(_loaded(NewNotificationRuleSchema(), name=name)), change())
    return Done(f"Created the rule {name}.", to("notification_rule", name=name))


@action("DELETE /notification-rules/<name>")
def delete(name: str) -> Done:
    RULES.delete(services().database, name, change())
    return Done(f"Deleted the rule {name}.", to("notifications"))


@action("POST /endpoints/<name>/test")
def send_test(name: str) -> Done:
    trial_messages_api.test(name)
    return Done(f"A test message is on its way through {name}.")


def _loaded(schema: ChangedNotificationRuleSchema, **more: str) -> dict[str, Any]:
    """Return the previewed rule that the form carries."""
    given = form().json_object("rule", longest=MAX_BODY)
    try:
        loaded: dict[str, Any] = schema.load(given | more)
    except ValidationError as error:
        refuse("rule", f"Preview the rule again: {error}")
    return loaded
