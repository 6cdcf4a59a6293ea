"""Places of faults in JSON: in texts of the sender, and not in long ones, where the search would take seconds."""

import json

import pytest

from app.web.http.strict_json import MAX_SEARCHED, decode

FAULT = "NaN and Infinity are not JSON"


@pytest.mark.parametrize(
    ("text", "has_places", "fault"),
    [
        ('{"a":\n NaN}', True, f"line 2, column 2: {FAULT}"),
        ('{"a":\n NaN}', False, FAULT),
        (" " * (MAX_SEARCHED - 3) + "NaN", True, f"line 1, column {MAX_SEARCHED - 2}: {FAULT}"),
        (" " * MAX_SEARCHED + "NaN", True, FAULT),
    ],
)
def test_place_of_a_refused_value(text: str, has_places: bool, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}$"):
        decode(text, has_places=has_places)


@pytest.mark.timeout(60)  # comparing each pair of keys would take a quarter of an hour
def test_repeated_key_of_a_large_object_is_found_at_once() -> None:
    pairs = [f"{json.dumps(str(number))}: 0" for number in range(200_000)]
    with pytest.raises(ValueError, match=r"^an object has the same key twice: '199999'$"):
        decode("{" + ", ".join([*pairs, pairs[-1]]) + "}")
