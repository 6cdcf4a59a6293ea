"""Forecast of a wait in line."""

from app.console.views.wait_words import wait_in_line
from tests.cases import each_case


@each_case(
    ("ahead", "attempts", "shards", "words"),
    [
        (800, 6000, 1, "about 40.0 s at the present 20.0/s"),
        (800, 6000, 2, "about 1 min 20 s at the present 10.0/s, the share of one of 2 shards"),
        (30, 30, 1, "about 5 min at the present 6.0/min"),
        (3, 0, 1, "its endpoint delivered nothing in the last 5 min that were counted"),
        (0, 6000, 1, ""),
    ],
)
def test_forecast_divides_the_line_by_the_speed_of_its_partition(
    ahead: int, attempts: int, shards: int, words: str
) -> None:
    assert wait_in_line(ahead, attempts, 300, shards=shards) == words
