"""Rules of templates: variables that a field of a spec may hold, and rendering of the field."""

from dataclasses import dataclass
from enum import Enum, auto

INPUT = frozenset({"input"})
CONFIG = frozenset({"config"})
SECRET = frozenset({"secret"})
ALL = INPUT | CONFIG | SECRET


class FieldKind(Enum):
    """Rendering of a field."""

    VALUE = auto()  # any JSON; a sole placeholder keeps its type
    TEXT = auto()  # always a string
    LINE = auto()  # a string without control characters: nothing can end a header early
    URL = auto()  # a URL whose scheme, host and port the input cannot change
    LOCATOR = auto()  # a URL of one of several schemes; the dispatcher reads the rest
    COUNT = auto()  # a whole number from 1


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Rendering of one field, and the namespaces of the variables that the field may hold."""

    kind: FieldKind
    namespaces: frozenset[str]
    schemes: frozenset[str] = frozenset()  # of a URL or a locator


NOT_TEMPLATED = FieldRule(FieldKind.VALUE, frozenset())
