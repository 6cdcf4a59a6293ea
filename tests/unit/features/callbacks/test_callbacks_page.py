"""Page of callbacks: its example matches the schema of a callback's input."""

import json
import re
from pathlib import Path

import jsonschema

from app.catalog.callback_outcome import OUTCOME_SCHEMA

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "callbacks.md"


def test_example_of_the_page_matches_the_schema() -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    jsonschema.Draft202012Validator(OUTCOME_SCHEMA).validate(json.loads(shown))
