"""The error codes of an OpenAPI document: those of the operations, and those told at the top."""

import re
from collections.abc import Mapping
from typing import Any

_LINE = re.compile(r"^- (?:\d+ )?`([A-Z][A-Z0-9_]*)`: (.*)$", re.MULTILINE)


def codes_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the codes in the order of the alphabet, and what each of them means."""
    texts = [response["description"] for response in document["components"]["responses"].values()]
    # Of two meanings the first by the alphabet, so that the order of the responses does not matter.
    found = sorted(match for text in [document["info"]["description"], *texts] for match in _LINE.findall(text))
    return dict(sorted(dict(reversed(found)).items()))


def class_of(code: str) -> str:
    """Return the name of the class of a code: JOB_NOT_FOUND is JobNotFoundError."""
    name = "".join(word.capitalize() for word in code.split("_"))
    return name if name.endswith("Error") else f"{name}Error"


def base_of(code: str) -> str:
    """Return the name of its base class."""
    return "NotFoundError" if code.endswith("_NOT_FOUND") else "ApiError"
