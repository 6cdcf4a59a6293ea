"""Alembic's entry: runs the revisions on the connection that `schema.migrate` hands over.

One statement per step in autocommit: CockroachDB's schema changes are jobs of their own and must not share a
transaction, and every statement may be repeated after a crash.
"""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=False,
    transaction_per_migration=False,
    on_version_apply=context.config.attributes["on_version_apply"],
)
context.run_migrations()
