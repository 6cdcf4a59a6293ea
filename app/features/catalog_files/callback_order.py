"""Order of the changes of endpoints, such that the API accepts the callbacks of each. Pure."""

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from app.catalog.endpoints.callback_targets import MAX_STEPS
from app.cli.commands import CommandError

Graph = Mapping[str, Collection[str]]
"""Callback endpoints by endpoint."""


def in_order(now: Graph, wanted: Graph, gone: Iterable[str] = ()) -> list[str]:
    """Return the names of the wanted endpoints in an order of single changes that the API accepts.

    Called endpoints come before their callers, unless a chain of callbacks would be too long in between. `now` has all
    existing endpoints, `gone` the endpoints deleted at the end. Raises CommandError for a loop or too long a chain in
    the result, or if no order avoids them on the way.
    """
    removed = set(gone)
    way = wrong_way({name: called for name, called in now.items() if name not in removed} | dict(wanted))
    if way:
        at = next((name for name in way if wanted.get(name)), way[0])
        is_loop = way[0] == way[-1]
        fault = "they lead back to it" if is_loop else f"more than {MAX_STEPS} callbacks would follow each other"
        raise CommandError(f"/endpoints/{at}/callbacks: {fault}: {' -> '.join(way)}")
    state, order = dict(now), list[str]()
    waiting = [name for name in TopologicalSorter(wanted).static_order() if name in wanted]
    while waiting:
        name = next((name for name in waiting if _can_follow(state, name, wanted[name])), None)
        if name is None:
            raise CommandError(
                f"/endpoints/{waiting[0]}/callbacks: until all is changed and deleted, more than {MAX_STEPS} "
                "callbacks would follow each other: apply the document without some of them first"
            )
        state[name] = wanted[name]
        waiting.remove(name)
        order.append(name)
    return order


def wrong_way(graph: Graph) -> tuple[str, ...]:
    """Return a chain of callbacks that is a loop or too long; an empty tuple if there is none."""
    try:
        calling = {name: called for name, called in graph.items() if called}
        callees_first = list(TopologicalSorter(calling).static_order())
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    ways: dict[str, tuple[str, ...]] = {}
    for name in callees_first:
        ways[name] = (name, *max((ways[called] for called in graph.get(name, ())), key=len, default=()))
    longest = max(ways.values(), key=len, default=())
    return longest if len(longest) > MAX_STEPS + 1 else ()


def _can_follow(state: Graph, name: str, called: Collection[str]) -> bool:
    if set(called) <= set(state.get(name, ())):
        return True  # fewer callbacks than before make no chain longer
    return set(called) <= state.keys() and not wrong_way({**state, name: called})
