"""Notifications: all rules."""

from operator import itemgetter

from app.console.http.console_page import ConsolePage, Values
from app.features.notifications import api as notifications_api
from app.features.notifications.latest_messages import latest_messages
from app.features.notifications.store import MAX_RULES, RULES
from app.kernel.db.paging import PageRequest
from app.kernel.unreadable import readable
from app.web.services import services

page = ConsolePage(
    "notifications",
    "/notifications",
    "Notifications",
    reads="GET /notification-rules",
    nav="Notifications",
    shortcut="n",
    after="workflow_retry",
)


@page.region("rules", live="notifications")
def rules() -> Values:
    """Read all rules, each with its latest message."""
    database = services().database
    rows = RULES.page(database, PageRequest(MAX_RULES)).items
    found = readable(notifications_api.shape, rows, "rule {.name}".format)
    return {"rules": sorted(found, key=itemgetter("name")), "latest": latest_messages(database)}
