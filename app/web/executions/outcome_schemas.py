"""Outcome of an attempt: the output of its transport, or an error."""

from marshmallow import fields

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.transport import Outcome


class AttemptErrorSchema(Outcome):
    """Error of a failed attempt."""

    type = fields.String(required=True, metadata={"example": "TIMEOUT"})
    message = fields.String(required=True)
    status_code = fields.Integer(metadata={"description": "of HTTP_ERROR and ANSWER_REFUSED"})
    body = fields.String(metadata={"description": "with `status_code`: the first 16 KiB of the answer"})
    body_bytes = fields.Integer(metadata={"description": "with `status_code`, if the body is not kept: its size"})
    retryable = fields.Boolean(metadata={"description": "true if this kind of error is retried"})
    rejected = fields.Boolean(metadata={"description": "true if `reject_on` matches: an expected failure"})
    may_have_been_delivered = fields.Boolean(
        metadata={"description": "true if the message was sent and no answer came"}
    )


class IgnoredErrorSchema(Outcome):
    """Failure that `ignore_on` turns into a success, with the answer if there was one."""

    status_code = fields.Integer()
    body = fields.String(metadata={"description": "the first 16 KiB of the answer, unless it is not kept"})
    body_bytes = fields.Integer(metadata={"description": "if the body is not kept: its size"})
    ignored_error = fields.Nested(AttemptErrorSchema, required=True)


OUTPUTS = (*(transport.output for transport in TRANSPORTS.values()), IgnoredErrorSchema())
ERROR = AttemptErrorSchema()
