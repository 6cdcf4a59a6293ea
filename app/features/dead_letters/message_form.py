"""Form of an error message: ids and numbers are folded, so that equal faults have equal forms."""

import hashlib
import re
from functools import lru_cache

# The status of an answer, in the words of the transport: app.features.dead_letters groups 422 apart from 503.
_STATUS = re.compile(r"\banswered (\d{3})\b")
_ID = re.compile(r"\b(?:[a-z]{2,5}_)?(?=[0-9a-fA-F-]*\d)[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b")
_NUMBER = re.compile(r"\d+(?:[.:,_-]\d+)*")
FOLDED_ID, FOLDED_NUMBER = "…", "#"
MAX_FORM = 200


def status_of(message: str | None) -> int | None:
    """Return the status of the answer that a message tells of."""
    found = _STATUS.search(message or "")
    return int(found[1]) if found else None


@lru_cache(1024)
def form_of(message: str | None) -> str:
    """Return a message with `…` for ids and `#` for numbers."""
    return _NUMBER.sub(FOLDED_NUMBER, _ID.sub(FOLDED_ID, message or ""))[:MAX_FORM]


def group_id(endpoint: str, error_type: str, message: str | None) -> str:
    """Return the id of a group of dead letters, which is the same in each process."""
    parts = (endpoint, error_type, str(status_of(message)), form_of(message))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
