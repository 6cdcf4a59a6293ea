"""Receiver of tests: an HTTP server that records deliveries and answers them."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, overload

from .calls import Calls
from .delivery import Answer, Delivery

Handler = Callable[[Delivery], Any]


class Deliveries(Sequence[Delivery]):
    """Deliveries of a test in the order of their arrival, each attempt separately; the fixture `deliveries`.

    Each is answered with 200, unless `answer` or `handle` says otherwise.

    Example:
        te.send(deliveries.url("/mail"), {"to": "ada"})
        assert deliveries.wait()[0].json() == {"to": "ada"}
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._received: list[Delivery] = []
        self._statuses = defaultdict[str, deque[int]](deque)
        self._handlers: dict[str, Handler] = {}
        self._handled = set[Future[Answer]]()  # not answered yet
        self._errors: list[BaseException] = []
        self._ended = set[str]()  # executions of earlier tests
        self._server = _Server(self._respond)
        threading.Thread(target=self._server.serve_forever, name="te-receiver", daemon=True).start()

    def __len__(self) -> int:
        """Return the number of deliveries so far."""
        return len(self._received)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        """Return deliveries by their place in the order of arrival."""
        return self._received[index]

    def url(self, path: str = "/") -> str:
        """Return the URL of a path of the receiver, the same throughout the session.

        Args:
            path: Path that begins with a slash.

        Returns:
            The URL.

        Example:
            te.send(deliveries.url("/mail"), {"to": "ada"})
        """
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def answer(self, path: str, *statuses: int) -> None:
        """Answer the next deliveries to a path with other statuses than 200.

        Args:
            path: Path, without a query.
            *statuses: HTTP statuses, one for each delivery.

        Example:
            deliveries.answer("/mail", 503, 503)  # the third attempt succeeds
        """
        with self._lock:
            self._statuses[path].extend(statuses)

    def handle(self, path: str, handler: Handler) -> None:
        """Answer the deliveries to a path by a function until the end of the test.

        The function runs in the thread of the test while that waits in `wait` or `Clock.advance`. So it works inside
        the database transaction of the test. Its exception is answered with 500, and raised again at the end of `wait`
        or `advance`.

        Args:
            path: Path, without a query.
            handler: Gets the Delivery; returns an Answer, a status, None for 200, or a response of a framework.

        Example:
            deliveries.handle("/mail", lambda found: client.post(found.path, found.body, "application/json"))
        """
        with self._lock:
            self._handlers[path] = handler

    def wait(self, count: int = 1, *, path: str | None = None, timeout: float = 10.0) -> list[Delivery]:
        """Wait for deliveries that are due without a move of the clock.

        Args:
            count: Number of deliveries since the start of the test.
            path: Path to count, without a query; None for all paths.
            timeout: Limit in seconds of real time.

        Returns:
            The deliveries to that path so far.

        Raises:
            TimeoutError: Fewer have arrived.
            RuntimeError: A handler called it.
            Exception: A handler raised it.

        Example:
            first, second = deliveries.wait(2, path="/mail")
        """

        def found() -> list[Delivery]:
            return [each for each in self._received if path in {None, _path_of(each)}]

        is_reached = self._calls.run_until(lambda: len(found()) >= count and not self._handled, timeout)
        self.raise_error()
        if not is_reached:
            where = "the receiver" if path is None else path
            raise TimeoutError(f"deliveries to {where} within {timeout:g} s: {len(found())} of {count}")
        return found()

    def raise_error(self) -> None:
        """Raise the first exception of a handler since the last call.

        Raises:
            Exception: A handler raised it.
        """
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def clear(self, ended: Iterable[str] = ()) -> None:
        """Forget all deliveries, statuses and handlers; open deliveries are answered with 503.

        Args:
            ended: Executions that no longer exist: their deliveries are answered with 200, and not recorded.
        """
        with self._lock:
            self._ended.update(ended)
            for future in self._handled:
                future.cancel()
            self._handled.clear()
            self._received, self._errors = [], []
            self._statuses.clear()
            self._handlers.clear()

    def close(self) -> None:
        """Stop the server."""
        self.clear()
        self._server.shutdown()
        self._server.server_close()

    def _respond(self, delivery: Delivery) -> Answer:
        """Record a delivery and return its answer; runs in a thread of the server."""
        path, future = _path_of(delivery), Future[Answer]()
        with self._lock:
            if delivery.headers.get("x-task-executor-execution-id") in self._ended:
                return Answer()
            self._received.append(delivery)
            status = self._statuses[path].popleft() if self._statuses[path] else None
            handler = self._handlers.get(path) if status is None else None
            if handler is not None:
                self._handled.add(future)
        if handler is None:
            self._calls.put(bool)  # ends a wait, and does nothing
            return Answer(status or 200)
        self._calls.put(partial(self._handle, future, handler, delivery))
        try:
            return future.result()
        except CancelledError:
            return Answer(503)

    def _handle(self, future: Future[Answer], handler: Handler, delivery: Delivery) -> None:
        """Call a handler in the test's thread, unless the test is over."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            answer = Answer.of(handler(delivery))
        except BaseException as error:  # noqa: BLE001 - raised again by `raise_error`
            answer = Answer(500)
            self._errors.append(error)
        with self._lock:
            self._handled.discard(future)
        future.set_result(answer)


class _Server(ThreadingHTTPServer):
    """Server on a free port of this machine; each connection has a thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, respond: Callable[[Delivery], Answer]) -> None:
        self.respond = respond
        super().__init__(("127.0.0.1", 0), _Request)


class _Request(BaseHTTPRequestHandler):
    """Connection that reads deliveries and writes answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        """Answer any method; a sender that leaves ends the connection."""
        try:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            delivery = Delivery.of(self.command, self.path, dict(self.headers.items()), body)
            self._write(self.server.respond(delivery))
        except ConnectionError:
            self.close_connection = True

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def _path_of(delivery: Delivery) -> str:
    return delivery.path.partition("?")[0]
