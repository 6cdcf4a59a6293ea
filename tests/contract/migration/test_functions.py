"""SQL functions: each upgrade installs the text of its release and keeps grants."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from schema import functions, migrate

TEMPLATES = {file: (Path(functions.__file__).parent / f"{file}.sql").read_text() for file in functions.FILES}
OPTIONS = ["text", "timestamptz", "interval", "text", "jsonb", "text", "bigint", "text"]
# Types of the arguments of this release's functions.
ARGUMENTS = {
    "te_enqueue": ["text", "jsonb", *OPTIONS],
    "te_canonical_json": ["jsonb"],
    "te_policy_fault": ["jsonb"],
    "te_definition_fault": ["jsonb", "bigint"],
    "te_register_inline": ["text", "jsonb", "jsonb", "bigint"],
    "te_send": ["text", "jsonb", "text", "jsonb", "bigint", "jsonb", "jsonb", "jsonb", *OPTIONS],
    "te_limiter_check": ["text", "numeric", "numeric"],
    "te_limiter_add": ["text", "numeric", "numeric"],
    "te_limiter_change": ["text", "numeric", "numeric", "numeric", "numeric", "text", "text"],
    "te_limiter_value": ["text"],
}
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
    assert {"schema", "max_name", "followed_on_success"} < set(re.findall(r"\{([a-z_]+)\}", TEMPLATES["te_enqueue"]))
    assert not any(re.search(r"\{[a-z_]+\}", functions.sql_of(file, "public")) for file in functions.FILES)


def test_changed_arguments_have_a_revision() -> None:
    """If it fails, write a revision that drops the function with the earlier arguments, and update ARGUMENTS."""
    signatures = re.findall(r"FUNCTION \{schema\}\.(\w+)\((.*?)\) RETURNS", "".join(TEMPLATES.values()), re.DOTALL)
    assert {name: re.findall(r"(?:^|, |\n)\s*\w+ (\w+)", given) for name, given in signatures} == ARGUMENTS
    assert functions.names() == list(ARGUMENTS)


@pytest.mark.postgresql_only
def test_only_the_owner_may_execute_the_functions(observer: Connection, role: str) -> None:
    found = observer.execute(text("SELECT proname FROM pg_proc WHERE proname LIKE 'te\\_%'")).scalars().all()
    assert sorted(found) == sorted(ARGUMENTS)
    granted = (
        "SELECT count(*) FROM pg_proc WHERE proname LIKE 'te\\_%' AND has_function_privilege(:role, oid, 'EXECUTE')"
    )
    assert observer.execute(text(granted), {"role": role}).scalar() == 0


@pytest.mark.postgresql_only
def test_upgrade_at_the_newest_revision_replaces_another_text_and_keeps_grants(
    database_url: str, observer: Connection, role: str
) -> None:
    body = observer.execute(BODY).scalar()
    assert not observer.execute(MAY_EXECUTE, {"role": role}).scalar()
    observer.execute(text("GRANT EXECUTE ON FUNCTION te_enqueue TO PUBLIC"))
    changed = functions.sql_of("te_enqueue", "public").replace("te_wakeup", "te_nowhere").replace(":", r"\:")
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
