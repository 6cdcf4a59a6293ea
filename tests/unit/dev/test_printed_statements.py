"""`make sql`: prints a statement as it runs."""

import pytest

from app.dev.statements import main
from app.kernel.sql import REGISTRY


def test_statement_is_printed_with_all_its_parts_and_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["executions.exhaust"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "-- executions.exhaust  app/queue/executions/repairs.py\nWITH free AS MATERIALIZED (\n  SELECT"
    )
    assert "e.attempt_count >= e.max_attempts" in printed
    assert printed.endswith(";\n")


def test_second_form_for_regions_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["executions.promote", "executions.promote_in_regions"])
    first, second = capsys.readouterr().out.split("\n-- ")
    assert "second form" in first.splitlines()[0]
    assert ":regions" in second


def test_list_has_all_statements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(REGISTRY)


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["executions.claim"]) == 1
    assert "`make sql` lists all names" in capsys.readouterr().err
