"""Page of notifications: its table lists all events, and its example matches the schema of a message."""

import json
import re
from pathlib import Path

import jsonschema

from app.features.notifications.message import MESSAGE_SCHEMA
from app.features.notifications.rules import EVENTS, TRAITS

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "notifications.md"


def test_example_of_the_page_matches_the_schema() -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    jsonschema.Draft202012Validator(MESSAGE_SCHEMA).validate(json.loads(shown))


def test_page_lists_every_event_with_its_severity() -> None:
    """If it fails, add the event to the table in docs/how-to/notifications.md."""
    listed = re.findall(r"^\| `([\w.]+)` \| [^|]+ \| (\w+) \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted((event.value, TRAITS[event].severity.value) for event in EVENTS)
