"""Messages over HTTP: their content, errors from answers, limits, and forbidden addresses."""

import asyncio
import json
import socket
from typing import Any

import pytest

from actors.dispatch.base import Unconditional
from actors.dispatch.egress import EgressGuard
from actors.dispatch.network import Network
from actors.dispatch.notification import NotificationDispatcher
from actors.sending import is_targets_fault
from app.dev.receiver import Receiver
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.contract.dispatch.dispatching import Opening, failure, identity, run
from tests.contract.dispatch.http.deliveries import Hosts, read_request, server
from tests.contract.dispatch.notification.messages import dispatcher, fail, send, spec

TOKEN, PER_HOST = "T0kenThatNobodyMaySee", 10
LINK_LOCAL = "169.254.169.254"


def at(receiver: Receiver, path: str, scheme: str = "json") -> str:
    return receiver.url(path).replace("http", scheme, 1)


def fail_by_answer(answer: bytes, **fields: Any) -> DeliveryError:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

        async with server(handle) as url:
            return await failure(notifier, spec(f"{url.replace('http', 'json', 1)}/hook/{TOKEN}", **fields))

    return run(dispatcher(), body)


def test_message_is_sent_to_each_channel(receiver: Receiver) -> None:
    urls = [at(receiver, "/ok/first"), at(receiver, "/ok/second")]
    output = send(urls, severity="critical")
    assert [channel["status_code"] for channel in output["channels"]] == [200, 200]
    for path in ("/ok/first", "/ok/second"):
        (request,) = [request for request in receiver.requests if request.path == path]
        message = json.loads(request.body)
        assert (message["title"], message["type"]) == ("It is late", "failure")
        assert message["message"].splitlines() == ["Nobody knows why.", "<b>Look</b> at it."]


@pytest.mark.parametrize(
    ("head", "permanent", "retry_after_ms"),
    [
        ("401 Unauthorized", True, None),
        ("404 Not Found", True, None),
        ("302 Found\r\nLocation: http://127.0.0.1:1/", True, None),
        ("429 Too Many Requests\r\nRetry-After: 7", False, 7_000),
        ("503 Service Unavailable\r\nRetry-After: 2", False, 2_000),
    ],
)
def test_status_of_the_answer_decides_whether_the_error_is_permanent(
    head: str, retry_after_ms: int | None, *, permanent: bool
) -> None:
    error = fail_by_answer(f"HTTP/1.1 {head}\r\nContent-Length: 4\r\n\r\nword".encode())
    assert (error.type, error.permanent, error.retry_after_ms) == ("NOTIFICATION_ERROR", permanent, retry_after_ms)
    assert (error.extra["status_code"], error.extra["body"]) == (int(head[:3]), "word")
    assert TOKEN not in error.message


def test_failed_channel_fails_the_attempt_and_is_named(receiver: Receiver) -> None:
    error = fail([at(receiver, "/status/400"), at(receiver, "/ok/other"), at(receiver, "/status/500")])
    assert (error.permanent, error.may_have_been_delivered) == (False, True)
    assert error.own_message.startswith("2 of 3 channels failed")
    assert ["error" in channel for channel in error.extra["channels"]] == [True, False, True]


def test_message_sent_to_one_channel_is_sent_to_the_other_channels_without_permission(receiver: Receiver) -> None:
    answers = [True]  # a later refusal stands for an open breaker, or an expired start window

    class Once(Unconditional):
        def may_send(self) -> bool:
            return bool(answers) and answers.pop()

    urls = [at(receiver, "/ok/before"), at(receiver, "/ok/afterwards")]
    delivery = identity()._replace(permission=Once())
    output = run(dispatcher(), lambda notifier: notifier.send(spec(urls), delivery))
    assert [channel["status_code"] for channel in output["channels"]] == [200, 200]
    with pytest.raises(NotSentError):
        run(dispatcher(), lambda notifier: notifier.send(spec(urls), delivery))
    assert len([request for request in receiver.requests if request.path == "/ok/before"]) == 1


def test_unreachable_host_is_a_retryable_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = fail(f"ntfy://127.0.0.1:{port}/topic")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)


@pytest.mark.parametrize(("scheme", "is_in_doubt"), [("json", True), ("mailto", False)])
def test_hanging_host_is_a_timeout(scheme: str, *, is_in_doubt: bool) -> None:
    """A mail server that has not sent its greeting cannot have the message."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/?to=a@example.com&from=b@example.com"
        error = fail(url, timeout_ms=2000)  # a busy machine may take half a second to connect
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", is_in_doubt)


def test_hanging_channels_do_not_delay_another_channel() -> None:
    """All channels are on the same server, and each hanging channel has more deliveries than connections."""
    hanging, each = 8, 20

    async def body(notifier: NotificationDispatcher) -> dict[str, Any]:
        hung, full = list[bytes](), asyncio.Event()

        async def handle(reader: Any, writer: Any, _number: int) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/hang" in head:
                hung.append(head)
                if len(hung) == hanging * PER_HOST:
                    full.set()
                await reader.read()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        async with server(handle) as address:
            url = address.replace("http", "json", 1)
            sending = [
                asyncio.create_task(notifier.send(spec(f"{url}/hang/{number}"), identity()))
                for number in range(hanging)
                for _ in range(each)
            ]
            await full.wait()
            try:
                return await notifier.send(spec(f"{url}/ok"), identity())
            finally:
                for task in sending:
                    task.cancel()
                await asyncio.gather(*sending, return_exceptions=True)

    assert run(dispatcher(), body)["channels"][0]["status_code"] == 200


def test_endless_interim_answers_are_limited() -> None:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
                await writer.drain()

        async with server(handle) as url:
            return await failure(notifier, spec(url.replace("http", "json", 1), timeout_ms=5000))

    assert run(dispatcher(), body).type == "CONNECTION_ERROR"


def test_endless_answer_is_truncated() -> None:
    async def body(notifier: NotificationDispatcher) -> dict[str, Any]:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()

        async with server(handle) as url:
            return await notifier.send(spec(url.replace("http", "json", 1)), identity())

    assert run(dispatcher(), body)["channels"][0]["status_code"] == 200


def link_local(network: Network) -> NotificationDispatcher:
    return NotificationDispatcher(network._replace(resolver=Hosts(LINK_LOCAL)))


@pytest.mark.parametrize(
    "url",
    [
        "json://metadata.example/",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "mailto://metadata.example?to=a@x.example&from=b@x.example",
    ],
)
def test_no_channel_can_send_to_a_forbidden_address(url: str) -> None:
    """The egress guard checks the resolved address of a channel's own server, and of a service's fixed host."""
    error = run(Opening(link_local), lambda notifier: failure(notifier, spec(url)))
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "TE_EGRESS" in error.message


def test_egress_settings_forbid_an_address_for_mail() -> None:
    guard = EgressGuard.from_settings("", [], ["127.0.0.0/8"])
    assert fail("mailto://127.0.0.1:25?to=a@example.com&from=b@example.com", guard=guard).permanent


def test_invalid_channel_url_fails_permanently_and_is_no_fault_of_the_target() -> None:
    error = fail("tgram://123:abc/1/2")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("NOTIFICATION_ERROR", True, False)
    assert "form: tgram://BOT_TOKEN/CHAT_ID" in error.message
    assert is_targets_fault(error) is None


def test_message_carries_the_headers_and_signature_of_a_delivery(receiver: Receiver) -> None:
    send(f"{at(receiver, '/ok/signed-message')}?+X-Team=ops&:room=1&q=a%20b", signing={"secret": "s3cret"})
    (request,) = [request for request in receiver.requests if request.path.startswith("/ok/signed-message")]
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["idempotency-key"], headers["x-team"]) == ("exec_1", "ops")
    assert headers["webhook-signature"].startswith("v1,")
    assert (request.query, json.loads(request.body)["room"]) == ({"q": "a b"}, "1")


def test_token_of_a_channel_is_never_logged(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        send(at(receiver, f"/ok/{TOKEN}"))
        fail(at(receiver, f"/status/500?{TOKEN}={TOKEN}"))
        fail(f"slack://{TOKEN}")
        fail(f"mailto://me:{TOKEN}@127.0.0.1:1?to=a@x.example")
    assert TOKEN not in caplog.text
