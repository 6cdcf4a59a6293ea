"""Dramatiq over Task Executor: messages are executions, kept, limited, retried and shown by the service.

Example:
    import dramatiq
    from task_executor_dramatiq import TaskExecutorBroker

    dramatiq.set_broker(TaskExecutorBroker(url="postgresql://app@db/te"))
"""

from task_executor_dramatiq.broker import TaskExecutorBroker
from task_executor_dramatiq.in_hand import Abort
from task_executor_dramatiq.limits import ExecutionsLimiterBackend, LimiterError
from task_executor_dramatiq.results import ExecutionsBackend
from task_executor_dramatiq.sending import SendError, UnknownActorError

__all__ = [
    "Abort",
    "ExecutionsBackend",
    "ExecutionsLimiterBackend",
    "LimiterError",
    "SendError",
    "TaskExecutorBroker",
    "UnknownActorError",
]
