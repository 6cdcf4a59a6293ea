"""Order of the test files of a run: the slow files are spread, and none of them is last."""

from pathlib import Path

from tests.turns import LONGEST, spread

ROOT = Path(__file__).parents[3]


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


def test_longest_files_are_the_first_of_the_slow_ones() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
    others = [f"tests/acceptance/test_{number}.py" for number in range(9)]
    turns = spread([*others, *LONGEST])
    assert max(turns[name] for name in LONGEST) < min(turns[name] for name in others)
