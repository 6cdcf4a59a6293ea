"""Make the table of the inbox."""

from django.db import migrations

from task_executor_receiver.sql import DDL, DROP


class Migration(migrations.Migration):  # type: ignore[misc, unused-ignore]
    """The same text as everywhere."""

    initial = True
    operations = (migrations.RunSQL(list(DDL), DROP),)
