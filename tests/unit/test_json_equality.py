"""Equality of JSON values, in the service and in the client: numbers are equal by value, and no number is a boolean."""

from typing import Any

import pytest
from task_executor_client.definition_differences import differing

from app.kernel.formats import is_same_json

DIFFERENT = [(1, True), (0, False), ([0], [False]), ({"a": [1]}, {"a": [True]}), ({"a": None}, {}), ([1, 2], [1])]
SAME = [(1, 1.0), (True, True), ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}), ([], []), (None, None)]


def is_same_to_the_client(one: Any, other: Any) -> bool:
    body = {"name": "e", "type": "HTTP", "spec": {"body_template": one}}
    stored = {"name": "e", "type": "HTTP", "spec": {"body_template": other}, "keep_response": "always"}
    return "spec" not in differing(body, stored)


@pytest.mark.parametrize("is_same", [is_same_json, is_same_to_the_client])
def test_booleans_differ_from_numbers_at_any_depth(is_same: Any) -> None:
    assert [each for each in DIFFERENT if is_same(*each) or is_same(*each[::-1])] == []
    assert [each for each in SAME if not is_same(*each)] == []
