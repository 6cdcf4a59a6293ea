"""Tables of cases: all cases run, and every failed case is listed."""

import pytest

from tests.cases import Breaches, each_case


def failure(test: object, **fixtures: object) -> list[str]:
    with pytest.raises(pytest.fail.Exception) as failed:
        test(**fixtures)  # type: ignore[operator]
    return [line for line in str(failed.value).splitlines() if not line.startswith(" ")]


def test_every_failed_case_is_listed() -> None:
    tried = []

    @each_case("number", range(5))
    def is_even(number: int, divisor: int) -> None:
        tried.append(number)
        assert number % divisor == 0, f"{number} is odd"

    breaches = failure(is_even, divisor=2)
    assert tried == list(range(5))
    odd = [line for line in breaches if "odd" in line]
    assert breaches[0] == "breaches: 2"
    assert odd == ["1: AssertionError: 1 is odd", "3: AssertionError: 3 is odd"]


def test_failed_cases_are_named_by_their_ids() -> None:
    @each_case(("text", "number"), [("1", 1), ("x", 2)], ids=["digit", "letter"])
    def is_read(text: str, number: int) -> None:
        assert int(text) == number

    assert failure(is_read)[1].startswith("'letter': ValueError: invalid literal")


def test_case_without_the_expected_error_fails() -> None:
    def try_all() -> None:
        with Breaches() as breaches, breaches.case("digit"), pytest.raises(ValueError, match="x"):
            int("1")

    assert failure(try_all) == ["breaches: 1", "'digit': Failed: DID NOT RAISE ValueError"]


def test_skip_of_a_case_is_listed_and_ends_no_other() -> None:
    tried = []

    @each_case("number", range(2))
    def skip(number: int) -> None:
        tried.append(number)
        pytest.skip("no server")

    assert failure(skip) == ["breaches: 2", "0: Skipped: no server", "1: Skipped: no server"]
    assert tried == [0, 1]


def test_timeout_of_the_test_stops_all_cases() -> None:
    @each_case("number", range(2))
    def hang(number: int) -> None:
        pytest.fail("Timeout (>180.0s) from pytest-timeout.")

    assert failure(hang) == ["Timeout (>180.0s) from pytest-timeout."]


@each_case("number", range(3))
def test_table_without_a_failed_case_passes(number: int, tmp_path: object) -> None:
    assert tmp_path
    assert number < 3
