"""Cancellation of many executions: the choice for running executions belongs to the preview, and the form sends it."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from app.features.bulk_jobs.store import BULK_OPERATIONS, BulkOperation
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.executions.execution_cancellation import IfRunning
from tests import rows
from tests.claiming import partitions_of, take
from tests.console_story import WORKER, Story
from tests.integration.console.visitor import Visitor

PATH, BULK = "/console/executions/bulk", "/console/do/post/bulk-operations"
CHOICES = {"end after this attempt": IfRunning.REQUEST, "abort": IfRunning.ABORT}


def ticked(*ids: str) -> str:
    fields = [("chosen", "on"), *(("execution_id", each) for each in ids), ("action", "cancel")]
    return f"{PATH}?{urlencode(fields)}"


def with_running(operator: Visitor, path: str, choice: str) -> str:
    """Return the address of a choice for running executions on a page."""
    (address,) = re.findall(rf'<a href="([^"]+)"[^>]*>{choice}</a>', operator.get(path))
    return unescape(address)


def begun(operator: Visitor, database: Database, path: str, **fields: str) -> BulkOperation:
    assert "has begun" in operator.act(path, BULK, **fields)
    (found,) = BULK_OPERATIONS.page(database, PageRequest()).items
    return found


@pytest.mark.parametrize("choice", CHOICES)
def test_ticked_running_rows_are_cancelled_by_choice(
    operator: Visitor, database: Database, story: Story, choice: str
) -> None:
    path = ticked(story.running)
    page = operator.get(path)
    assert "Nothing matches: there is nothing to cancel if running ones are left alone" in page
    assert not operator.has_form(path, BULK)
    wanted = with_running(operator, path, choice)
    assert "Cancel 1" in operator.get(wanted)
    assert begun(operator, database, wanted).given.if_running is CHOICES[choice]


def test_count_of_mixed_rows_follows_the_choice(operator: Visitor, database: Database, story: Story) -> None:
    path = ticked(story.running, *story.waiting[:2])
    assert "Cancel 2" in operator.get(path)
    assert 'name="if_running"' not in operator.get(path), "what is sent is what was shown"
    wanted = with_running(operator, path, "end after this attempt")
    page = operator.get(wanted)
    assert [part for part in ("Cancel 3", "3 chosen", f'id="{story.running}"') if part not in page] == []
    assert "Cancel 2" in operator.get(with_running(operator, wanted, "leave alone"))
    assert begun(operator, database, path).given.if_running is None


def test_number_of_running_executions_of_a_filter_is_typed(operator: Visitor, database: Database, story: Story) -> None:
    rows.add_executions(database, 100, endpoint="charge-card")
    rows.move_to_one_shard(database)
    partitions = [each for each in partitions_of(database) if each.endpoint == "charge-card"]
    assert len(take(database, WORKER, 100, partitions=tuple(partitions)).claims) == 100
    path = f"{PATH}?action=cancel&endpoint=charge-card"
    assert "to confirm" not in operator.get(path)
    wanted = with_running(operator, path, "abort")
    form = operator.form(wanted, BULK)
    assert (form["shown"], form["if_running"]) == ("102", "abort"), "100, the one of the story, and its waiting one"
    assert operator.send(BULK, form).status_code == 400
    assert begun(operator, database, wanted, typed="102").given.if_running is IfRunning.ABORT


@pytest.mark.parametrize("status", ["RUNNING", "SUCCESS", "FAILED"])
def test_filter_by_other_states_never_means_waiting_executions(operator: Visitor, story: Story, status: str) -> None:
    path = f"{PATH}?action=cancel&status={status}"
    assert "Nothing matches" in operator.get(path)
    chosen = with_running(operator, path, "abort")
    assert ("Cancel 1" in operator.get(chosen)) is (status == "RUNNING")
