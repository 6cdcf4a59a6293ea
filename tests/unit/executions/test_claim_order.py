"""The order of the claim: the statements and the index that depend on it agree."""

import re

from app.executions.claiming.claim import CLAIM
from app.executions.reading.explanation import QUEUE
from schema.tables import executions

ORDER = [
    column.name
    for index in executions.indexes
    if index.name == "idx_executions_pickup"
    for column in index.columns
    if column.name not in {"queue", "shard"}
]


def orders_in(sql: str) -> list[list[str]]:
    """Return the columns of each ORDER BY … LIMIT, without the names of tables."""
    return [re.findall(r"(\w+)(?:,|$)", order) for order in re.findall(r"ORDER BY ([\w., ]+) LIMIT", sql)]


def test_the_claim_is_ordered_as_its_index_is() -> None:
    """Else the claim sorts; see CLAIM in app.executions.claiming.claim and the index in schema.tables.executions."""
    claimed, following = orders_in(CLAIM.text)
    assert claimed == ORDER
    assert following[0] == "run_at", "whatever the order, a worker wakes up for the row that is due next"


def test_the_explanation_counts_what_the_claim_takes_earlier() -> None:
    """Else change QUEUE in app.executions.reading.explanation: the count and its comparison."""
    assert orders_in(QUEUE.text) == [ORDER]
    (compared,) = re.findall(r"\(([\w., ]+)\)\s*<", QUEUE.text)
    assert [name.strip().removeprefix("o.") for name in compared.split(",")] == ORDER
