"""Channels: the services that people are notified through, and which parts of their URLs are secrets. Pure.

Only what speaks HTTP or SMTP to a server is here. Apprise also has schemes that run or read what is on this machine
(exec, syslog, dbus, gnome, macosx, windows, file, include, …), and so does a parameter of some that are here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

SMTP_PORTS = {"mailto": 25, "mailtos": 587}


@dataclass(frozen=True, slots=True)
class Channel:
    """A scheme of Apprise: what sends it, where it leads, and which parts of its URL are secrets if they are there."""

    plugin: str
    """Module and class, below apprise.plugins."""
    secrets: frozenset[str] = frozenset()
    """Of `user`, `lone user` (without a password), `host`, `lone host` (without a user), `path 1` …, `last`; `tokens`:
    where no part is one for certain, whatever looks like a token; `topic`: also a host that is alone, and none."""
    has_server: bool = False
    """Whether the host is a server; that of others stands for an account of the service."""


def _service(plugin: str, *secrets: str) -> Channel:
    return Channel(plugin, frozenset(secrets))


def _server(plugin: str, *secrets: str) -> Channel:
    return Channel(plugin, frozenset(secrets), has_server=True)


_EMAIL = _server("email:NotifyEmail")
_GOTIFY, _HOME_ASSISTANT = (
    _server("gotify:NotifyGotify", "last"),
    _server("home_assistant:NotifyHomeAssistant", "path 1"),
)
_MATRIX = _server("matrix:NotifyMatrix", "lone user", "lone host")
_MATTERMOST = _server("mattermost:NotifyMattermost", "last")
# Whoever knows the topic reads what is sent to it.
_NTFY = _server("ntfy:NotifyNtfy", "lone user", "tokens", "topic")
_ROCKET = _server("rocketchat:NotifyRocketChat", "lone user")
_SIGNAL, _TEAMS = _server("signal_api:NotifySignalAPI"), _server("workflows:NotifyWorkflows", "path 2")
_WEBEX = _service("webexteams:NotifyWebexTeams", "host")
_JSON, _XML = _server("custom_json:NotifyJSON", "tokens"), _server("custom_xml:NotifyXML", "tokens")
_FORM = _server("custom_form:NotifyForm", "tokens")

# The schemes that a channel may have; docs/notifications.md lists them.
CHANNELS: Mapping[str, Channel] = {
    "discord": _service("discord:NotifyDiscord", "path 1"),
    "form": _FORM,
    "forms": _FORM,
    "gchat": _service("google_chat:NotifyGoogleChat", "path 1", "path 2"),
    "gotify": _GOTIFY,
    "gotifys": _GOTIFY,
    "hassio": _HOME_ASSISTANT,
    "hassios": _HOME_ASSISTANT,
    "json": _JSON,
    "jsons": _JSON,
    "mailgun": _service("mailgun:NotifyMailgun", "path 1"),
    "mailto": _EMAIL,
    "mailtos": _EMAIL,
    "matrix": _MATRIX,
    "matrixs": _MATRIX,
    "mmost": _MATTERMOST,
    "mmosts": _MATTERMOST,
    "ntfy": _NTFY,
    "ntfys": _NTFY,
    "opsgenie": _service("opsgenie:NotifyOpsgenie", "host"),
    "pagerduty": _service("pagerduty:NotifyPagerDuty", "user", "host"),
    "pbul": _service("pushbullet:NotifyPushBullet", "host"),
    "pover": _service("pushover:NotifyPushover", "user", "host"),
    "rocket": _ROCKET,
    "rockets": _ROCKET,
    "signal": _SIGNAL,
    "signals": _SIGNAL,
    "slack": _service("slack:NotifySlack", "host", "path 1", "path 2"),
    "splunk": _service("splunk:NotifySplunk", "host"),
    "tgram": _service("telegram:NotifyTelegram", "host"),
    "twilio": _service("twilio:NotifyTwilio"),
    "vonage": _service("vonage:NotifyVonage", "user"),
    "webex": _WEBEX,
    "workflow": _TEAMS,
    "workflows": _TEAMS,
    "wxteams": _WEBEX,
    "xml": _XML,
    "xmls": _XML,
    "zulip": _service("zulip:NotifyZulip", "path 1"),
}
SCHEMES = frozenset(CHANNELS)

# What reads files or other URLs, sends what was not asked for, or is the service's own affair here.
REFUSED_PARAMETERS: Mapping[str, str] = {
    "template": "it reads a file or a URL",
    "attach": "nothing is attached",
    "attachment": "nothing is attached",
    "inline": "nothing is attached",
    "pgp": "it reads a file or a URL",
    "pgpkey": "it reads a file or a URL",
    "pgpmode": "it reads a file or a URL",
    "keyfile": "it reads a file or a URL",
    "verify": "certificates are always verified",
    "redirect": "redirects are not followed",
    "redirects": "redirects are not followed",
    "rto": "use timeout_ms of the spec",
    "cto": "use timeout_ms of the spec",
    "retry": "use the endpoint's retry_policy",
    "wait": "use the endpoint's retry_policy",
    "optional": "a channel that fails is told",
    "store": "nothing is stored",
}

_LOCATOR = re.compile(r"(?P<scheme>[A-Za-z0-9]+)://(?P<authority>[^/?]*)(?P<path>[^?]*)(?:\?(?P<query>[\s\S]*))?")
_SECRETIVE = re.compile(r"pass|pwd|token|secret|key|auth|sig|cookie|webhook|session", re.IGNORECASE)
# A channel of Slack, a user, a group: what may stand where otherwise a token would.
_ADDRESSEE = ("#", "%23", "@", "%40", "+", "%2B", "%2b")
_LEAST_TOKEN = 16  # characters
_LEAST_CHANGES = 3  # words with a number or a date in them have fewer
# Between a letter and a digit, and from a small letter to a capital one.
_CHANGE = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")


class Parts(NamedTuple):
    """A URL of Apprise, divided but not decoded."""

    scheme: str
    user: str | None
    password: str | None
    host: str  # with the port
    path: tuple[str, ...]
    query: tuple[tuple[str, str], ...]


def divide(url: str) -> Parts | None:
    """Divide a URL; None where it is none."""
    match = _LOCATOR.fullmatch(url.strip())
    if match is None:
        return None
    userinfo, at, host = match["authority"].rpartition("@")
    user, colon, password = userinfo.partition(":")
    pairs = [pair.partition("=") for pair in re.split("[&;]", match["query"] or "") if pair]
    return Parts(
        scheme=match["scheme"].lower(),
        user=user if at else None,
        password=password if colon else None,
        host=host,
        path=tuple(filter(None, match["path"].split("/"))),
        query=tuple((unquote(name).strip().lower(), value) for name, _, value in pairs),
    )


def faults_of(url: str, mark: str) -> Iterator[str]:
    """Say what is wrong with a URL in which `mark` stands for each secret, such as a password that is no secret."""
    parts = divide(url)
    if parts is None or parts.scheme not in CHANNELS:
        return  # what it is was said already, or is a secret as a whole
    for name, _ in parts.query:
        if name in REFUSED_PARAMETERS:
            yield f"the parameter {name!r} is not allowed: {REFUSED_PARAMETERS[name]}"
    remedy = "store it with POST /secrets, and write {{secret.…}} with its name instead of it"
    certain = list(_secrets(parts))
    for what, text in certain:
        if text and mark not in text:
            yield f"{what} of a {parts.scheme}:// URL is a secret: {remedy}"
    for what, text in _others(parts):
        if (what, text) not in certain and mark not in text and looks_like_token(text):
            yield f"{what} of a {parts.scheme}:// URL looks like a token, and whoever knows it can use it: {remedy}"


def _secrets(parts: Parts) -> Iterator[tuple[str, str | None]]:
    """Return the parts of a URL that are secrets, with how they are called."""
    secrets, path = CHANNELS[parts.scheme].secrets, parts.path
    yield "the password", parts.password
    if "user" in secrets or ("lone user" in secrets and parts.password is None):
        yield "the part before @", parts.user
    if "host" in secrets or ("lone host" in secrets and parts.user is None):
        yield "the part after ://", parts.host
    for number, segment in enumerate(path, 1):
        if f"path {number}" in secrets and not segment.startswith(_ADDRESSEE):
            yield f"part {number} of the path", segment
    if "last" in secrets and path:
        yield "the last part of the path", path[-1]
    if "lone user" in secrets and any("@" in segment for segment in path):
        # A token with a slash in it, before the host.
        yield "the part before @", parts.host + "/".join(path).rpartition("@")[0]
    for name, value in parts.query:
        if _SECRETIVE.search(name):
            yield f"the parameter {name!r}", value


def _others(parts: Parts) -> Iterator[tuple[str, str]]:
    """Return the parts of a URL that are secrets where they are tokens, with how they are called."""
    secrets = CHANNELS[parts.scheme].secrets
    if "tokens" not in secrets:
        return
    yield "the part before @", parts.user or ""
    if "topic" in secrets and not parts.path and "." not in parts.host:
        yield "the part after ://", parts.host
    for number, segment in enumerate(parts.path, 1):
        yield f"part {number} of the path", segment
    for name, value in parts.query:
        yield f"the parameter {name!r}", value


def looks_like_token(text: str) -> bool:
    """Return whether a text is as long and as mixed as what is drawn by lot: an id, a key, the path of a webhook."""
    plain = unquote(text)
    is_mixed = any(map(str.isdigit, plain)) and len(_CHANGE.findall(plain)) >= _LEAST_CHANGES
    return len(plain) >= _LEAST_TOKEN and is_mixed


def server_of(url: str) -> str:
    """Return where a URL leads, to be shown: `mailtos:smtp.example.com:587`, and for a service `slack`.

    Raises ValueError for what is no URL of a channel.
    """
    parts = divide(url)
    channel = None if parts is None else CHANNELS.get(parts.scheme)
    if parts is None or channel is None:
        raise ValueError("not a URL of a channel")
    if not channel.has_server:
        return parts.scheme
    host, colon, port = parts.host.rpartition(":")
    named = host if colon and port.isdigit() else parts.host
    given = port if colon and port.isdigit() else str(_default_port(parts.scheme))
    smtp = next((value for name, value in parts.query if name == "smtp" and value), "")
    return f"{parts.scheme}:{(smtp or named).lower()}:{given}"


def _default_port(scheme: str) -> int:
    return SMTP_PORTS.get(scheme) or (443 if scheme.endswith("s") else 80)
