"""Message list: the sent messages of a rule and its open group."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from app.features.notifications.grouping import EventGroup
from app.features.notifications.pacing import Wait
from app.features.notifications.store import RULES
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from schema import tables

_G = tables.notification_groups.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Group of a rule, open until `closed_at`; `messages` holds the job or fault of each channel."""

    group_id: str
    group: EventGroup
    opened_at: datetime
    closed_at: datetime | None
    waits_for: Wait | None
    waits_until: datetime | None
    messages: Sequence[dict[str, Any]]


def page(database: Database, rule: str, wanted: PageRequest) -> Page[Listed]:
    """Read a page of the groups of a rule, newest first; raise NotificationRuleNotFoundError."""
    RULES.get(database, rule)
    query = newest_first(select(*_G).where(_G.rule == rule), _G.opened_at, _G.group_id, wanted)
    return page_of(database.fetch(query), "opened_at", "group_id", wanted, _listed)


def _listed(row: Row[Any]) -> Listed:
    return Listed(
        group_id=row.group_id,
        group=EventGroup.from_json(row.told),
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        waits_for=None if row.waits_for is None else Wait(row.waits_for),
        waits_until=row.waits_until,
        messages=row.messages or [],
    )
