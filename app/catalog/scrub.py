"""Scrubbing: keep secrets, raw and encoded, out of everything that is stored or logged."""

import sys
from collections.abc import Iterable
from typing import Any

from app.catalog.scrubbing.layers import Span, layers_of
from app.catalog.scrubbing.secret_traces import Traces

MASK = "[secret]"
MAX_CLEAN, MAX_CLEAN_BYTES = 64, 256


class Scrubber:
    """Masking of secret values, raw or encoded, whole or in part, by `[secret]`."""

    def __init__(self, values: Iterable[str]) -> None:
        self._traces = Traces(values)
        self._clean: set[bytes] = set()

    @property
    def weight(self) -> int:
        """Memory in grams of about 90 bytes, which take most of the memory; at least 1."""
        return len(self._traces.grams.known) + 1

    def text(self, text: str, limit_bytes: int = sys.maxsize) -> str:
        """Scrub a text and keep its first `limit_bytes` of UTF-8.

        A secret across the limit is masked as a whole, so pass text that extends beyond the limit.
        """
        raw = text.encode(errors="surrogatepass")
        limit = len(raw) if len(raw) <= limit_bytes else _boundary(raw, limit_bytes)
        masked = self._masked(raw, limit) if self._traces.has_any else None
        if masked is not None:
            return masked
        return text if limit == len(raw) else _text(raw[:limit])

    def scrub(self, value: Any, limit_bytes: int = sys.maxsize) -> Any:
        """Scrub every string of a JSON value except keys; `limit_bytes` clips each string."""
        if isinstance(value, str):
            return self.text(value, limit_bytes)
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
        if not found and len(raw) <= MAX_CLEAN_BYTES:
            # Most receivers give the same short answer each time.
            if len(self._clean) >= MAX_CLEAN:
                self._clean.clear()
            self._clean.add(raw)
        kept, position = [], 0
        for start, end in (_whole_characters(raw, span) for span in _merged(found)):
            if start >= limit:
                break
            kept += [_text(raw[position:start]), MASK]
            position = end
        return "".join([*kept, _text(raw[position:limit])]) if kept else None


NO_SECRETS = Scrubber(())


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _whole_characters(raw: bytes, span: Span) -> Span:
    start, end = span
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    return _boundary(raw, start), end


def _boundary(raw: bytes, place: int) -> int:
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogatepass")
