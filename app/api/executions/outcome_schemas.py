"""Outcome of an attempt: the output of its transport, or an error."""

from marshmallow import fields

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.transport import Outcome


class AttemptErrorSchema(Outcome):
    """Why an attempt failed."""

    type = fields.String(required=True, metadata={"example": "TIMEOUT"})
    message = fields.String(required=True)
    status_code = fields.Integer(metadata={"description": "of HTTP_ERROR"})
    body = fields.String(metadata={"description": "of HTTP_ERROR: the first 16 KiB of the answer"})
    body_bytes = fields.Integer(metadata={"description": "of HTTP_ERROR where the body is not kept: its size as text"})
    retryable = fields.Boolean(metadata={"description": "whether such an error is tried again"})
    may_have_been_delivered = fields.Boolean(
        metadata={"description": "true when the message was sent and no answer came"}
    )


OUTPUTS = tuple(transport.output for transport in TRANSPORTS.values())
ERROR = AttemptErrorSchema()
