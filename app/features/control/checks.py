"""Checks of processes: no scheduler, clocks that are wrong."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from app.features.control import process_list
from app.features.control.process_list import Process, ProcessState
from app.kernel.formats import rfc3339
from app.kernel.processes.clock_offset import RUN_NTP, TOLERATED, distance
from app.kernel.processes.process_heartbeat import ProcessKind
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding

MAX_HOSTS = 20
MAX_NAMED = 5  # processes of a host


def each_process(context: ChoreContext) -> Iterator[Finding]:
    """Find the hosts on which the clock of a process was wrong at its last heartbeat, whatever the delay of that."""
    wrong = defaultdict[str, list[Process]](list)
    for process in process_list.read(context.database, state=ProcessState.ALIVE):
        if _is_wrong(process):
            wrong[process.host].append(process)
    for host in sorted(wrong)[:MAX_HOSTS]:
        its = wrong[host]
        named = ", ".join(f"{one.kind.value} {one.process_id} (pid {one.pid})" for one in its[:MAX_NAMED])
        more = ", …" if len(its) > MAX_NAMED else ""
        worst = max(its, key=lambda one: abs(one.clock_ahead_seconds or 0))
        ahead = timedelta(seconds=worst.clock_ahead_seconds or 0)
        problem = f"the clock of {host} is {distance(ahead)} the database's: {named}{more}"
        yield Finding("clocks", problem, RUN_NTP.format(where=f"on {host}"))
    if len(wrong) > MAX_HOSTS:
        yield Finding(
            "clocks", f"the clocks of {len(wrong) - MAX_HOSTS} more hosts are wrong", RUN_NTP.format(where="there")
        )


def _is_wrong(process: Process) -> bool:
    ahead, bound = process.clock_ahead_seconds, process.clock_bound_seconds
    return ahead is not None and bound is not None and abs(ahead) > TOLERATED / timedelta(seconds=1) + bound


def schedulers(context: ChoreContext) -> Iterator[Finding]:
    """Find that there was a scheduler and that none is alive, before anything is late for it."""
    known = process_list.read(context.database, ProcessKind.SCHEDULER)
    if known and all(each.state is not ProcessState.ALIVE for each in known):
        last = max(known, key=lambda each: each.last_beat_at)
        problem = f"no scheduler is alive; the last one, {last.process_id} on {last.host}, "
        problem += f"{'ended' if last.state is ProcessState.DEAD else 'fell silent'} at {rfc3339(last.last_beat_at)}"
        yield Finding("processes", problem, "start one (`python -m app.scheduler`), better two")
