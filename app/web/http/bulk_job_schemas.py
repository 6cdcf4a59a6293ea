"""Fields shared by the schemas of redrives and bulk operations."""

from marshmallow import ValidationError, fields, validate

from app.queue.bulk.bulk_job_runner import MAX_RATE, MAX_RUNNING


def all_field(condition: str) -> fields.Boolean:
    """Return the field that confirms a filter without restrictions; `condition` describes such a filter."""
    return fields.Boolean(load_default=False, metadata={"description": f"must be `true` where {condition}"})


def rate_field(default: int) -> fields.Integer:
    """Return the field for the rate in rows per second."""
    return fields.Integer(
        strict=True,
        load_default=default,
        validate=validate.Range(1, MAX_RATE),
        metadata={"description": "maximum per second", "example": default},
    )


def waits_field() -> fields.Boolean:
    """Return the field that shows whether a bulk job waits for a scheduler."""
    return fields.Boolean(
        required=True,
        metadata={
            "description": "`RUNNING`, but no scheduler works on it: it has just begun, no scheduler runs, or more "
            f"than {MAX_RUNNING} are running, which take turns",
            "example": False,
        },
    )


def check_all(given: bool, *, narrows: bool, condition: str) -> None:
    """Raise ValidationError unless `all` is given exactly if the filter has no restrictions."""
    if not (narrows or given):
        raise ValidationError(f"Must be true where {condition}.", "all")
    if narrows and given:
        raise ValidationError("Must be absent where `wanted` has a filter.", "all")
