"""Schemas of definitions, made to be read in a form."""

from app.console.views.definition_schema import readable


def test_description_names_the_default_and_no_pattern() -> None:
    schema = {
        "type": "object",
        "properties": {
            "timeout_ms": {"type": "integer", "default": 30, "description": "below `x`."},
            "method": {"type": "string", "default": "POST", "minLength": 1, "pattern": "^[A-Z]+$"},
            "headers": {"type": "object", "default": {}},
        },
    }
    assert readable(schema) == {
        "type": "object",
        "properties": {
            "timeout_ms": {"type": "integer", "description": "below x. Empty: 30"},
            "method": {"type": "string", "description": "Empty: POST"},
            "headers": {"type": "object"},
        },
    }


def test_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "default": {"type": "string", "default": "a"}}}
    assert readable(schema)["properties"].keys() == {"pattern", "default"}
