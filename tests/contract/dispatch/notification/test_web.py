"""Messages over HTTP: what arrives, what the answers mean, and where none is sent."""

import asyncio
import json
import logging
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from actors.blame import is_targets_fault
from actors.dispatch.channels import plugins
from actors.dispatch.channels.mail import Smtplib
from actors.dispatch.channels.web import Requests
from actors.dispatch.egress import EgressGuard
from actors.dispatch.notification import THREADS, THREADS_PER_CHANNEL, NotificationDispatcher
from app.catalog.specs.channels import CHANNELS, Channel
from app.dev.receiver import Receiver
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.http.deliveries import Hosts, read_request, server
from tests.contract.dispatch.notification.messages import dispatcher, fail, send, spec
from tests.waiting import eventually

TOKEN = "T0kenThatNobodyMaySee"
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

    def may_send() -> bool:
        return bool(answers) and answers.pop()

    urls = [at(receiver, "/ok/before"), at(receiver, "/ok/afterwards")]
    own = replace(identity(), may_send=may_send)
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


@pytest.mark.parametrize("scheme", ["json", "mailto"])
def test_a_host_that_hangs_takes_no_longer_than_the_attempt_and_keeps_no_thread(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = fail(
            f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/?to=a@example.com&from=b@example.com", timeout_ms=3000
        )
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "te-notify"])


def test_channels_that_hang_starve_no_other_one() -> None:
    """However many hang, with more messages each than all may have threads, and of the same server."""
    hanging = 2 * THREADS // THREADS_PER_CHANNEL

    async def body(notifier: NotificationDispatcher) -> dict[str, Any]:
        hung, full = list[bytes](), asyncio.Event()

        async def handle(reader: Any, writer: Any, _number: int) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/hang" in head:
                hung.append(head)
                if len(hung) == hanging + THREADS:
                    full.set()
                await reader.read()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        async with server(handle) as address:
            url = address.replace("http", "json", 1)
            sending = [
                asyncio.create_task(notifier.send(spec(f"{url}/hang/{number}"), identity()))
                for number in range(hanging)
                for _ in range(THREADS)
            ]
            await full.wait()
            try:
                return await notifier.send(spec(f"{url}/ok"), identity())
            finally:
                for task in sending:
                    task.cancel()
                await asyncio.gather(*sending, return_exceptions=True)

    assert run(dispatcher(), body)["channels"][0]["status_code"] == 200
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "te-notify"])


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


def to_many(url: Callable[[str], str], **fields: Any) -> tuple[dict[str, Any], list[int]]:
    """Send to a server that takes all; returns the output, and how many descriptors were open at each request."""
    opened = list[int]()

    async def body(notifier: NotificationDispatcher) -> dict[str, Any]:
        async def handle(reader: Any, writer: Any, _number: int) -> None:
            await read_request(reader)
            opened.append(descriptors())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            writer.close()

        async with server(handle) as address:
            return await notifier.send(spec(url(address.rstrip("/")), **fields), identity())

    return run(dispatcher(), body), opened


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_message_to_many_opens_no_more_descriptors_than_one_to_few() -> None:
    chats = ",".join(f"chat{number}" for number in range(60))
    _, opened = to_many(lambda url: f"{url.replace('http', 'mmost', 1)}/{'a' * 26}?channels={chats}")
    assert len(opened) == 60
    assert max(opened) - opened[0] < 20


def test_a_service_that_asks_to_wait_for_too_long_is_out_of_time() -> None:
    """Apprise waits for 5.5 s between two topics of ntfy."""
    with pytest.raises(DeliveryError, match="longer than timeout_ms") as raised:
        to_many(lambda url: f"{url.replace('http', 'ntfy', 1)}/one/two", timeout_ms=2_000)
    assert (raised.value.type, raised.value.may_have_been_delivered) == ("TIMEOUT", True)


@pytest.mark.parametrize("url", ["json://metadata.example/", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"])
def test_no_channel_leads_to_where_deliveries_may_not_go(url: str) -> None:
    """Of a service of its own or one with a fixed host, whatever its name leads to."""

    async def body(notifier: NotificationDispatcher) -> DeliveryError:
        notifier.network.resolver = Hosts(LINK_LOCAL)
        return await failure(notifier, spec(url))

    error = run(dispatcher(), body)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "TE_EGRESS" in error.message


def test_a_worker_may_be_kept_from_an_address() -> None:
    guard = EgressGuard.from_settings("", [], ["127.0.0.0/8"])
    assert fail("mailto://127.0.0.1:25?to=a@example.com&from=b@example.com", guard=guard).permanent


@pytest.mark.parametrize("url", ["json://127.0.0.1/?template=/etc/passwd", "json://127.0.0.1/?%76erify=no"])
def test_what_apprise_would_read_is_refused_by_its_own_reading(url: str) -> None:
    assert "is not allowed in the URL" in fail(url).message


def test_what_apprise_cannot_use_of_a_url_is_said_in_its_words() -> None:
    error = fail("mailto://alerts@127.0.0.1")
    assert (error.type, error.permanent) == ("NOTIFICATION_ERROR", True)
    assert "From" in error.message
    assert "From" not in error.own_message


@pytest.mark.parametrize(
    "url",
    [
        "mailto://127.0.0.1:1?to=nobody&from=te@example.com",
        "ntfy://127.0.0.1:1/",
        # It takes what is no warning for a note to an alert that it does not know, and says that all is well.
        f"opsgenie://{'a' * 36}",
    ],
)
def test_what_apprise_sends_to_nobody_is_no_success_and_not_the_servers_fault(url: str) -> None:
    error = fail(url)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("NOTIFICATION_ERROR", True, False)
    assert "found nothing to send" in error.message
    assert is_targets_fault(error) is None


def test_without_apprise_the_attempt_says_so_and_another_worker_may_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "actors.dispatch.channels.plugins", None)
    error = fail("json://127.0.0.1:1/")
    assert (error.type, error.permanent) == ("NOTIFICATION_ERROR", False)
    assert "install task-executor[worker]" in error.message


def test_nothing_is_logged_while_a_message_is_sent(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Apprise, requests and urllib3 log URLs, at other levels and in other circumstances from release to release."""
    for name in ("", "apprise", "urllib3", "requests"):
        logging.getLogger(name).setLevel(1)
    with caplog.at_level(1):
        send(at(receiver, f"/ok/{TOKEN}"))
        fail(at(receiver, f"/status/500?{TOKEN}={TOKEN}"))
        fail(f"slack://{TOKEN}")
    for name in ("", "apprise", "urllib3", "requests"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(("scheme", "channel"), CHANNELS.items())
def test_each_scheme_has_a_plugin_that_goes_through_the_outlet(scheme: str, channel: Channel) -> None:
    module_name, _, class_name = channel.plugin.partition(":")
    plugin = getattr(import_module(f"apprise.plugins.{module_name}"), class_name)
    plugins.plug()
    spoken = [plugin.protocol, plugin.secure_protocol]
    assert scheme in {each for some in spoken for each in (some if isinstance(some, tuple | list) else [some])}
    module = import_module(plugin.__module__)
    ours = (getattr(module, "requests", None), getattr(module, "smtplib", None))
    assert any(isinstance(each, Requests | Smtplib) for each in ours)
    # What would open a connection, or a program, in another way.
    assert not {"socket", "subprocess", "http", "urllib3"} & vars(module).keys()
