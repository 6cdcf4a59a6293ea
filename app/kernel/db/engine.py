"""Engine: session settings, error listeners, and the check of idle and stalled connections."""

import logging
import os
import random
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg2
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

from app.kernel.db.connection_pool import IDLE_SECONDS, TAKEN_AT, ShrinkingPool
from app.kernel.formats import stored_json
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0  # added to the time of a statement while waiting for its answer
_CHECK_SECONDS = 0.25
PING_AFTER_IDLE_SECONDS = 5.0
_SOCKET_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def connection_options(url: URL, *, application_name: str, statement_timeout_seconds: float) -> dict[str, Any]:
    """Return the arguments of the driver, besides the arguments in the URL."""
    settings = {
        "TimeZone": "UTC",
        "statement_timeout": str(int(statement_timeout_seconds * 1000)),
        "lock_timeout": str(int(statement_timeout_seconds * 500)),
        "idle_in_transaction_session_timeout": "30000",
        "default_transaction_isolation": r"read\ committed",
    }
    if url.get_backend_name() != "cockroachdb":
        # Hot statements are planned once. By default PostgreSQL would plan some of them at each run.
        settings["plan_cache_mode"] = "force_generic_plan"
        # Up to PostgreSQL 17, enable_sort=off (app/kernel/db/chunked_scan.py) adds so much to the estimated cost of a
        # statement that PostgreSQL compiles it, which takes far longer than running it.
        settings["jit"] = "off"
    # The options of the URL come last, so they override ours.
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    if "options" in url.query:
        options = f"{options} {url.query['options']}"
    return _SOCKET_OPTIONS | {"application_name": application_name, "options": options}


def make_engine(url: URL, options: dict[str, Any], *, pool_size: int, statement_timeout_seconds: float) -> Engine:
    engine = create_engine(
        url.difference_update_query(["options"]),
        json_deserializer=stored_json,
        use_native_hstore=False,  # no table has that type, and each process would look for it
        hide_parameters=True,
        poolclass=ShrinkingPool,
        pool_use_lifo=True,  # a process with little to do leaves the other connections idle
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=statement_timeout_seconds,  # never reached: the semaphore of Database waits instead
        # Spread, so that the pools of many processes do not reconnect at the same time.
        pool_recycle=int(random.uniform(240, 300)),
        connect_args=options,
    )
    event.listen(engine, "handle_error", _mark_disconnects)
    event.listen(engine, "handle_error", _hide_values)
    return engine


def _mark_disconnects(context: Any) -> None:
    # SQLAlchemy's list of messages lacks CockroachDB's shutdown text; the SQLSTATE is the same on both engines.
    # A server that is read-only (25006) was the primary before a failover: the next connection may find the new one.
    state = getattr(context.original_exception, "pgcode", None)
    if state is not None and (state.startswith(("08", "57P")) or state == "25006"):
        context.is_disconnect = True


def _hide_values(context: Any) -> None:
    """Shorten the server's message to its first line and SQLSTATE: the rest may hold whole rows.

    If the server refuses a value (class 22), the first line may hold the value, too.
    """
    original, wrapped = context.original_exception, context.sqlalchemy_exception
    state = getattr(original, "pgcode", None)
    if state is None:
        return
    line = type(original).__name__ if state.startswith("22") else str(original).partition("\n")[0]
    original.args = (f"{line} (SQLSTATE {state})",)
    if wrapped is not None:
        wrapped.args = (f"({type(original).__name__}) {original.args[0]}",)


class StalledConnections(BackgroundThread):
    """Cuts connections whose server neither answers nor closes them, and closes idle connections.

    Each process starts the thread when it connects.

    The server applies the statement timeout, and its kernel answers keepalives. If the server process itself is frozen
    or waits for a disk, libpq waits forever. A shutdown of the socket turns this into a lost connection.
    """

    def __init__(self, pool: ShrinkingPool, *, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__("te-stalled")
        self._pool = pool
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        # Busy connections, and the instants at which to cut them; operations of a dictionary need no lock.
        self.cut_at: dict[Any, float] = {}

    def start_watching(self, *_connected: object) -> None:
        """Start the thread unless it runs; listener of the engine's event `connect`."""
        with self._lock:
            if self.ensure_started():
                self.cut_at.clear()  # a forked process does not own its parent's connections

    def run(self) -> None:
        while not self.stopping.wait(_CHECK_SECONDS):
            now = time.monotonic()
            for driver in [driver for driver, at in list(self.cut_at.items()) if at <= now]:
                if self.cut_at.pop(driver, None) is not None:  # still busy
                    _cut(driver)
            self._pool.close_idle(now - self.idle_seconds)


def _cut(driver: Any) -> None:
    log.warning("the database does not answer; closing the connection")
    # Its user may close it concurrently.
    with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(driver.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def ping_idle_connections(engine: Engine, stalled: StalledConnections, idle_seconds: float) -> None:
    """Ping a pooled connection at checkout if it was idle for `idle_seconds`.

    SQLAlchemy's own pre-ping would ping at each checkout, which doubles the round trips of a busy process.
    """

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: Any) -> None:
        now = time.monotonic()
        taken_at, record.info[TAKEN_AT] = record.info.get(TAKEN_AT, now), now
        if now - taken_at < idle_seconds:
            return
        stalled.cut_at[connection] = now + ANSWER_SECONDS
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error
        finally:
            stalled.cut_at.pop(connection, None)
