"""Messages by email, to a real SMTP server: with and without TLS, and errors from its refusals."""

import email.policy
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from actors.dispatch.notification import NotificationDispatcher
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.acceptance.tls import certify
from tests.contract.dispatch.dispatching import Withdrawn, failure, identity, run
from tests.contract.dispatch.notification.messages import PASSWORD, USER, Mails, dispatcher, fail, mail_server, spec

LOGIN = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A TLS context of a server with a trusted certificate for localhost."""
    certificate = certify(tmp_path / "localhost.pem", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def mail(mails: Mails) -> EmailMessage:
    (envelope,) = mails.accepted
    content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
    return email.message_from_bytes(content, policy=email.policy.default)  # type: ignore[return-value]


@pytest.mark.parametrize("mode", ["starttls", "ssl"])
def test_mail_is_sent_over_tls_with_a_login(tls: ssl.SSLContext, mode: str) -> None:
    async def body(notifier: NotificationDispatcher) -> tuple[dict[str, Any], Mails]:
        async with mail_server(tls, needs_login=True, is_tls=mode == "ssl") as mails:
            url = f"mailtos://{LOGIN}@localhost:{mails.port}?mode={mode}&to=ops@example.com"
            return await notifier.send(spec(url), identity()), mails

    output, mails = run(dispatcher(), body)
    assert output == {"channels": [{"channel": f"mailtos:localhost:{mails.port}", "status_code": 250}]}
    assert (mails.was_over_tls, mails.accepted[0].rcpt_tos) == ([True], ["ops@example.com"])
    assert (mail(mails)["Subject"], mail(mails)["From"]) == ("It is late", f"Task Executor <{USER}>")
    assert (mail(mails).get_content_type(), mail(mails)["Message-ID"]) == ("text/plain", "<exec_1-0@task-executor>")
    assert mail(mails).get_content().split() == ["Nobody", "knows", "why.", "<b>Look</b>", "at", "it."]


def test_all_recipients_get_one_mail_that_hides_blind_copies() -> None:
    async def body(notifier: NotificationDispatcher) -> Mails:
        async with mail_server() as mails:
            query = (
                "to=a@x.example,B <b@x.example>&cc=c@x.example&bcc=d@x.example&from=T <te@x.example>&reply=r@x.example"
            )
            await notifier.send(spec(f"mailto://127.0.0.1:{mails.port}?{query}", title="Zu spät"), identity())
            return mails

    mails = run(dispatcher(), body)
    assert mails.accepted[0].mail_from == "te@x.example"
    assert mails.accepted[0].rcpt_tos == ["a@x.example", "b@x.example", "c@x.example", "d@x.example"]
    sent = mail(mails)
    assert [sent["Subject"], sent["From"], sent["Reply-To"]] == ["Zu spät", "T <te@x.example>", "r@x.example"]
    assert (sent["To"], sent["Cc"], sent["Bcc"]) == ("a@x.example, B <b@x.example>", "c@x.example", None)


@pytest.mark.parametrize(
    "url",
    [
        "mailto://127.0.0.1?to=ops@example.com",
        "mailto://127.0.0.1?from=te@example.com&to=nobody",
        "mailto://127.0.0.1?from=te@example.com&to=ops%0d%0aRCPT TO:@example.com",
        "mailto://127.0.0.1?from=te@example.com&name=x%0d%0aBcc: y&to=ops@example.com",
        "mailto://127.0.0.1?from=te@example.com&to=ops@example.com&mode=tls",
    ],
)
def test_url_without_valid_addresses_fails_permanently_and_sends_nothing(url: str) -> None:
    error = fail(url)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("NOTIFICATION_ERROR", True, False)
    assert "form: mailto://" in error.message
    assert "example.com" not in error.message


def test_refused_recipient_fails_the_attempt_although_other_recipients_got_the_mail() -> None:
    async def body(notifier: NotificationDispatcher) -> tuple[DeliveryError, Mails]:
        async with mail_server(refused="b@x.example") as mails:
            url = f"mailto://127.0.0.1:{mails.port}?to=a@x.example,b@x.example&from=te@x.example"
            return await failure(notifier, spec(url)), mails

    error, mails = run(dispatcher(), body)
    assert (error.permanent, error.may_have_been_delivered, error.extra["smtp_code"]) == (True, True, 550)
    assert "1 of 2 recipients" in error.message
    assert mails.accepted[0].rcpt_tos == ["a@x.example"]


def test_no_mail_is_sent_for_a_lost_claim() -> None:
    async def body(notifier: NotificationDispatcher) -> Mails:
        async with mail_server() as mails:
            url = f"mailto://127.0.0.1:{mails.port}?to=a@x.example&from=te@x.example"
            with pytest.raises(NotSentError):
                await notifier.send(spec(url), identity()._replace(permission=Withdrawn()))
            return mails

    assert run(dispatcher(), body).accepted == []


@pytest.mark.parametrize("command", ["RCPT", "DATA"])
def test_only_a_timeout_after_the_message_was_sent_may_have_been_delivered(command: str) -> None:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async with mail_server(hang=command) as mails:
            url = f"mailto://127.0.0.1:{mails.port}?to=a@x.example&from=te@x.example"
            return await failure(notifier, spec(url, timeout_ms=500))

    error = run(dispatcher(), body)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("TIMEOUT", False, command == "DATA")


def test_server_without_starttls_gets_neither_password_nor_message() -> None:
    async def body(notifier: NotificationDispatcher) -> tuple[DeliveryError, Mails]:
        async with mail_server() as mails:
            return await failure(notifier, spec(f"mailtos://{LOGIN}@127.0.0.1:{mails.port}?to=a@x.example")), mails

    error, mails = run(dispatcher(), body)
    assert (error.type, "STARTTLS" in error.message, mails.accepted) == ("NOTIFICATION_ERROR", True, [])


def refused(login: str = "", **options: Any) -> DeliveryError:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async with mail_server(**options) as mails:
            url = f"mailto://{login}127.0.0.1:{mails.port}?to=ops@example.com&from=te@example.com"
            error = await failure(notifier, spec(url))
            assert mails.accepted == []
            return error

    return run(dispatcher(), body)


@pytest.mark.parametrize(
    ("options", "code", "permanent"),
    [
        ({"login": "alerts:wrong-one@", "needs_login": True}, 535, True),
        ({"rcpt": "550 no such user"}, 550, True),
        ({"rcpt": "451 come again"}, 451, False),
        ({"data": "452 full"}, 452, False),
        # A refused EHLO or login method is followed by another method, so its code is not the code of the error.
        ({"ehlo": "502 what", "rcpt": "451 come again"}, 451, False),
        ({"login": f"{LOGIN}@", "needs_login": True, "plain": "535 no", "rcpt": "451 come again"}, 451, False),
    ],
)
def test_smtp_code_decides_whether_a_refusal_is_permanent(
    options: dict[str, Any], code: int, *, permanent: bool
) -> None:
    error = refused(**options)
    assert (error.type, error.permanent, error.extra["smtp_code"]) == ("NOTIFICATION_ERROR", permanent, code)
    assert "wrong-one" not in f"{error.message}{error.extra}"


def test_untrusted_certificate_is_a_connection_error(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async with mail_server(tls, needs_login=True) as mails:
            url = f"mailtos://{LOGIN}@localhost:{mails.port}?mode=starttls&to=ops@example.com"
            return await failure(notifier, spec(url))

    error = run(dispatcher(), body)
    assert (error.type, "TLS" in error.message) == ("CONNECTION_ERROR", True)
