"""Warnings at the start of a process about the version and the isolation level of CockroachDB."""

import pytest

from app.kernel.db.startup import doubts_about_isolation, doubts_about_version
from tests.cases import each_case

BUILT = "(x86_64-pc-linux-gnu, built 2025/09/15 12:00:00, go1.23.12)"


@each_case("release", ["v24.3.20", "v24.3.31", "v25.2.6", "v25.3.2", "v25.4.0", "v25.4.0-beta.1", "v26.2.1", "v30.1.0"])
def test_good_release_causes_no_warning(release: str) -> None:
    assert doubts_about_version(f"CockroachDB CCL {release} {BUILT}") == []


@pytest.mark.parametrize("release", ["v22.2.19", "v24.1.29", "v24.3.19", "v25.1.10", "v25.2.5", "v25.3.1"])
def test_release_with_known_faults_is_named_with_fixed_releases(release: str) -> None:
    (warning,) = doubts_about_version(f"CockroachDB CCL {release} {BUILT}")
    assert release in warning
    assert "v25.2.6" in warning


@pytest.mark.parametrize("version", ["CockroachDB CCL", "PostgreSQL 18.1 on x86_64", ""])
def test_unreadable_version_causes_a_warning(version: str) -> None:
    assert len(doubts_about_version(version)) == 1


@pytest.mark.parametrize("level", ["read committed", "READ COMMITTED"])
def test_requested_isolation_level_causes_no_warning(level: str) -> None:
    assert doubts_about_isolation(level) == []


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_other_isolation_level_is_named_with_the_setting_that_decides(level: str) -> None:
    (warning,) = doubts_about_isolation(level)
    assert level.upper() in warning
    assert "sql.txn.read_committed_isolation.enabled" in warning
