"""Error codes of an OpenAPI document, from its responses and its introduction."""

import re
from collections.abc import Mapping
from typing import Any

_LINE = re.compile(r"^- (?:\d+ )?`([A-Z][A-Z0-9_]*)`: (.*)$", re.MULTILINE)

_WITH_STATUS = re.compile(r"^- (\d+) `([A-Z][A-Z0-9_]*)`", re.MULTILINE)


def codes_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the sorted codes with their meanings."""
    texts = [response["description"] for response in document["components"]["responses"].values()]
    # If a code has two meanings, the alphabetically first wins, independent of the order of responses.
    found = sorted(match for text in [document["info"]["description"], *texts] for match in _LINE.findall(text))
    return dict(sorted(dict(reversed(found)).items()))


def statuses_of(document: Mapping[str, Any]) -> dict[str, int]:
    """Return the HTTP status of each code."""
    found = {code: int(status) for status, code in _WITH_STATUS.findall(document["info"]["description"])}
    for name in document["components"]["responses"]:
        status, *codes = name.split("-")
        found |= dict.fromkeys(codes, int(status))
    return found


def class_of(code: str) -> str:
    """Return the class name of a code: JobNotFoundError for JOB_NOT_FOUND."""
    name = "".join(word.capitalize() for word in code.split("_"))
    return name if name.endswith("Error") else f"{name}Error"


def base_of(code: str) -> str:
    """Return the class name of the base of a code's class."""
    return "NotFoundError" if code.endswith("_NOT_FOUND") else "ApiError"
