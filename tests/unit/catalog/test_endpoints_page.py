"""docs/reference/endpoints.md lists each field of each spec with its placeholders and its default."""

import json
import re
from pathlib import Path

import pytest
from marshmallow import missing

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.spec_fields import rule_of
from schema.states import EndpointType

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "endpoints.md"


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
