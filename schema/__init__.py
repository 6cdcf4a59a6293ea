"""The database schema: states and their legal transitions, tables, migrations."""

import logging

# Alembic logs each plug-in while it is imported, before a process can configure logging.
logging.getLogger("alembic").setLevel(logging.WARNING)
