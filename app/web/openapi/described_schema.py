"""JSON Schemas of marshmallow schemas, as the OpenAPI document describes them, each by itself."""

from collections.abc import Mapping
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema

from app.web.openapi import any_of


def json_schema_of(schema: Schema) -> Mapping[str, Any]:
    """Return the JSON Schema of a schema; its `components` are what its references name."""
    plugin: Any = MarshmallowPlugin()
    document: Any = APISpec("", "", "3.1.0", plugins=[plugin])
    plugin.converter.add_attribute_function(any_of.describe)
    described = plugin.converter.schema2jsonschema(schema)
    return {**described, "components": {"schemas": document.components.schemas}}
