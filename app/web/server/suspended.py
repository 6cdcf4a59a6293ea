"""Connections whose requests wait: they hold no thread meanwhile."""

import logging
import socket
from collections.abc import Callable
from functools import partial
from selectors import EVENT_READ
from typing import Any

from app.web.http.slots import Place, Places
from app.web.http.suspension import PLACE, STREAM, Parked, Streaming, Waiting
from app.web.server.shedding import SheddingWorker

log = logging.getLogger(__name__)

PARKED = object()
"""What handling a request comes to that waits."""
STREAMED = object()
"""What handling a request comes to whose answer goes on as a stream."""


class ParkingWorker(SheddingWorker):
    """Keeps the connections of requests that wait, where there is a place, and gives them a thread again afterwards.

    Only the main thread keeps them. It closes those whose clients have gone, and lets all go on when the process stops.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = Places(0, 0)
        self._parked: dict[Any, Callable[[], object]] = {}  # connections, and what gives up their waits
        self._streaming: set[Any] = set()  # connections that the thread of the streams has
        self.end_streams: Callable[[], object] = lambda: None
        self._again: dict[socket.socket, Waiting] = {}  # those whose wait is over, until a thread answers them

    @property
    def streaming(self) -> int:
        """How many streams are open."""
        return len(self._streaming)

    @property
    def parked(self) -> int:
        """How many connections wait."""
        return len(self._parked)

    def load_wsgi(self) -> None:
        """Load the application, and let it answer the requests that have waited."""
        super().load_wsgi()
        application: Any = self.wsgi

        def answering(environ: dict[str, Any], start_response: Any) -> Any:
            waiting = self._again.pop(environ["gunicorn.socket"], None)
            if waiting is not None:
                return waiting.again(start_response)
            with Place(self._places) as place:
                environ[PLACE] = place
                return _answer_first(application, environ, start_response)

        self.wsgi: Any = answering

    def offer_places(self, most: int, most_of_key: int) -> None:
        """Let so many connections wait, and so many of one API key."""
        self._places = Places(most, most_of_key, is_open=lambda: bool(self.alive))

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request, or note that it waits."""
        try:
            return super().handle_request(req, conn)
        except Parked as parked:
            req._expected_100_continue = False  # noqa: SLF001 - it was told to, and would be told again
            conn.waiting, conn.place = (req, parked.waiting), parked.place
            return True
        except Streaming as streaming:
            conn.stream, conn.place = streaming, streaming.place
            return True

    def _keepalive_after(self, conn: Any, keepalive: bool) -> Any:
        if getattr(conn, "waiting", None) is not None:
            return PARKED  # what follows the request is read once it is answered
        if getattr(conn, "stream", None) is not None:
            return STREAMED
        return keepalive and self._finish_body(conn)

    def _finish_body(self, conn: Any) -> bool:
        raise NotImplementedError

    def _answer_parked(self, conn: Any) -> Any:
        """Answer a request whose wait is over; what gunicorn does for one that has just come."""
        (req, waiting), conn.waiting = conn.waiting, None
        conn.sock.setblocking(True)
        self._again[conn.sock] = waiting
        try:
            return self._keepalive_after(conn, self.handle_request(req, conn))
        except (OSError, StopIteration) as error:
            log.debug("the client did not take its answer: %s", type(error).__name__)
        except Exception as error:  # noqa: BLE001 - as gunicorn does: it is answered and logged
            self.handle_error(req, conn.sock, conn.client, error)
        finally:
            self._again.pop(conn.sock, None)
        return False

    def finish_request(self, conn: Any, future: Any) -> None:
        """Keep the connection of a request that waits."""
        result = None if future.cancelled() or future.exception() is not None else future.result()
        if result is PARKED:
            self._park(conn)
        elif result is STREAMED:
            self._streaming.add(conn)
            streaming, conn.stream = conn.stream, None
            streaming.open(conn.sock, partial(self._stream_over, conn), chunked=streaming.chunked)
        else:
            super().finish_request(conn, future)

    def _stream_over(self, conn: Any, is_whole: bool) -> None:
        self.method_queue.defer(self._end_of_stream, conn, is_whole)

    def _end_of_stream(self, conn: Any, is_whole: bool) -> None:
        self._streaming.remove(conn)
        conn.place.give_back()
        if is_whole:
            self._linger(conn)
        else:
            self._close(conn)

    def _park(self, conn: Any) -> None:
        conn.sock.setblocking(False)
        conn.is_watched = True
        self.poller.register(conn.sock, EVENT_READ, partial(self._on_parked, conn))
        self._parked[conn] = lambda: None
        self._parked[conn] = conn.waiting[1].begin(lambda: self.method_queue.defer(self._go_on, conn))
        if not self.alive:
            self._go_on(conn)

    def _on_parked(self, conn: Any, sock: socket.socket) -> None:
        if conn not in self._parked:
            return  # its wait has ended in the same round of events, and a thread has it
        try:
            goes_on = bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return
        except OSError:
            goes_on = False
        self._unwatch(conn)
        # What the client sends is its next request, and stays where it is until then.
        if not goes_on:
            self._parked.pop(conn)()
            conn.place.give_back()
            conn.waiting[1].given_up()
            self._close(conn)

    def _unwatch(self, conn: Any) -> None:
        if conn.is_watched:
            conn.is_watched = False
            self.poller.unregister(conn.sock)

    def _go_on(self, conn: Any) -> None:
        """Give a connection a thread again; it was let in already, so it is not refused now."""
        give_up = self._parked.pop(conn, None)
        if give_up is not None:
            give_up()
            conn.place.give_back()
            self._unwatch(conn)
            self._submit(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """Let a worker that stops answer now what waits."""
        super()._cap_keepalive(deadline)
        self.end_streams()
        for conn in tuple(self._parked):
            self._go_on(conn)


def _answer_first(application: Any, environ: dict[str, Any], start_response: Any) -> Any:
    """Answer a request; leaves by Parked or Streaming, which carry its place on, where the answer is not whole yet."""
    place: Place = environ[PLACE]
    try:
        parts = application(environ, start_response)
        open_stream = environ.pop(STREAM, None)
        if open_stream is None:
            return parts
        response = start_response.__self__
        for part in parts:
            response.write(part)
    except Parked as parked:
        parked.place = place.moved()
        raise
    raise Streaming(open_stream, place.moved(), chunked=response.chunked)
