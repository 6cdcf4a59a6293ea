"""Order of claims: the statements agree with the index that they depend on."""

import re

import pytest

from app.kernel.sql import HotStatement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.claim import CLAIM_1, CLAIM_4, CLAIM_16
from app.queue.claiming.due_queues import CHECK, QUEUES
from app.queue.claiming.full_scan import NEXT_PARTITIONS
from app.queue.claiming.poll import POLL_1, POLL_16
from app.queue.reading.waiting_reasons import AHEAD
from schema.states import ExecutionStatus
from schema.tables import executions

BY_NAME = {index.name: index for index in executions.indexes}


def columns_behind(index: str, *leading: str) -> list[str]:
    """Return the columns of an index after its leading columns."""
    columns = [column.name for column in BY_NAME[index].columns]
    assert columns[: len(leading)] == list(leading)
    return columns[len(leading) :]


ORDER = columns_behind("idx_executions_pickup", "queue", "shard")


def orders_in(sql: str) -> list[list[str]]:
    """Return the columns of each ORDER BY … LIMIT, without table names."""
    return [re.findall(r"(\w+)(?:,|$)", order) for order in re.findall(r"ORDER BY ([\w., ]+) LIMIT", sql)]


def test_explanation_counts_the_executions_that_a_claim_takes_first() -> None:
    """If it fails, change AHEAD in app.queue.reading.waiting_reasons: the count and its comparison."""
    behind = columns_behind("idx_executions_lanes", "queue", "shard", "endpoint", "limit_key", "priority")
    assert orders_in(AHEAD.text) == [["priority", *behind], behind]
    (compared,) = re.findall(r"\(([\w., ]+)\)\s*<", AHEAD.text)
    assert [name.strip().removeprefix("o.") for name in compared.split(",")] == behind


@pytest.mark.parametrize(("claim", "arms"), [(CLAIM_1, 1), (CLAIM_4, 4), (CLAIM_16, 16)])
def test_each_arm_of_a_claim_has_the_order_of_the_partition_index(claim: HotStatement, arms: int) -> None:
    """Otherwise an arm sorts; see app.queue.claiming.arms and the index in schema.tables.executions."""
    behind = columns_behind("idx_executions_lanes", "queue", "shard", "endpoint", "limit_key", "priority")
    assert orders_in(claim.text) == [behind] * arms


def test_polls_and_full_scans_have_the_order_of_their_indexes() -> None:
    for statement, shards in ((POLL_1, 1), (POLL_16, 16)):
        assert orders_in(statement.text.replace(" DESC", "")) == [ORDER] * 2 * shards
        assert statement.text.count(f"ORDER BY {' DESC, '.join(ORDER)} DESC LIMIT") == shards, "no descending arm"
    assert orders_in(CHECK.text) == [ORDER] * QUEUES
    assert orders_in(NEXT_PARTITIONS.text) == [columns_behind("idx_executions_lanes", "queue", "shard")] * 16


def test_both_indexes_of_claimable_executions_have_the_same_rows() -> None:
    """One predicate lists included statuses, the other excluded statuses: a new status needs an entry in one list."""
    conditions = {name: str(BY_NAME[name].dialect_options["postgresql"]["where"]) for name in BY_NAME}
    assert conditions["idx_executions_lanes"] == CLAIMABLE
    left_out = re.findall(r"'(\w+)'", CLAIMABLE)
    held = re.findall(r"'(\w+)'", conditions["idx_executions_pickup"])
    assert sorted(left_out + held) == sorted(ExecutionStatus)
