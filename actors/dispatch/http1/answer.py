"""Answer of a receiver, parsed without I/O; the size of each of its parts is bounded."""

from typing import NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from actors.dispatch.base import MAX_BODY_BYTES, SCRUB_MARGIN_BYTES

KEPT_BYTES = MAX_BODY_BYTES + SCRUB_MARGIN_BYTES
DRAINED_BYTES = 131_072
"""Length up to which a body is read to its end: reading a little more is cheaper than a new connection."""
MAX_BYTES = 262_144
"""Maximum length of an answer: heads, body, and the framing of chunks."""
MAX_HEAD_BYTES = 65_536  # with the heads of interim answers
MAX_INTERIM = 16
MAX_FIELDS = 256  # in all heads, and in trailers

_SWITCHING_PROTOCOLS = 101
_WITHOUT_BODY = (204, 304)


class AnswerError(Exception):
    """The answer is missing or unacceptable; the message gives the reason."""


class _EnoughError(Exception):
    """Leaves the parser: the rest is not needed."""


class AnswerReader:
    """Reads one answer from pieces of any size, and skips interim answers."""

    __slots__ = (
        *("status", "retry_after", "date", "kept", "has_head", "is_complete", "keeps_alive"),
        *("_read", "_body_bytes", "_interim", "_fields", "_is_delimited", "_fault", "_parser", "_is_released"),
    )

    def __init__(self) -> None:
        self.status = 0
        self.retry_after: str | None = None
        self.date: bytes | None = None
        self.kept = bytearray()
        """The first part of the body."""
        self.has_head = False
        self.is_complete = False
        self.keeps_alive = False
        """True if another request may follow on the same connection."""
        self._read = self._body_bytes = self._interim = self._fields = 0
        self._is_delimited = False  # if false, the end of the connection ends the body
        self._fault = ""
        self._parser: HttpResponseParser | None = None  # made late, because thousands of answers may be awaited
        self._is_released = False

    @property
    def text(self) -> str:
        """Return the kept part of the body as text for the database, whose JSON cannot contain NUL."""
        return self.kept.decode(errors="replace").replace("\0", "")

    def feed(self, data: bytes) -> None:
        """Continue; raises AnswerError for invalid HTTP and for an answer beyond a limit."""
        while data and not self.is_complete and not self._is_released:
            room = (MAX_BYTES if self.has_head else MAX_HEAD_BYTES) - self._read
            if room <= 0:
                self._overflow()
                return
            piece, data = data[:room], data[room:]
            self._read += len(piece)
            if self._parser is None:
                self._parser = HttpResponseParser(self)
                # Common faults of servers that all parsers understand in the same way.
                self._parser.set_dangerous_leniencies(
                    lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
                )
            try:
                self._parser.feed_data(piece)
            except (HttpParserError, HttpParserUpgrade):
                self._stop_at_fault()
        if data:
            self.keeps_alive = False

    def end(self) -> None:
        """End with the connection; raises AnswerError if the answer is incomplete."""
        if self.is_complete:
            return
        if not self.has_head:
            self._give_up("the endpoint closed the connection without an answer")
        if self._is_delimited:
            self._give_up("the endpoint closed the connection in the middle of its answer")
        self.is_complete = True

    def _stop_at_fault(self) -> None:
        """Give up, unless the fault is after the answer."""
        self.keeps_alive = False
        if self._fault or not self.is_complete:
            self._give_up(self._fault or "the endpoint's answer is not valid HTTP")

    def _overflow(self) -> None:
        if not self.has_head:
            self._give_up(f"the endpoint's answer has a head of more than {MAX_HEAD_BYTES // 1024} KiB")
        if len(self.kept) < KEPT_BYTES:
            self._give_up(
                f"the endpoint's answer is longer than {MAX_BYTES // 1024} KiB, "
                f"with a body of less than {KEPT_BYTES // 1024} KiB in it"
            )
        self.is_complete = True

    def _give_up(self, fault: str) -> NoReturn:
        self.release()
        raise AnswerError(fault)

    def release(self) -> None:
        """Drop the parser, which refers to this object, so that no cycle waits for the garbage collector."""
        self._parser, self._is_released = None, True

    def _refuse(self, fault: str) -> NoReturn:
        self._fault = fault
        raise _EnoughError

    # called by the parser

    def on_message_begin(self) -> None:
        """Stop at data after the answer."""
        if self.is_complete:
            raise _EnoughError

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > MAX_FIELDS:
            self._refuse(f"the endpoint's answer has more than {MAX_FIELDS} header fields")
        if b"\0" in value:
            self._refuse("the endpoint's answer is not valid HTTP")
        if self.has_head:
            return
        name = name.lower()
        if name == b"content-length":
            self._is_delimited = True
        elif name == b"transfer-encoding":
            self._is_delimited = value.rpartition(b",")[2].strip().lower() == b"chunked"
        elif name == b"retry-after" and self.retry_after is None:
            self.retry_after = value.rstrip(b" \t").decode(errors="replace")
        elif name == b"date" and self.date is None:
            self.date = value

    def on_headers_complete(self) -> None:
        """Store the head of the answer, or skip the head of an interim answer."""
        status = 0 if self._parser is None else self._parser.get_status_code()
        if 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self._refuse(f"the endpoint sent more than {MAX_INTERIM} interim answers before its answer")
            self._is_delimited, self.retry_after, self.date = False, None, None
            return
        self.status, self.has_head = status, True
        if status in _WITHOUT_BODY:
            self._is_delimited = True
        if status == _SWITCHING_PROTOCOLS:
            self.is_complete = True  # the following data is not HTTP

    def on_body(self, part: bytes) -> None:
        """Keep the first bytes; stop reading a body that is too long."""
        if not self.has_head:
            return
        self._body_bytes += len(part)
        room = KEPT_BYTES - len(self.kept)
        if room > 0:
            self.kept += part[:room]
        if self._body_bytes > DRAINED_BYTES:
            self.is_complete = True
            raise _EnoughError

    def on_message_complete(self) -> None:
        if self.has_head and self._parser is not None and not self.is_complete:
            self.is_complete, self.keeps_alive = True, self._parser.should_keep_alive()
