"""Dead letters: groups of the same fault, the list of a filter, and the archiving of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.list_export import exports
from app.console.http.list_pages import UNTIL, address_behind, position_after
from app.console.http.page_rendering import now
from app.console.pages.address_filter import SINCE, beginning, pinned_address, read_filter
from app.features.dead_letters.api import DeadLetterQuery
from app.features.dead_letters.letter_groups import LetterGroup, groups_of
from app.features.dead_letters.letter_list import LetterFilter, LetterState, page_of_letters
from app.features.dead_letters.since_failure import SinceFailure, since_failures
from app.kernel.db.chunked_scan import ChunkedRead
from app.kernel.db.paging import PageRequest
from app.kernel.formats import compact_json
from app.queue.ending.letters import DeadLetter, LetterFault
from app.web.http.error_envelope import client_error
from app.web.services import services

ROWS, GROUPS = 50, 30
NEWEST = 2_000  # letters that are grouped
LIST = ChunkedRead(chunks=3)
PATIENCE_SECONDS = 0.5  # the groups that are left after this time have no prospects
FAILED = ("failed_after", "failed_before")
GROUPED_AFTER = "grouped_after"  # position behind which letters are grouped
NAMES = ("letter_id", "endpoint", "error_type", "labels", "group", *FAILED)
FIELDS = ("letter_ids", *NAMES[1:])

page = ConsolePage(
    "letters", "/dead-letters", "Dead letters", reads="GET /dead-letters", nav="Dead letters", shortcut="d"
)


@page.show
def show() -> Values:
    given, _, faults = letter_filter(now())
    return {"given": given, "faults": faults, "states": [each.value for each in LetterState], "state": _state().value}


@page.region("groups", live="letters", reads="GET /dead-letters/groups")
def groups() -> Values:
    """Group the newest letters of the filter by their faults, and judge a redrive of each group by its last failure.

    A link leads to the groups of the letters before them.
    """
    given, wanted, faults = letter_filter(now())
    if faults or _state() is not LetterState.OPEN:
        return {"groups": None, "is_open": _state() is LetterState.OPEN}
    after = position_after(GROUPED_AFTER)
    found = groups_of(services().database, wanted, after=after, most=NEWEST)
    shown = found.items[:GROUPS]
    since = _since([each.last for each in shown])
    return {
        "groups": [_group(each, given) | {"since": since.get(each.last.letter_id)} for each in shown],
        "latest": None if given or found.items or after is not None else _latest_resolved(),
        "found": found,
        "is_open": True,
        "given": given,
        "left": len(found.items) - len(shown),
        "is_whole": found.is_complete and after is None,
        "is_older": after is not None,
        "older": address_behind(found.next, GROUPED_AFTER),
    }


def _latest_resolved() -> DeadLetter | None:
    """Return the resolved letter whose execution failed last."""
    wanted = LetterFilter(state=LetterState.RESOLVED)
    return next(iter(page_of_letters(services().database, wanted, PageRequest(1), LIST).items), None)


def _since(letters: Sequence[LetterFault]) -> Mapping[str, SinceFailure]:
    """Judge letters; none if that fails: their groups can be redriven nevertheless."""
    try:
        return since_failures(services().database, letters, seconds=PATIENCE_SECONDS)
    except Exception as error:  # noqa: BLE001 - the log has it
        client_error(error)
        return {}


def _group(group: LetterGroup, given: dict[str, str]) -> Values:
    """Return a group with its filter, and the body that archives it."""
    own = {"endpoint": group.endpoint, "error_type": group.error_type, "group": group.group}
    wanted = given | own
    return {"group": group, "filter": wanted, "wanted": compact_json(wanted_letters(wanted, now()))}


@page.region("list", live="letters", pinned=True)
def list_() -> Values:
    given, wanted, faults = letter_filter(now())
    if faults:
        return {"letters": [], "faults": faults, "given": given, "older": "", "state": _state().value}
    found = page_of_letters(services().database, _until(wanted), PageRequest(ROWS, position_after()), LIST)
    shown: Values = {"letters": found.items, "older": address_behind(found.next)}
    shown |= {"pinned": pinned_address(given.get(SINCE, ""), FAILED)}
    shown |= {"exports": exports("letters", {**given, "state": _state().value})}
    return shown | {"faults": {}, "given": given, "state": _state().value}


def letter_filter(at: datetime) -> tuple[dict[str, str], LetterFilter, dict[str, str]]:
    """Return the filter of the address as given, as a filter, and its faults by field."""
    found = read_filter(DeadLetterQuery(only=FIELDS), NAMES, FAILED, at)
    wanted = LetterFilter() if found.faults else LetterFilter(state=_state(), **found.values)
    return dict(found.given), wanted, dict(found.faults)


def wanted_letters(given: dict[str, str], at: datetime) -> dict[str, Any]:
    """Return a filter as the body of a redrive, or of a bulk operation that archives, has it."""
    wanted: dict[str, Any] = {name: text for name, text in given.items() if name != SINCE}
    if "labels" in wanted:
        wanted["labels"] = DeadLetterQuery(only=("labels",)).load({"labels": wanted["labels"]})["labels"]
    after = beginning(given[SINCE], at) if SINCE in given else None
    return wanted | ({"failed_after": after.isoformat()} if after is not None else {})


def _state() -> LetterState:
    return LetterState(query().choice("state", [each.value for each in LetterState], LetterState.OPEN.value))


def _until(wanted: LetterFilter) -> LetterFilter:
    until = query().instant(UNTIL)
    if until is None or wanted.failed_before is not None:
        return wanted
    return replace(wanted, failed_before=until)
