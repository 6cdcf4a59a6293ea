"""Baseline: creates the schema of this release in an empty database.

Later revisions change databases that an earlier release created; `schema.migrate` marks them as done in a new database.
Revisions 0001 to 0036 made the schema of unreleased versions; `migrate.upgrade` refuses databases that they made.
"""

from schema import creation

revision = "0100"
down_revision = None


def upgrade() -> None:
    creation.create()
