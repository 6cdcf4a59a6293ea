"""Channel presets: for each service one row with its URL, body and success rule. Data only.

`{name}` stands for a part of the channel's URL, one of its parameters, or a part of the message: `title`, `body`,
`text` (both), `headline` (the title, or the first line of the body), `level` (by severity) and `key` (the same at each
attempt). `actors.dispatch.channel_request` fills them in.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

SEVERITIES = ("info", "warning", "critical")
_COLOURS = {"info": 0x3AA3E3, "warning": 0xE8A33D, "critical": 0xC0392B}
_TEAMS_COLOURS = {"info": "Accent", "warning": "Warning", "critical": "Attention"}


class Request(NamedTuple):
    """HTTP request of a channel whose path has this form; empty headers and members of the body are left out."""

    path: str
    """Regular expression for the path, without the first slash; its groups are names."""
    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = {}
    success: Mapping[str, Any] | None = None
    """Members that a JSON answer with a status of 2xx must have; None: the status is enough."""


class Preset(NamedTuple):
    """A scheme: its form, its secrets, its parameters and its requests."""

    form: str
    """Form of the URL, as errors and docs/reference/channels.md show it."""
    requests: tuple[Request, ...] = ()
    """The first request whose path matches is sent; empty for mail."""
    secrets: frozenset[str] = frozenset()
    """Parts that are secrets: `user`, `lone user` (without a password), `host`, `path 1` …

    `tokens` are parts that look like tokens; with `topic`, so is a host without a path."""
    parameters: Mapping[str, Mapping[str, Any] | None] = {}
    """Parameters, with the meaning of each value, `""` being the default; None: any text."""
    is_open: bool = False
    """True if any parameter is allowed: `+name` is a header, `:name` a member of the body, any other parameter
    is part of the query."""
    has_server: bool = False
    """True if the host names a server rather than an account at a service."""
    levels: Mapping[str, Any] = dict(zip(SEVERITIES, SEVERITIES, strict=True))
    limits: Mapping[str, int] = {}
    """Maximum number of characters of each part of the message; the rest is cut off."""
    escapes: Mapping[str, str] = {}
    """Characters of the message that the service reads as markup, with their escapes."""


_DISCORD = Preset(
    form="discord://WEBHOOK_ID/TOKEN",
    secrets=frozenset({"path 1"}),
    requests=(
        Request(
            path="(?P<token>[^/]+)",
            url="https://discord.com/api/webhooks/{host}/{token}",
            body={
                "embeds": [{"title": "{title}", "description": "{body}", "color": "{level}"}],
                "allowed_mentions": {"parse": []},
            },
        ),
    ),
    levels=_COLOURS,
    limits={"title": 256, "body": 4096},
)
_JSON = Preset(
    form="json://[USER:PASSWORD@]HOST[:PORT]/PATH",
    secrets=frozenset({"tokens"}),
    requests=(
        Request(
            path=".*",
            url="http{tls}://{login}{server}/{path}{query}",
            body={"version": "1.0", "title": "{title}", "message": "{body}", "type": "{level}"},
        ),
    ),
    is_open=True,
    has_server=True,
    levels={"info": "info", "warning": "warning", "critical": "failure"},
)
_MAIL = Preset(
    form="mailto://[USER:PASSWORD@]HOST[:PORT]?from=SENDER&to=ADDRESS,ADDRESS",
    parameters={
        **dict.fromkeys(("to", "cc", "bcc", "from", "name", "reply", "smtp")),
        "mode": {"": None, "insecure": "insecure", "starttls": "starttls", "ssl": "ssl"},
    },
    has_server=True,
)
_NTFY = Preset(
    form="ntfy://[USER:PASSWORD@ or TOKEN@][HOST[:PORT]/]TOPIC",
    secrets=frozenset({"lone user", "tokens", "topic"}),  # the name of a topic is enough to read it
    requests=tuple(
        Request(
            path=path,
            url=url,
            headers={"Authorization": "{bearer}"},
            body={"topic": topic, "title": "{title}", "message": "{body}", "priority": "{level}"},
        )
        for path, url, topic in (
            ("", "https://{login}ntfy.sh/", "{host}"),
            ("(?P<topic>[^/]+)", "http{tls}://{login}{server}/", "{topic}"),
        )
    ),
    has_server=True,
    levels={"info": 3, "warning": 4, "critical": 5},
    limits={"title": 250, "body": 4000},
)
_PAGERDUTY = Preset(
    form="pagerduty://INTEGRATION_KEY/[SOURCE/[COMPONENT]]",
    secrets=frozenset({"user", "host"}),
    requests=tuple(
        Request(
            path=path,
            url="https://events{region}.pagerduty.com/v2/enqueue",
            body={
                "routing_key": "{account}",
                "event_action": "trigger",
                "dedup_key": "{key}",
                "payload": {
                    "summary": "{headline}",
                    "severity": "{level}",
                    "source": source,
                    "component": "{component}",
                    "custom_details": {"body": "{body}"},
                },
            },
            success={"status": "success"},
        )
        for path, source in (
            ("", "Task Executor"),
            ("(?P<source>[^/]+)(?:/(?P<component>[^/]+))?", "{source}"),
        )
    ),
    parameters={"region": {"": "", "us": "", "eu": ".eu"}},
    limits={"headline": 1024},
)
_PUSHOVER = Preset(
    form="pover://USER_KEY@API_TOKEN/[DEVICE]",
    secrets=frozenset({"user", "host"}),
    requests=(
        Request(
            path="(?P<device>[^/]*)",
            url="https://api.pushover.net/1/messages.json",
            body={
                "token": "{host}",
                "user": "{user}",
                "device": "{device}",
                "title": "{title}",
                "message": "{body}",
                "priority": "{priority}",
                "sound": "{sound}",
            },
            success={"status": 1},
        ),
    ),
    parameters={"priority": {"": 0, "-2": -2, "-1": -1, "0": 0, "1": 1}, "sound": None},
    limits={"title": 250, "body": 1024},
)
_SLACK = Preset(
    form="slack://BOT_TOKEN/#CHANNEL or slack://A/B/C (an incoming webhook)",
    secrets=frozenset({"host", "path 1", "path 2"}),
    requests=(
        Request(
            path="(?P<channel>[^/]+)",
            url="https://slack.com/api/chat.postMessage",
            headers={"Authorization": "Bearer {host}"},
            body={"channel": "{channel}", "text": "{text}", "mrkdwn": False},
            success={"ok": True},
        ),
        Request(
            path="(?P<b>[^/#@]+)/(?P<c>[^/#@]+)(?:/(?P<channel>[^/]+))?",
            url="https://hooks.slack.com/services/{host}/{b}/{c}",
            body={"channel": "{channel}", "text": "{text}", "mrkdwn": False},
        ),
    ),
    limits={"text": 35_000},
    escapes={"&": "&amp;", "<": "&lt;", ">": "&gt;"},
)
_TEAMS = Preset(
    form="workflows://HOST[:PORT]/WORKFLOW_ID/SIGNATURE",
    secrets=frozenset({"path 2"}),
    requests=(
        Request(
            path="(?P<id>[^/]+)/(?P<signature>[^/]+)",
            url="https://{server}{pa}/workflows/{id}/triggers/manual/paths/invoke"
            "?api-version={ver}&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={signature}",
            body={
                "type": "message",
                "attachments": [
                    {
                        "contentType": "application/vnd.microsoft.card.adaptive",
                        "content": {
                            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                            "type": "AdaptiveCard",
                            "version": "1.4",
                            "body": [
                                {"type": "TextBlock", "text": "{headline}", "weight": "Bolder", "color": "{level}"},
                                {"type": "TextBlock", "text": "{body}", "wrap": True},
                            ],
                        },
                    }
                ],
            },
        ),
    ),
    parameters={
        "pa": {"": "", "no": "", "yes": "/powerautomate/automations/direct"},
        "ver": {"": "2016-06-01", **{each: each for each in ("1", "2016-06-01", "2022-03-01-preview")}},
    },
    has_server=True,
    levels=_TEAMS_COLOURS,
    limits={"headline": 250, "body": 20_000},
)
_TELEGRAM = Preset(
    form="tgram://BOT_TOKEN/CHAT_ID",
    secrets=frozenset({"host"}),
    requests=(
        Request(
            path="(?P<chat>[^/]+)",
            url="https://api.telegram.org/bot{host}/sendMessage",
            body={"chat_id": "{chat}", "message_thread_id": "{topic}", "text": "{text}"},
            success={"ok": True},
        ),
    ),
    parameters={"topic": None},
    limits={"text": 4096},
)

# The schemes that a channel may have; docs/reference/channels.md lists them.
PRESETS: Mapping[str, Preset] = {
    "discord": _DISCORD,
    "json": _JSON,
    "jsons": _JSON,
    "mailto": _MAIL,
    "mailtos": _MAIL,
    "ntfy": _NTFY,
    "ntfys": _NTFY,
    "pagerduty": _PAGERDUTY,
    "pover": _PUSHOVER,
    "slack": _SLACK,
    "tgram": _TELEGRAM,
    "workflow": _TEAMS,
    "workflows": _TEAMS,
}
SCHEMES = frozenset(PRESETS)
