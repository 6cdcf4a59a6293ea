"""Messages by email, to a real SMTP server: with TLS and without, and what its refusals mean."""

import email.policy
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from actors.dispatch.notification import NotificationDispatcher
from app.queue.executions.execution_model import DeliveryError
from tests.acceptance.tls import certify
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.notification.messages import PASSWORD, USER, Mails, dispatcher, mail_server, spec

LOGIN = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate for localhost that is trusted."""
    certificate = certify(tmp_path / "localhost.pem", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def mail(mails: Mails) -> EmailMessage:
    (envelope,) = mails.taken
    content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
    return email.message_from_bytes(content, policy=email.policy.default)  # type: ignore[return-value]


@pytest.mark.parametrize("mode", ["starttls", "ssl"])
def test_it_arrives_over_tls_with_a_login(tls: ssl.SSLContext, mode: str) -> None:
    async def body(notifier: NotificationDispatcher) -> tuple[dict[str, Any], Mails]:
        async with mail_server(tls, needs_login=True, is_tls=mode == "ssl") as mails:
            url = f"mailtos://{LOGIN}@localhost:{mails.port}?mode={mode}&to=ops@example.com&format=text"
            return await notifier.send(spec(url), identity()), mails

    output, mails = run(dispatcher(), body)
    assert output == {"channels": [{"channel": f"mailtos:localhost:{mails.port}", "status_code": 250}]}
    assert (mails.was_over_tls, mails.taken[0].rcpt_tos) == ([True], ["ops@example.com"])
    assert mail(mails)["Subject"] == "It is late"
    assert mail(mails).get_content().split() == ["Nobody", "knows", "why.", "<b>Look</b>", "at", "it."]


def test_as_html_it_shows_the_same_words() -> None:
    """Whatever a message quotes is no markup of ours."""

    async def body(notifier: NotificationDispatcher) -> Mails:
        async with mail_server() as mails:
            url = f"mailto://127.0.0.1:{mails.port}?to=ops@example.com&from=te@example.com&format=html"
            await notifier.send(spec(url), identity())
            return mails

    shown = mail(run(dispatcher(), body)).get_body(("html",))
    assert shown is not None
    assert "&lt;b&gt;Look&lt;/b&gt;" in shown.get_content()


def refused(login: str = "", **options: Any) -> DeliveryError:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async with mail_server(**options) as mails:
            url = f"mailto://{login}127.0.0.1:{mails.port}?to=ops@example.com&from=te@example.com"
            error = await failure(notifier, spec(url))
            assert mails.taken == []
            return error

    return run(dispatcher(), body)


@pytest.mark.parametrize(
    ("options", "code", "permanent"),
    [
        ({"login": "alerts:wrong-one@", "needs_login": True}, 535, True),
        ({"rcpt": "550 no such user"}, 550, True),
        ({"rcpt": "451 come again"}, 451, False),
        ({"data": "452 full"}, 452, False),
        # What was refused before another way was found is no answer to the message.
        ({"ehlo": "502 what", "rcpt": "451 come again"}, 451, False),
        ({"login": f"{LOGIN}@", "needs_login": True, "plain": "535 no", "rcpt": "451 come again"}, 451, False),
    ],
)
def test_what_the_server_refuses_for_good_is_not_tried_again(
    options: dict[str, Any], code: int, *, permanent: bool
) -> None:
    error = refused(**options)
    assert (error.type, error.permanent, error.extra["smtp_code"]) == ("NOTIFICATION_ERROR", permanent, code)
    assert "wrong-one" not in f"{error.message}{error.extra}"


def test_a_certificate_that_nobody_trusts_ends_it(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async with mail_server(tls, needs_login=True) as mails:
            url = f"mailtos://{LOGIN}@localhost:{mails.port}?mode=starttls&to=ops@example.com"
            return await failure(notifier, spec(url))

    error = run(dispatcher(), body)
    assert (error.type, "TLS" in error.message) == ("CONNECTION_ERROR", True)
