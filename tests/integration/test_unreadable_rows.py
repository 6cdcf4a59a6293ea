"""Rows that nothing of this release writes: each reader of rows continues with all other rows.

Other values of these columns, such as an unknown status, are refused by constraints.
"""

from collections.abc import Callable, Iterator
from itertools import count, zip_longest
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.catalog import routing
from app.catalog.loader import Catalog
from app.cli.application_group import ApplicationGroup
from app.features import FEATURES
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.claiming.endpoint_rules import FlowRules
from app.scheduler.chore import ChoreContext
from app.scheduler.chore_plan import plan
from tests import rows
from tests.claiming import take
from tests.contract.races.racing import never
from tests.integration.client import Api, services
from tests.integration.command_line import flask_app
from tests.integration.executions.worker import WORKER
from tests.integration.http.document import document
from tests.integration.registered import created, cron, interval, one_shot, register

NOT_AN_OBJECT = ["[1]", "5"]
BAD = {
    ("jobs", "cron_expression", "job_id = :cron"): ["gibberish", "0 0 30 2 *"],
    ("jobs", "cron_timezone", "job_id = :cron"): ["Mars/Olympus", "../etc"],
    ("jobs", "interval_ms", "job_id = :interval"): ["9000000000000000000"],
    ("jobs", "cron_starts_at", "job_id = :interval"): ["-infinity"],
    ("jobs", "cron_next_run_at", "job_id = :interval"): ["-infinity"],
    ("jobs", "labels", "job_id = :job"): [*NOT_AN_OBJECT, '{"a": {"b": 1}}'],
    ("jobs", "input", "job_id = :job"): NOT_AN_OBJECT,
    ("jobs", "callbacks", "job_id = :job"): [*NOT_AN_OBJECT, '{"on_nothing": 3}'],
    ("executions", "run_at", "job_id = :job"): ["-infinity", "infinity"],
    ("executions", "scheduled_at", "job_id = :job"): ["-infinity"],
    ("executions", "endpoint", "job_id = :job"): ["nowhere"],
    ("attempts", "error", "execution_id = :failed"): [*NOT_AN_OBJECT, "{}"],
    ("execution_events", "reason", "execution_id = :failed"): ["WHATEVER"],
    ("endpoints", "retry_policy", "name = 'bad'"): [*NOT_AN_OBJECT, '{"max_attempts": "x"}', '{"fail_on": 5}'],
    ("endpoints", "spec", "name = 'bad'"): [*NOT_AN_OBJECT, '{"url": "http://{{x"}'],
    ("endpoints", "limits", "name = 'bad'"): [
        *NOT_AN_OBJECT,
        '{"per_key": 5}',
        '{"rate": {"count": 0, "per": "1s"}}',
        '{"per_key": {"key": "x", "rate": 7}}',
    ],
    ("endpoints", "breaker", "name = 'bad'"): [*NOT_AN_OBJECT, '{"window": -1}'],
    ("endpoints", "callbacks", "name = 'bad'"): NOT_AN_OBJECT,
    ("endpoint_versions", "callbacks", "endpoint = 'bad'"): NOT_AN_OBJECT,
    ("endpoint_versions", "retry_policy", "endpoint = 'bad'"): NOT_AN_OBJECT,
    ("endpoint_versions", "spec", "endpoint = 'bad'"): NOT_AN_OBJECT,
    ("endpoint_versions", "secret_refs", "endpoint = 'bad'"): ["5"],
    ("payload_specs", "schema_json", "name = 'bad'"): [*NOT_AN_OBJECT, '{"type": 5, "pattern": "("}'],
    ("configs", "values_json", "name = 'bad'"): NOT_AN_OBJECT,
    ("gates", "tat_ns", "gate_id = 'bad'"): ["-9000000000000000000"],
    ("breakers", "reason", "target = 'bad'"): ["WHATEVER"],
    ("routes", "pattern", "position = 0"): ["["],
    ("dead_letters", "labels", "endpoint = 'bad'"): NOT_AN_OBJECT,
    ("redrives", "wanted", "redrive_id = 'bad'"): [*NOT_AN_OBJECT, '{"x": 5, "created_before": 3}'],
    ("bulk_operations", "wanted", "operation_id = 'bad'"): [*NOT_AN_OBJECT, '{"status": "LUNAR"}'],
    ("bulk_operations", "parameters", "operation_id = 'bad'"): [*NOT_AN_OBJECT, '{"run_at": "x"}'],
    ("notification_rules", "rule_json", "name = 'bad'"): [
        *NOT_AN_OBJECT,
        "{}",
        '{"events": ["lunar"], "channels": 5}',
        '{"events": 5, "channels": ["x"], "quiet_hours": 5}',
    ],
    ("notification_groups", "told", "rule = 'bad'"): [*NOT_AN_OBJECT, '{"subjects": 5}'],
    ("notification_parts", "tallies", "rule = 'bad'"): [*NOT_AN_OBJECT, '[{"x": 1}]'],
    ("execution_ends", "effects_left", "end_id = 'bad'"): NOT_AN_OBJECT,
    ("workers", "queues", "worker_id = 'bad'"): ["5"],
    ("actor_processes", "endpoints", "session_id = 'bad'"): ["5", "{}"],
    ("actor_processes", "refused", "session_id = 'bad'"): ["5", '["act"]', '{"act": 5}'],
    ("worker_commands", "command", "worker_id = 'bad'"): ["dance"],
    ("api_keys", "scopes", "key_id = 'bad'"): ["5", '["dance"]'],
    ("audit_log", "action", "resource = 'bad'"): ["dance"],
    ("audit_log", "resource_type", "resource = 'bad'"): ["moon"],
    ("unfinished_changes", "change", "job_id = :job"): ["DANCE"],
    ("workflows", "labels", "name = 'bad'"): NOT_AN_OBJECT,
    ("workflows", "cancelling", "name = 'bad'"): ["dance"],
    ("workflow_nodes", "definition", "workflow_id = :workflow"): [*NOT_AN_OBJECT, "{}", '{"run_if": "lunar"}'],
}
# Constraints refuse these values. But a newer release may have allowed values that this one does not know.
UNKNOWN = {
    ("jobs", "overlap", "job_id = :interval"): "LUNAR",
    ("jobs", "endpoint_type", "job_id = :cron"): "LUNAR",
    ("jobs", "trigger_type", "job_id = :job"): "LUNAR",
    ("executions", "status", "job_id = :job"): "LUNAR",
    ("attempts", "status", "execution_id = :failed"): "LUNAR",
    ("execution_events", "to_status", "execution_id = :failed"): "LUNAR",
    ("endpoints", "endpoint_type", "name = 'bad'"): "LUNAR",
    ("endpoint_versions", "keep_response", "endpoint = 'bad'"): "LUNAR",
    ("dead_letters", "resolution", "endpoint = 'bad'"): "LUNAR",
    ("redrives", "status", "redrive_id = 'bad'"): "LUNAR",
    ("bulk_operations", "action", "operation_id = 'bad'"): "LUNAR",
    ("breakers", "state", "target = 'bad'"): "LUNAR",
    ("workers", "status", "worker_id = 'bad'"): "LUNAR",
    ("execution_ends", "status", "end_id = 'bad'"): "LUNAR",
    ("workflows", "status", "name = 'bad'"): "LUNAR",
    ("workflow_nodes", "state", "workflow_id = :workflow"): "LUNAR",
}
ROWS = """
INSERT INTO breakers (target, watched_until) VALUES ('good', now() + INTERVAL '1 h'), ('bad', now() + INTERVAL '1 h');
INSERT INTO routes (position, pattern, queue, source) VALUES (0, 'bad', 'http', 'api');
INSERT INTO gates (gate_id) VALUES ('bad');
INSERT INTO redrives (redrive_id, status, wanted, rate) VALUES ('good', 'RUNNING', '{"endpoint": "none"}', 9),
  ('bad', 'RUNNING', '{"endpoint": "none"}', 9);
INSERT INTO bulk_operations (operation_id, action, status, wanted, parameters, rate)
  VALUES ('good', 'cancel', 'RUNNING', '{"endpoint": "none"}', '{}', 9),
         ('bad', 'cancel', 'RUNNING', '{"endpoint": "none"}', '{}', 9);
INSERT INTO notification_groups (group_id, rule, told) VALUES ('good', 'good', '{}'), ('bad', 'bad', '{}');
INSERT INTO worker_commands (command_id, worker_id, command, asked_by, expires_at)
  VALUES ('bad', 'bad', 'drain', 'x', now() + INTERVAL '1 h');
INSERT INTO actor_processes (worker_id, session_id, host, threads, endpoints)
  VALUES ('bad', 'good', 'h', 1, '["act"]'), ('bad', 'bad', 'h', 1, '["act"]');
INSERT INTO api_keys (key_id, name, key_hash, scopes) VALUES ('bad', 'bad', 'x', '["read"]')
"""
AGAIN = """
INSERT INTO notification_parts (rule, part_id, tallies) VALUES ('good', 'p', '[]'), ('bad', 'p', '[]')
  ON CONFLICT DO NOTHING;
INSERT INTO execution_ends (end_id, shard, execution_id, endpoint, status, attempt, ended_at)
  SELECT 'bad', 0, execution_id, endpoint, status, 1, now() FROM executions WHERE execution_id = :failed
  ON CONFLICT DO NOTHING;
INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, reason)
  VALUES ('bad', :failed, 'QUEUED', 'FAILED', 1, 'EXPIRED') ON CONFLICT DO NOTHING;
INSERT INTO unfinished_changes (job_id, change_id, change, began_at)
  VALUES (:job, 'x', 'RESUME', now() - INTERVAL '1 h') ON CONFLICT DO NOTHING;
UPDATE jobs SET cron_next_run_at = now() WHERE job_id IN (:cron, :interval);
UPDATE workflow_nodes SET state = 'READY' WHERE workflow_id = :workflow AND name = 'next';
DELETE FROM time_zone_rules
"""


class Readers:
    """Good and bad rows of each table, and the readers of all tables."""

    def __init__(self, api: Api, database: Database) -> None:
        self._api, self._database = api, database
        self._url = services(api.app).settings.database_url
        self._number = count()
        self._add_rows()
        self._paths = list(self._all_paths())

    def _execute(self, script: str, **params: Any) -> None:
        for statement in script.split(";"):
            names = {name: value for name, value in params.items() if f":{name}" in statement}
            self._database.fetch(text(statement), names)

    def _add_rows(self) -> None:
        api, database = self._api, self._database
        for name in ("good", "bad"):
            api.post("/payload-specs", {"name": name, "schema": {}})
            api.post("/secrets", {"name": name, "value": "secret-value"})
            api.post("/configs", {"name": name, "values": {"a": "b"}})
            spec = {"url": "http://127.0.0.1:9/", "method": "POST", "headers": {"x": "{{config.a}}"}}
            limits = {"rate": {"count": 1000, "per": "1s"}, "per_key": {"key": "{{input.user_id}}", "max_in_flight": 3}}
            register(api, name, config=name, payload_spec=name, spec=spec, limits=limits)
            quiet = {"from": "00:00", "to": "23:59", "timezone": "UTC"}
            rows.add_rule(database, name, "good", all=True, quiet_hours=quiet)
            worker = WORKER if name == "good" else "bad"
            worker_lease.register(
                database, worker_id=worker, host="h", pid=1, queues=["http"], capacity=9, lease_ms=6_000_000
            )
            failed = self._failed(name)
            rows.add_letter(database, failed, endpoint=name)
            run_at = {"trigger": "DELAYED", "run_at": "2199-01-01T00:00:00Z", "labels": {"a": "b"}}
            bodies = (one_shot(name, **run_at), cron(), interval())
            ids = [created(api, body | {"endpoint": name})["job_id"] for body in bodies]
            nodes = [{"name": "good", "endpoint": name}, {"name": "next", "endpoint": name, "after": ["good"]}]
            workflow = api.post("/workflows", {"name": name, "nodes": nodes}).json["workflow_id"]
            self.params = dict(zip(("job", "cron", "interval"), ids, strict=True), failed=failed, workflow=workflow)
            if name == "good":
                self._good = self.params
        register(api, "act", type="ACTOR", spec={"actor": "act"})
        self._execute(ROWS)

    def _failed(self, endpoint: str) -> str:
        (execution_id,) = rows.add_executions(self._database, endpoint=endpoint)
        change = "status = 'FAILED', worker_id = 'w', started_at = now(), attempt_count = 1, completed_at = now()"
        self._execute(f"UPDATE executions SET {change} WHERE execution_id = :id", id=execution_id)
        number = next(self._number) + 1  # also its id
        rows.add_attempt(self._database, execution_id, number, "FAILED")
        return execution_id

    def _all_paths(self) -> Iterator[str]:
        """Yield the paths of all reads of lists, and of good rows."""
        good = {"job_id": self._good["cron"], "execution_id": self._good["failed"], "worker_id": WORKER}
        good |= dict.fromkeys(("name", "node", "target", "redrive_id", "operation_id"), "good")
        good |= {"workflow_id": self._good["workflow"], "version": 1}
        for path, operations in document()["paths"].items():
            if "get" in operations and "letter_id" not in path and path != "/stats":
                named = [each.get("name") for each in operations["get"].get("parameters", [])]
                query = "?q=bad" if path == "/search" else "?limit=200" if "limit" in named else ""
                yield path.replace("/actors/{name}", "/actors/act").format(**good) + query

    def spoil(self, table: str, column: str, where: str, value: str) -> None:
        params = {name: each for name, each in self.params.items() if f":{name}" in where}
        kind = "SELECT data_type FROM information_schema.columns WHERE table_name = :t AND column_name = :c LIMIT 1"
        (row,) = self._database.fetch(text(kind), {"t": table, "c": column})
        change = (
            f"UPDATE {table} SET {column} = CAST(CAST(:value AS TEXT) AS {row.data_type}) WHERE {where} RETURNING 1"
        )
        assert self._database.fetch(text(change), params | {"value": value}), f"no row of {table} was changed"

    def drop_constraints(self, tables: set[str]) -> None:
        query = "SELECT conrelid::regclass AS name, conname FROM pg_constraint WHERE contype = 'c'"
        for row in self._database.fetch(text(query)):
            if row.name in tables:
                self._execute(f"ALTER TABLE {row.name} DROP CONSTRAINT {row.conname}")

    def again(self) -> None:
        """Insert rows again that readers delete."""
        self._execute(AGAIN, **self.params)

    def readings(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield each reader by name; it returns the keys of the good rows that it has read."""
        for path in self._paths:
            yield f"GET {path}", lambda path=path: self._get(path)  # type: ignore[misc]
        settings = services(self._api.app).settings
        context = ChoreContext(self._database, settings, hint=lambda _queue: None, stopping=never)
        for chore in plan(context):
            yield f"chore {chore.name}", lambda run=chore.run: run() and None  # type: ignore[misc]
        known = {command.name for command in ApplicationGroup(FEATURES).all_commands()}
        reading = (["doctor"], ["catalog", "export"], ["api-keys", "list"], ["simulate", "--for", "1h"])
        for command in (each for each in reading if each[0] in known):
            yield " ".join(command), lambda command=command: self._run(*command)  # type: ignore[misc]
        catalog = Catalog(self._database, None, config_ttl_seconds=60, secret_ttl_seconds=60)
        yield "rules of a worker", lambda: set(_rules(self._database).by_endpoint) - {"bad"}
        yield "routes", lambda: routing.load(self._database) and None
        yield "delivery", lambda: catalog.prepare_newest("good", 1) and None
        yield "POST /jobs", self._post
        yield "claim", lambda: take(self._database, WORKER).claims and None

    def _get(self, path: str) -> set[str]:
        # Not by Api.get: it compares the answer with the document, which does not describe bad values.
        response = self._api.app.test_client().get(path, headers={"Authorization": f"Bearer {self._api.key}"})
        assert response.status_code < 300, response.get_data(as_text=True)
        lists = [each for each in (response.json or {}).values() if isinstance(each, list)] if response.is_json else []
        bad = {"bad", *self.params.values()}
        items = (
            [each for each in lists[0] if isinstance(each, dict) and bad.isdisjoint(map(str, each.values()))]
            if lists
            else []
        )
        return {next(iter(each.values())) for each in items}

    def _run(self, *command: str) -> None:
        assert flask_app(self._url, *command).exit_code in {0, 1}  # 1: with findings

    def _post(self) -> None:
        for endpoint in ("good", "bad"):
            jobs = [one_shot(f"k{next(self._number)}", endpoint=name) for name in ("good", endpoint)]
            response = self._api.post("/jobs/batch", {"jobs": jobs})
            assert response.json["items"][0]["status"] == 201, response.get_data(as_text=True)


def _rules(database: Database) -> FlowRules:
    rules = FlowRules(database)
    rules.refresh(10**9)
    return rules


def test_unreadable_row_stops_no_reader(api: Api, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    readers, broken, before = Readers(api, database), list[str](), dict[str, Any]()
    readers.again()
    for place, value in UNKNOWN.items():
        with pytest.raises(DBAPIError, match="23514"):
            readers.spoil(*place, value)
    by_column = [[(place, value) for value in values] for place, values in BAD.items()]
    for number, round_ in enumerate([(), *zip_longest(*by_column), list(UNKNOWN.items())]):
        if round_ == list(UNKNOWN.items()):
            readers.drop_constraints({place[0] for place in UNKNOWN})
        spoiled = [each for each in round_ if each is not None]
        readers.again()
        for (table, column, where), value in spoiled:
            readers.spoil(table, column, where, value)
        for name, read in readers.readings():
            try:
                found = read()
            except Exception as error:
                broken.append(f"round {number}, {name}: {error!r:.300}")
                continue
            missing = before.setdefault(name, found or set()) - (found or set())
            if missing:
                broken.append(f"round {number}, {name}: without {missing}")
    assert not broken, "\n".join(broken)
    reported = [record.getMessage() for record in caplog.records if record.getMessage().startswith("cannot read")]
    assert len(reported) == len(set(reported)) > 0
