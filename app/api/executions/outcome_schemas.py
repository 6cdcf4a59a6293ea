"""What an attempt left behind, as the brief shapes it: an output for each transport, and an error."""

from marshmallow import INCLUDE, Schema, fields


class Outcome(Schema):
    """Written by a worker and shown as it was stored; a later worker may say more."""

    class Meta:
        """What marshmallow is told."""

        unknown = INCLUDE


class HttpOutputSchema(Outcome):
    """What an HTTP endpoint answered."""

    status_code = fields.Integer(required=True)
    body = fields.String(required=True, metadata={"description": "its first 16 KiB"})


class KafkaOutputSchema(Outcome):
    """Where a record is."""

    partition = fields.Integer(required=True)
    offset = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": '`null` where the brokers do not say: with `acks: "0"`, or when it had to be resent'},
    )


class RedisStreamOutputSchema(Outcome):
    """Where an entry is."""

    message_id = fields.String(required=True, metadata={"example": "1710499801234-0"})
    stream = fields.String(required=True)


class AttemptErrorSchema(Outcome):
    """Why an attempt failed."""

    type = fields.String(required=True, metadata={"example": "TIMEOUT"})
    message = fields.String(required=True)
    status_code = fields.Integer(metadata={"description": "of HTTP_ERROR"})
    body = fields.String(metadata={"description": "of HTTP_ERROR: the first 16 KiB of the answer"})
    retryable = fields.Boolean(metadata={"description": "whether such an error is tried again"})
    may_have_been_delivered = fields.Boolean(
        metadata={"description": "true when the message was sent and no answer came"}
    )


OUTPUTS = (HttpOutputSchema(), KafkaOutputSchema(), RedisStreamOutputSchema())
ERROR = AttemptErrorSchema()
