"""SQL functions: each upgrade installs the text of its release and keeps grants."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from schema import functions, migrate

TEMPLATE = (Path(functions.__file__).parent / "te_enqueue.sql").read_text()
# Types of the arguments of this release's function.
ARGUMENTS = ["text", "jsonb", "text", "timestamptz", "interval", "text", "jsonb", "text", "bigint", "text"]
BODY = text("SELECT prosrc FROM pg_proc WHERE proname = 'te_enqueue'")
MAY_EXECUTE = text("SELECT has_function_privilege(:role, oid, 'EXECUTE') FROM pg_proc WHERE proname = 'te_enqueue'")
OTHER = "FUNCTION te_enqueue(endpoint text) RETURNS text LANGUAGE sql AS 'SELECT 1'"


@pytest.fixture
def role(observer: Connection, database_url: str) -> Iterator[str]:
    name = f"caller_{database_url.rpartition('/')[2]}"[:60]
    observer.execute(text(f"CREATE ROLE {name}"))
    yield name
    observer.execute(text(f"DROP OWNED BY {name}"))
    observer.execute(text(f"DROP ROLE {name}"))


def test_every_name_in_braces_is_replaced() -> None:
    assert {"schema", "max_name", "followed_on_success"} < set(re.findall(r"\{([a-z_]+)\}", TEMPLATE))
    assert not re.search(r"\{[a-z_]+\}", functions.te_enqueue("public"))


def test_changed_arguments_have_a_revision() -> None:
    """If it fails, write a revision that drops the function with the earlier arguments, and update ARGUMENTS."""
    signature = TEMPLATE[TEMPLATE.index("te_enqueue(\n") : TEMPLATE.index(") RETURNS")]
    assert re.findall(r"^  \w+ (\w+)", signature, re.MULTILINE) == ARGUMENTS


@pytest.mark.postgresql_only
def test_upgrade_at_the_newest_revision_replaces_another_text_and_keeps_grants(
    database_url: str, observer: Connection, role: str
) -> None:
    body = observer.execute(BODY).scalar()
    assert not observer.execute(MAY_EXECUTE, {"role": role}).scalar()
    observer.execute(text("GRANT EXECUTE ON FUNCTION te_enqueue TO PUBLIC"))
    changed = functions.te_enqueue("public").replace("te_wakeup", "te_nowhere").replace(":", r"\:")
    observer.execute(text(changed))
    assert observer.execute(BODY).scalar() != body
    migrate.upgrade(database_url)
    assert observer.execute(BODY).scalar() == body
    assert observer.execute(MAY_EXECUTE, {"role": role}).scalar()


@pytest.mark.postgresql_only
def test_another_function_of_the_same_name_stops_the_upgrade(database_url: str, observer: Connection) -> None:
    """A release that changes the arguments must drop the earlier function; otherwise a call is ambiguous."""
    observer.execute(text(f"CREATE {OTHER}"))
    with pytest.raises(ProgrammingError, match=r"te_enqueue.*not unique"):
        migrate.upgrade(database_url)
    observer.execute(text("DROP FUNCTION te_enqueue(text)"))
    migrate.upgrade(database_url)
