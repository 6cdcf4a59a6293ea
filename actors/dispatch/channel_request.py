"""Channel request: a preset filled in with the parts of a channel's URL and with a message."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from app.catalog.specs.channel_presets import PRESETS, SEVERITIES, Preset, Request
from app.catalog.specs.channels import Parts
from app.queue.executions.execution_model import DeliveryError
from schema.inline_bounds import RESERVED_HEADER

ERROR = "NOTIFICATION_ERROR"

_WHOLE = re.compile(r"\{(\w+)\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_IN_SEGMENT = ":@~"
_IN_QUERY = "%:/?@!$'()*+,~"


class Message(NamedTuple):
    """Message of an attempt to one channel; `key` is the same at each attempt."""

    title: str
    body: str
    severity: str
    key: str
    signing: Mapping[str, str] | None = None


def unusable(parts: Parts, reason: str) -> DeliveryError:
    """Make the permanent error for a URL that cannot be used; the reason must not quote it."""
    form = PRESETS[parts.scheme].form
    return DeliveryError(ERROR, f"the URL of the {parts.scheme}:// channel {reason}; form: {form}", permanent=True)


def request_of(parts: Parts) -> tuple[Request, dict[str, str]]:
    """Return the request of the preset that fits a URL, and the names in its path; raises DeliveryError."""
    path = "/".join(map(unquote, parts.path))
    for request in PRESETS[parts.scheme].requests:
        match = re.fullmatch(request.path, path)
        if match is not None:
            return request, {name: value or "" for name, value in match.groupdict().items()}
    raise unusable(parts, "has another path than it needs")


def spec_of(parts: Parts, message: Message) -> tuple[Request, dict[str, Any]]:
    """Return the request of a message, and the same as the spec of an HTTP endpoint; raises DeliveryError."""
    preset = PRESETS[parts.scheme]
    request, found = request_of(parts)
    if not parts.host or ("{user}" in str(request.body) and not parts.user):
        raise unusable(parts, "leaves a part out")
    own = found | {"host": unquote(parts.host), "user": unquote(parts.user or "")}
    own["account"] = own["user"] or own["host"]
    names: dict[str, Any] = own | _parameters(parts, preset) | _words(message, preset)
    names["bearer"] = f"Bearer {own['user']}" if own["user"] and parts.password is None else ""
    headers, members = _extras(parts) if preset.is_open else ({}, {})
    signing = {} if message.signing is None else {"signing": message.signing}
    return request, signing | {
        "url": request.url.format_map({**names, **_quoted(own), **_of_url(parts)}),
        "method": "POST",
        "headers": _filled(request.headers, names) | headers,
        "body_template": _filled(request.body, names) | members,
    }


def _words(message: Message, preset: Preset) -> dict[str, Any]:
    """Return the parts of a message, escaped and cut as the service needs it."""
    first_line = message.body.strip().partition("\n")[0]
    words = {
        "title": message.title,
        "body": message.body or message.title,
        "text": "\n".join(filter(None, (message.title, message.body))),
        "headline": message.title or first_line,
    }
    table = str.maketrans(dict(preset.escapes))
    cut = {name: text.translate(table)[: preset.limits.get(name)] for name, text in words.items()}
    severity = message.severity if message.severity in SEVERITIES else SEVERITIES[0]
    return {**cut, "level": preset.levels[severity], "key": message.key}


def _parameters(parts: Parts, preset: Preset) -> dict[str, Any]:
    names = {}
    for name, meanings in preset.parameters.items():
        given = parts.parameter(name)
        if meanings is not None and given.lower() not in meanings:
            raise unusable(parts, f"has a value of {name!r} other than {', '.join(filter(None, meanings))}")
        names[name] = given if meanings is None else meanings[given.lower()]
    return names


def _quoted(own: Mapping[str, str]) -> dict[str, str]:
    return {name: quote(value, safe=_IN_SEGMENT) for name, value in own.items()}


def _of_url(parts: Parts) -> dict[str, str]:
    """Return the parts that go from the channel's URL into that of the request, encoded only where they must be."""
    plain = [(name.removeprefix("-"), value) for name, value in parts.query if not name.startswith(("+", ":"))]
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe=_IN_QUERY)}" for name, value in plain)
    return {
        "tls": "s" if parts.scheme.endswith("s") else "",
        "login": parts.login,
        "server": parts.host,
        "path": quote("/".join(parts.path), safe=_IN_QUERY + "=&;"),
        "query": f"?{query}" if query else "",
    }


def _extras(parts: Parts) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers and the members of the body that the URL gives; raises DeliveryError."""
    headers = {name[1:]: unquote(value) for name, value in parts.query if name.startswith("+")}
    for name in headers:
        if not _HEADER.fullmatch(name) or RESERVED_HEADER.fullmatch(name.lower()):
            raise unusable(parts, "gives a header that is not one, or that the service sets itself")
    return headers, {name[1:]: unquote(value) for name, value in parts.query if name.startswith(":")}


def _filled(template: Any, names: Mapping[str, Any]) -> Any:
    """Fill in the names of a template; empty texts are left out of objects."""
    match template:
        case str():
            whole = _WHOLE.fullmatch(template)
            return template.format_map(names) if whole is None else names.get(whole[1], "")
        case Mapping():
            filled = {key: _filled(value, names) for key, value in template.items()}
            return {key: value for key, value in filled.items() if value != ""}
        case list():
            return [_filled(each, names) for each in template]
    return template
