"""Rows that the ends of executions leave, and the definitions that they follow from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kernel.db.rows import RowValue
from schema.states import CallbackEvent, Resolution


@dataclass(frozen=True, slots=True)
class CallbackRow:
    """A job that reports the end of an attempt to an endpoint."""

    execution_id: str
    """The reported execution."""
    event: CallbackEvent
    attempt: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class LetterRow(RowValue):
    """A row of `dead_letters`."""

    letter_id: str
    execution_id: str
    endpoint: str
    resolution: Resolution | None = None
    redriven_as: str | None = None


@dataclass(frozen=True, slots=True)
class RedriveRow:
    """A row of `redrives`; `refusal` is the latest refusal."""

    redrive_id: str
    endpoint: str
    to_endpoint: str | None
    is_done: bool
    redriven: int
    refused: int = 0
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A row of `notification_groups`: the number of its events, and the job of each channel once it is sent."""

    group_id: str
    rule: str
    events: int
    jobs: Mapping[str, str | None] | None
    """Ids of jobs by channel; None while the group is open."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A notification rule that reports every failed execution of some endpoints."""

    endpoints: frozenset[str]
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Everything that the ends of a run's executions left."""

    callbacks: Mapping[str, Mapping[CallbackEvent, str]] = field(default_factory=dict)
    """Endpoints of callbacks, by event, by the endpoint of the execution."""
    called: tuple[CallbackRow, ...] = ()
    letters: tuple[LetterRow, ...] = ()
    owed: frozenset[str] = frozenset()
    """Ids of letters that were open before an accepted request to redrive them."""
    redrives: tuple[RedriveRow, ...] = ()
    rules: Mapping[str, FailureRule] = field(default_factory=dict)
    """By name."""
    messages: tuple[MessageRow, ...] = ()
