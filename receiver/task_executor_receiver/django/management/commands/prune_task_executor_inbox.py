"""Command that deletes old rows of the inbox."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from task_executor_receiver.django.inbox import DjangoInbox
from task_executor_receiver.sql import KEPT

MAX_DAYS = 36_500


class Command(BaseCommand):  # type: ignore[misc, unused-ignore]
    """Deletion of old rows, for a daily run: `manage.py prune_task_executor_inbox --days 60 --database default`."""

    help = "Delete the rows of executions without a delivery in the last --days days."

    def add_arguments(self, parser: Any) -> None:
        """Add the options: `--days` (60, from 1 to 36,500), and `--database`, an alias of DATABASES (`default`)."""
        parser.add_argument("--days", type=int, default=KEPT.days)
        parser.add_argument("--database", default="default")

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """Delete the rows and print their number; raises CommandError if `--days` is out of bounds."""
        days = options["days"]
        if not 1 <= days <= MAX_DAYS:
            raise CommandError(
                f"--days: must be from 1 to {MAX_DAYS}, and more than the service keeps executions "
                f"(TE_RETENTION_DAYS), not {days}"
            )
        pruned = DjangoInbox(options["database"]).prune(timedelta(days=days))
        self.stdout.write(f"deleted executions: {pruned}")
