"""Kills of the process, the worker and the database when a frame of their protocol passes."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import product
from typing import Any

import pytest
from task_executor_dramatiq.frames import MessageKey

from app.dev.servers import Postgres
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import IfRunning, cancel_executions
from schema import migrate
from tests import rows
from tests.acceptance.actors.conftest import User, sending
from tests.acceptance.actors.frame_relay import FrameRelay, Passing
from tests.acceptance.actors.frame_scene import Scene
from tests.acceptance.limits import ENDED_SECONDS
from tests.cases import Breaches, choice_of
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only, pytest.mark.sampled, pytest.mark.timeout(3600)]

QUICK, BEHIND = 20, 3  # messages after which the worker sends more in advance, and messages behind an actor
TRIES, DROP_SECONDS = 20, 3.0  # on a busy machine the quick messages are slow
LOST = {"PROCESS_LOST", "WORKER_LOST"}


def connect_again(scene: Scene) -> Iterator[None]:
    scene.hold()
    yield
    scene.relay.cut()
    yield
    scene.release()


def run_a_pipeline(scene: Scene) -> Iterator[None]:
    yield
    scene.sent += Counter(run=1, follow=1)
    (scene.tasks.run.message() | scene.tasks.follow.message()).run()
    yield


def try_again(scene: Scene) -> Iterator[None]:
    yield
    scene.send("again")
    yield


def fail(scene: Scene) -> Iterator[None]:
    yield
    scene.sent["follow"] += 1
    scene.send("fail")
    yield


def stop_the_process(scene: Scene) -> Iterator[None]:
    scene.hold()
    process = scene.process
    yield
    process.send(signal.SIGTERM)
    yield
    scene.release()
    process.wait(ENDED_SECONDS)


def stop_before_a_message(scene: Scene) -> Iterator[None]:
    process = scene.renew_process()  # with a free thread, and a place in advance
    scene.hold()
    scene.send("run")
    scene.wait_for(lambda: scene.trial.statuses() == {"RUNNING": 2}, "the messages in the process")
    yield
    process.send(signal.SIGTERM)
    eventually(lambda: "Shutting down" in process.log.read_text(), what="the stop of the threads")
    scene.release()
    yield
    process.wait(ENDED_SECONDS)


def stop_the_worker(scene: Scene) -> Iterator[None]:
    scene.hold()
    worker = scene.worker
    yield
    worker.send(signal.SIGTERM)
    yield
    scene.release()
    worker.wait(ENDED_SECONDS)


def abort(scene: Scene) -> Iterator[None]:
    scene.hold()
    (execution,) = scene.trial.executions_of("hold")
    yield
    scene.database.transact(
        lambda connection: cancel_executions(
            connection, [execution.execution_id], if_running=IfRunning.ABORT, actor=None
        )
    )
    yield
    scene.release()


def send_many_in_advance(scene: Scene) -> Iterator[None]:
    yield
    for _ in range(TRIES):
        for _ in range(QUICK):
            scene.send("run")
        scene.wait_for(lambda: scene.trial.statuses().keys() == {"SUCCESS"}, "the end of the quick messages")
        scene.hold()
        for _ in range(BEHIND):
            scene.send("run")
        if scene.trap.is_over.wait(DROP_SECONDS):
            break
        scene.release()
    yield
    scene.release()


Script = Callable[[Scene], Iterator[None]]
"""Prepares, yields, lets the frame pass, yields, and lets all messages end after the kill."""

PIPELINE = {("run", "SUCCESS"), ("follow", "SUCCESS")}
HELD = {("hold", "SUCCESS")}
TABLE: dict[Passing, tuple[Script, set[tuple[str, str]]]] = {
    Passing("HELLO", True): (connect_again, HELD),
    Passing("WELCOME", False): (connect_again, HELD),
    Passing("ROOM", True): (connect_again, HELD),
    Passing("MESSAGE", False): (run_a_pipeline, PIPELINE),
    Passing("STARTED", True): (run_a_pipeline, PIPELINE),
    Passing("DONE", True): (run_a_pipeline, PIPELINE),
    Passing("WRITTEN", False): (run_a_pipeline, PIPELINE),
    Passing("AGAIN", True): (try_again, {("again", "SUCCESS")}),
    Passing("FAILED", True): (fail, {("fail", "FAILED"), ("follow", "SUCCESS")}),
    Passing("DROP", False): (send_many_in_advance, {*HELD, ("run", "SUCCESS")}),
    Passing("BACK", True): (stop_before_a_message, {*HELD, ("run", "SUCCESS")}),
    Passing("DRAIN", True): (stop_the_process, HELD),
    Passing("DRAIN", False): (stop_the_worker, HELD),
    Passing("ABORT", False): (abort, {("hold", "CANCELLED")}),
}
CASES = [*product(TABLE, (True, False))]


@pytest.fixture(scope="module")
def durable() -> Iterator[Postgres]:
    """A separate PostgreSQL server with fsync, which the tests kill."""
    with start_or_skip(Postgres()) as server:
        yield server


@pytest.fixture(scope="module")
def module_database_url(durable: Postgres) -> str:
    migrate.upgrade(durable.url)
    return durable.url


@pytest.fixture(scope="module")
def scene(shared_user: User, shared_database: Database, durable: Postgres) -> Iterator[Scene]:
    path = shared_user.sockets / "relay"
    with closing(FrameRelay(path)) as relay:
        shared_user.env["RELAY"] = str(path)
        yield Scene(shared_user, shared_database, durable, relay)


@pytest.mark.parametrize("victim", ["process", "worker", "database"])
def test_kill_at_a_frame_loses_no_message(scene: Scene, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message ends once, and its record has each of its runs; an outcome that is called stored is stored."""
    with sending(scene.user, monkeypatch, "frame_tasks") as scene.tasks, Breaches() as breaches:
        for frame, is_before in choice_of(CASES, len(CASES)):
            with breaches.case(str(frame), "before" if is_before else "after"):
                try:
                    run(scene, frame, victim, is_before=is_before)
                except BaseException:
                    scene.reset()
                    raise


def run(scene: Scene, frame: Passing, victim: str, *, is_before: bool) -> None:
    script, expected = TABLE[frame]
    scene.begin()
    steps = script(scene)
    next(steps)
    scene.kill_at(frame, victim, is_before=is_before)
    next(steps)
    scene.trap.wait()
    scene.revive()
    with suppress(StopIteration):
        next(steps)
    scene.settle()
    check(scene, expected)


def check(scene: Scene, expected: set[tuple[str, str]]) -> None:
    runs, found = Counter(scene.trial.lines()), Counter[tuple[str, str]]()
    for endpoint in {endpoint for endpoint, _ in expected}:
        for execution in scene.trial.executions_of(endpoint):
            found[endpoint, execution.status] += 1
            attempts = rows.attempts(scene.database, execution.execution_id)
            assert [each.attempt_number for each in attempts] == [*range(1, execution.attempt_count + 1)]
            assert runs[f"{endpoint} {execution.idempotency_key}"] <= execution.attempt_count, errors_of(attempts)
            assert {*errors_of(attempts[:-1])} <= {*LOST, "ValueError"}
            for number, error in enumerate(errors_of(attempts), 1):
                check_answer(scene.relay, (execution.execution_id, number), error)
    assert found.keys() == expected
    assert Counter({endpoint: count for (endpoint, _), count in found.items()}) == scene.sent


def errors_of(attempts: Sequence[Any]) -> list[str | None]:
    return [each.error and each.error["type"] for each in attempts]


def check_answer(relay: FrameRelay, key: MessageKey, error: str | None) -> None:
    """Compare the answers of the worker to an outcome with the stored attempt."""
    answers = relay.answers.get(key, [])
    assert answers.count(True) <= 1, (key, answers)
    if True in answers:
        assert error == (None if relay.outcomes[key] == "DONE" else "ValueError"), (key, error)
