"""Errors of requests that are well-formed and cannot be: 422."""

from app.kernel.errors.base import TaskExecutorError


class UnprocessableError(TaskExecutorError):
    """The base of the 422 codes: well-formed, but it cannot work."""

    code = "INVALID_REQUEST"
    status = 422


class InvalidCronError(UnprocessableError):
    """The cron expression is not one, or never fires."""

    code = "INVALID_CRON"


class InvalidSchemaError(UnprocessableError):
    """The payload spec's schema is not a JSON Schema that can be used."""

    code = "INVALID_SCHEMA"


class InvalidPayloadSpecRefError(UnprocessableError):
    """The endpoint names a payload spec that does not exist."""

    code = "INVALID_PAYLOAD_SPEC_REF"


class InvalidConfigRefError(UnprocessableError):
    """The endpoint names a config that does not exist."""

    code = "INVALID_CONFIG_REF"


class InvalidCallbackError(UnprocessableError):
    """An endpoint to call back does not exist, refuses outcomes, or leads back to where it is called from."""

    code = "INVALID_CALLBACK"


class InvalidNotificationRuleError(UnprocessableError):
    """The notification rule matches everything, or nothing, or names a channel that is none."""

    code = "INVALID_NOTIFICATION_RULE"


class InputValidationError(UnprocessableError):
    """The job's input does not match the endpoint's payload spec."""

    code = "INPUT_VALIDATION_FAILED"


class IdempotencyKeyReusedError(UnprocessableError):
    """The Idempotency-Key was used for another request before."""

    code = "IDEMPOTENCY_KEY_REUSED"


class TemplateError(UnprocessableError):
    """A template is malformed, or a variable in it cannot be resolved."""

    code = "TEMPLATE_RESOLUTION_FAILED"
