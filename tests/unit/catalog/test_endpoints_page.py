"""docs/reference/endpoints.md lists each field of each spec with its placeholders and its default."""

import json
import re
from enum import Enum
from pathlib import Path

import pytest
from marshmallow import missing

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.spec_fields import rule_of
from app.web.catalog.endpoints_api import NewEndpointSchema
from schema.states import EndpointType

# Fields with the same default for each type of endpoint.
LIVE_SETTINGS = {"queue": "of its route or type", "priority": "`128`", "limits": "none", "breaker": "on"}
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "endpoints.md"


def rows_of(section: str) -> dict[str, str]:
    """Return the defaults of the fields in the first table of a section."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]*) \|", section, re.MULTILINE)
    return {name: default for names, default in rows for name in re.findall(r"\w+", names)}


def test_page_lists_exactly_the_fields_of_an_endpoint() -> None:
    wanted = {}
    for name, field in NewEndpointSchema().fields.items():
        if isinstance(default := field.load_default, Enum):
            wanted[name] = f'`"{default.value}"`'
        else:
            wanted[name] = "required" if field.required else "none"
    wanted |= LIVE_SETTINGS | {"retry_policy": "one attempt"}
    assert rows_of(PAGE.read_text().partition("\n## ")[0]) == wanted


@pytest.mark.parametrize("type_", EndpointType)
def test_page_lists_exactly_the_fields_of_a_spec(type_: EndpointType) -> None:
    section = PAGE.read_text().partition(f"\n## {type_.value}\n")[2].partition("\n## ")[0]
    listed = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", section, re.MULTILINE)}
    wanted = {}
    for name, field in TRANSPORTS[type_].spec.fields.items():
        rule, default = rule_of(field), field.load_default
        namespaces = [each for each in ("input", "config", "secret") if rule and each in rule.namespaces]
        shown = "required" if field.required else "none" if default is missing else f"`{json.dumps(default)}`"
        wanted[name] = (", ".join(namespaces) or "none", shown)
    assert listed == wanted
