"""Counts in messages: `1 job is due`, never `1 jobs are due`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kernel.formats import numbered
from app.scheduler.finding import MAX_COUNTED, counted

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "actors", "brokers", "schema", "client", "receiver")
NOUNS = (
    "attempts breaches callbacks changes channels checks connections deliveries endpoints entries events "
    "executions failures faults files findings groups handlers hosts items jobs keys letters members messages nodes "
    "partitions places processes queues recipients redrives requests results rows rules schedulers secrets "
    "shards slots starts steps successes threads ticks times variables workers workflows"
)
# A number that a program computes, and up to two words before a noun in the plural.
_PLURAL = rf"(?:(?!(?:and|has|of|holds|rejects|takes) )[a-z-]+ ){{0,2}}(?:more )?(?:{'|'.join(NOUNS.split())})\b"
AFTER_VALUE = re.compile(rf" {_PLURAL}")
IN_LOG_LINE = re.compile(rf"%d {_PLURAL}")
# A name of a kind of jobs, or a number that is never 1 here.
NO_COUNTS = {
    "app/dev/stack/stack_processes.py: {times} times",
    "app/dev/verify/run.py: {self._options.rate} jobs",
    "app/features/doctor/checks.py: {row.dead} dead rows",
    "app/queue/claiming/shards.py: %d shards",
    "app/queue/jobs/group_commit.py: %d items",
    "app/queue/jobs/job_update.py: {other} jobs",
    "app/web/jobs/request_schemas.py: {owners} jobs",
    "app/web/jobs/request_schemas.py: {trigger} jobs",
    "actors/open_files.py: {needed} open files",
    "actors/dispatch/notification.py: {len(results)} channels",
    "brokers/finalizer.py: {len(batch.items)} results",
    "brokers/queue_scan.py: %d queues have executions",
}


def counts(path: Path) -> Iterator[str]:
    """Find numbers before a plural, except bounds, which are constants in capitals."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    found = AFTER_VALUE.match(str(after.value))
                    name = ast.unparse(value.value)
                    if found is not None and not name.rpartition(".")[2].isupper():
                        yield f"{{{name}}}{found[0]}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from IN_LOG_LINE.findall(node.value)


def test_messages_write_counts_by_numbered() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {count}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for count in counts(path)
    }
    assert found - NO_COUNTS == set()
    assert NO_COUNTS - found == set(), "these exceptions have no use"


@pytest.mark.parametrize(
    ("number", "noun", "predicate", "words"),
    [
        (1, "secret", "", "1 secret"),
        (0, "secret", "", "0 secrets"),
        (12_345, "delivery", "", "12,345 deliveries"),
        (2, "breach", "", "2 breaches"),
        (2, "success", "", "2 successes"),
        (2, "key", "were lost", "2 keys were lost"),
        (1, "execution", "are due, but PENDING yet", "1 execution is due, but PENDING yet"),
        (1, "job", "have no next run", "1 job has no next run"),
        (1, "row", "belong to deleted rules", "1 row belongs to deleted rules"),
    ],
)
def test_number_agrees_with_noun_and_verb(number: int, noun: str, predicate: str, words: str) -> None:
    assert numbered(number, noun, predicate) == words


def test_bounded_count_is_a_minimum() -> None:
    assert counted(MAX_COUNTED, "job", "wait") == f"{MAX_COUNTED:,} or more jobs wait"
    assert numbered(1, "job", "wait", or_more=True) == "1 or more jobs wait"
