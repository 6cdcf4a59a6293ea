"""Limits: the values of Dramatiq's rate limiters, barriers and group callbacks, in the database of the service."""

import math
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dramatiq.errors import BrokerConnectionError
from dramatiq.rate_limits import RateLimiterBackend

from task_executor_dramatiq.own_connection import OwnConnection
from task_executor_dramatiq.sending import Execute, PostgresSender, SendError, state_of

if TYPE_CHECKING:
    from task_executor_dramatiq.broker import TaskExecutorBroker

_NUMBER = "CAST(%s AS numeric)"
ADD = f"SELECT te_limiter_add(%s, {_NUMBER}, {_NUMBER})"
CHANGE = f"SELECT te_limiter_change(%s, {_NUMBER}, {_NUMBER}, {_NUMBER}, {_NUMBER}, %s, %s)"
VALUE = "SELECT te_limiter_value(%s)"
PATIENCE_SECONDS = 60.0  # for conflicts, and for a database that is away if a repetition counts once
STATEMENT_SECONDS = 5  # then the other threads of the process have their turn
LOCK_SECONDS = 0.1  # a thread that waits for a lock is not interrupted
MIN_PAUSE_SECONDS, MAX_CONFLICT_SECONDS, MAX_PAUSE_SECONDS = 0.001, 0.02, 1.0
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.002, 0.25

MAX_KEY_CHARACTERS = 500

_CONFLICTS = {"40001", "40P01", "55P03", "57014"}
_READ_ONLY = "25006"  # the primary before a failover: the next connection may find the new primary
_REMEDIES = {
    "42883": "the database has no functions te_limiter_…: upgrade its schema (`flask --app app db upgrade`); on "
    "CockroachDB, which cannot have them, use Dramatiq's RedisBackend",
    "42501": "the role may not change limiters: GRANT EXECUTE ON FUNCTION te_limiter_add, te_limiter_change, "
    "te_limiter_value TO it, and USAGE ON SCHEMA",
}


class LimiterError(SendError):
    """The database refuses a change of a limiter; the text says why, and the remedy."""


class ExecutionsLimiterBackend(RateLimiterBackend):
    """Backend of Dramatiq's rate limiters, barriers and GroupCallbacks; the threads of a process share a connection.

    A value is visible at once, also inside `broker.transaction()`. A party of a barrier counts once, even if the answer
    of the database is lost; in GroupCallbacks, a message counts once even if it runs again.

    Args:
        broker: The broker of the process.
        url: Database of the service, `postgresql://…`; default: the one of the broker.

    Raises:
        TypeError: The broker has the URL of the API, and there is no other `url`.

    Example:
        broker.add_middleware(GroupCallbacks(ExecutionsLimiterBackend(broker)))
    """

    def __init__(self, broker: "TaskExecutorBroker", url: str | None = None) -> None:
        if url is None:
            if not isinstance(broker.sender, PostgresSender):
                raise TypeError("the API has no limiters: give the database, ExecutionsLimiterBackend(broker, url=…)")
            url = broker.sender.url
        self._broker = broker
        self._connection = SharedConnection(url)

    def add(self, key: str, value: int, ttl: int) -> bool:
        """Store a value unless the key has one; `ttl` in milliseconds. Return whether it is stored."""
        return bool(self._call(ADD, (_checked(key), value, ttl)))

    def incr(self, key: str, amount: int, maximum: int, ttl: int) -> bool:
        """Add an amount unless the value would exceed the maximum; return whether it is added."""
        return bool(self._call(CHANGE, (_checked(key), amount, None, maximum, ttl, None, None)))

    def decr(self, key: str, amount: int, minimum: int, ttl: int) -> bool:
        """Subtract an amount unless the value would fall below the minimum; return whether it is subtracted.

        It counts once, even if its answer is lost: a permit that is given back twice would be another holder's. A
        minimum above zero belongs to a barrier, where each party counts once.
        """
        party = self._party() if minimum > 0 else uuid.uuid4().hex
        change = (_checked(key), -amount, minimum, None, ttl, None, party)
        return bool(self._call(CHANGE, change, is_repeatable=True))

    def incr_and_sum(self, key: str, keys: Callable[[], Sequence[str]], amount: int, maximum: int, ttl: int) -> bool:
        """Add an amount unless the value, or the sum of the keys, would exceed the maximum; return whether it is."""
        summed = [_checked(each, "each of keys") for each in keys()]
        return bool(self._call(CHANGE, (_checked(key), amount, None, maximum, ttl, summed, None)))

    def wait(self, key: str, timeout: int | None) -> bool:
        """Wait for `wait_notify` of the key, for `timeout` in milliseconds (None: without end); return whether it came.

        The answer is late by at most a tenth of the time that it took, and a quarter of a second; if the database is
        away, BrokerConnectionError is raised then.
        """
        began = time.monotonic()
        until = math.inf if timeout is None else began + timeout / 1000
        while self._call(VALUE, (_checked(key),), is_repeatable=True, until=until) is None:
            now = time.monotonic()
            if now >= until:
                return False
            pause = min(max(MIN_POLL_SECONDS, (now - began) / 10), MAX_POLL_SECONDS)
            time.sleep(min(pause, until - now))
        return True

    def wait_notify(self, key: str, ttl: int) -> None:
        """End all waits for the key, and all waits that begin within `ttl` milliseconds."""
        self._call(ADD, (_checked(key), 1, ttl), is_repeatable=True)

    def close(self) -> None:
        """Close the connection; the next call opens another connection."""
        self._connection.close()

    def _party(self) -> str:
        """Return the execution while middleware handles the end of its message, else a name of this call alone."""
        hand = self._broker.message_that_ends
        return uuid.uuid4().hex if hand is None else str(hand.key[0])

    def _call(
        self, sql: str, parameters: tuple[Any, ...], *, is_repeatable: bool = False, until: float | None = None
    ) -> Any:
        """Return the value of a statement, which conflicts repeat, and an outage if it may be repeated, `until` then.

        At the end of a message there is no bound: Dramatiq would go on without the callback of its group.
        """
        if until is None:
            is_endless = is_repeatable and self._broker.message_that_ends is not None
            until = math.inf if is_endless else time.monotonic() + PATIENCE_SECONDS
        pause = MIN_PAUSE_SECONDS
        while True:
            try:
                return self._connection.run_until(until, sql, parameters)
            except _ConflictError as error:
                if time.monotonic() >= until:
                    raise BrokerConnectionError(str(error)) from error.__cause__
                longest = MAX_CONFLICT_SECONDS
            except BrokerConnectionError as error:
                if not (is_repeatable and _is_away(error.__cause__)) or time.monotonic() >= until:
                    raise
                if pause == MIN_PAUSE_SECONDS:
                    self._broker.logger.warning("a limiter waits for the database: %s", error)
                longest = MAX_PAUSE_SECONDS
            time.sleep(min(random.uniform(0, pause), max(0.0, until - time.monotonic())))
            pause = min(2 * pause, longest)


class SharedConnection(PostgresSender):
    """Connection that all threads of a process share, one statement at a time."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._own = OwnConnection()
        self._locks: dict[int, threading.RLock] = {}  # by process id

    def run_until(self, until: float, sql: str, parameters: tuple[Any, ...]) -> Any:
        """Return the value of a statement; once more on a new connection if the connection broke.

        Raises LimiterError, _ConflictError, or BrokerConnectionError, also if it has no turn until then.
        """
        last = max(until, time.monotonic() + STATEMENT_SECONDS)
        # A forked process takes a new lock: a thread that holds the old one may exist only in the parent.
        lock = self._locks.setdefault(os.getpid(), threading.RLock())
        try:
            while not lock.acquire(timeout=LOCK_SECONDS):
                if time.monotonic() >= last:
                    raise BrokerConnectionError("the database does not answer a statement of another thread")
            return self._run(sql, parameters)
        finally:
            # An Interrupt of Dramatiq may come right after the lock is taken, so only the lock knows whether it is.
            try:  # noqa: SIM105 - a call before the release could be interrupted, too
                lock.release()
            except RuntimeError:
                pass

    def _run(self, sql: str, parameters: tuple[Any, ...]) -> Any:
        try:
            return self.run(lambda execute: _execute(execute, sql, parameters))
        except SendError:
            raise
        except BrokerConnectionError as error:
            blame = "the database does not answer" if _is_away(error.__cause__) else "the limiter cannot change"
            raise BrokerConnectionError(f"{blame}: {_line_of(error.__cause__)}") from error.__cause__
        except BaseException:  # also an Interrupt of Dramatiq, in the midst of a statement
            self.close()
            raise

    def _settings(self) -> dict[str, Any]:
        given = self._parse(self.url)
        options = f"-c statement_timeout={STATEMENT_SECONDS * 1000} {given.get('options', '')}".strip()
        return {"connect_timeout": STATEMENT_SECONDS, "tcp_user_timeout": 15_000} | given | {"options": options}


class _ConflictError(SendError):
    """Another transaction is in the way, so the statement has changed nothing."""


def _execute(execute: Execute, sql: str, parameters: tuple[Any, ...]) -> Any:
    """Return the value of a statement; raises LimiterError or _ConflictError."""
    try:
        return execute(sql, parameters)[0]
    except Exception as error:
        state = state_of(error)
        if state in _REMEDIES or state.startswith("TE4"):
            raise LimiterError(_REMEDIES.get(state) or _line_of(error)) from error
        if state in _CONFLICTS:
            raise _ConflictError(f"other transactions change the same limiter: {_line_of(error)}") from error
        raise


def _line_of(error: BaseException | None) -> str:
    """Return the first line of an error; further lines may quote a row."""
    return str(error).partition("\n")[0]


def _checked(key: str, name: str = "key") -> str:
    """Return a key that the database can store; raises LimiterError."""
    if not isinstance(key, str):
        raise LimiterError(f"{name}: must be text, not {type(key).__name__}; give a str")
    if not 1 <= len(key) <= MAX_KEY_CHARACTERS:
        raise LimiterError(f"{name}: must have 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}; hash longer text")
    if "\0" in key or any("\ud800" <= each <= "\udfff" for each in key):
        raise LimiterError(
            f"{name}: has a NUL or half of a surrogate pair, which PostgreSQL cannot store; leave it out"
        )
    return key


def _is_away(error: BaseException | None) -> bool:
    """Return whether an error of psycopg, 2 or 3, is one of its connection or server."""
    if state_of(error) == _READ_ONLY:
        return True
    return any(each.__name__ in {"OperationalError", "InterfaceError"} for each in type(error).__mro__)
