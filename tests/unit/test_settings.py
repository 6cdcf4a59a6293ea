"""Settings: names, defaults, and error messages that name the variable."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from app.kernel.config import SettingError, Settings
from tests.cases import each_case

URL = {"TE_DATABASE_URL": "postgresql://user:hunter2@127.0.0.1/te"}


def test_defaults_without_any_setting() -> None:
    settings = Settings.from_env(URL)
    assert settings.worker_max_concurrent == 200
    assert settings.worker_poll_interval_ms == 200
    assert settings.config_cache_ttl_seconds == 60
    assert settings.secret_cache_ttl_seconds == 300
    assert settings.worker_shutdown_timeout_seconds == 30
    assert settings.cron_tick_interval_seconds == 1
    assert settings.cron_batch_size == 100
    assert settings.promote_interval_ms == 500
    assert settings.reclaim_interval_seconds == 30
    assert settings.stuck_timeout_seconds == 300
    assert settings.listen_addr == "0.0.0.0:8080"
    assert settings.worker_timeout_seconds == 15


@each_case(
    ("name", "value"),
    [
        ("TE_WORKER_MAX_CONCURRENT", "0"),
        ("TE_WORKER_MAX_CONCURRENT", "many"),
        ("TE_WORKER_TIMEOUT_SEC", "nan"),
        ("TE_WORKER_MAX_CONCURRENT", "1.5"),
        ("TE_WORKER_TIMEOUT_SEC", "soon"),
        ("TE_LISTEN_ADDR", "8080"),
        ("TE_LISTEN_ADDR", "0.0.0.0:70000"),
        ("TE_LISTEN_ADDR", "256.1.1.1:80"),
        ("TE_LISTEN_ADDR", "::1:80"),
        ("TE_WAKEUP_REDIS_URL", "redis://host:port"),
        ("TE_WAKEUP_REDIS_URL", "redis://host?unheard-of=1"),
        ("TE_RETENTION_DAYS", "forever"),
        ("TE_EGRESS_ALLOW", "10.0.0.0/33"),
        ("TE_EGRESS_POLICY", "open"),
        ("TE_LOG_FORMAT", "xml"),
    ],
)
def test_malformed_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is not valid: .* (needed|one of)"):
        Settings.from_env(URL | {name: value})


@pytest.mark.parametrize("value", ["0.0.0.0:8080", ":8080", "localhost:0", "[::1]:80"])
def test_listen_address_of_gunicorn_is_accepted(value: str) -> None:
    assert Settings.from_env(URL | {"TE_LISTEN_ADDR": value}).listen_addr == value


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:hunter2@db/x",
        "hunter2",
        "postgresql://user:hunter2@host:port/x",
        "postgresql://user:p@hunter2@host/x",
        "postgresql://user:p@word:hunter2@host/x",
    ],
)
def test_bad_database_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SettingError, match="TE_DATABASE_URL") as caught:
        Settings.from_env({"TE_DATABASE_URL": url})
    assert "hunter2" not in str(caught.value)


def test_database_url_is_required() -> None:
    with pytest.raises(SettingError, match="TE_DATABASE_URL is not set"):
        Settings.from_env({})


def test_default_is_sixteen_shards_on_cockroachdb_and_one_on_postgresql() -> None:
    assert Settings.from_env(URL).shards(cockroach=False) == 1
    assert Settings.from_env(URL).shards(cockroach=True) == 16
    assert Settings.from_env(URL | {"TE_QUEUE_SHARDS": "4"}).shards(cockroach=False) == 4


def reference() -> dict[str, str]:
    """Return the variables that docs/reference/settings.md lists, with their documented defaults."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
    return dict(re.findall(r"^\| `(TE_[A-Z_]+)` \| ([^|]+) \|", text, re.MULTILINE))


def test_reference_lists_exactly_the_settings() -> None:
    assert set(reference()) == {f.metadata["env"] for f in fields(Settings)}


def test_reference_gives_the_defaults() -> None:
    for setting in fields(Settings):
        default, documented = setting.default, reference()[setting.metadata["env"]]
        if isinstance(default, int | float):
            assert float(documented) == default, setting.name
        elif default:
            assert documented.strip("`") == default, setting.name
        elif default is not None:  # a default of None depends on the process or the engine
            assert documented in {"required", "none", "off"}, setting.name
