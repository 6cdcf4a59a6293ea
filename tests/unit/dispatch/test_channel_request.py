"""Requests to channels: URL, headers and body of each preset, and the answers that mean success."""

from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.channel_request import Message, spec_of
from actors.dispatch.http1.answer import AnswerReader
from actors.dispatch.notification import status_of
from app.catalog.specs.channel_presets import PRESETS
from app.catalog.specs.channels import divide
from app.queue.executions.execution_model import DeliveryError

MESSAGE = Message("Late <1>", "Nobody & none", "critical", "exec_1-0")

CASES: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
    (
        "slack://xoxb-1-a/#ops",
        "https://slack.com/api/chat.postMessage",
        {"Authorization": "Bearer xoxb-1-a"},
        {"channel": "#ops", "text": "Late &lt;1&gt;\nNobody &amp; none", "mrkdwn": False},
    ),
    (
        "slack://T0/B0/XYZ",
        "https://hooks.slack.com/services/T0/B0/XYZ",
        {},
        {"text": "Late &lt;1&gt;\nNobody &amp; none", "mrkdwn": False},
    ),
    (
        "slack://T0/B0/XYZ/%23ops",
        "https://hooks.slack.com/services/T0/B0/XYZ",
        {},
        {"channel": "#ops", "text": "Late &lt;1&gt;\nNobody &amp; none", "mrkdwn": False},
    ),
    (
        "discord://42/to-ken",
        "https://discord.com/api/webhooks/42/to-ken",
        {},
        {
            "embeds": [{"title": "Late <1>", "description": "Nobody & none", "color": 0xC0392B}],
            "allowed_mentions": {"parse": []},
        },
    ),
    (
        "tgram://12:ab/-100?topic=7",
        "https://api.telegram.org/bot12:ab/sendMessage",
        {},
        {"chat_id": "-100", "message_thread_id": "7", "text": "Late <1>\nNobody & none"},
    ),
    (
        "ntfy://alerts",
        "https://ntfy.sh/",
        {},
        {"topic": "alerts", "title": "Late <1>", "message": "Nobody & none", "priority": 5},
    ),
    (
        "ntfys://tk_1@ntfy.example:8443/alerts",
        "https://tk_1@ntfy.example:8443/",
        {"Authorization": "Bearer tk_1"},
        {"topic": "alerts", "title": "Late <1>", "message": "Nobody & none", "priority": 5},
    ),
    (
        "ntfy://me:p%40@ntfy.example/alerts",
        "http://me:p%40@ntfy.example/",
        {},
        {"topic": "alerts", "title": "Late <1>", "message": "Nobody & none", "priority": 5},
    ),
    (
        "pover://user@token/phone?priority=1&sound=siren",
        "https://api.pushover.net/1/messages.json",
        {},
        {
            "token": "token",
            "user": "user",
            "device": "phone",
            "priority": 1,
            "sound": "siren",
            "title": "Late <1>",
            "message": "Nobody & none",
        },
    ),
    (
        "pagerduty://key?region=eu",
        "https://events.eu.pagerduty.com/v2/enqueue",
        {},
        {
            "routing_key": "key",
            "event_action": "trigger",
            "dedup_key": "exec_1-0",
            "payload": {
                "summary": "Late <1>",
                "severity": "critical",
                "source": "Task Executor",
                "custom_details": {"body": "Nobody & none"},
            },
        },
    ),
    (
        "jsons://me:pw@hooks.example:8443/a b/c%20d?x=1&-y=2&+X-Token=t%20k&:team=ops",
        "https://me:pw@hooks.example:8443/a%20b/c%20d?x=1&y=2",
        {"X-Token": "t k"},
        {"version": "1.0", "title": "Late <1>", "message": "Nobody & none", "type": "failure", "team": "ops"},
    ),
]


@pytest.mark.parametrize(("channel", "url", "headers", "body"), CASES, ids=[case[0] for case in CASES])
def test_each_preset_makes_its_request(channel: str, url: str, headers: dict[str, str], body: dict[str, Any]) -> None:
    _, spec = spec_of(divide(channel), MESSAGE)
    assert spec == {"url": url, "method": "POST", "headers": headers, "body_template": body}


def test_teams_gets_a_card_at_the_url_of_its_workflow() -> None:
    _, spec = spec_of(divide("workflows://prod.example:443/f1/s-1?pa=yes&ver=1"), MESSAGE)
    assert spec["url"] == (
        "https://prod.example:443/powerautomate/automations/direct/workflows/f1/triggers/manual/paths/invoke"
        "?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=s-1"
    )
    parts = spec["body_template"]["attachments"][0]["content"]["body"]
    assert [part["text"] for part in parts] == ["Late <1>", "Nobody & none"]


def test_every_preset_of_http_is_covered() -> None:
    covered = {divide(case[0]).scheme.removesuffix("s") for case in CASES} | {"workflow"}
    assert covered == {scheme.removesuffix("s") for scheme, preset in PRESETS.items() if preset.requests}


@pytest.mark.parametrize(
    "channel",
    [
        "slack://T0",
        "slack://xoxb-1-a/#ops/@somebody",
        "discord://42",
        "pover://token",
        "pover://user@token?priority=2",
        "tgram://12:ab/1/2",
        "ntfy:///topic",
        "workflows://prod.example/f1",
        "json://h/?+Host=other",
        "json://h/?+Transfer-Encoding=chunked",
        "json://h/?+X Y=1",
    ],
)
def test_malformed_channel_url_is_refused_permanently_without_repeating_it(channel: str) -> None:
    with pytest.raises(DeliveryError) as raised:
        spec_of(divide(channel), MESSAGE)
    form = PRESETS[divide(channel).scheme].form
    assert (raised.value.permanent, raised.value.message.endswith(f"form: {form}")) == (True, True)
    assert "somebody" not in raised.value.message


def test_long_text_is_cut_and_braces_are_plain_text() -> None:
    _, spec = spec_of(divide("tgram://12:ab/1"), MESSAGE._replace(title="{host}", body="x" * 9000))
    assert (len(spec["body_template"]["text"]), spec["body_template"]["text"][:8]) == (4096, "{host}\nx")


def answer(status: str, text: str) -> AnswerReader:
    reader = AnswerReader()
    reader.feed(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    return reader


@pytest.mark.parametrize(
    ("channel", "status", "text", "is_taken"),
    [
        ("slack://xoxb-1/#ops", "200 OK", '{"ok": true, "ts": "1"}', True),
        ("slack://xoxb-1/#ops", "200 OK", '{"ok": false, "error": "channel_not_found"}', False),
        ("slack://T/B/X", "200 OK", "ok", True),
        ("tgram://12:ab/1", "200 OK", '{"ok": false}', False),
        ("tgram://12:ab/1", "200 OK", "<html>", False),
        ("pover://user@token", "200 OK", '{"status": 1}', True),
        ("pover://user@token", "200 OK", '{"status": 0}', False),
        ("pagerduty://key", "202 Accepted", '{"status": "success"}', True),
        ("discord://42/token", "204 No Content", "", True),
        ("workflows://h/f1/s1", "202 Accepted", "", True),
    ],
)
def test_answer_of_the_service_decides_about_success(channel: str, status: str, text: str, *, is_taken: bool) -> None:
    request, _ = spec_of(divide(channel), MESSAGE)
    if is_taken:
        assert status_of(answer(status, text), request) == int(status[:3])
        return
    with pytest.raises(DeliveryError, match="did not take the message") as raised:
        status_of(answer(status, text), request)
    assert (raised.value.permanent, raised.value.extra["body"]) == (False, text)
