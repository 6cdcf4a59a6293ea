"""Job labels: key-value pairs by which a client finds its jobs, with the syntax of Kubernetes labels."""

from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import ValidationError, fields

from app.kernel.described_fields import described
from app.kernel.formats import marshmallow_faults
from schema.job_bounds import LABEL_KEY, LABEL_VALUE, MAX_LABEL_PART, MAX_LABEL_PREFIX, MAX_LABELS

_KEY_FAULT = (
    f"A key has 1 to {MAX_LABEL_PART} letters, digits, dots, hyphens and underscores, begins and ends with a letter or "
    "a digit, and may have a DNS name and a slash in front."
)
_VALUE_FAULT = (
    f"A value is a string of up to {MAX_LABEL_PART} letters, digits, dots, hyphens and underscores, and begins and "
    "ends with a letter or a digit."
)
_SCHEMA: dict[str, Any] = {
    "maxProperties": MAX_LABELS,
    "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_PART, "pattern": LABEL_VALUE.pattern},
}


def labels_field(**metadata: Any) -> fields.Dict:
    text = "key-value pairs to find the job by, with the syntax of Kubernetes labels"
    return fields.Dict(allow_none=True, validate=_check, metadata={"description": text, **_SCHEMA, **metadata})


class LabelSelector(fields.Field[dict[str, str]]):
    """Labels in a query string, such as `team=billing,env=prod`."""

    def __init__(self, **kwargs: Any) -> None:
        metadata = {
            "type": "string",
            "description": "`key=value`, or several separated by commas: jobs with all of these labels",
            "example": "team=billing,env=prod",
        }
        super().__init__(metadata=metadata, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:  # noqa: ARG002
        pairs = [each.partition("=") for each in str(value).split(",")]
        labels = {key: wanted for key, _, wanted in pairs}
        if not all(sign for _, sign, _ in pairs) or len(labels) < len(pairs):
            raise ValidationError("Must be key=value pairs separated by commas, each key once.")
        try:
            _check(labels)
        except ValidationError as error:
            # A query parameter has no parts to point to.
            raise ValidationError([fault for _, fault in marshmallow_faults(error.messages)]) from None
        return labels


class LabelCondition(fields.String):
    """A label condition on jobs, such as `team=billing`, or `team` for any value."""

    def __init__(self, **kwargs: Any) -> None:
        text = "`key=value`, or a key for any value: jobs with this label"
        super().__init__(**kwargs, **described(text, example="team=billing"))

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        key, _, wanted = text.partition("=")
        found = list(_faults(key, wanted))
        if found:
            raise ValidationError(found)
        return text


def _check(labels: Mapping[str, Any]) -> None:
    """Raise ValidationError for too many labels, or with the faults of each label."""
    if len(labels) > MAX_LABELS:
        raise ValidationError(f"Must have at most {MAX_LABELS} labels.")
    faults = {str(key): list(_faults(key, value)) for key, value in labels.items()}
    if any(faults.values()):
        raise ValidationError({key: found for key, found in faults.items() if found})


def _faults(key: str, value: Any) -> Iterator[str]:
    if not LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[0]) > MAX_LABEL_PREFIX:
        yield _KEY_FAULT
    if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
        yield _VALUE_FAULT
