"""Queues of a key: a process gets the messages of these queues only."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.actor_service import working_key
from actors.dispatch.actor import freest
from actors.dispatch.actor_link.peer import Peer
from actors.dispatch.actor_link.process_session import Session
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import ForbiddenError

ACTORS: Sequence[Mapping[str, Any]] = [{"name": "mail", "queue": "mails"}, {"name": "pay", "queue": "money"}]


class Ring:
    """Keys with their scopes as text."""

    def verify(self, presented: str, is_flooded: object) -> Key:
        return Key("id", "shop", frozenset(presented.split(",")))


def session_with(*scopes: str) -> Session:
    """Return the session of a process that has registered all its actors, maybe in other queues than now."""
    session = Session("s", {}, Peer(None, None, None, Key("id", "shop", frozenset(scopes)) if scopes else None))
    session.describe({"actors": ACTORS, "threads": 2})
    session.serve(RegisteredActors({"mail": "mail", "pay": "pay"}))
    for each in ACTORS:
        session.set_room({"queue": each["queue"], "places": 2})
    session.transport = object()  # type: ignore[assignment] - any connection
    return session


@pytest.mark.parametrize(
    ("scopes", "open_", "closed"),
    [
        (["actors:work:mails"], ["mails"], ["money", "Mails", "mails2"]),
        (["actors:work:m*", "read"], ["mails", "money"], ["default"]),
        (["actors:work:Other.?ueue"], ["Other.Queue"], ["OtherXQueue"]),
        (["actors:work:mails", "actors:work"], ["mails", "money"], []),
        (["admin"], ["mails"], []),
        (["jobs:write:mails", "read"], [], ["mails"]),
    ],
)
def test_key_works_for_the_queues_of_its_patterns(scopes: list[str], open_: list[str], closed: list[str]) -> None:
    key = Key("id", "shop", frozenset(scopes))
    assert [queue for queue in [*open_, *closed] if key.may_work(queue)] == open_


def test_worker_admits_a_key_of_some_queues_and_no_other() -> None:
    for scopes in ("actors:work:mails", "actors:work", "admin"):
        assert working_key(Ring(), scopes).name == "shop"
    with pytest.raises(ForbiddenError, match="'actors:work' or 'actors:work:QUEUE'"):
        working_key(Ring(), "read,jobs:write")


def test_message_goes_to_no_process_with_a_key_of_other_queues() -> None:
    """Also of an actor that had another queue when the process registered it."""
    sessions = [session_with("actors:work:mails")]
    assert freest(sessions, "mail", "mails") is sessions[0]
    assert freest(sessions, "mail", "money") is None
    sessions.append(session_with())
    assert freest(sessions, "mail", "money") is sessions[1]


def test_refused_actor_has_no_places() -> None:
    session = session_with("actors:work:mails")
    session.serve(RegisteredActors({"mail": "mail", "pay": "pay"}, {"pay": "closed"}))
    assert set(session.places.endpoints) == {"mail"}
    assert session.refused == {"pay": "closed"}


def test_process_with_some_queues_starts_jobs_of_its_own_actors_and_of_its_scopes() -> None:
    limited = session_with("actors:work:mails", "jobs:write:bill-*")
    assert [name for name in ("mail", "pay", "bill-x", "other") if limited.may_start(name)] == ["mail", "pay", "bill-x"]
    for unlimited in (session_with(), session_with(Scope.ACTORS_WORK), session_with(Scope.ADMIN)):
        assert unlimited.may_start("other")
