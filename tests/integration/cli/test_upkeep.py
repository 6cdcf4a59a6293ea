"""Command `flask prune`."""

from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.integration.command_line import Cli


def test_confirmed_prune_deletes_rows_older_than_the_retention(cli: Cli, database: Database) -> None:
    rows.add_endpoint(database)
    old, young = rows.add_executions(database, 2)
    for each in (old, young):
        rows.set_status(database, rows.job_of(database, each).job_id, "SUCCESS")
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    aged = "UPDATE executions SET completed_at = now() - INTERVAL '10 days' WHERE execution_id = :id"
    database.fetch(text(aged), {"id": old})
    assert "30 d," in cli.run("prune", expect=2).stderr
    assert cli.json("prune", "--yes") == {}
    assert "9 d," in cli.run("prune", "--older-than", "9d", expect=2).stderr
    assert rows.statuses(database) == {"SUCCESS": 2}
    assert cli.json("prune", "--older-than", "9d", "--yes") == {"executions": 1, "jobs": 1}
    assert [row.execution_id for row in database.fetch(text("SELECT execution_id FROM executions"))] == [young]
