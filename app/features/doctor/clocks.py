"""Clocks: how far those of this machine and of all processes are from the database's, by which everything is due."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from app.features.control import process_list
from app.features.control.process_list import Process, ProcessState
from app.features.doctor.finding import Finding, Patient
from app.kernel.processes.clock_offset import read_clocks

TOLERATED = timedelta(seconds=1)
_FIX = (
    "run NTP (chrony, systemd-timesyncd) {where} and on the database; jobs are due by the database's clock, tokens and "
    "logs go by that of the process"
)
_MOST_HOSTS, _MOST_NAMED = 20, 5


def this_machine(patient: Patient) -> Iterator[Finding]:
    """Compare the clocks."""
    clock = read_clocks(patient.database)
    if abs(clock.ahead) > TOLERATED + clock.bound:
        problem = f"this machine's clock is {_distance(clock.ahead)} the database's"
        yield Finding("clocks", problem, _FIX.format(where="here"))


def each_process(patient: Patient) -> Iterator[Finding]:
    """Find the hosts on which the clock of a process was wrong at its last heartbeat, whatever the delay of that."""
    wrong = defaultdict[str, list[Process]](list)
    for process in process_list.read(patient.database, state=ProcessState.ALIVE):
        if _is_wrong(process):
            wrong[process.host].append(process)
    for host in sorted(wrong)[:_MOST_HOSTS]:
        its = wrong[host]
        named = ", ".join(f"{one.kind.value} {one.process_id} (pid {one.pid})" for one in its[:_MOST_NAMED])
        more = ", …" if len(its) > _MOST_NAMED else ""
        worst = max(its, key=lambda one: abs(one.clock_ahead_seconds or 0))
        ahead = timedelta(seconds=worst.clock_ahead_seconds or 0)
        problem = f"the clock of {host} is {_distance(ahead)} the database's: {named}{more}"
        yield Finding("clocks", problem, _FIX.format(where=f"on {host}"))
    if len(wrong) > _MOST_HOSTS:
        yield Finding(
            "clocks", f"the clocks of {len(wrong) - _MOST_HOSTS} more hosts are wrong", _FIX.format(where="there")
        )


def _is_wrong(process: Process) -> bool:
    ahead, bound = process.clock_ahead_seconds, process.clock_bound_seconds
    return ahead is not None and bound is not None and abs(ahead) > TOLERATED / timedelta(seconds=1) + bound


def _distance(ahead: timedelta) -> str:
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return f"{abs(ahead) / timedelta(seconds=1):.1f} s {side}"
