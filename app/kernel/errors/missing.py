"""Errors of what is not there, or not any more."""

from typing import Self

from app.kernel.errors.base import TaskExecutorError


class NotFoundError(TaskExecutorError):
    """The base of the *_NOT_FOUND codes; itself for an unknown path."""

    code = "NOT_FOUND"
    status = 404


class PayloadSpecNotFoundError(NotFoundError):
    """No payload spec has that name."""

    code = "PAYLOAD_SPEC_NOT_FOUND"


class ConfigNotFoundError(NotFoundError):
    """No config has that name."""

    code = "CONFIG_NOT_FOUND"


class SecretNotFoundError(NotFoundError):
    """No secret has that name."""

    code = "SECRET_NOT_FOUND"


class NotificationRuleNotFoundError(NotFoundError):
    """No notification rule has that name."""

    code = "NOTIFICATION_RULE_NOT_FOUND"


class EndpointNotFoundError(NotFoundError):
    """No live endpoint has that name."""

    code = "ENDPOINT_NOT_FOUND"


class JobNotFoundError(NotFoundError):
    """No job has that id."""

    code = "JOB_NOT_FOUND"

    @classmethod
    def of(cls, job_id: str) -> Self:
        """Return the error for a job id."""
        return cls(f"Job with ID {job_id!r} does not exist.")


class ExecutionNotFoundError(NotFoundError):
    """No execution has that id."""

    code = "EXECUTION_NOT_FOUND"

    @classmethod
    def of(cls, execution_id: str) -> Self:
        """Return the error for an execution id."""
        return cls(f"Execution with ID {execution_id!r} does not exist.")


class DeadLetterNotFoundError(NotFoundError):
    """No dead letter has that id."""

    code = "DEAD_LETTER_NOT_FOUND"

    @classmethod
    def of(cls, letter_id: str) -> Self:
        """Return the error for the id of a letter."""
        return cls(f"Dead letter with ID {letter_id!r} does not exist; GET /dead-letters lists those that do.")


class ResultExpiredError(TaskExecutorError):
    """The execution is over, and its result is not kept any more: the endpoint's `result_retention` has passed."""

    code = "RESULT_EXPIRED"
    status = 410


class EventsExpiredError(TaskExecutorError):
    """Nothing can go on from that place: what followed is not kept any more, or it is ahead of the database's clock."""

    code = "EVENTS_EXPIRED"
    status = 410


class RedriveNotFoundError(NotFoundError):
    """No redrive has that id."""

    code = "REDRIVE_NOT_FOUND"

    @classmethod
    def of(cls, redrive_id: str) -> Self:
        """Return the error for the id of a redrive."""
        return cls(f"Redrive with ID {redrive_id!r} does not exist; GET /redrives lists those that do.")


class BulkOperationNotFoundError(NotFoundError):
    """No bulk operation has that id."""

    code = "BULK_OPERATION_NOT_FOUND"

    @classmethod
    def of(cls, operation_id: str) -> Self:
        """Return the error for the id of a bulk operation."""
        return cls(f"Bulk operation with ID {operation_id!r} does not exist; GET /bulk-operations lists those that do.")


class BreakerNotFoundError(NotFoundError):
    """No delivery to that target has failed of late, so it has no breaker: all is sent."""

    code = "BREAKER_NOT_FOUND"

    @classmethod
    def of(cls, target: str) -> Self:
        """Return the error for a target."""
        return cls(f"The target {target!r} has no breaker: no delivery to it has failed of late, and all is sent.")


class WorkerNotFoundError(NotFoundError):
    """No worker process has that id, or it ended more than a day ago."""

    code = "WORKER_NOT_FOUND"

    @classmethod
    def of(cls, worker_id: str) -> Self:
        """Return the error for the id of a worker."""
        return cls(f"Worker with ID {worker_id!r} does not exist. GET /workers lists those of the last day.")


class QueueNotFoundError(NotFoundError):
    """Nothing waits in a queue of that name, and no worker, endpoint or route knows it."""

    code = "QUEUE_NOT_FOUND"

    @classmethod
    def of(cls, queue: str) -> Self:
        """Return the error for the name of a queue."""
        return cls(
            f"The queue {queue!r} is not known: nothing waits in it, no live worker serves it, and no endpoint or "
            "route names it. GET /queues lists those that are."
        )
