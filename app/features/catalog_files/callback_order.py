"""The order in which the endpoints of a document are changed: each callback is one that the API takes by then. Pure."""

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from app.catalog.endpoints.callback_targets import MOST_STEPS
from app.cli.exit_statuses import CommandError

Graph = Mapping[str, Collection[str]]
"""Whom each endpoint calls back."""


def in_order(now: Graph, wanted: Graph, gone: Iterable[str] = ()) -> list[str]:
    """Return the names of the endpoints that are wanted, in an order in which they can be changed one after the other.

    Those that are called back come before those that call, unless a way of callbacks would be too long meanwhile. `now`
    has all endpoints that there are, of which those `gone` are deleted in the end. Raises CommandError for a loop or
    too long a way in what there will be, or where each order has one meanwhile.
    """
    removed = set(gone)
    _refuse({name: called for name, called in now.items() if name not in removed} | dict(wanted), wanted)
    state, order = dict(now), list[str]()
    waiting = [name for name in TopologicalSorter(wanted).static_order() if name in wanted]
    while waiting:
        name = next((name for name in waiting if _can_follow(state, name, wanted[name])), None)
        if name is None:
            raise CommandError(
                f"/endpoints/{waiting[0]}/callbacks: until all is changed and deleted, more than {MOST_STEPS} "
                "callbacks would follow each other: apply the document without some of them first"
            )
        state[name] = wanted[name]
        waiting.remove(name)
        order.append(name)
    return order


def wrong_way(graph: Graph) -> tuple[str, ...]:
    """Return a way of callbacks that leads back to where it begins, or that is too long; nothing where none is."""
    try:
        callees_first = list(
            TopologicalSorter({name: called for name, called in graph.items() if called}).static_order()
        )
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    ways: dict[str, tuple[str, ...]] = {}
    for name in callees_first:
        ways[name] = (name, *max((ways[called] for called in graph.get(name, ())), key=len, default=()))
    longest = max(ways.values(), key=len, default=())
    return longest if len(longest) > MOST_STEPS + 1 else ()


def _can_follow(state: Graph, name: str, called: Collection[str]) -> bool:
    if set(called) <= set(state.get(name, ())):
        return True  # what has fewer callbacks than before makes no way longer
    return set(called) <= state.keys() and not wrong_way({**state, name: called})


def _refuse(graph: Graph, wanted: Graph) -> None:
    way = wrong_way(graph)
    if not way:
        return
    at = next((name for name in way if wanted.get(name)), way[0])
    said = "they lead back to it" if way[0] == way[-1] else f"more than {MOST_STEPS} callbacks would follow each other"
    raise CommandError(f"/endpoints/{at}/callbacks: {said}: {' -> '.join(way)}")
