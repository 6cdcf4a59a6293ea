"""Rules of templates: which variables a field of a spec may hold, and how it is rendered."""

from dataclasses import dataclass
from enum import Enum, auto

INPUT = frozenset({"input"})
CONFIG = frozenset({"config"})
SECRET = frozenset({"secret"})
ALL = INPUT | CONFIG | SECRET


class Kind(Enum):
    """How a field is rendered."""

    VALUE = auto()  # any JSON; a sole placeholder keeps its type
    TEXT = auto()  # always a string
    LINE = auto()  # a string without control characters: nothing can end a header early
    URL = auto()  # a URL whose scheme, host and port the input cannot change
    LOCATOR = auto()  # a URL of one of several schemes; all after the scheme is read by who sends
    COUNT = auto()  # a whole number from 1


@dataclass(frozen=True, slots=True)
class Rule:
    """How one field is rendered, and the namespaces of the variables that it may hold."""

    kind: Kind
    namespaces: frozenset[str]
    schemes: frozenset[str] = frozenset()  # of a URL or a locator


NOT_TEMPLATED = Rule(Kind.VALUE, frozenset())
