"""The order of the claim: the statements and the index that depend on it agree."""

import re

import pytest

from app.kernel.sql import HotStatement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.claim import CLAIM_1, CLAIM_4, CLAIM_16
from app.queue.claiming.full_scan import NEXT_PARTITIONS
from app.queue.claiming.poll import POLL_1, POLL_16
from app.queue.reading.waiting_reasons import AHEAD
from schema.states import ExecutionStatus
from schema.tables import executions

BY_NAME = {index.name: index for index in executions.indexes}


def columns_behind(index: str, *leading: str) -> list[str]:
    """Return the columns of an index, which begins with others."""
    columns = [column.name for column in BY_NAME[index].columns]
    assert columns[: len(leading)] == list(leading)
    return columns[len(leading) :]


ORDER = columns_behind("idx_executions_pickup", "queue", "shard")


def orders_in(sql: str) -> list[list[str]]:
    """Return the columns of each ORDER BY … LIMIT, without the names of tables."""
    return [re.findall(r"(\w+)(?:,|$)", order) for order in re.findall(r"ORDER BY ([\w., ]+) LIMIT", sql)]


def test_the_explanation_counts_what_a_claim_takes_earlier_of_the_partition() -> None:
    """Else change AHEAD in app.queue.reading.waiting_reasons: the count and its comparison."""
    behind = columns_behind("idx_executions_lanes", "queue", "shard", "endpoint", "limit_key", "priority")
    assert orders_in(AHEAD.text) == [behind]
    (compared,) = re.findall(r"\(([\w., ]+)\)\s*<", AHEAD.text)
    assert [name.strip().removeprefix("o.") for name in compared.split(",")] == behind


@pytest.mark.parametrize(("claim", "arms"), [(CLAIM_1, 1), (CLAIM_4, 4), (CLAIM_16, 16)])
def test_each_arm_of_a_claim_is_ordered_as_a_partition_is_in_its_index(claim: HotStatement, arms: int) -> None:
    """Else an arm sorts; see app.queue.claiming.arms and the index in schema.tables.executions."""
    behind = columns_behind("idx_executions_lanes", "queue", "shard", "endpoint", "limit_key", "priority")
    assert orders_in(claim.text) == [behind] * arms


def test_looks_and_sweeps_are_ordered_as_their_indexes_are() -> None:
    for look, shards in ((POLL_1, 1), (POLL_16, 16)):
        assert orders_in(look.text.replace(" DESC", "")) == [ORDER] * 2 * shards
        assert look.text.count(f"ORDER BY {' DESC, '.join(ORDER)} DESC LIMIT") == shards, "what is due, backwards"
    assert orders_in(NEXT_PARTITIONS.text) == [columns_behind("idx_executions_lanes", "queue", "shard")] * 16


def test_both_indexes_of_what_can_be_claimed_hold_the_same() -> None:
    """One says what is in it and the other what is not: a new status belongs to one of the two lists."""
    conditions = {name: str(BY_NAME[name].dialect_options["postgresql"]["where"]) for name in BY_NAME}
    assert conditions["idx_executions_lanes"] == CLAIMABLE
    left_out = re.findall(r"'(\w+)'", CLAIMABLE)
    held = re.findall(r"'(\w+)'", conditions["idx_executions_pickup"])
    assert sorted(left_out + held) == sorted(ExecutionStatus)
