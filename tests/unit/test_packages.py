"""Packages that a part of the product imports, and the modules that a process imports when it starts."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

SETTINGS = {"TE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere"}
# Loaded by the first use: a payload spec that needs all of JSON Schema, a scrape, mail, Kafka, a cron schedule, the
# OpenAPI document.
LATER = {
    "aiosmtplib",
    "app.web.openapi.description",
    "confluent_kafka",
    "croniter",
    "flask_smorest",
    "jsonschema",
    "prometheus_client",
    "re2",
    "referencing",
}
# The command `flask --app app jobs`, up to its first statement.
COMMAND = (
    "import app; from flask.cli import FlaskGroup; group = FlaskGroup(); "
    "context = group.make_context('flask', ['--app', 'app', 'jobs']); context.__enter__(); "
    "assert group.get_command(context, 'jobs')"
)
OF_OTHER_COMMANDS = {
    "alembic",
    "app.cli.db_cli",
    "app.features.doctor.cli",
    "app.features.workflows.cli",
    "limits",
    "yaml",
}
# By process: how it starts, the packages that it never needs, and the maximum number of its modules.
STARTS = {
    "web": ("import app; app.create_app()", {"dramatiq", "redis", "yaml"}, 1125),
    "worker": ("import actors", {"flask", "http.client", "opentelemetry", "redis", "werkzeug", "yaml"}, 718),
    "command": (COMMAND, OF_OTHER_COMMANDS | {"app.console.pages", "app.web.registration", "dramatiq", "redis"}, 801),
    "scheduler": ("import app.scheduler.__main__", {"dramatiq", "flask", "redis", "yaml"}, 597),
}
# The standard library of later Pythons imports more for itself, such as annotationlib in 3.14. The bounds are of 3.11.
OF_LATER_PYTHONS = 20 if sys.version_info >= (3, 12) else 0
REPORT = "import gc, json, sys; print(json.dumps([[*sys.modules], gc.get_stats()[2]['collections']]))"


def run(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | SETTINGS
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("process", STARTS)
def test_process_starts_with_few_modules_and_without_searching_for_garbage(process: str) -> None:
    start, foreign, most = STARTS[process]
    modules, full_collections = run(f"{start}; {REPORT}")
    assert (foreign | LATER) & set(modules) == set()
    assert len(modules) <= most + OF_LATER_PYTHONS, "an import at the start costs CPU time and memory in every process"
    assert full_collections == 0


def test_web_process_compiles_no_builder_of_addresses_at_the_start() -> None:
    # werkzeug compiles trees, and an audit event reports each compilation with its source.
    is_tree = "event == 'compile' and isinstance(of[0], ast.AST)"
    watch = f"seen = []; sys.addaudithook(lambda event, of: {is_tree} and seen.append(of))"
    build = "application.test_request_context().push(); from flask import url_for; url_for('console.overview')"
    program = f"import ast, json, sys; {watch}; import app; application = app.create_app(); first = len(seen); {build}"
    assert run(f"{program}; print(json.dumps([first, len(seen)]))") == [0, 1]


def test_worker_does_not_search_for_garbage_while_it_imports() -> None:
    # Dramatiq's parent has imported dramatiq.
    count = "gc.get_stats()[0]['collections']"
    assert run(f"import dramatiq.cli, gc; before = {count}; import actors; print({count} - before)") <= 1


def test_processes_end_without_searching_for_garbage() -> None:
    report = "import atexit, gc, json; atexit.register(lambda: print(json.dumps(gc.get_freeze_count())))"
    assert run(f"{report}; import app") > 1_000, "a search would take a third of the CPU time of each command"


def test_importing_one_side_does_not_pull_in_the_other() -> None:
    # By module, in an order in which an earlier import loads no package that a later line forbids.
    absent = {
        "schema.migrate": ["app"],
        "app": ["flask"],
        "app.queue.claiming.claim": ["flask"],
        "brokers.broker": ["flask", "werkzeug", "redis"],
    }
    program = f"""
import importlib, json, sys
found = []
for module, absent in {absent!r}.items():
    importlib.import_module(module)
    found += [[module, name] for name in absent if name in sys.modules]
print(json.dumps(found))
"""
    assert run(program) == []
