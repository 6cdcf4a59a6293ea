"""What the bodies of redrives and of bulk operations have in common."""

from marshmallow import ValidationError, fields, validate

from app.queue.bulk.walker import MOST_RATE, MOST_RUNNING


def all_field(what: str) -> fields.Boolean:
    """Return the field that says that a filter means everything: `what` says which filter does."""
    return fields.Boolean(load_default=False, metadata={"description": f"`true` where {what}"})


def rate_field(default: int) -> fields.Integer:
    """Return the field of how many in a second."""
    return fields.Integer(
        strict=True,
        load_default=default,
        validate=validate.Range(1, MOST_RATE),
        metadata={"description": "in a second", "example": default},
    )


def waits_field() -> fields.Boolean:
    """Return the field of whether a walk waits for its turn."""
    return fields.Boolean(
        required=True,
        metadata={
            "description": "`RUNNING`, but no scheduler goes on with it just now: it has only begun, no "
            f"scheduler runs, or more than {MOST_RUNNING} are under way, which take turns",
            "example": False,
        },
    )


def check_all(given: bool, *, narrows: bool, what: str) -> None:
    """Raise ValidationError unless `all` was given where the filter narrows nothing, and nowhere else."""
    if not (narrows or given):
        raise ValidationError(f"Must be true where {what}.", "all")
    if narrows and given:
        raise ValidationError("Leave it out: `wanted` asks for certain ones only.", "all")
