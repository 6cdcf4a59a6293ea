"""Checks of processes: a missing scheduler, wrong clocks, and different time zone rules."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from operator import attrgetter

from app.features.control import store
from app.features.control.store import Process, ProcessState
from app.kernel.formats import numbered, rfc3339
from app.kernel.processes.clock_offset import RUN_NTP, TOLERATED, distance
from app.kernel.processes.process_heartbeat import ProcessKind
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding, listed

MAX_HOSTS = 20


def each_process(context: ChoreContext) -> Iterator[Finding]:
    """Find the hosts on which the clock of a process was wrong at its last heartbeat, beyond the error bound."""
    wrong = defaultdict[str, list[tuple[float, Process]]](list)
    for process in store.processes(context.database, state=ProcessState.ALIVE):
        ahead, bound = process.clock_ahead_seconds or 0.0, process.clock_bound_seconds or 0.0
        if abs(ahead) > TOLERATED / timedelta(seconds=1) + bound:
            wrong[process.host].append((ahead, process))
    for host in sorted(wrong)[:MAX_HOSTS]:
        named = [f"{process.kind.value} {process.process_id} (pid {process.pid})" for _, process in wrong[host]]
        worst = max((ahead for ahead, _ in wrong[host]), key=abs)
        off = distance(timedelta(seconds=worst))
        problem = f"the clock of {host} is {off} the database's: {listed(named)}"
        yield Finding("clocks", problem, RUN_NTP.format(where=f"on {host}"))
    if len(wrong) > MAX_HOSTS:
        problem = f"on {numbered(len(wrong) - MAX_HOSTS, 'more host')} the clock is wrong"
        yield Finding("clocks", problem, RUN_NTP.format(where="there"))


def time_zone_rules(context: ChoreContext) -> Iterator[Finding]:
    """Find live processes that compute the ticks of cron jobs by different versions of the time zone rules."""
    users = defaultdict[str, list[str]](list)
    for process in store.processes(context.database, state=ProcessState.ALIVE):
        if process.tzdata_version is not None:
            name = f"{process.kind.value} {process.process_id} on {process.host}"
            users[process.tzdata_version].append(name)
    if len(users) > 1:
        versions = [f"{version} in {listed(users[version])}" for version in sorted(users)]
        fix = "install one version of tzdata for all processes (constraints.txt has it), and restart them"
        yield Finding("time zones", f"processes use different versions of tzdata: {'; '.join(versions)}", fix)


def schedulers(context: ChoreContext) -> Iterator[Finding]:
    """Find that there was a scheduler and that none is alive, before anything is late for it."""
    known = store.processes(context.database, ProcessKind.SCHEDULER)
    if known and all(each.state is not ProcessState.ALIVE for each in known):
        last = max(known, key=attrgetter("last_beat_at"))
        problem = f"no scheduler is alive; the last one, {last.process_id} on {last.host}, "
        problem += f"{'ended' if last.state is ProcessState.DEAD else 'fell silent'} at {rfc3339(last.last_beat_at)}"
        yield Finding("processes", problem, "start one (`python -m app.scheduler`), better two")
