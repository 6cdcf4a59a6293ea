"""What a process says at its start about the release and the isolation level of a CockroachDB."""

import pytest

from app.kernel.db.startup import doubts_about_isolation, doubts_about_version
from tests.cases import each_case

BUILT = "(x86_64-pc-linux-gnu, built 2025/09/15 12:00:00, go1.23.12)"


@each_case("release", ["v24.3.20", "v24.3.31", "v25.2.6", "v25.3.2", "v25.4.0", "v25.4.0-beta.1", "v26.2.1", "v30.1.0"])
def test_a_good_release_gives_no_cause_for_doubt(release: str) -> None:
    assert doubts_about_version(f"CockroachDB CCL {release} {BUILT}") == []


@pytest.mark.parametrize("release", ["v22.2.19", "v24.1.29", "v24.3.19", "v25.1.10", "v25.2.5", "v25.3.1"])
def test_a_release_with_known_faults_is_named_with_those_that_have_none(release: str) -> None:
    (said,) = doubts_about_version(f"CockroachDB CCL {release} {BUILT}")
    assert release in said
    assert "v25.2.6" in said


@pytest.mark.parametrize("version", ["CockroachDB CCL", "PostgreSQL 18.1 on x86_64", ""])
def test_a_version_that_cannot_be_read_is_a_doubt(version: str) -> None:
    assert len(doubts_about_version(version)) == 1


@pytest.mark.parametrize("level", ["read committed", "READ COMMITTED"])
def test_the_level_that_was_asked_for_is_no_doubt(level: str) -> None:
    assert doubts_about_isolation(level) == []


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_another_level_is_said_with_the_setting_that_decides(level: str) -> None:
    (said,) = doubts_about_isolation(level)
    assert level.upper() in said
    assert "sql.txn.read_committed_isolation.enabled" in said
