"""Commands `flask workers drain` and `flask queues pause|resume`."""

import getpass

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.target_rules import current_rules


def completions(cli: Cli, words: str) -> list[str]:
    """Return the shell completions of the last word."""
    number = len(words.split(" ")) + 2
    line = {"COMP_WORDS": f"flask --app app {words}", "COMP_CWORD": str(number)}
    return cli.run(_FLASK_COMPLETE="bash_complete", **line).stdout.split()


def test_worker_is_drained_after_a_confirmation(api: Api, cli: Cli, database: Database) -> None:
    for worker_id, lease_ms in (("w1", 60_000), ("lost", 0)):
        worker_lease.register(
            database, worker_id=worker_id, host="h", pid=7, queues=["http"], capacity=9, lease_ms=lease_ms
        )
    assert completions(cli, "workers drain ") == ["plain,w1"]
    assert "add --yes" in cli.run("workers", "drain", "w1", expect=2).stderr
    command = cli.json("workers", "drain", "w1", "--yes")
    assert [command] == api.get("/workers/w1").json["commands"]
    assert (command["state"], command["asked_by"]) == ("PENDING", f"cli:{getpass.getuser()}")
    assert command["command_id"] in cli.run("workers", "drain", "w1", "--yes").stdout
    cli.run("workers", "drain", "nobody", "--yes", expect=3)
    assert "GET /workers?state=ALIVE" in cli.run("workers", "drain", "lost", "--yes", expect=4).stderr


def test_queue_is_paused_and_resumed(api: Api, cli: Cli, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 3)
    assert completions(cli, "queues pause ht") == ["plain,http"]
    assert "with 3 due executions" in cli.run("queues", "pause", "http", expect=2).stderr
    paused = cli.json("queues", "pause", "http", "--yes")
    assert current_rules(database).paused_queues == {"http"}
    (listed,) = api.get("/queues").json["items"]
    assert paused | {"oldest_due_seconds": 0} == listed | {"oldest_due_seconds": 0}
    assert "paused" in cli.run("queues").stdout, "a paused queue is not reported as unserved"
    assert cli.run("queues", "resume", "http", "--yes").stdout == "the queue http is not paused\n"
    assert current_rules(database).paused_queues == frozenset()
    cli.run("queues", "pause", "nope", "--yes", expect=3)
    assert [entry["actor_name"] for entry in api.get("/audit").json["items"][:2]] == [f"cli:{getpass.getuser()}"] * 2
