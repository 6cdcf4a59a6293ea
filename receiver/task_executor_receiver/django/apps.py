"""The application."""

from django.apps import AppConfig


class InboxConfig(AppConfig):  # type: ignore[misc, unused-ignore]
    """Task Executor's inbox; it has a table, which its migration makes, and no model."""

    name = "task_executor_receiver.django"
    label = "task_executor_inbox"
    verbose_name = "Task Executor's inbox"
