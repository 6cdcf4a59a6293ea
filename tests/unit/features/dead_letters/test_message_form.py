"""Forms of messages: equal faults have equal forms, and different faults do not."""

from app.features.dead_letters.message_form import form_of, group_id, status_of
from tests.cases import each_case


@each_case(
    ("one", "other"),
    [
        ("no answer in 5000 ms", "no answer in 4999 ms"),
        ("order exec_18c2a9f01b2c3d4e is unknown", "order exec_99c2a9f01b2c3d4f is unknown"),
        ("no user 8b9c1d2e-0f1a-4b2c-8d3e-4f5a6b7c8d9e", "no user 11111111-2222-3333-4444-555555555555"),
        ("cannot connect to 10.0.0.1:80", "cannot connect to 10.0.0.27:8080"),
    ],
)
def test_messages_that_differ_in_ids_and_numbers_have_one_form(one: str, other: str) -> None:
    assert form_of(one) == form_of(other)


def test_words_stay() -> None:
    assert form_of("the facade was defaced at deadbeef") == "the facade was defaced at deadbeef"
    assert form_of(None) == ""
    assert form_of("/email is not valid") != form_of("/name is not valid")


def test_status_of_an_answer_makes_a_group() -> None:
    answers = [f"the endpoint answered {status} X; expected: 200" for status in (422, 503)]
    assert [status_of(each) for each in answers] == [422, 503]
    assert form_of(answers[0]) == form_of(answers[1])
    assert group_id("mail", "HTTP_ERROR", answers[0]) != group_id("mail", "HTTP_ERROR", answers[1])
    assert status_of("no answer in 5000 ms") is status_of(None) is None
