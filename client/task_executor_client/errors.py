"""Error classes, one for each documented code.

Written by `make client` from the OpenAPI document; do not edit.
"""

from .failures import ApiError


class ConflictError(ApiError):
    """Something else depends on the resource, or its name is taken."""


class EventsExpiredError(ApiError):
    """Reading cannot continue at that position: later events were deleted, or it is ahead of the database's
    clock.
    """


class ExecutionNotCancellableError(ApiError):
    """The execution is running or final."""


class ForbiddenError(ApiError):
    """The API key lacks the scope that the operation needs."""


class GatewayTimeoutError(ApiError):
    """The request took too long. Its work may have been done: check, or try again."""


class HeadersTooLargeError(ApiError):
    """The request headers are too large."""


class IdempotencyKeyReusedError(ApiError):
    """The Idempotency-Key was used for another request before."""


class InputValidationFailedError(ApiError):
    """The job's input does not match the endpoint's payload spec."""


class InternalError(ApiError):
    """Something went wrong on our side; the request id finds it in the log."""


class InvalidCallbackError(ApiError):
    """An endpoint to call back does not exist, refuses outcomes, or leads back to the calling endpoint."""


class InvalidConfigRefError(ApiError):
    """The endpoint names a config that does not exist."""


class InvalidCronError(ApiError):
    """The cron expression is malformed, or never fires."""


class InvalidNotificationRuleError(ApiError):
    """The notification rule matches everything, or nothing, or names an invalid channel."""


class InvalidPayloadSpecRefError(ApiError):
    """The endpoint names a payload spec that does not exist."""


class InvalidRequestError(ApiError):
    """The request itself is malformed."""


class InvalidSchemaError(ApiError):
    """The payload spec's schema is not a JSON Schema that can be used."""


class JobNotUpdatableError(ApiError):
    """Only a CRON or INTERVAL job that is not retired can be updated."""


class MethodNotAllowedError(ApiError):
    """This path does not support this method."""


class NotFoundError(ApiError):
    """There is nothing at this path."""


class PayloadTooLargeError(ApiError):
    """The request body is too large."""


class PreconditionFailedError(ApiError):
    """The resource is not in the state that If-Match or If-None-Match asks for; nothing was changed."""


class RateLimitedError(ApiError):
    """Too many requests or waiting requests with this API key, or too many bad keys from this address."""


class RequestTimeoutError(ApiError):
    """The request did not arrive in time."""


class ResultExpiredError(ApiError):
    """The execution has ended and its result was deleted: the endpoint's `result_retention` has passed."""


class ServiceUnavailableError(ApiError):
    """The server is busy, or the database is unreachable or not migrated; nothing was lost, try again."""


class TemplateResolutionFailedError(ApiError):
    """A template is malformed, or a variable in it cannot be resolved."""


class UnauthorizedError(ApiError):
    """The API key is missing, unknown, expired or revoked."""


class UnsupportedMediaTypeError(ApiError):
    """The body must be JSON, with Content-Type: application/json."""


class UriTooLongError(ApiError):
    """The request line is too long."""


class WorkerNotAliveError(ApiError):
    """The worker process has ended or is lost, so it takes no commands."""


class BreakerNotFoundError(NotFoundError):
    """No recent delivery to that target has failed, so the target has no breaker: every delivery is sent."""


class BulkOperationNotFoundError(NotFoundError):
    """No bulk operation has that id."""


class ConfigNotFoundError(NotFoundError):
    """No config has that name."""


class DeadLetterNotFoundError(NotFoundError):
    """No dead letter has that id."""


class EndpointNotFoundError(NotFoundError):
    """No live endpoint has that name."""


class ExecutionNotFoundError(NotFoundError):
    """No execution has that id."""


class JobNotFoundError(NotFoundError):
    """No job has that id."""


class NotificationRuleNotFoundError(NotFoundError):
    """No notification rule has that name."""


class PayloadSpecNotFoundError(NotFoundError):
    """No payload spec has that name."""


class QueueNotFoundError(NotFoundError):
    """No execution waits in a queue of that name, and no worker, endpoint or route names it."""


class RedriveNotFoundError(NotFoundError):
    """No redrive has that id."""


class SecretNotFoundError(NotFoundError):
    """No secret has that name."""


class WorkerNotFoundError(NotFoundError):
    """No worker process has that id, or it ended more than a day ago."""


BY_CODE: dict[str, type[ApiError]] = {
    "BREAKER_NOT_FOUND": BreakerNotFoundError,
    "BULK_OPERATION_NOT_FOUND": BulkOperationNotFoundError,
    "CONFIG_NOT_FOUND": ConfigNotFoundError,
    "CONFLICT": ConflictError,
    "DEAD_LETTER_NOT_FOUND": DeadLetterNotFoundError,
    "ENDPOINT_NOT_FOUND": EndpointNotFoundError,
    "EVENTS_EXPIRED": EventsExpiredError,
    "EXECUTION_NOT_CANCELLABLE": ExecutionNotCancellableError,
    "EXECUTION_NOT_FOUND": ExecutionNotFoundError,
    "FORBIDDEN": ForbiddenError,
    "GATEWAY_TIMEOUT": GatewayTimeoutError,
    "HEADERS_TOO_LARGE": HeadersTooLargeError,
    "IDEMPOTENCY_KEY_REUSED": IdempotencyKeyReusedError,
    "INPUT_VALIDATION_FAILED": InputValidationFailedError,
    "INTERNAL_ERROR": InternalError,
    "INVALID_CALLBACK": InvalidCallbackError,
    "INVALID_CONFIG_REF": InvalidConfigRefError,
    "INVALID_CRON": InvalidCronError,
    "INVALID_NOTIFICATION_RULE": InvalidNotificationRuleError,
    "INVALID_PAYLOAD_SPEC_REF": InvalidPayloadSpecRefError,
    "INVALID_REQUEST": InvalidRequestError,
    "INVALID_SCHEMA": InvalidSchemaError,
    "JOB_NOT_FOUND": JobNotFoundError,
    "JOB_NOT_UPDATABLE": JobNotUpdatableError,
    "METHOD_NOT_ALLOWED": MethodNotAllowedError,
    "NOTIFICATION_RULE_NOT_FOUND": NotificationRuleNotFoundError,
    "NOT_FOUND": NotFoundError,
    "PAYLOAD_SPEC_NOT_FOUND": PayloadSpecNotFoundError,
    "PAYLOAD_TOO_LARGE": PayloadTooLargeError,
    "PRECONDITION_FAILED": PreconditionFailedError,
    "QUEUE_NOT_FOUND": QueueNotFoundError,
    "RATE_LIMITED": RateLimitedError,
    "REDRIVE_NOT_FOUND": RedriveNotFoundError,
    "REQUEST_TIMEOUT": RequestTimeoutError,
    "RESULT_EXPIRED": ResultExpiredError,
    "SECRET_NOT_FOUND": SecretNotFoundError,
    "SERVICE_UNAVAILABLE": ServiceUnavailableError,
    "TEMPLATE_RESOLUTION_FAILED": TemplateResolutionFailedError,
    "UNAUTHORIZED": UnauthorizedError,
    "UNSUPPORTED_MEDIA_TYPE": UnsupportedMediaTypeError,
    "URI_TOO_LONG": UriTooLongError,
    "WORKER_NOT_ALIVE": WorkerNotAliveError,
    "WORKER_NOT_FOUND": WorkerNotFoundError,
}
