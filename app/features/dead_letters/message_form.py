"""Form of an error message: ids and numbers are folded, so that equal faults have equal forms."""

import hashlib
import re
from functools import lru_cache
from itertools import pairwise

# The status of an answer, in the words of the transport: 422 and 503 are different faults.
_STATUS = re.compile(r"\banswered (\d{3})\b")
_MIN_ID = 8
# A whole word of that length with a digit: no other has an id.
_WORD = re.compile(rf"(?<![0-9A-Za-z_-])(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{{{_MIN_ID},}}")
_HEX = re.compile(r"(?:[a-z]{2,5}_)?[0-9a-fA-F]{4,}")
_NUMBER = re.compile(r"\d+(?:[.:,_-]\d+)*")
FOLDED_ID, FOLDED_NUMBER = "…", "#"
MAX_FORM = 200


def status_of(message: str | None) -> int | None:
    """Return the status of the answer in a message."""
    found = _STATUS.search(message or "")
    return int(found[1]) if found else None


@lru_cache(1024)
def form_of(message: str | None) -> str:
    """Return a message with `…` for ids and `#` for numbers."""
    return _NUMBER.sub(FOLDED_NUMBER, _WORD.sub(_folded, message or ""))[:MAX_FORM]


def _folded(found: re.Match[str]) -> str:
    """Fold the ids of a word, such as `exec_18c2a7e09f`, the digits of `order-3f2a9c1d`, or a UUID as a whole."""
    word = found[0]
    if "-" not in word:
        return FOLDED_ID if _is_id(word) else word
    parts = word.split("-")
    if not any(_is_id(part) for part in parts):
        return word
    folded = [FOLDED_ID if _HEX.fullmatch(part) else part for part in parts]
    return "-".join(part for before, part in pairwise(["", *folded]) if not part == before == FOLDED_ID)


def _is_id(part: str) -> bool:
    return len(part) >= _MIN_ID and _HEX.fullmatch(part) is not None and any(map(str.isdigit, part))


def group_id(endpoint: str, error_type: str, message: str | None) -> str:
    """Return the id of a group of dead letters, which is the same in each process."""
    return _hashed(endpoint, error_type, str(status_of(message)), form_of(message))


@lru_cache(1024)
def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
