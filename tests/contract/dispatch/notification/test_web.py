"""Messages over HTTP: what arrives, what the answers mean, and where none is sent."""

import asyncio
import json
import socket
from dataclasses import replace
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


def answering(answer: bytes, **fields: Any) -> DeliveryError:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

        async with server(handle) as url:
            return await failure(notifier, spec(f"{url.replace('http', 'json', 1)}/hook/{TOKEN}", **fields))

    return run(dispatcher(), body)


def test_it_arrives_in_each_channel(receiver: Receiver) -> None:
    urls = [at(receiver, "/ok/first"), at(receiver, "/ok/second")]
    output = send(urls, severity="critical")
    assert [told["status_code"] for told in output["channels"]] == [200, 200]
    for path in ("/ok/first", "/ok/second"):
        (request,) = [request for request in receiver.requests if request.path == path]
        said = json.loads(request.body)
        assert (said["title"], said["type"]) == ("It is late", "failure")
        assert said["message"].splitlines() == ["Nobody knows why.", "<b>Look</b> at it."]


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
def test_an_answer_tells_whether_another_attempt_may_fare_better(
    head: str, retry_after_ms: int | None, *, permanent: bool
) -> None:
    error = answering(f"HTTP/1.1 {head}\r\nContent-Length: 4\r\n\r\nword".encode())
    assert (error.type, error.permanent, error.retry_after_ms) == ("NOTIFICATION_ERROR", permanent, retry_after_ms)
    assert (error.extra["status_code"], error.extra["body"]) == (int(head[:3]), "word")
    assert TOKEN not in error.message


def test_if_one_channel_fails_the_attempt_has_failed_and_says_which(receiver: Receiver) -> None:
    error = fail([at(receiver, "/status/400"), at(receiver, "/ok/other"), at(receiver, "/status/500")])
    assert (error.permanent, error.may_have_been_delivered) == (False, True)
    assert error.own_message.startswith("2 of 3 channels failed")
    assert ["error" in told for told in error.extra["channels"]] == [True, False, True]


def test_what_one_channel_has_is_told_to_the_others_though_nothing_may_begin_any_more(receiver: Receiver) -> None:
    answers = [True]  # then its breaker has opened, or its time to begin is over

    class Once(Unconditional):
        def may_send(self) -> bool:
            return bool(answers) and answers.pop()

    urls = [at(receiver, "/ok/before"), at(receiver, "/ok/afterwards")]
    own = replace(identity(), permission=Once())
    output = run(dispatcher(), lambda notifier: notifier.send(spec(urls), own))
    assert [told["status_code"] for told in output["channels"]] == [200, 200]
    with pytest.raises(NotSentError):
        run(dispatcher(), lambda notifier: notifier.send(spec(urls), own))
    assert len([request for request in receiver.requests if request.path == "/ok/before"]) == 1


def test_a_dead_host_is_told_and_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = fail(f"ntfy://127.0.0.1:{port}/topic")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)


@pytest.mark.parametrize(("scheme", "is_in_doubt"), [("json", True), ("mailto", False)])
def test_a_host_that_hangs_takes_no_longer_than_the_attempt(scheme: str, *, is_in_doubt: bool) -> None:
    """A mail server that has not even greeted has no message."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/?to=a@example.com&from=b@example.com"
        error = fail(url, timeout_ms=500)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", is_in_doubt)


def test_channels_that_hang_starve_no_other_one() -> None:
    """However many hang, and be they of the same server."""
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


def test_interim_answers_without_an_end_are_not_read_for_ever() -> None:
    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
                await writer.drain()

        async with server(handle) as url:
            return await failure(notifier, spec(url.replace("http", "json", 1), timeout_ms=5000))

    assert run(dispatcher(), body).type == "CONNECTION_ERROR"


def test_an_answer_without_an_end_is_cut_off() -> None:
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
    return NotificationDispatcher(replace(network, resolver=Hosts(LINK_LOCAL)))


@pytest.mark.parametrize(
    "url",
    [
        "json://metadata.example/",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "mailto://metadata.example?to=a@x.example&from=b@x.example",
    ],
)
def test_no_channel_leads_to_where_deliveries_may_not_go(url: str) -> None:
    """Neither the server of a channel nor the fixed host of a service, whatever the name resolves to."""
    error = run(Opening(link_local), lambda notifier: failure(notifier, spec(url)))
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "TE_EGRESS" in error.message


def test_a_worker_may_be_kept_from_an_address() -> None:
    guard = EgressGuard.from_settings("", [], ["127.0.0.0/8"])
    assert fail("mailto://127.0.0.1:25?to=a@example.com&from=b@example.com", guard=guard).permanent


def test_a_service_that_refuses_a_url_is_not_asked_again_and_not_blamed() -> None:
    error = fail("tgram://123:abc/1/2")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("NOTIFICATION_ERROR", True, False)
    assert "form: tgram://BOT_TOKEN/CHAT_ID" in error.message
    assert is_targets_fault(error) is None


def test_a_message_carries_the_headers_of_every_delivery_and_a_signature(receiver: Receiver) -> None:
    send(f"{at(receiver, '/ok/signed-message')}?+X-Team=ops&:room=1&q=a%20b", signing={"secret": "s3cret"})
    (request,) = [request for request in receiver.requests if request.path.startswith("/ok/signed-message")]
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["idempotency-key"], headers["x-team"]) == ("exec_1", "ops")
    assert headers["webhook-signature"].startswith("v1,")
    assert (request.query, json.loads(request.body)["room"]) == ({"q": "a b"}, "1")


def test_nothing_is_logged_while_a_message_is_sent(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        send(at(receiver, f"/ok/{TOKEN}"))
        fail(at(receiver, f"/status/500?{TOKEN}={TOKEN}"))
        fail(f"slack://{TOKEN}")
        fail(f"mailto://me:{TOKEN}@127.0.0.1:1?to=a@x.example")
    assert TOKEN not in caplog.text
