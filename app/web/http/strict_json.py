"""Parser of JSON without the extensions of Python's parser, without huge numbers, and without repeated keys."""

import json
import math
import re
from typing import Any, NoReturn

from app.kernel.formats import MAX_DIGITS

_JSON_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*+")(?=\s*:)|"(?:[^"\\]|\\.)*+"|(?P<begin>\{)|(?P<end>\})'
    r"|(?P<constant>-?Infinity|NaN)|(?P<number>-?[0-9][0-9.eE+-]*)|[^\"{}0-9IN-]+|.",
    re.DOTALL,
)
_NEWLINE = "\n"
MAX_SEARCHED = 65_536
"""Characters of a text in which the place of a refused value is searched: it takes a second for a megabyte."""


def decode(text: str, *, has_places: bool = True) -> Any:
    """Parse JSON; raises RecursionError, or ValueError with the line and column of the fault.

    Args:
        text: The JSON.
        has_places: False for a text that its author has not seen, such as JSON made from YAML.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place(text, error.pos)}: {error.msg}") from None
    except _RefusedValueError as error:
        is_searched = has_places and len(text) <= MAX_SEARCHED
        raise ValueError(_with_place(text, error) if is_searched else str(error)) from None


class _RefusedValueError(ValueError):
    """Refused number or object; the hooks of the decoder get no position."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise _repeated(name)
            seen.add(name)
    return value


def _repeated(name: str) -> _RefusedValueError:
    return _RefusedValueError(f"an object has the same key twice: {name[:64]!r}")


def _constant(_text: str) -> NoReturn:
    raise _RefusedValueError("NaN and Infinity are not JSON")


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise _RefusedValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _RefusedValueError("a number is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_float)


def place(text: str, position: int) -> str:
    """Return the line and the column of a character."""
    before = text[:position]
    return f"line {before.count(_NEWLINE) + 1}, column {position - before.rfind(_NEWLINE)}"


def _with_place(text: str, fault: _RefusedValueError) -> str:
    """Return the first fault of the text with its place; up to that place the text is JSON."""
    keys, position = list[set[str]](), 0  # of the open objects
    try:
        while token := _JSON_TOKEN.match(text, position):
            if kind := token.lastgroup:
                _check(kind, token[kind], keys)
            position = token.end()
    except _RefusedValueError as first:
        return f"{place(text, position)}: {first}"
    return str(fault)


def _check(kind: str, token: str, keys: list[set[str]]) -> None:
    """Raise the fault of a token."""
    if kind == "key":
        if (key := json.loads(token)) in keys[-1]:
            raise _repeated(key)
        keys[-1].add(key)
    elif kind == "begin":
        keys.append(set())
    elif kind == "end":
        keys.pop()
    elif kind == "constant":
        _constant(token)
    else:
        (_integer if token.lstrip("-").isdigit() else _float)(token)
