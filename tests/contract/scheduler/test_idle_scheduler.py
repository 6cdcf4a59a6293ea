"""Statements of a scheduler without work, which a second scheduler sends as well."""

from collections import Counter

from sqlalchemy import event

from app.kernel.db import Database
from app.scheduler.chore_conditions import with_conditions
from app.scheduler.chore_plan import plan
from tests.contract.scheduler.conftest import context
from tests.endings import begin_rollups

MAX_PER_SECOND = 6.5  # 1.3 of them for the history: samples of the queues, and rollups


def test_idle_scheduler_sends_few_statements_a_second(database: Database) -> None:
    """Each chore runs twice: the first run of a process also reads from the start of each index.

    The rollups begin a minute ago: otherwise a first scheduler counts the present hour, some slots in each run.

    Each further shard, of which CockroachDB has 15 by default, adds the two promotions of a second.
    """
    counts, rates = Counter[str](), dict[str, float]()
    chore = ""
    event.listen(database.engine, "after_cursor_execute", lambda *_call: counts.update([chore]))
    begin_rollups(database, 1)
    chores = with_conditions(database, plan(context(database, queue_shards=1)))
    for each in chores:
        each.run()
    counts.clear()
    for each in chores:
        chore = each.name
        each.run()
        rates[chore] = counts[chore] / each.every_seconds
    assert 4 < sum(rates.values()) <= MAX_PER_SECOND, sorted(rates.items(), key=lambda rate: -rate[1])
