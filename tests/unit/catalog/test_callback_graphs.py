"""Callback graph: no order of registrations creates a loop, and nothing else is refused."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.endpoints.callback_targets import CALLERS, MAX_STEPS, Callbacks, check, longest_path_to, merged
from app.kernel.errors import InvalidCallbackError
from schema.states import CallbackEvent

NAMES = [f"e{number}" for number in range(12)]
EVENTS = [event.value for event in CallbackEvent]
CALLBACKS = st.dictionaries(st.sampled_from(EVENTS), st.sampled_from(NAMES) | st.none())


class Registry(dict[str, Callbacks]):
    """Endpoints in memory, with a `fetch` that answers like the database."""

    def fetch(self, query: object, params: Mapping[str, Any]) -> Sequence[Any]:
        names = (
            params["names"] if query is not CALLERS else [at for name in params["names"] for at in self.callers(name)]
        )
        target = {"endpoint_type": "HTTP", "spec": {"url": "http://h/"}, "schema_json": None}
        return [SimpleNamespace(name=name, callbacks=self[name], **target) for name in sorted(set(names))]

    def callers(self, name: str) -> list[str]:
        return [each for each, callbacks in self.items() if name in merged(None, callbacks).values()]

    def change(self, name: str, callbacks: Callbacks) -> None:
        before = longest_path_to(self.fetch, name)  # type: ignore[arg-type]
        check(self.fetch, name, callbacks, before=before)  # type: ignore[arg-type]
        self[name] = callbacks

    def steps_from(self, name: str) -> int:
        """Return the length of the longest chain of callbacks from an endpoint; the graph has no loop."""
        return max((1 + self.steps_from(target) for target in merged(None, self[name]).values()), default=0)

    def steps_to(self, name: str) -> int:
        """Return the length of the longest chain of callbacks to an endpoint."""
        return max((1 + self.steps_to(caller) for caller in self.callers(name)), default=0)

    def reaches(self, start: str, end: str) -> bool:
        return start == end or any(self.reaches(target, end) for target in merged(None, self[start]).values())


@given(st.lists(st.tuples(st.sampled_from(NAMES), CALLBACKS), max_size=40))
def test_no_order_of_registrations_creates_a_loop(changes: list[tuple[str, dict[str, str | None]]]) -> None:
    registry = Registry((name, {}) for name in NAMES)
    for name, callbacks in changes:
        named = merged(None, callbacks).values()
        steps = max((1 + registry.steps_to(name) + registry.steps_from(target) for target in named), default=0)
        loops = any(registry.reaches(target, name) for target in named)
        try:
            registry.change(name, callbacks)
        except InvalidCallbackError:
            assert loops or steps > MAX_STEPS
        else:
            assert not loops
            assert steps <= MAX_STEPS
    list(TopologicalSorter({name: set(merged(None, each).values()) for name, each in registry.items()}).static_order())


@pytest.mark.parametrize("numbers", [range(12), range(11, -1, -1)], ids=["from the beginning", "from the end"])
def test_no_order_of_registrations_creates_a_chain_that_is_too_long(numbers: Sequence[int]) -> None:
    """Each endpoint calls the next two, so that shorter chains exist beside the longest."""
    registry, refused = Registry((name, {}) for name in NAMES), list[str]()
    for number in numbers:
        following = dict(zip(EVENTS, NAMES[number + 1 : number + 3], strict=False))
        try:
            registry.change(NAMES[number], following)
        except InvalidCallbackError as error:
            refused.append(error.message)
    assert refused
    assert all(f"More than {MAX_STEPS} callbacks would follow each other" in message for message in refused)
    assert max(map(registry.steps_from, NAMES)) == MAX_STEPS


def test_error_lists_the_endpoints_of_a_loop() -> None:
    registry = Registry(a={}, b={"on_success": "c"}, c={"on_failure": "a"})
    with pytest.raises(InvalidCallbackError, match="a -> b -> c -> a") as refused:
        check(registry.fetch, "a", {"on_attempt_failed": "b"})  # type: ignore[arg-type]
    assert refused.value.details[0]["pointer"] == "/callbacks/on_attempt_failed"


def test_callbacks_of_a_job_override_the_callbacks_of_its_endpoint() -> None:
    of_version = {"on_success": "a", "on_failure": "b"}
    assert merged(of_version, {"on_failure": None, "on_attempt_failed": "c"}) == {
        CallbackEvent.ON_SUCCESS: "a",
        CallbackEvent.ON_ATTEMPT_FAILED: "c",
    }
    assert merged(None, None) == {}
