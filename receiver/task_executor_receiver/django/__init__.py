"""Inbox and adapter for Django, with a migration and the command `manage.py prune_task_executor_inbox`.

Example:
    INSTALLED_APPS = [..., "task_executor_receiver.django"]
"""
