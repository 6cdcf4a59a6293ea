"""Page of notifications: its example matches the schema of a message."""

import json
import re
from pathlib import Path

import jsonschema

from app.features.notifications.message import MESSAGE_SCHEMA

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "notifications.md"


def test_example_of_the_page_matches_the_schema() -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    jsonschema.Draft202012Validator(MESSAGE_SCHEMA).validate(json.loads(shown))
