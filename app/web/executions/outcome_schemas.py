"""Outcome of an attempt: the output of its transport, or an error."""

from marshmallow import fields

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.transport import Outcome


class AttemptErrorSchema(Outcome):
    """Why an attempt failed."""

    type = fields.String(required=True, metadata={"example": "TIMEOUT"})
    message = fields.String(required=True)
    status_code = fields.Integer(metadata={"description": "of HTTP_ERROR and ANSWER_REFUSED"})
    body = fields.String(metadata={"description": "with the status: the first 16 KiB of the answer"})
    body_bytes = fields.Integer(
        metadata={"description": "with the status, where the body is not kept: its size as text"}
    )
    retryable = fields.Boolean(metadata={"description": "whether such an error is tried again"})
    rejected = fields.Boolean(
        metadata={"description": "true when `reject_on` names it: a failure that needs nobody's attention"}
    )
    may_have_been_delivered = fields.Boolean(
        metadata={"description": "true when the message was sent and no answer came"}
    )


class IgnoredErrorSchema(Outcome):
    """A failure that `ignore_on` makes a success, with the answer if there was one."""

    status_code = fields.Integer()
    body = fields.String(metadata={"description": "the first 16 KiB of the answer, unless it is not kept"})
    body_bytes = fields.Integer(metadata={"description": "where the body is not kept: its size as text"})
    ignored_error = fields.Nested(AttemptErrorSchema, required=True)


OUTPUTS = (*(transport.output for transport in TRANSPORTS.values()), IgnoredErrorSchema())
ERROR = AttemptErrorSchema()
