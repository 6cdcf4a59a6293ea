"""The files of a run are spread, each once, and none of the slow ones is at its end."""

from tests.turns import spread


def test_the_slow_files_are_spread_among_the_others() -> None:
    slow = [f"tests/acceptance/test_{number}.py" for number in range(3)]
    others = [f"tests/unit/test_{number:02}.py" for number in range(20)]
    turns = spread([*slow, *others])
    assert sorted(turns.values()) == list(range(23))
    assert [turns[name] for name in slow] == [0, 7, 14]
    assert sorted(others, key=turns.__getitem__) == others


def test_some_of_one_kind_are_taken_too() -> None:
    assert spread([]) == {}
    assert spread(["tests/acceptance/test_a.py", "tests/acceptance/test_b.py"]) == {
        "tests/acceptance/test_a.py": 0,
        "tests/acceptance/test_b.py": 1,
    }
