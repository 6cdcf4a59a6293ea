"""Cron expressions: accepted syntax, and syntax that is refused although croniter accepts it."""

import pytest

from app.kernel.errors import InvalidCronError
from app.schedule.cron_expression import WORDS, CronExpression
from tests.cases import each_case


@each_case(
    ("text", "name", "values"),
    [
        ("0,30 * * * *", "minutes", (0, 30)),
        ("*/20 * * * *", "minutes", (0, 20, 40)),
        ("5/20 * * * *", "minutes", (5, 25, 45)),
        ("59/15 * * * *", "minutes", (59,)),
        ("10-20/5,3 * * * *", "minutes", (3, 10, 15, 20)),
        ("0 9-9 * * *", "hours", (9,)),
        ("0 22-23,0-1 * * *", "hours", (0, 1, 22, 23)),
        ("0 0 29-31 * *", "days", (29, 30, 31)),
        ("0 0 * jan-Mar,DEC *", "months", (1, 2, 3, 12)),
        ("0 0 * * 0", "weekdays", (0,)),
        ("0 0 * * 7", "weekdays", (0,)),
        ("0 0 * * 5-7", "weekdays", (0, 5, 6)),
        ("0 0 * * FRI-SUN", "weekdays", (0, 5, 6)),
        ("0 0 * * sun-tue", "weekdays", (0, 1, 2)),
        ("0 0 * * MON-FRI/2", "weekdays", (1, 3, 5)),
        ("0 0 * * */2", "weekdays", (0, 2, 4, 6)),
        ("\t0  0 *\t* MON ", "weekdays", (1,)),
    ],
)
def test_field_is_parsed(text: str, name: str, values: tuple[int, ...]) -> None:
    assert getattr(CronExpression.parse(text), name) == values


@pytest.mark.parametrize("word", WORDS)
def test_word_stands_for_its_fields(word: str) -> None:
    assert CronExpression.parse(f" {word.title()} ") == CronExpression.parse(WORDS[word])


@each_case(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "0 0 12 * * ? 2030",
        "@reboot",
        "@every 5m",
        "0 0 L * *",
        "0 0 15W * *",
        "0 0 * * 1#2",
        "0 0 * * L5",
        "0 0 ? * MON",
        "H H * * *",
        "R * * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 0 *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * MON *",
        "0 0 * * JAN",
        "0 0 * * MONDAY",
        "0 9-5 * * *",
        "0 0 * * FRI-MON",
        "*/0 * * * *",
        "*/90 * * * *",
        "*/5-7 * * * *",
        "*-5 * * * *",
        "-5 * * * *",
        "1.5 * * * *",
        "1,,2 * * * *",
        ",1 * * * *",
        "٣ * * * *",
        "0\u00a00 * * *",
        "0 0 * * *\n",
        "0 0 * * *\x00",
        f"{','.join(['1'] * 300)} * * * *",
    ],
)
def test_invalid_expression_is_refused_with_the_accepted_syntax(text: str) -> None:
    with pytest.raises(InvalidCronError, match="minute \\(0-59\\), hour") as caught:
        CronExpression.parse(text)
    assert caught.value.details[0]["pointer"] == "/cron"


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 */2"])
def test_expression_that_never_fires_is_refused(text: str) -> None:
    with pytest.raises(InvalidCronError, match="never fires"):
        CronExpression.parse(text)


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("0 0 13 * FRI", True),
        ("0 0 * * FRI", False),
        ("0 0 13 * *", False),
        ("0 0 1-7 * */7", False),
        ("0 0 */2 * MON", False),
        ("0 0 1-31 * MON", True),
        ("0 0 31 2 MON", True),
    ],
)
def test_either_day_field_suffices_unless_one_begins_with_a_star(text: str, *, either: bool) -> None:
    assert CronExpression.parse(text).either_day is either
