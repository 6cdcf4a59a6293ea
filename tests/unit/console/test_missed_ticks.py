"""Pictures of three ticks: each shows the choice of the scheduler."""

from app.console.views.missed_ticks import picture_of_catch_up, picture_of_overlap
from schema.states import CatchUp, Overlap

THREE = [58, 102, 146]


def test_missed_ticks_start_late_or_are_left_out() -> None:
    all_, latest, none = map(picture_of_catch_up, (CatchUp.ALL, CatchUp.LATEST, CatchUp.NONE))
    assert (all_.late, all_.left_out, len(all_.starts)) == (THREE, [], 5)
    assert (latest.late, latest.left_out, len(latest.starts)) == (THREE[2:], THREE[:2], 3)
    assert (none.late, none.left_out, len(none.starts)) == ([], THREE, 2)
    assert all_.words == "Three runs missed in an outage: all three start after it"
    assert latest.words == "Three runs missed in an outage: the latest starts after it"
    assert none.words == "Three runs missed in an outage: no run starts"


def test_caught_up_runs_start_between_the_outage_and_the_next_tick() -> None:
    picture = picture_of_catch_up(CatchUp.ALL)
    assert picture.starts == sorted(set(picture.starts))
    assert picture.band[1] < picture.starts[1]


def test_ticks_in_a_long_run_start_on_time_or_are_left_out() -> None:
    allow, skip = map(picture_of_overlap, (Overlap.ALLOW, Overlap.SKIP))
    assert (allow.starts[1:4], allow.left_out) == (THREE, [])
    assert (len(skip.starts), skip.left_out) == (2, THREE)
    assert (allow.words[-23:], skip.words[-13:]) == ("all three start on time", "no run starts")
