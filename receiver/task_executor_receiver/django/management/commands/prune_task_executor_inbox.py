"""Command that deletes old rows of the inbox."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from task_executor_receiver.django.inbox import DjangoInbox
from task_executor_receiver.sql import KEPT


class Command(BaseCommand):  # type: ignore[misc, unused-ignore]
    """Deletion of old rows, for a daily run: `manage.py prune_task_executor_inbox --days 60 --database default`."""

    help = "Delete the rows of executions without a delivery in the last --days days."

    def add_arguments(self, parser: Any) -> None:
        """Add the options: `--days` (60), and `--database`, an alias of DATABASES (`default`)."""
        parser.add_argument("--days", type=int, default=KEPT.days)
        parser.add_argument("--database", default="default")

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """Delete the rows and print their number."""
        pruned = DjangoInbox(options["database"]).prune(timedelta(days=options["days"]))
        self.stdout.write(f"deleted executions: {pruned}")
