"""Page of testing: its tests pass as they stand there, and a repeated delivery without an inbox would fail."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def functions_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


@pytest.mark.postgresql_only
def test_each_test_of_the_page_passes(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DATABASE_URL", database_url)
    run = []
    for language, block in BLOCKS:
        if language == "sql":
            database.fetch(text(f"{block} RETURNING id"))
            continue
        for name, test in functions_of(block).items():
            test(*[tmp_path] if "tmp_path" in test.__code__.co_varnames else [])
            run.append(name)
    assert len(run) == 3
    assert database.fetch(text("SELECT name FROM endpoints")) == []
