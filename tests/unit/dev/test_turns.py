"""Order of the test files of a run: the slow files are spread, and none of them is last."""

from tests.turns import spread


def test_slow_files_are_spread_evenly() -> None:
    slow = [f"tests/acceptance/test_{number}.py" for number in range(3)]
    quick = [f"tests/unit/test_{number:02}.py" for number in range(20)]
    turns = spread([*slow, *quick])
    assert sorted(turns.values()) == list(range(23))
    assert [turns[name] for name in slow] == [0, 7, 14]
    assert sorted(quick, key=turns.__getitem__) == quick


def test_files_of_one_kind_keep_their_order() -> None:
    assert spread([]) == {}
    assert spread(["tests/acceptance/test_a.py", "tests/acceptance/test_b.py"]) == {
        "tests/acceptance/test_a.py": 0,
        "tests/acceptance/test_b.py": 1,
    }
