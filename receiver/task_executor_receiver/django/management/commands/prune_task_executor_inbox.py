"""Forget executions that were not heard of for long."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from task_executor_receiver.django.inbox import DjangoInbox
from task_executor_receiver.sql import KEPT


class Command(BaseCommand):  # type: ignore[misc, unused-ignore]
    """`manage.py prune_task_executor_inbox --days 60`."""

    help = "Delete the rows of executions that Task Executor has not delivered for so many days."

    def add_arguments(self, parser: Any) -> None:
        """Take the days and the database."""
        parser.add_argument("--days", type=int, default=KEPT.days)
        parser.add_argument("--database", default="default")

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """Delete, and say how many."""
        pruned = DjangoInbox(options["database"]).prune(timedelta(days=options["days"]))
        self.stdout.write(f"{pruned} executions were forgotten")
