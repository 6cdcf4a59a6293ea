"""Settlement and advance of a workflow as a small state machine: parents that end, their child, and processes.

Each step is one statement or commit of `app.features.workflows`. A process reads what is committed, statement by
statement, as at READ COMMITTED, and its changes become visible with its commit. It may die at any step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

PARENTS = (0, 1)
PROCESSES = (0, 1)
CHORE = 2  # a scheduler, which does not die
MAX_DEATHS = 1
MAX_REPEATS = 1  # of a settlement that lost its answer


class Process(NamedTuple):
    """Place of a process in its work, and the values that it has read: revision, unreported ends, the child's count.

    In a joint step, `ends` is the parent whose event it handles.
    """

    at: str = "idle"
    revision: int = 0
    ends: frozenset[int] = frozenset()
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """Protective rules; a test disables some at a time to show that they are needed."""

    locks: bool = True  # FOR UPDATE SKIP LOCKED on the row of the workflow
    checks_revision: bool = True  # of the statement that finishes a step
    looks_again: bool = True  # after the commit
    settles_running_only: bool = True  # n.state = 'RUNNING'
    settles_with_event: bool = True  # in the transaction that deletes the completion event
    joins: bool = True  # a settlement is a step, too, if nobody holds the workflow
    has_key: bool = True  # the job's idempotency key is unique
    has_chore: bool = True  # a scheduler continues workflows with work
    compares: bool = True  # it also compares running nodes with their executions
    dies: bool = True


@dataclass(frozen=True, slots=True)
class State:
    """Committed rows, and the processes.

    Attributes:
        events: Completion events of parents in the outbox.
        running: Parents with unsettled ends.
        unreported: Settled ends that no step has reported.
        missing: Parents that have not reported to the child, as its row says.
        status: State of the child.
        jobs: Jobs that the child became.
        lock: The process that holds the row of the workflow.
    """

    events: frozenset[int] = frozenset(PARENTS)
    running: frozenset[int] = frozenset(PARENTS)
    unreported: frozenset[int] = frozenset()
    missing: int = len(PARENTS)
    status: str = "WAITING"
    jobs: int = 0
    revision: int = 0
    lock: int | None = None
    processes: tuple[Process, ...] = (Process(), Process(), Process())
    alive: tuple[bool, ...] = (True, True, True)
    repeats: int = 0


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Yield each possible next step and its state."""
    for number in (*PROCESSES, CHORE):
        if not state.alive[number]:
            continue
        at = state.processes[number].at
        if at == "idle":
            yield from (_chore_steps if number == CHORE else _outbox_steps)(state, number, rules)
        elif at.startswith("settle"):
            yield f"{number} settles", _settled(_moved(state, number, "advance"), {int(at[-1])}, rules)
        else:
            yield from _advance_steps(state, number, rules)
        if rules.dies and number != CHORE and sum(not alive for alive in state.alive) < MAX_DEATHS:
            dead = replace(state, alive=_put(state.alive, number, False))
            yield f"{number} dies", _moved(_unlocked(dead, number), number, "dead")


def _outbox_steps(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """Handle the completion event of a parent; its answer may be lost, so that another process handles it again."""
    for parent in state.events - (_held(state) if rules.locks else frozenset()):
        if rules.joins and parent in state.running and (state.lock is None or not rules.locks):
            held = replace(state, lock=number) if rules.locks else state
            read = {"revision": state.revision, "ends": frozenset({parent})}
            yield f"{number} takes {parent} and reads the workflow", _moved(held, number, "joint child", **read)
        taken = replace(state, events=state.events - {parent})
        if rules.settles_with_event:
            yield f"{number} settles {parent}", _settled(_moved(taken, number, "advance"), {parent}, rules)
            if state.repeats < MAX_REPEATS:
                repeated = replace(state, repeats=state.repeats + 1)
                yield f"{number} settles {parent}, which stays", _settled(repeated, {parent}, rules)
        else:
            yield f"{number} takes {parent}", _moved(taken, number, f"settle {parent}")


def _held(state: State) -> frozenset[int]:
    """Return the parents with events that joint steps have locked."""
    return frozenset().union(*(each.ends for each in state.processes if each.at.startswith("joint")))


def _settled(state: State, parents: set[int], rules: Rules) -> State:
    ended = frozenset(parents & state.running if rules.settles_running_only else parents)
    return replace(state, running=state.running - ended, unreported=state.unreported | ended)


def _chore_steps(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    if rules.has_chore and (state.unreported or state.status == "READY"):
        yield "the chore finds the workflow", _moved(state, number, "advance")
    lost = state.running - state.events
    in_hand = {int(each.at[-1]) for each in state.processes if each.at.startswith("settle")}
    if rules.has_chore and rules.compares and lost - in_hand:
        yield "the chore finds an ended execution", _settled(state, set(lost - in_hand), rules)


def _advance_steps(state: State, number: int, rules: Rules) -> Iterator[tuple[str, State]]:
    process = state.processes[number]
    match process.at:
        case "advance" if rules.locks and state.lock is not None:
            yield f"{number} leaves, because {state.lock} holds the lock", _moved(state, number, "idle")
        case "advance":
            held = replace(state, lock=number) if rules.locks else state
            yield f"{number} reads the workflow", _moved(held, number, "ends", revision=state.revision)
        case "ends":
            yield f"{number} reads the ends", _moved(state, number, "child", ends=state.unreported)
        case "child":
            yield f"{number} reads the child", _moved(state, number, "commit", missing=state.missing)
        case "joint child":
            yield f"{number} reads the child", _moved(state, number, "joint commit", missing=state.missing)
        case "joint commit" if process.ends <= state.events & state.running:
            left = replace(state, events=state.events - process.ends, running=state.running - process.ends)
            yield from _commit(state, number, rules, left)
        case "joint commit":
            yield f"{number} finds the event handled", _moved(_unlocked(state, number), number, "idle")
        case "commit":
            yield from _commit(state, number, rules, state)
        case "look":
            work = state.unreported or state.status == "READY"
            again = "advance" if rules.looks_again and work else "idle"
            yield f"{number} looks again", _moved(state, number, again)


def _commit(state: State, number: int, rules: Rules, settled: State) -> Iterator[tuple[str, State]]:
    """FINISH: nothing of the step becomes true if the revision is over, and the step begins again.

    `settled` is the state with the settlement of a joint step, which is undone, too, and done alone.
    """
    process, after = state.processes[number], _unlocked(settled, number)
    starts = state.status == "WAITING" and process.missing - len(process.ends) == 0
    if not process.ends:
        yield f"{number} has nothing to do", _moved(after, number, "idle")
    elif rules.checks_revision and process.revision != state.revision:
        at = "idle" if process.at == "joint commit" else "advance"
        yield f"{number} was overtaken", _moved(_unlocked(state, number), number, at)
    else:
        made = replace(
            after,
            revision=state.revision + 1,
            unreported=state.unreported - process.ends,
            missing=process.missing - len(process.ends),
            status="RUNNING" if starts else state.status,
            jobs=state.jobs + (starts and not (rules.has_key and state.jobs)),
        )
        yield f"{number} commits", _moved(made, number, "look")


def _unlocked(state: State, number: int) -> State:
    return replace(state, lock=None) if state.lock == number else state


def _moved(state: State, number: int, at: str, **read: object) -> State:
    kept = state.processes[number] if at.endswith(("ends", "child", "commit")) else Process()
    return replace(state, processes=_put(state.processes, number, kept._replace(at=at, **read)))


def _put(items: tuple, place: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:place], item, *items[place + 1 :])


def breach_of(state: State, rules: Rules) -> str | None:
    """Name the invariant that a state breaks."""
    if state.jobs > 1:
        return "the child became two jobs"
    if state.jobs and (state.running or state.unreported):
        return "the child started before both ends were reported"
    if state.missing != len(state.running | state.unreported):
        return "the child's count is wrong"
    if not state.jobs and next(steps(state, replace(rules, dies=False)), None) is None:
        return "the child never starts"
    return None
