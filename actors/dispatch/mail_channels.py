"""Mail channels: messages by SMTP, over sockets that the egress rules permit."""

import asyncio
import contextlib
import ssl
from email.message import EmailMessage
from email.utils import formataddr, formatdate, getaddresses
from typing import Any, cast
from urllib.parse import unquote

from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponse,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from actors.dispatch.base import MAX_BODY_BYTES, SCRUB_MARGIN_BYTES
from actors.dispatch.channel_request import ERROR, Message, unusable
from actors.dispatch.connector import Connector, Origin
from actors.dispatch.send_progress import Progress
from app.catalog.specs.channels import SMTP_PORTS, Parts
from app.kernel.formats import numbered
from app.queue.executions.execution_model import DeliveryError

SENDER_NAME = "Task Executor"
# Replaces the name of this machine, which the library would look up and send to the server.
_GREETING = "task-executor"
_ACCEPTED = 250
_REFUSED, _REFUSED_FOR_GOOD = 400, 500


class _Client(SMTP):
    """Client that begins to send with the mail itself: until then a server has addresses only."""

    def __init__(self, progress: Progress, **options: Any) -> None:
        super().__init__(**options)
        self._progress = progress

    async def data(self, message: str | bytes, /, **options: Any) -> SMTPResponse:
        self._progress.begin_sending()
        return await super().data(message, **options)


async def send_mail(connector: Connector, parts: Parts, message: Message, progress: Progress) -> int:
    """Send a mail over a connection of its own and return the status of the server's answer.

    Raises DeliveryError, SMTPException or OSError.
    """
    host, port = parts.address
    if parts.mode not in SMTP_PORTS:
        raise unusable(parts, f"has a mode other than {', '.join(SMTP_PORTS)}")
    sender, recipients, mail = compose_mail(parts, message)
    client = await _connect(connector, parts, Origin(parts.mode == "ssl", host.strip("[]"), port), progress)
    try:
        await client.connect()
        refused, _ = await client.send_message(mail, sender=sender, recipients=recipients)
        with contextlib.suppress(SMTPServerDisconnected):
            if client.protocol is not None:
                client.protocol.write(b"QUIT\r\n")  # without a wait for the answer, because the mail was accepted
    except BaseException:
        if client.transport is not None:
            # A server that reads nothing would delay any other kind of close.
            cast("asyncio.WriteTransport", client.transport).abort()
        raise
    finally:
        client.close()
    if refused:
        code, words = min((answer.code, answer.message) for answer in refused.values())
        which = f" for {len(refused)} of {numbered(len(recipients), 'recipient')}"
        raise _refused(code, words, which, may_have_been_delivered=True)
    return _ACCEPTED


async def _connect(connector: Connector, parts: Parts, origin: Origin, progress: Progress) -> SMTP:
    sock = await connector.reach(origin)
    has_login = parts.password is not None
    return _Client(
        progress,
        hostname=origin.host.rstrip("."),
        sock=sock,
        use_tls=origin.is_tls,
        start_tls=parts.mode == "starttls",
        tls_context=connector.tls if parts.mode != "insecure" else None,
        timeout=None,  # `bounded` limits the attempt
        local_hostname=_GREETING,
        username=unquote(parts.user or "") if has_login else None,
        password=unquote(parts.password or "") if has_login else None,
    )


def compose_mail(parts: Parts, message: Message) -> tuple[str, list[str], EmailMessage]:
    """Return sender, recipients and mail; raises DeliveryError if the URL has no valid sender or recipient."""
    user = unquote(parts.user or "")
    host = parts.address[0]
    default = user if "@" in user else f"{user}@{host}" if user else ""
    senders = _addresses(parts.parameter("from") or default)
    to, cc, bcc = (_addresses(parts.parameter(name)) for name in ("to", "cc", "bcc"))
    recipients = list(dict.fromkeys(address for _, address in (*(to or senders), *cc, *bcc)))
    if len(senders) != 1 or not all("@" in address.strip("@") for address in (senders[0][1], *recipients)):
        raise unusable(parts, "names no valid sender (from), or a recipient (to, cc, bcc) that is no address")
    mail = EmailMessage()
    try:
        mail["Subject"] = message.title or message.body.strip().partition("\n")[0][:250]
        mail["From"] = formataddr((parts.parameter("name") or senders[0][0] or SENDER_NAME, senders[0][1]))
        mail["To"] = ", ".join(map(formataddr, to or senders))
        if cc:
            mail["Cc"] = ", ".join(map(formataddr, cc))
        if parts.parameter("reply"):
            mail["Reply-To"] = parts.parameter("reply")
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<{message.key}@{_GREETING}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.body or message.title)
    except ValueError:
        raise unusable(parts, "has an address that is not valid") from None
    return senders[0][1], recipients, mail


def mail_failure(error: Exception, progress: Progress) -> DeliveryError:
    """Return the error of a mail that was not accepted, or has an unknown outcome."""
    type_, message = "CONNECTION_ERROR", "the connection to the mail server broke"
    match error:
        case TimeoutError():
            unsent = "the mail server was not ready"
            return progress.timed_out("the mail server did not take the message", unsent=unsent)
        case SMTPRecipientsRefused():
            return _refused(*min((each.code, each.message) for each in error.recipients))
        case SMTPResponseException() if error.code >= _REFUSED:
            return _refused(error.code, error.message)
        case OSError(__cause__=ssl.SSLError() as cause) | (ssl.SSLError() as cause):
            message = f"the TLS handshake with the mail server failed: {cause.reason}"
        case SMTPException() if not isinstance(error, OSError | SMTPResponseException):
            type_, message = ERROR, error.message  # a text of the library: the server has no STARTTLS, or no login
    return DeliveryError(type_, message, may_have_been_delivered=progress.is_sent)


def _refused(code: int, words: str, which: str = "", *, may_have_been_delivered: bool = False) -> DeliveryError:
    text = words.encode(errors="replace").decode().replace("\0", "")[: MAX_BODY_BYTES + SCRUB_MARGIN_BYTES]
    return DeliveryError(
        ERROR,
        f"the mail server answered {code}{which}",
        permanent=code >= _REFUSED_FOR_GOOD,
        may_have_been_delivered=may_have_been_delivered,
        extra={"smtp_code": code} | ({"body": text} if text else {}),
    )


def _addresses(text: str) -> list[tuple[str, str]]:
    return [(name, address) for name, address in getaddresses([text]) if address]
