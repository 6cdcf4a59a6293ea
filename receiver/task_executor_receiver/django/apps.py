"""Django application of the inbox."""

from django.apps import AppConfig


class InboxConfig(AppConfig):  # type: ignore[misc, unused-ignore]
    """Application without models: its migration creates the inbox table."""

    name = "task_executor_receiver.django"
    label = "task_executor_inbox"
    verbose_name = "Task Executor's inbox"
