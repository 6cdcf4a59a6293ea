"""Create the inbox table."""

from django.db import migrations

from task_executor_receiver.sql import DDL, DROP


class Migration(migrations.Migration):  # type: ignore[misc, unused-ignore]
    """Migration with the DDL that all SQL inboxes share."""

    initial = True
    operations = (migrations.RunSQL(list(DDL), DROP),)
