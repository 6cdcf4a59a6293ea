"""Alembic's entry point: runs the revisions on the connection that `schema.migrate` opened.

One statement per step in autocommit: CockroachDB runs schema changes as background jobs, which must not share a
transaction, and every statement may be repeated after a crash.
"""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=False,
    transaction_per_migration=False,
)
context.run_migrations()
