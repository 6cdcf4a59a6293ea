"""Scrubbing: keep secrets, raw and encoded, out of everything that is stored or logged."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.catalog.scrubbing.layers import Span, layers_of
from app.catalog.scrubbing.secret_traces import Traces

MASK = "[secret]"
SHORT = 256
MAX_CLEAN = 64


class Scrubber:
    """Masking of secret values, raw or encoded, whole or in part, by `[secret]`."""

    def __init__(self, values: Iterable[str]) -> None:
        self._traces = Traces(values)
        self._is_needed = self._traces.has_any
        self._clean: set[bytes] = set()

    @property
    def weight(self) -> int:
        """Memory in grams, at least 1; see `Traces.weight`."""
        return self._traces.weight + 1

    def text(self, text: str) -> str:
        """Scrub a text."""
        if not self._is_needed:
            return text
        raw = text.encode(errors="surrogatepass")
        masked = self._masked(raw, len(raw))
        return text if masked is None else masked

    def clip(self, text: str, limit_bytes: int) -> str:
        """Scrub a text and keep its first `limit_bytes` of UTF-8.

        A secret across the limit is masked as a whole, so pass text that extends beyond the limit.
        """
        raw = text.encode(errors="surrogatepass")
        limit = len(raw) if len(raw) <= limit_bytes else _boundary(raw, limit_bytes)
        masked = self._masked(raw, limit) if self._is_needed else None
        if masked is not None:
            return masked
        return text if limit == len(raw) else _text(raw[:limit])

    def scrub(self, value: Any, limit_bytes: int | None = None) -> Any:
        """Scrub every string of a JSON value except keys; `limit_bytes` clips each string."""
        if isinstance(value, str):
            return self.text(value) if limit_bytes is None else self.clip(value, limit_bytes)
        if isinstance(value, dict):
            return {key: self.scrub(item, limit_bytes) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(item, limit_bytes) for item in value]
        return value

    def _masked(self, raw: bytes, limit: int) -> str | None:
        """Return the text masked and cut; None without secrets before the limit."""
        if raw in self._clean:
            return None
        found = [layer.original(span) for layer in layers_of(raw) for span in self._traces.find(layer)]
        if not found:
            self._remember(raw)
            return None
        kept, position = [], 0
        for start, end in (_whole_characters(raw, span) for span in _merged(found)):
            if start >= limit:
                break
            kept += [_text(raw[position:start]), MASK]
            position = end
        return "".join([*kept, _text(raw[position:limit])]) if kept else None

    def _remember(self, raw: bytes) -> None:
        """Remember a short text without secrets: most receivers give the same answer each time."""
        if len(raw) <= SHORT:
            if len(self._clean) >= MAX_CLEAN:
                self._clean.clear()
            self._clean.add(raw)


NO_SECRETS = Scrubber(())


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Join spans that overlap or touch."""
    last: Span | None = None
    for span in sorted(spans):
        if last is not None and span[0] <= last[1]:
            last = last[0], max(last[1], span[1])
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _whole_characters(raw: bytes, span: Span) -> Span:
    start, end = span
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    return _boundary(raw, start), end


def _boundary(raw: bytes, place: int) -> int:
    """Return the start of the character at this place."""
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogatepass")
