"""Helpers to run the dispatcher of notifications in a test, with an SMTP server on the same event loop."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.notification import NotificationDispatcher
from app.queue.executions.execution_model import DeliveryError
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, Opening, failure, identity, rendered, run

USER, PASSWORD = "alerts@example.com", "pa/ss:w@rd 1"


def dispatcher(guard: Any = OPEN) -> Opening:
    return Opening(NotificationDispatcher, guard)


def spec(url: str | list[str], **fields: Any) -> dict[str, Any]:
    message = {"title": "It is late", "body": "Nobody knows why.\n<b>Look</b> at it."}
    return rendered(EndpointType.NOTIFICATION, {"url": url, **message, **fields})


def send(url: str | list[str], **fields: Any) -> dict[str, Any]:
    return run(dispatcher(), lambda notifier: notifier.send(spec(url, **fields), identity()))


def fail(url: str | list[str], *, guard: Any = OPEN, **fields: Any) -> DeliveryError:
    return run(dispatcher(guard), lambda notifier: failure(notifier, spec(url, **fields)))


class Mails:
    """Handlers of an SMTP server that accepts each message; `answers` replace answers, the command `hang` gets none."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.accepted: list[Envelope] = []
        self.was_over_tls: list[bool] = []
        self.port = 0

    async def handle_EHLO(  # noqa: N802 - aiosmtpd's name of this handler
        self, _server: SMTP, session: Session, _envelope: Envelope, name: str, responses: list[str]
    ) -> list[str]:
        if "ehlo" in self.answers:
            return [self.answers["ehlo"]]
        session.host_name = name
        return responses

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name of this handler
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        await self._hang_at("RCPT")
        if "rcpt" in self.answers:
            return self.answers["rcpt"]
        if address == self.answers.get("refused"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        if "data" in self.answers:
            return self.answers["data"]
        await self._hang_at("DATA")
        self.accepted.append(envelope)
        transport = server.transport
        self.was_over_tls.append(transport is not None and transport.get_extra_info("sslcontext") is not None)
        return "250 OK"

    async def _hang_at(self, command: str) -> None:
        if self.answers.get("hang") == command:
            await asyncio.Event().wait()

    def is_user(
        self, _server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, credentials: Any
    ) -> AuthResult:
        is_right = isinstance(credentials, LoginPassword) and (credentials.login, credentials.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        return AuthResult(success=is_right and mechanism.lower() not in self.answers, handled=False)


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, *, needs_login: bool = False, is_tls: bool = False, **answers: str
) -> AsyncIterator[Mails]:
    """Serve SMTP: without encryption; with `tls`, after STARTTLS; with `is_tls` too, from the first byte."""
    mails, loop = Mails(**answers), asyncio.get_running_loop()

    def protocol() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # aiosmtpd warns about a login without STARTTLS
            return SMTP(
                mails,
                hostname="mail.test",
                loop=loop,
                tls_context=None if is_tls else tls,
                authenticator=mails.is_user,
                auth_required=needs_login,
                auth_require_tls=tls is not None and not is_tls,
            )

    listener = await loop.create_server(protocol, "127.0.0.1", 0, ssl=tls if is_tls else None)
    mails.port = listener.sockets[0].getsockname()[1]
    try:
        yield mails
    finally:
        listener.close()
