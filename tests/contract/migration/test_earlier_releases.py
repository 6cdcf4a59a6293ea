"""Upgrade of an older database: new databases get the newest tables, so only this test runs revisions on old tables.

The first database of a release is the commit before the first revision after the baseline. `schema` imports no other
package of the service, so its sources at that commit can migrate by themselves.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from schema import migrate, schema_version
from schema.url import database_url as parse_url
from tests.definitions import definitions
from tests.history import commit_before, extract

MIGRATE = "import sys; from schema import migrate; print(migrate.upgrade(sys.argv[1]))"
STORAGE = text(
    "SELECT concat_ws(' ', relname, given) FROM pg_class CROSS JOIN unnest(reloptions) AS given "
    "WHERE relnamespace = 'public'::regnamespace"
)


def schema_of(url: str) -> set[str]:
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        storage = [str(line) for line in connection.execute(STORAGE).scalars()]
    found = {*definitions(engine), *storage}
    engine.dispose()
    return found


@pytest.mark.postgresql_only
def test_upgraded_database_has_the_schema_of_a_new_database(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """If it fails, the newest revision lacks a change of `schema/tables` or of STORAGE in `schema/creation.py`."""
    baseline, first, *_ = sorted(path.name for path in schema_version.VERSIONS.glob("[0-9]*.py"))
    extract(commit_before(first), ["schema"], tmp_path)
    old = subprocess.run(
        [sys.executable, "-c", MIGRATE, empty_database_url],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (old.stdout.strip(), old.returncode) == (baseline[:4], 0), old.stderr
    assert schema_of(empty_database_url) != schema_of(database_url)
    migrate.upgrade(empty_database_url)
    upgraded, new = schema_of(empty_database_url), schema_of(database_url)
    assert new - upgraded == set()
    assert upgraded - new == set()
