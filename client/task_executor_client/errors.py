"""Error classes, one for each documented code.

Written by `make client` from the OpenAPI document; do not edit.

Example:
    from task_executor_client import ApiError, errors

    try:
        te.jobs.get(job_id)
    except errors.JobNotFoundError:
        print("no such job")
    except ApiError as error:
        print(error.code, error.message, error.request_id)
"""

from .failures import ApiError


class ConflictError(ApiError):
    """Something else depends on the resource, or its name is taken.

    Code `CONFLICT`, HTTP status 409.
    """


class EventsExpiredError(ApiError):
    """Reading cannot continue at that position: later events were deleted, or it is ahead of the database's clock.

    Code `EVENTS_EXPIRED`, HTTP status 410.
    """


class ExecutionNotCancellableError(ApiError):
    """The execution is running or final.

    Code `EXECUTION_NOT_CANCELLABLE`, HTTP status 409.
    """


class ForbiddenError(ApiError):
    """The API key lacks the scope that the operation needs.

    Code `FORBIDDEN`, HTTP status 403.
    """


class GatewayTimeoutError(ApiError):
    """The request took too long. Its work may have been done: check, or try again.

    Code `GATEWAY_TIMEOUT`, HTTP status 504.
    """


class HeadersTooLargeError(ApiError):
    """The request headers are too large.

    Code `HEADERS_TOO_LARGE`, HTTP status 431.
    """


class IdempotencyKeyReusedError(ApiError):
    """The Idempotency-Key was already used for another request.

    Code `IDEMPOTENCY_KEY_REUSED`, HTTP status 422.
    """


class InputValidationFailedError(ApiError):
    """The job's input does not match the endpoint's payload spec.

    Code `INPUT_VALIDATION_FAILED`, HTTP status 422.
    """


class InternalError(ApiError):
    """The service has a fault; its log names the fault beside the request id.

    Code `INTERNAL_ERROR`, HTTP status 500.
    """


class InvalidCallbackError(ApiError):
    """An endpoint to call back does not exist, refuses outcomes, or leads back to the calling endpoint.

    Code `INVALID_CALLBACK`, HTTP status 422.
    """


class InvalidConfigRefError(ApiError):
    """The endpoint names a config that does not exist.

    Code `INVALID_CONFIG_REF`, HTTP status 422.
    """


class InvalidCronError(ApiError):
    """The cron expression is malformed, or never fires.

    Code `INVALID_CRON`, HTTP status 422.
    """


class InvalidNotificationRuleError(ApiError):
    """The notification rule matches everything, or nothing, or names an invalid channel.

    Code `INVALID_NOTIFICATION_RULE`, HTTP status 422.
    """


class InvalidPayloadSpecRefError(ApiError):
    """The endpoint names a payload spec that does not exist.

    Code `INVALID_PAYLOAD_SPEC_REF`, HTTP status 422.
    """


class InvalidRequestError(ApiError):
    """The request itself is malformed.

    Code `INVALID_REQUEST`, HTTP status 400.
    """


class InvalidSchemaError(ApiError):
    """The payload spec's schema is not a JSON Schema that can be used.

    Code `INVALID_SCHEMA`, HTTP status 422.
    """


class InvalidWorkflowError(ApiError):
    """A name, an endpoint, a template or a size in the workflow is not valid.

    Code `INVALID_WORKFLOW`, HTTP status 422.
    """


class JobNotUpdatableError(ApiError):
    """Only a CRON or INTERVAL job that is not retired can be updated.

    Code `JOB_NOT_UPDATABLE`, HTTP status 409.
    """


class MethodNotAllowedError(ApiError):
    """This path does not support this method.

    Code `METHOD_NOT_ALLOWED`, HTTP status 405.
    """


class NotFoundError(ApiError):
    """There is nothing at this path.

    Code `NOT_FOUND`, HTTP status 404.
    """


class PayloadTooLargeError(ApiError):
    """The request body is too large.

    Code `PAYLOAD_TOO_LARGE`, HTTP status 413.
    """


class PreconditionFailedError(ApiError):
    """The resource is not in the state that If-Match or If-None-Match asks for; nothing was changed.

    Code `PRECONDITION_FAILED`, HTTP status 412.
    """


class RateLimitedError(ApiError):
    """Too many requests or waiting requests with this API key, or too many bad keys from this address.

    Code `RATE_LIMITED`, HTTP status 429.
    """


class RequestTimeoutError(ApiError):
    """The request did not arrive in time.

    Code `REQUEST_TIMEOUT`, HTTP status 408.
    """


class ResultExpiredError(ApiError):
    """The execution has ended and its result was deleted: the endpoint's `result_retention` has passed.

    Code `RESULT_EXPIRED`, HTTP status 410.
    """


class ServiceUnavailableError(ApiError):
    """The server is busy, or the database is unreachable or not migrated; nothing was lost, retry later.

    Code `SERVICE_UNAVAILABLE`, HTTP status 503.
    """


class TemplateResolutionFailedError(ApiError):
    """A template is malformed, or a variable in it cannot be resolved.

    Code `TEMPLATE_RESOLUTION_FAILED`, HTTP status 422.
    """


class UnauthorizedError(ApiError):
    """The API key is missing, unknown, expired or revoked.

    Code `UNAUTHORIZED`, HTTP status 401.
    """


class UnsupportedMediaTypeError(ApiError):
    """The body must be JSON, with Content-Type: application/json.

    Code `UNSUPPORTED_MEDIA_TYPE`, HTTP status 415.
    """


class UriTooLongError(ApiError):
    """The request line is too long.

    Code `URI_TOO_LONG`, HTTP status 414.
    """


class WorkerNotAliveError(ApiError):
    """The worker process has ended or is lost, so it takes no commands.

    Code `WORKER_NOT_ALIVE`, HTTP status 409.
    """


class WorkflowCycleError(ApiError):
    """Nodes of the workflow wait for each other.

    Code `WORKFLOW_CYCLE`, HTTP status 422.
    """


class ActorNotFoundError(NotFoundError):
    """No process has registered an actor of that name, or its endpoint is deleted.

    Code `ACTOR_NOT_FOUND`, HTTP status 404.
    """


class BreakerNotFoundError(NotFoundError):
    """No recent delivery to that target has failed, so the target has no breaker: every delivery is sent.

    Code `BREAKER_NOT_FOUND`, HTTP status 404.
    """


class BulkOperationNotFoundError(NotFoundError):
    """No bulk operation has that id.

    Code `BULK_OPERATION_NOT_FOUND`, HTTP status 404.
    """


class ConfigNotFoundError(NotFoundError):
    """No config has that name.

    Code `CONFIG_NOT_FOUND`, HTTP status 404.
    """


class DeadLetterNotFoundError(NotFoundError):
    """No dead letter has that id.

    Code `DEAD_LETTER_NOT_FOUND`, HTTP status 404.
    """


class EndpointNotFoundError(NotFoundError):
    """No live endpoint has that name.

    Code `ENDPOINT_NOT_FOUND`, HTTP status 404.
    """


class EndpointVersionNotFoundError(NotFoundError):
    """The endpoint has no version of that number.

    Code `ENDPOINT_VERSION_NOT_FOUND`, HTTP status 404.
    """


class ExecutionNotFoundError(NotFoundError):
    """No execution has that id.

    Code `EXECUTION_NOT_FOUND`, HTTP status 404.
    """


class JobNotFoundError(NotFoundError):
    """No job has that id.

    Code `JOB_NOT_FOUND`, HTTP status 404.
    """


class NotificationRuleNotFoundError(NotFoundError):
    """No notification rule has that name.

    Code `NOTIFICATION_RULE_NOT_FOUND`, HTTP status 404.
    """


class PayloadSpecNotFoundError(NotFoundError):
    """No payload spec has that name.

    Code `PAYLOAD_SPEC_NOT_FOUND`, HTTP status 404.
    """


class QueueNotFoundError(NotFoundError):
    """No execution waits in a queue of that name, and no worker, endpoint or route names it.

    Code `QUEUE_NOT_FOUND`, HTTP status 404.
    """


class RedriveNotFoundError(NotFoundError):
    """No redrive has that id.

    Code `REDRIVE_NOT_FOUND`, HTTP status 404.
    """


class SecretNotFoundError(NotFoundError):
    """No secret has that name.

    Code `SECRET_NOT_FOUND`, HTTP status 404.
    """


class WorkerNotFoundError(NotFoundError):
    """No worker process has that id, or it ended more than a day ago.

    Code `WORKER_NOT_FOUND`, HTTP status 404.
    """


class WorkflowNodeNotFoundError(NotFoundError):
    """The workflow has no node of that name.

    Code `WORKFLOW_NODE_NOT_FOUND`, HTTP status 404.
    """


class WorkflowNotFoundError(NotFoundError):
    """No workflow has that id.

    Code `WORKFLOW_NOT_FOUND`, HTTP status 404.
    """


BY_CODE: dict[str, type[ApiError]] = {
    "ACTOR_NOT_FOUND": ActorNotFoundError,
    "BREAKER_NOT_FOUND": BreakerNotFoundError,
    "BULK_OPERATION_NOT_FOUND": BulkOperationNotFoundError,
    "CONFIG_NOT_FOUND": ConfigNotFoundError,
    "CONFLICT": ConflictError,
    "DEAD_LETTER_NOT_FOUND": DeadLetterNotFoundError,
    "ENDPOINT_NOT_FOUND": EndpointNotFoundError,
    "ENDPOINT_VERSION_NOT_FOUND": EndpointVersionNotFoundError,
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
    "INVALID_WORKFLOW": InvalidWorkflowError,
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
    "WORKFLOW_CYCLE": WorkflowCycleError,
    "WORKFLOW_NODE_NOT_FOUND": WorkflowNodeNotFoundError,
    "WORKFLOW_NOT_FOUND": WorkflowNotFoundError,
}
