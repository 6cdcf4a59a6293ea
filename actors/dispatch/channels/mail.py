"""Mail: what Apprise has for the module `smtplib`: each connection goes through the outlet of its thread."""

import smtplib
import socket
import ssl
from typing import Any

from actors.dispatch.channels.outlet import MOST_TEXT, Answer, current

MOST_REPLY_BYTES = 65_536
_GREETING = "task-executor"
_GOODBYE = 221


class _Lines:
    """Lines of replies, of which one that does not end is not read for ever."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = MOST_REPLY_BYTES

    def readline(self, limit: int) -> bytes:
        line: bytes = self._file.readline(limit)
        self._left -= len(line)
        current().left()  # a reply that drips is not waited for
        if self._left < 0:
            raise OSError("the server's replies are too long")
        return line

    def close(self) -> None:
        self._file.close()


class _Smtp(smtplib.SMTP):
    def __init__(self, host: str = "", port: int = 0, local_hostname: str | None = None, **options: Any) -> None:
        self._server = host, port
        # Otherwise the name of this machine is looked up, which may take long and is nobody's business.
        super().__init__(host, port, local_hostname or _GREETING, **options)

    def _get_socket(self, host: str, port: int, timeout: float | None) -> socket.socket:  # noqa: ARG002 - the outlet's
        return current().connect(host, port)

    def starttls(self, *, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:  # type: ignore[override]
        with current().reaching(*self._server):
            return super().starttls(context=context)

    def helo(self, name: str = "") -> tuple[int, bytes]:
        """Greet in the old way, where the server refused the new one: that was no answer to the message then."""
        current().answer = None
        return super().helo(name)

    def login(self, *arguments: Any, **options: Any) -> tuple[int, bytes]:
        """Log in; in which ways the server did not let us do so says nothing of the message."""
        code, text = super().login(*arguments, **options)
        current().answer = Answer(code)
        return code, text

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Lines(self.sock.makefile("rb"))
        code, text = super().getreply()
        outlet = current()
        # What follows an error is polite, and says nothing new of why; so is the goodbye.
        if code != _GOODBYE and (outlet.answer is None or outlet.answer.status < 400):
            outlet.answer = Answer(code, text[:MOST_TEXT].decode(errors="replace"))
        return code, text


class _SmtpOverTls(_Smtp):
    def __init__(self, *arguments: Any, context: ssl.SSLContext | None = None, **options: Any) -> None:
        self._context = context or ssl.create_default_context()
        super().__init__(*arguments, **options)

    def _get_socket(self, host: str, port: int, timeout: float | None) -> socket.socket:
        sock = super()._get_socket(host, port, timeout)
        with current().reaching(host, port):
            return self._context.wrap_socket(sock, server_hostname=host)


class Smtplib:
    """Stands for the module `smtplib`."""

    SMTP = _Smtp
    SMTP_SSL = _SmtpOverTls

    def __getattr__(self, name: str) -> Any:
        """Return what the module has: exceptions and constants."""
        return getattr(smtplib, name)
