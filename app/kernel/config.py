"""Settings, read from the environment by the composition roots (web, worker, scheduler, CLI) only.

docs/reference/settings.md is the reference; a test compares both.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from schema.job_bounds import MAX_INPUT_BYTES, NAME_PATTERN, QUEUE_NAME
from schema.url import database_url

MAX_SHARDS = 256
MAX_ROUTES = 200
MAX_SOCKETS_BYTES = 60  # a Unix socket has a path of at most 107 bytes
_USER_OR_GROUP = re.compile(r"%?[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


Parse = Callable[[str], Any]


class SettingError(ValueError):
    """A setting is missing or malformed; the message names the variable and the fix."""


def _whole(minimum: int, maximum: int = 2**31) -> Parse:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", text) or not minimum <= int(text) <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum} is needed")
        return int(text)

    return parse


def _seconds(minimum: float, maximum: float = 10**6, unit: str = "seconds") -> Parse:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?", text) or not minimum <= float(text) <= maximum:
            raise ValueError(f"a number of {unit} from {minimum} to {maximum} is needed")
        return float(text)

    return parse


_days = _seconds(0, 36_500, "days")
_hours = _seconds(0.01, 8760, "hours")
CLOSED = "closed"


def _choice(*values: str) -> Parse:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"one of {', '.join(values)} is needed")
        return text

    return parse


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _networks(text: str) -> tuple[str, ...]:
    items = _items(text)
    for item in items:
        try:
            ipaddress.ip_network(item)
        except ValueError as error:
            raise ValueError(f"networks such as 10.0.0.0/8,192.0.2.7/32 are needed; {error}") from None
    return items


def _address(text: str) -> str:
    match = re.fullmatch(r"(\[[^\]]*\]|[A-Za-z0-9._-]*):([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65_535 or not _may_be_host(match[1]):
        raise ValueError("HOST:PORT is needed, such as 0.0.0.0:8080 or [::1]:8080")
    return text


def _may_be_host(host: str) -> bool:
    """Return whether this is a name or a valid address: gunicorn would look up a malformed address as a name."""
    if host and (host.startswith("[") or not host.strip("0123456789.")):
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return False
    return True


def _url(text: str) -> str:
    database_url(text)
    return text


def _directory(text: str) -> str:
    if not text.startswith("/") or "\0" in text or len(text.encode()) > MAX_SOCKETS_BYTES:
        raise ValueError(
            "the absolute path of a directory is needed, such as /run/task-executor/actors, of at most "
            f"{MAX_SOCKETS_BYTES} bytes"
        )
    return text


def _users_and_groups(text: str) -> tuple[str, ...]:
    items = _items(text)
    for item in items:
        if not _USER_OR_GROUP.fullmatch(item):
            raise ValueError(
                "users, and groups after %, by name or number, comma-separated, are needed, such as shop,1001,%tasks; "
                f"not {item[:80]!r}"
            )
    return items


def _redis_url(text: str) -> str:
    import redis  # noqa: PLC0415 - takes 0.1 s, and most processes need none

    try:
        redis.ConnectionPool.from_url(text).make_connection()  # does not connect yet
    except (ValueError, TypeError):
        raise ValueError("a URL such as redis://HOST:6379/0 is needed (or rediss:// for TLS, or unix://)") from None
    return text


def _rate(text: str) -> str:
    if text == "off":
        return ""
    if not re.fullmatch(r"[1-9][0-9]{0,8}/(second|minute|hour|day)", text):
        raise ValueError("off, or a number per second, minute, hour or day is needed, such as 600/minute")
    return text


def _routes(text: str) -> tuple[tuple[str, str], ...]:
    routes = tuple(map(_route, _items(text)))
    if len(routes) > MAX_ROUTES:
        raise ValueError(f"at most {MAX_ROUTES} routes are possible")
    return routes


def _route(text: str) -> tuple[str, str]:
    pattern, _, queue = (part.strip() for part in text.partition("="))
    if not NAME_PATTERN.fullmatch(pattern) or not QUEUE_NAME.fullmatch(queue):
        raise ValueError(
            "PATTERN=QUEUE is needed, such as billing-*=bulk,report-?=slow: a pattern has up to 128 lower-case "
            f"letters, digits, hyphens, underscores, * and ?, and a queue begins with a letter; not {text[:80]!r}"
        )
    return pattern, queue


def _env(name: str, default: Any, parse: Parse = str) -> Any:
    return field(default=default, metadata={"env": name, "parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all processes; each process reads a part of them."""

    database_url: str = _env("TE_DATABASE_URL", "", _url)
    db_pool_size: int | None = _env("TE_DB_POOL_SIZE", None, _whole(1, 1000))
    queue_shards: int | None = _env("TE_QUEUE_SHARDS", None, _whole(1, MAX_SHARDS))
    startup_timeout_seconds: float = _env("TE_STARTUP_TIMEOUT_SEC", 60.0, _seconds(0))
    wakeup_redis_url: str = _env("TE_WAKEUP_REDIS_URL", "", _redis_url)
    secret_encryption_key: str = _env("TE_SECRET_ENCRYPTION_KEY", "")
    log_level: str = _env("TE_LOG_LEVEL", "INFO", _choice("DEBUG", "INFO", "WARNING", "ERROR"))
    log_format: str = _env("TE_LOG_FORMAT", "text", _choice("text", "json"))
    traces: str = _env("TE_TRACES", "off", _choice("off", "otlp"))

    metrics_max_endpoints: int = _env("TE_METRICS_MAX_ENDPOINTS", 100, _whole(0, 10_000))

    listen_addr: str = _env("TE_LISTEN_ADDR", "0.0.0.0:8080", _address)
    web_workers: int = _env("TE_WEB_WORKERS", 2, _whole(1, 128))
    web_threads: int = _env("TE_WEB_THREADS", 8, _whole(1, 128))
    web_queue: int | None = _env("TE_WEB_QUEUE", None, _whole(1, 10_000))
    web_waiting: int = _env("TE_WEB_WAITING", 500, _whole(0, 10_000))
    web_waiting_per_key: int | None = _env("TE_WEB_WAITING_PER_KEY", None, _whole(1, 10_000))
    rate_limit: str = _env("TE_RATE_LIMIT", "", _rate)
    rate_limit_bad_keys: str = _env("TE_RATE_LIMIT_BAD_KEYS", "60/minute", _rate)
    rate_limit_storage_url: str = _env("TE_RATE_LIMIT_STORAGE_URL", "", _redis_url)
    request_timeout_seconds: float = _env("TE_REQUEST_TIMEOUT_SEC", 20.0, _seconds(0.1))
    max_body_bytes: int = _env("TE_MAX_BODY_BYTES", MAX_INPUT_BYTES, _whole(1024))
    max_inline_endpoints: int = _env("TE_MAX_INLINE_ENDPOINTS", 10_000, _whole(0))
    routes: tuple[tuple[str, str], ...] = _env("TE_ROUTES", (), _routes)
    console: str = _env("TE_CONSOLE", "on", _choice("on", "off"))
    console_cookies: str = _env("TE_CONSOLE_COOKIES", "secure", _choice("secure", "insecure"))
    console_inputs: str = _env("TE_CONSOLE_INPUTS", "open", _choice("open", CLOSED))
    console_session_hours: float = _env("TE_CONSOLE_SESSION", 12.0, _hours)

    worker_max_concurrent: int = _env("TE_WORKER_MAX_CONCURRENT", 200, _whole(1, 100_000))
    worker_poll_interval_ms: int = _env("TE_WORKER_POLL_INTERVAL_MS", 200, _whole(1, 60_000))
    worker_timeout_seconds: float = _env("TE_WORKER_TIMEOUT_SEC", 15.0, _seconds(1))
    worker_shutdown_timeout_seconds: float = _env("TE_WORKER_SHUTDOWN_TIMEOUT_SEC", 30.0, _seconds(0))
    config_cache_ttl_seconds: float = _env("TE_CONFIG_CACHE_TTL_SEC", 60.0, _seconds(0))
    secret_cache_ttl_seconds: float = _env("TE_SECRET_CACHE_TTL_SEC", 300.0, _seconds(0))
    connections_per_host: int = _env("TE_CONNECTIONS_PER_HOST", 100, _whole(1, 10_000))
    egress_policy: str = _env("TE_EGRESS_POLICY", "default", _choice("default", "public-only"))
    egress_allow: tuple[str, ...] = _env("TE_EGRESS_ALLOW", (), _networks)
    egress_deny: tuple[str, ...] = _env("TE_EGRESS_DENY", (), _networks)
    actors_listen: str = _env("TE_ACTORS_LISTEN", "", _directory)
    actors_tls_addr: str = _env("TE_ACTORS_TLS_ADDR", "", _address)
    actors_tls_cert: str = _env("TE_ACTORS_TLS_CERT", "")
    actors_tls_key: str = _env("TE_ACTORS_TLS_KEY", "")
    actors_allow: tuple[str, ...] = _env("TE_ACTORS_ALLOW", (), _users_and_groups)
    worker_metrics_addr: str = _env("TE_WORKER_METRICS_ADDR", "", _address)

    cron_tick_interval_seconds: float = _env("TE_CRON_TICK_INTERVAL_SEC", 1.0, _seconds(0.01))
    misfire_grace_seconds: float = _env("TE_MISFIRE_GRACE_SEC", 60.0, _seconds(0, 10**9))
    cron_batch_size: int = _env("TE_CRON_BATCH_SIZE", 100, _whole(1, 500))
    promote_interval_ms: int = _env("TE_PROMOTE_INTERVAL_MS", 500, _whole(1, 60_000))
    reclaim_interval_seconds: float = _env("TE_RECLAIM_INTERVAL_SEC", 30.0, _seconds(0.01))
    stuck_timeout_seconds: float = _env("TE_STUCK_EXECUTION_TIMEOUT_SEC", 300.0, _seconds(1))
    look_ahead_seconds: float = _env("TE_LOOK_AHEAD_SEC", 5.0, _seconds(0))
    retention_days: float = _env("TE_RETENTION_DAYS", 30.0, _days)
    audit_retention_days: float = _env("TE_AUDIT_RETENTION_DAYS", 365.0, _days)
    rollup_days: float = _env("TE_ROLLUP_DAYS", 90.0, _days)
    rollup_endpoints: int = _env("TE_ROLLUP_ENDPOINTS", 200, _whole(1, 10_000))
    scheduler_metrics_addr: str = _env("TE_SCHEDULER_METRICS_ADDR", "", _address)

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the settings; raises SettingError for a malformed value, or without TE_DATABASE_URL."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            name, text = item.metadata["env"], environment.get(item.metadata["env"], "").strip()
            if text:
                values[item.name] = _parse(name, text, item.metadata["parse"])
        settings = cls(**values)
        if not settings.database_url:
            raise SettingError("TE_DATABASE_URL is not set; for example postgresql://user:password@127.0.0.1:5432/te")
        return settings

    def shards(self, *, cockroach: bool) -> int:
        """Return the number of shards of each queue: 1 on PostgreSQL, 16 on CockroachDB unless set."""
        if self.queue_shards is not None:
            return self.queue_shards
        return 16 if cockroach else 1


def _parse(name: str, text: str, parse: Parse) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        # The errors of URL parsers do not repeat the URL, which may hold a password.
        raise SettingError(f"{name} is not valid: {error}") from None
