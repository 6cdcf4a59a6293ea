"""What a row is: states and their legal transitions, tables, migrations."""

import logging

# Alembic tells of each plug-in while it is imported, before a process has had the chance to configure logging.
logging.getLogger("alembic").setLevel(logging.WARNING)
