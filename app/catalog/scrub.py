"""Scrubbing: keep secrets, raw and encoded, out of everything that is stored or logged."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus, unquote

MASK = "[secret]"
_CREDENTIALS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#:]*)(?::([^/?#]*))?@")
_MIN_BASE64 = 4  # shorter pieces would match any base64 text by chance


class Scrubber:
    """Replaces secret values, raw or encoded, by `[secret]`."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value) if part}
        patterns = {pattern for part in parts for pattern in _patterns(part)}
        # Longest first: otherwise a secret that begins with another one would leave its end behind.
        ordered = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
        self._pattern = re.compile("|".join(ordered)) if ordered else None

    def text(self, text: str) -> str:
        """Scrub a text."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def clip(self, text: str, limit_bytes: int) -> str:
        """Scrub a text and keep what its first `limit_bytes` of UTF-8 hold.

        A secret across the limit is masked as a whole, so pass more text than the limit, not text cut there.
        """
        limit = len(text.encode(errors="replace")[:limit_bytes].decode(errors="ignore"))
        if limit == len(text) or self._pattern is None:
            return self.text(text[:limit])
        kept, position = [], 0
        for match in self._pattern.finditer(text):
            if match.start() >= limit:
                break
            kept += [text[position : match.start()], MASK]
            position = match.end()
        return "".join([*kept, text[position:limit]])

    def scrub(self, value: Any, limit_bytes: int | None = None) -> Any:
        """Scrub every string of a JSON value, keys too; `limit_bytes` clips each string."""
        if isinstance(value, str):
            return self.text(value) if limit_bytes is None else self.clip(value, limit_bytes)
        if isinstance(value, dict):
            return {self.scrub(key, limit_bytes): self.scrub(item, limit_bytes) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(item, limit_bytes) for item in value]
        return value


def _parts(value: str) -> Iterator[str]:
    """Return the parts of a URL that may occur alone: its password, decoded, or as `Basic base64(user:password)`."""
    yield value
    match = _CREDENTIALS.match(value)
    if match:
        user, password = unquote(match[1]), unquote(match[2] or "")
        yield from (password, f"{user}:{password}") if password else (user,)


def _patterns(value: str) -> Iterator[str]:
    for variant in _spellings(value):
        yield re.escape(variant)
    yield from _base64_patterns(value)


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield value.lower()  # as the name of a host is
    yield html.escape(value)
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escaped.replace("/", "\\/"))  # PHP escapes the slash as well
    for encoded in (
        quote(value, errors="replace"),
        quote(value, safe="", errors="replace"),
        quote_plus(value, errors="replace"),
    ):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)


def _base64_patterns(value: str) -> Iterator[str]:
    """Match the value inside base64 of a longer text, as in `Basic base64(user:password)`.

    Depending on what precedes it, the value starts at one of three places in a group of three bytes. The
    characters at its edges include bits of the neighbours, so whatever stands there is masked as well.
    """
    raw = value.encode(errors="replace")
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw).decode()
        first_own = -(-8 * shift // 6)
        last_own = 8 * (shift + len(raw)) // 6
        core = encoded[first_own:last_own]
        if len(core) < _MIN_BASE64:
            continue
        before = "" if shift == 0 else "[A-Za-z0-9+/_-]?"
        after = "" if (shift + len(raw)) % 3 == 0 else "[A-Za-z0-9+/_-]?={0,2}"
        for alphabet in {core, core.replace("+", "-").replace("/", "_")}:
            yield before + re.escape(alphabet) + after
