"""Routes: the first pattern that matches an endpoint's name decides its queue."""

import itertools
import re

import pytest

from app.catalog.routing import Route, queue_for
from app.kernel.config import MAX_ROUTES, SettingError, Settings
from app.kernel.name_patterns import matches
from tests.cases import each_case


def words(alphabet: str, longest: int) -> list[str]:
    return ["".join(each) for length in range(longest + 1) for each in itertools.product(alphabet, repeat=length)]


def test_pattern_matches_like_a_shell_pattern() -> None:
    names = words("ab", 5)
    for pattern in words("ab*?", 5):
        # A slow matcher with backtracking: each star first takes as much as possible.
        expected = re.compile(pattern.replace("*", ".*").replace("?", "."))
        assert all(matches(pattern, name) == bool(expected.fullmatch(name)) for name in names), pattern


def test_pattern_of_many_stars_is_matched_in_bounded_time() -> None:
    """A backtracking matcher would try more divisions of the name than there are atoms in the universe."""
    assert not matches("*a" * 60 + "*b", "a" * 128)
    assert not matches("*a?" * 40 + "*b", "a" * 128)


def test_first_matching_route_decides() -> None:
    routes = [Route("billing-*", "bulk"), Route("billing-eu", "slow"), Route("*", "rest")]
    assert queue_for(routes, "billing-eu") == (0, routes[0])
    assert queue_for(routes, "mail") == (2, routes[2])
    assert queue_for(routes[:2], "mail") is None


def read(text: str) -> tuple[tuple[str, str], ...]:
    return Settings.from_env({"TE_DATABASE_URL": "postgresql://u@h/d", "TE_ROUTES": text}).routes


def test_setting_lists_patterns_and_queues() -> None:
    assert read(" billing-*=bulk, *=redis_stream,") == (("billing-*", "bulk"), ("*", "redis_stream"))
    assert read("") == ()


@each_case(
    "text",
    [
        *("billing", "=bulk", "billing-*=", "Billing-*=bulk", "[a-z]*=bulk", "a.b=bulk", "a=bulk.DQ", "a=1st", "a=b=c"),
        "a" * 129 + "=bulk",
        ",".join(["a=b"] * (MAX_ROUTES + 1)),
    ],
)
def test_malformed_route_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"^TE_ROUTES is not valid: (PATTERN=QUEUE is needed|at most 200 routes)"):
        read(text)
