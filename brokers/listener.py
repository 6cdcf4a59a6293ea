"""Hears the wake-up hints of `app.wakeup` and passes them to the consumers."""

import logging
import os
import select
import threading
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.db import Database
from app.wakeup import CHANNEL
from brokers.session import Session

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0


class WakeupListener:
    """A thread with a connection of its own on which PostgreSQL sends notifications; idle on CockroachDB."""

    def __init__(self, database: Database, session: Session) -> None:
        self._database = database
        self._session = session
        self._stopping = threading.Event()
        self._stop_reader, self._stop_writer = -1, -1
        self._thread = threading.Thread(target=self._run, name="te-listener", daemon=True)

    def start(self) -> None:
        """Start listening, where the engine can notify."""
        if not self._database.is_cockroach:
            self._stop_reader, self._stop_writer = os.pipe()
            self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        if self._stop_writer >= 0:
            self._stopping.set()
            os.write(self._stop_writer, b"x")
            self._thread.join(timeout=5)
            os.close(self._stop_reader)
            os.close(self._stop_writer)
        self._database.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (SQLAlchemyError, OSError, self._database.engine.dialect.loaded_dbapi.Error) as error:
                log.debug("wake-ups are off, polling goes on: %s", type(error).__name__)
                self._stopping.wait(RECONNECT_SECONDS)

    def _listen(self) -> None:
        # Outside the pool's life cycle: the connection stays open for as long as the process.
        connection: Any = self._database.engine.raw_connection()
        try:
            driver = connection.driver_connection
            driver.autocommit = True
            with driver.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._session.wake()
            while not self._stopping.is_set():
                select.select([driver, self._stop_reader], [], [])
                driver.poll()
                self._pass_on(driver.notifies)
        finally:
            connection.invalidate()

    def _pass_on(self, notifies: list[Any]) -> None:
        queues = {name for notify in notifies for name in notify.payload.split(",")}
        notifies.clear()
        for queue in queues:
            self._session.wake(queue)
