"""Link to a worker: the connection of this process, which a thread of its own reads and renews."""

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dramatiq.errors import BrokerConnectionError

from task_executor_dramatiq.frames import encode, encode_about, encode_hello, encode_outcome, key_of
from task_executor_dramatiq.held_messages import HeldMessages, Inbox
from task_executor_dramatiq.in_hand import MessageInHand
from task_executor_dramatiq.outcomes import Outcomes
from task_executor_dramatiq.timed_send import WRITE_SECONDS
from task_executor_dramatiq.tls_worker import SCHEME, TlsSocket, TlsWorker
from task_executor_dramatiq.troubles import Troubles
from task_executor_dramatiq.welcome import Welcome
from task_executor_dramatiq.worker_connection import WorkerConnection
from task_executor_dramatiq.worker_sockets import WorkerSockets

log = logging.getLogger("task_executor_dramatiq")

WELCOME_SECONDS = 30.0
CLOSE_SECONDS = 2.0
REPORT_SECONDS = 10.0  # for the worker to store the last outcomes
LEAVE_SECONDS = 10.0  # for a stopping worker to close a connection that has all outcomes


class Links:
    """The connection of this process to one worker, renewed for as long as the process consumes.

    `generation` counts the connections. A message of an earlier connection that was not started is dropped: the worker
    has taken it back.
    """

    def __init__(self, address: str, actors: Callable[[], list[dict[str, Any]]], key: str | None = None) -> None:
        """Take a function that returns the actors of this process, and the API key for a worker elsewhere."""
        self._workers: TlsWorker | WorkerSockets
        self._workers = TlsWorker(address, key) if address.startswith(SCHEME) else WorkerSockets(address)
        self.session_id = uuid.uuid4().hex
        self.threads = 1
        self.prefetch = 0  # as a user has set it; 0: by the number of threads
        self.generation = 0
        self._actors = actors
        self._connection: WorkerConnection | None = None
        self.lock = threading.RLock()  # of the connection for writing, and of the messages and outcomes
        self.held = HeldMessages(self)
        self.outcomes = Outcomes(self.lock, self.write)
        self.welcome = Welcome()
        self._closed = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._process_id = 0
        self._troubles = Troubles()

    @property
    def is_open(self) -> bool:
        """Whether this process is connected to a worker."""
        return self._connection is not None and self._process_id == os.getpid()

    @property
    def takes_messages(self) -> bool:
        """Whether the worker still reads: else it takes back its messages at the end of the connection."""
        return self._connection is not None and not self._connection.is_ending

    def open(self) -> None:
        """Connect unless connected; raises BrokerConnectionError if no worker listens, or one refuses the process."""
        with self.lock:
            if self._process_id != os.getpid():
                self._begin_in_this_process()
            if self._thread is None:
                self._use(self._workers.connect())
                self._thread = threading.Thread(target=self._run, name="te-link", daemon=True)
                self._thread.start()
        if not self.welcome.wait(WELCOME_SECONDS):
            raise BrokerConnectionError(f"the worker at {self._workers.at} does not answer")

    def _begin_in_this_process(self) -> None:
        """Forget the connection of a parent process: a fork copies this object without its thread."""
        self._process_id, self._thread, self._connection = os.getpid(), None, None
        self.session_id = uuid.uuid4().hex
        self.welcome.expect()

    def declare(self) -> None:
        """Register the actors of this process again, because there is another actor; waits for the answer."""
        self.open()
        with self.lock:
            self.welcome.expect_again()
            self.write(self._hello())
        self.welcome.is_decided(WELCOME_SECONDS)

    def set_room(self, queue_name: str, places: int) -> Inbox:
        """Take at most `places` messages of a queue; returns where they arrive."""
        with self.lock:
            inbox = self.held.set_places(queue_name, places)
            self.write(encode("ROOM", queue=queue_name, places=places))
            return inbox

    def send_of(self, message: MessageInHand, kind: str) -> None:
        """Send a frame about a message on the connection that brought it; nothing if that is gone."""
        with self.lock:
            is_present = message.generation == self.generation
            self.outcomes.send(encode_about(kind, message.key) if is_present else b"")

    def send_start(self, message: MessageInHand) -> None:
        """Report that a thread begins a message, by one write with the outcomes that wait for it."""
        with self.lock:
            self.held.unstarted.discard(message.key)
            self.send_of(message, "STARTED")

    def send_outcome(self, message: MessageInHand, kind: str, **fields: Any) -> None:
        """Send the outcome of a message, on a later connection if there is none now.

        While other messages wait for a thread, the outcome waits for the start of the next message, which this thread
        begins at once: a write for each frame would cost as much as all else.
        """
        frame = encode_outcome(kind, message.key, **fields)
        with self.lock:
            self.held.remove(message.key)
            self.outcomes.add(message.key, frame)
            if not self.held.unstarted or self._is_stopping or getattr(threading.current_thread(), "paused", False):
                self.outcomes.send()
            self._leave_draining()

    def stop_messages(self) -> None:
        """Ask for no further messages: the process stops, and gives back all that no thread has begun.

        A worker that hangs delays it by twice CLOSE_SECONDS: for a write of another thread, and for one of this thread.
        """
        with self._hurrying():
            self.outcomes.send(encode("DRAIN"))

    def close(self) -> None:
        """Give all messages back and close the connection.

        A worker that hangs delays it by REPORT_SECONDS and three times CLOSE_SECONDS at most: as `stop_messages`, and
        for the end of the connection by the worker.
        """
        self._closed.set()
        with self._hurrying():
            self.held.give_all_back()
        # A close loses outcomes that are under way by TCP.
        if self._thread is not threading.current_thread() and (left := self.outcomes.wait(REPORT_SECONDS)):
            log.warning("outcomes that the worker has not stored: %d; their messages may run again", left)
        with self.lock:
            thread = self._thread if self._connection is not None else None
            if self._connection is not None:
                self._connection.end_sending()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        with self.lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _hurrying(self) -> Iterator[None]:
        """Take the lock in CLOSE_SECONDS, and give each later write as long: this process stops."""
        self._is_stopping = True
        if not self.lock.acquire(timeout=CLOSE_SECONDS):
            if (connection := self._connection) is not None:
                connection.interrupt()  # ends the write of the thread that has the lock
            self.lock.acquire()
        try:
            if self._connection is not None:
                self._connection.write_seconds = CLOSE_SECONDS
            yield
        finally:
            self.lock.release()

    def _leave_draining(self) -> None:
        """Let the reading thread connect to another worker once a worker that stops has all outcomes."""
        connection = self._connection
        if connection is not None and self._workers.avoided is not None and not self.held and not connection.is_ending:
            connection.end_sending()
            connection.interrupt_later(LEAVE_SECONDS)  # a worker that hangs may not keep this process

    def _run(self) -> None:
        """Read frames, and connect again, until closed."""
        while not self._closed.is_set():
            try:
                # Without the lock, for which outcomes and the end of the process would wait.
                self._read(self._connection or self._use(self._workers.connect()))
            except BrokerConnectionError as error:
                self.welcome.refuse(str(error))
                self._troubles.log(f"{error}; trying again")
            self._troubles.pause(self._closed)

    def _read(self, connection: WorkerConnection) -> None:
        try:
            for frames in connection.reads():
                for frame in frames:
                    self._receive(connection, frame)
        except Exception as error:  # noqa: BLE001 - a frame of any form may not end the only thread that reads
            if not self._closed.is_set() and self.welcome.trouble is None:
                self._troubles.log(f"the connection to the worker broke: {error}")
        self._disconnect()

    def _disconnect(self) -> None:
        """Drop all messages that have not started: the worker has taken them back."""
        with self.lock:
            if (connection := self._connection) is not None:
                if connection.has_hung:
                    line = f"the worker at {self._workers.at} does not answer; connecting again, maybe elsewhere"
                    self._troubles.log(line)
                    self._workers.try_last()
                connection.close()
                self._connection = None
                self.outcomes.end_connection(is_read=connection.is_ending)
            self.welcome.expect_again()
            self.held.drop_unstarted()

    def _use(self, connected: socket.socket | TlsSocket) -> WorkerConnection:
        """Register this process on a new connection, and send the outcomes that no worker has answered."""
        with self.lock:
            connection = WorkerConnection(connected, CLOSE_SECONDS if self._is_stopping else WRITE_SECONDS)
            if self._closed.is_set():
                connection.close()
                return connection
            self._connection = connection
            connection.interrupt_later(WELCOME_SECONDS)
            self.welcome.expect()
            self.generation += 1
            self.write(self._hello())
            for name, places in self.held.places.items():
                self.write(encode("ROOM", queue=name, places=places))
            if self._is_stopping:
                self.write(encode("DRAIN"))
            self.outcomes.send()
            return connection

    def _hello(self) -> bytes:
        return encode_hello(self.session_id, self.threads, self.prefetch, self._actors())

    def write(self, frame: bytes) -> bool:
        """Write a frame; returns False without a connection, which the reading thread renews."""
        with self.lock:
            return self._connection is not None and self._connection.write(frame)

    def _receive(self, connection: WorkerConnection, frame: Mapping[str, Any]) -> None:
        match frame["kind"]:
            case "MESSAGE":
                self.held.take(frame)
            case "WELCOME":
                connection.keep()
                self._troubles.end(self._workers.at)
                self.welcome.arrive(frame["endpoints"], frame["refused"])
            case "REFUSED":
                reason = f"the worker at {self._workers.at} refuses this process: {frame['reason']}"
                self._troubles.refused(reason, self._workers.count())
                self.welcome.refuse(reason)
                self._workers.try_last()
                raise OSError(reason)
            case "DROP":
                self.held.drop(key_of(frame))
                self.outcomes.send_waiting()  # no thread starts it, which would send them
            case "ABORT":
                self.held.abort(key_of(frame))
                self.outcomes.send_waiting()  # as above
            case "WRITTEN":
                with self.lock:
                    self.outcomes.answered(key_of(frame))
                if not frame["is_written"]:
                    log.warning(
                        "the outcome of execution %s, attempt %s, came too late or twice, and changes nothing",
                        *key_of(frame),
                    )
            case "DRAIN":
                log.info("the worker at %s stops", self._workers.at)
                with self.lock:
                    self._workers.avoid()
                    self._leave_draining()
