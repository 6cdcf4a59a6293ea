"""Options of marshmallow fields: their documentation in the OpenAPI document."""

from typing import Any


def described(description: str = "", **metadata: Any) -> dict[str, Any]:
    """Return the options of a field with a description and further metadata, such as `example`."""
    return {"metadata": {"description": description, **metadata} if description else metadata}


def answered(description: str = "", *, null: bool = False, **metadata: Any) -> dict[str, Any]:
    """Return the options of a field that every answer has; with `null`, its value may be null.

    Example:
        due = fields.Integer(**answered("due executions", example=412))
    """
    options = {"required": True, **described(description, **metadata)}
    return {**options, "allow_none": True} if null else options
