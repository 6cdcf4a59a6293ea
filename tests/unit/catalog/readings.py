"""Decodings of a text in all usual encodings, to search it for a secret."""

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import unquote, unquote_plus

_UNITS = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\x[0-9a-fA-F]{2}")
_SIMPLE = re.compile(r"\\([\"'\\/nrt])")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")


def _code_units(text: str) -> str:
    return _UNITS.sub(
        lambda match: bytes.fromhex(re.sub(r"\\u|\\x", lambda x: "" if x[0] == r"\u" else "00", match[0])).decode(
            "utf-16-be", "replace"
        ),
        text,
    )


def _simple(text: str) -> str:
    return _SIMPLE.sub(lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), text)


DECODERS: tuple[Callable[[str], str], ...] = (_simple, _code_units, unquote, unquote_plus, html.unescape)


def _packed(text: str) -> Iterator[str]:
    joined = re.sub(r"\s", "", text)
    for run in _BASE64.findall(joined):
        for offset in range(4):
            part = run[offset:].replace("-", "+").replace("_", "/")
            try:
                yield base64.b64decode(part[: len(part) // 4 * 4]).decode(errors="replace")
            except binascii.Error:
                continue
    for run in _HEX.findall(joined.replace(":", "")):
        yield from (bytes.fromhex(piece).decode(errors="replace") for piece in (run, run[1:-1]))


def readings(text: str) -> set[str]:
    """Return the text, its forms with up to three levels of escapes decoded, and their decoded base64 and hex parts."""
    seen, latest = {text}, {text}
    for _ in range(3):
        latest = {undo(reading) for reading in latest for undo in DECODERS} - seen
        seen |= latest
    seen |= {packed for reading in seen for packed in _packed(reading)}
    return seen | {re.sub(r"\s", "", reading) for reading in seen}


def leaks(text: str, secret: str, most: int) -> set[str]:
    """Return the parts of a secret, longer than `most`, that occur in any reading of a text, ignoring case."""
    folded = secret.lower()
    windows = {folded[start : start + most + 1] for start in range(len(folded) - most)}
    # Each window contains one of these few blocks, so most readings need no search for the windows.
    half = (most + 2) // 2
    blocks = {folded[start : start + half] for start in range(0, len(folded) - half + 1, half)}
    suspected = [reading for reading in _folded(text) if any(block in reading for block in blocks)]
    return {window for reading in suspected for window in windows if window in reading}


@lru_cache(maxsize=4)
def _folded(text: str) -> tuple[str, ...]:
    # Cached because one text is searched for many secrets.
    return tuple({reading.lower() for reading in readings(text)})
