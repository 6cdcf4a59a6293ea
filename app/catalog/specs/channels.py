"""Channels: URLs of notification services, and the parts of these URLs that are secrets. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from app.catalog.specs.channel_presets import PRESETS

SMTP_PORTS = {"insecure": 25, "starttls": 587, "ssl": 465}

_LOCATOR = re.compile(r"(?P<scheme>[A-Za-z0-9]+)://(?P<authority>[^/?]*)(?P<path>(?:/[^?]*)?)(?:\?(?P<query>[\s\S]*))?")
_SECRETIVE = re.compile(r"pass|pwd|token|secret|key|auth|sig|cookie|webhook|session", re.IGNORECASE)
# Prefixes of a Slack channel or user, in a place where a token is also possible.
_ADDRESSEE = ("#", "%23", "@", "%40")
_MIN_TOKEN = 16  # characters
_MIN_CHANGES = 3  # words that contain a number or a date have fewer
# Between a letter and a digit, and from a small to a capital letter.
_CHANGE = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")


class Parts(NamedTuple):
    """URL of a channel, divided; only the names of parameters are decoded."""

    scheme: str
    user: str | None
    password: str | None
    host: str  # with the port
    path: tuple[str, ...]
    query: tuple[tuple[str, str], ...]

    @property
    def login(self) -> str:
        """User and password as in the URL, with the @; empty without them."""
        if self.user is None:
            return ""
        return f"{self.user}@" if self.password is None else f"{self.user}:{self.password}@"

    @property
    def mode(self) -> str:
        """Encryption of mail: the parameter `mode`, or the default of the scheme."""
        default = "starttls" if self.scheme == "mailtos" else "insecure"
        return self.parameter("mode").lower() or default

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server; the default port if none is given."""
        host, colon, port = self.host.rpartition(":")
        named, given = (host, int(port)) if colon and re.fullmatch("[0-9]{1,5}", port) else (self.host, 0)
        if self.scheme in {"mailto", "mailtos"}:
            return self.parameter("smtp") or named, given or SMTP_PORTS.get(self.mode, SMTP_PORTS["insecure"])
        return named, given or (443 if self.scheme.endswith("s") else 80)

    def parameter(self, name: str) -> str:
        """Return the decoded value of a parameter; empty without the parameter."""
        return next((unquote(value) for key, value in self.query if key.lower() == name), "")


def divide(url: str) -> Parts:
    """Divide the URL of a channel; raises ValueError for any other URL."""
    match = _LOCATOR.fullmatch(url.strip())
    if match is None or match["scheme"].lower() not in PRESETS:
        raise ValueError("the URL names no channel")
    userinfo, at, host = match["authority"].rpartition("@")
    user, colon, password = userinfo.partition(":")
    pairs = [pair.partition("=") for pair in re.split("[&;]", match["query"] or "") if pair]
    return Parts(
        scheme=match["scheme"].lower(),
        user=user if at else None,
        password=password if colon else None,
        host=host,
        path=tuple(filter(None, match["path"].split("/"))),
        query=tuple((unquote(name).strip(), value) for name, _, value in pairs),
    )


def faults_of(url: str, mark: str) -> Iterator[str]:
    """Report secrets and parameters that are not allowed in a URL with `mark` in place of each secret."""
    try:
        parts = divide(url)
    except ValueError:
        return  # already reported, or a secret as a whole
    preset = PRESETS[parts.scheme]
    for name, _ in parts.query:
        if not preset.is_open and name.lower() not in preset.parameters:
            allowed = ", ".join(sorted(preset.parameters)) or "none"
            yield f"The parameter {name.lower()!r} is not allowed in a {parts.scheme}:// URL; allowed: {allowed}."
    remedy = "Store the value with POST /secrets, and write {{secret.NAME}} in its place."
    for what, text, is_secret in _named_parts(parts):
        if not text or mark in text:
            continue
        if is_secret:
            yield f"In a {parts.scheme}:// URL, {what} is a secret. {remedy}"
        elif "tokens" in preset.secrets and looks_like_token(text):
            yield f"In a {parts.scheme}:// URL, {what} looks like a token, which every reader could use. {remedy}"


def _named_parts(parts: Parts) -> Iterator[tuple[str, str | None, bool]]:
    """Return the description and the text of each part that can be a secret, and if it always is a secret."""
    secrets, path = PRESETS[parts.scheme].secrets, parts.path
    yield "the password", parts.password, True
    yield "the part before @", parts.user, "user" in secrets or ("lone user" in secrets and parts.password is None)
    if "host" in secrets or ("topic" in secrets and not path and "." not in parts.host):
        yield "the part after ://", parts.host, "host" in secrets
    for number, segment in enumerate(path, 1):
        yield f"part {number} of the path", segment, f"path {number}" in secrets and not segment.startswith(_ADDRESSEE)
    if "lone user" in secrets and any("@" in segment for segment in path):
        # A token that contains a slash, before the host.
        yield "the part before @", parts.host + "/".join(path).rpartition("@")[0], True
    for name, value in parts.query:
        yield f"the parameter {name.lower()!r}", value, _SECRETIVE.search(name) is not None


def looks_like_token(text: str) -> bool:
    """Return whether a text looks generated: as long and mixed as an id, a key or the path of a webhook."""
    plain = unquote(text)
    is_mixed = any(map(str.isdigit, plain)) and len(_CHANGE.findall(plain)) >= _MIN_CHANGES
    return len(plain) >= _MIN_TOKEN and is_mixed


def server_of(parts: Parts) -> str:
    """Return the server of a channel for display: `mailtos:smtp.example.com:587`, or `slack` for a service."""
    if not PRESETS[parts.scheme].has_server:
        return parts.scheme
    host, port = parts.address
    return f"{parts.scheme}:{host.lower()}:{port}"
