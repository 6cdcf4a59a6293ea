"""Inbox and adapter for Django; as an application it brings a migration and `manage.py prune_task_executor_inbox`.

INSTALLED_APPS = [..., "task_executor_receiver.django"]
"""
