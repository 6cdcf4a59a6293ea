"""Open dead letters are counted by endpoint, with few statements however many endpoints have some."""

import pytest
from sqlalchemy import event

from app.features.dead_letters import metrics
from app.kernel.db import Database
from tests import rows
from tests.integration.statements import Statements

LETTERS = {"a": 1, "b": 7, "c": 2, "d": 1}


@pytest.fixture
def letters(database: Database) -> None:
    for endpoint, count in LETTERS.items():
        rows.add_endpoint(database, endpoint)
        for execution_id in rows.add_executions(database, count, endpoint=endpoint):
            rows.add_letter(database, execution_id, endpoint=endpoint)


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("stride", [3, 4, 7, 8, 10, 11, 12])
def test_letters_are_counted_whole_whatever_a_statement_reads(
    database: Database, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr(metrics, "STRIDE", stride)
    monkeypatch.setattr(metrics, "MAX_LETTERS", 3)
    found = {each.endpoint: each.letters for each in metrics.open_letters(database)}
    assert found == {endpoint: min(count, 3) for endpoint, count in LETTERS.items()}
    monkeypatch.setattr(metrics, "MAX_ENDPOINTS", 2)
    assert [each.endpoint for each in metrics.open_letters(database)] == ["a", "b"]


@pytest.mark.usefixtures("letters")
def test_letters_of_many_endpoints_are_counted_by_one_statement(database: Database) -> None:
    statements = Statements()
    event.listen(database.engine, "before_cursor_execute", statements)
    assert len(metrics.open_letters(database)) == len(LETTERS)
    assert len(statements.texts) == 1


@pytest.mark.usefixtures("letters")
def test_count_that_reaches_its_bound_is_not_read_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "STRIDE", 6)
    monkeypatch.setattr(metrics, "MAX_LETTERS", 3)
    statements = Statements()
    event.listen(database.engine, "before_cursor_execute", statements)
    assert [each.letters for each in metrics.open_letters(database)] == [1, 3, 2, 1]
    assert len(statements.texts) == 2
