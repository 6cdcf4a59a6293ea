"""Forms from JSON Schemas: fields of each kind, typed texts, and stored inputs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.console.views.input_field import FormField, InputKind, every_field
from app.console.views.schema_form import MAX_FIELDS, form_of
from app.console.views.stored_input import texts_of
from app.console.views.typed_input import typed_input
from app.kernel.formats import MAX_DIGITS
from tests.cases import each_case

ORDER = {
    "type": "object",
    "required": ["order_id", "amount"],
    "properties": {
        "order_id": {"type": "string", "title": "Order", "description": "Id of the order.", "maxLength": 20},
        "amount": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]},
        "currency": {"enum": ["EUR", "USD"], "default": "EUR"},
        "express": {"type": "boolean"},
        "mail": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "wait": {"type": ["string", "integer"]},
        "count_or_name": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "to": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "text": {"type": "string", "maxLength": 20_000},
        "free": {},
    },
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}},
}


def fields_of(schema: Any, typed: dict[str, str] | None = None) -> dict[str, FormField]:
    return {each.pointer: each for each in every_field(form_of(schema, typed or {}))}


def test_each_part_of_a_schema_has_a_field_of_its_kind() -> None:
    found = fields_of(ORDER)
    assert {pointer: field.kind.value for pointer, field in found.items()} == {
        "": "group",
        "/order_id": "text",
        "/amount": "number",
        "/price": "number",
        "/currency": "choice",
        "/express": "choice",
        "/mail": "text",
        "/tags": "lines",
        "/address": "group",
        "/address/city": "text",
        "/lines": "items",
        "/lines/0": "group",
        "/lines/0/sku": "text",
        "/lines/0/count": "number",
        "/headers": "pairs",
        "/wait": "text",
        "/count_or_name": "text",
        "/to": "lines",
        "/text": "text",
        "/free": "json",
    }
    assert [pointer for pointer, field in found.items() if field.is_long] == ["/text"]
    assert (found["/order_id"].label, found["/order_id"].is_required) == ("Order", True)
    assert found["/order_id"].note == "Id of the order. at most 20 characters"
    assert found["/amount"].note == "from 1"
    assert (found["/currency"].choices, found["/currency"].text) == (('"EUR"', '"USD"'), '"EUR"')
    assert found["/mail"].input_type == "email"
    assert found["/express"].choices == ("true", "false")


def test_typed_texts_become_the_input() -> None:
    typed = {
        "input/order_id": "o-1",
        "input/amount": "3",
        "input/price": "2.50",
        "input/currency": '"USD"',
        "input/express": "true",
        "input/tags": "a\n\n b ",
        "input/address/city": "Berlin",
        "items:input/lines": "2",
        "input/lines/0/sku": "x",
        "input/lines/1/sku": "y",
        "input/lines/1/count": "7",
        "input/headers": "X-A: 1\n\nX-B : a:b ",
        "input/wait": "2h",
        "input/count_or_name": "12",
        "input/to": "a",
        "input/free": '{"any": [1]}',
    }
    found = typed_input(form_of(ORDER, typed))
    assert found == (
        {
            "order_id": "o-1",
            "amount": 3,
            "price": 2.5,
            "currency": "USD",
            "express": True,
            "tags": ["a", "b"],
            "address": {"city": "Berlin"},
            "lines": [{"sku": "x"}, {"sku": "y", "count": 7}],
            "headers": {"X-A": "1", "X-B": "a:b"},
            "wait": "2h",
            "count_or_name": 12,
            "to": "a",
            "free": {"any": [1]},
        },
        {},
    )


def test_nothing_typed_is_an_empty_input() -> None:
    assert typed_input(form_of(ORDER | {"properties": {"a": {"type": "string"}}}, {})) == ({}, {})
    assert typed_input(form_of(None, {})) == ({}, {})
    assert typed_input(form_of(None, {"input": '{"a": 1}'})) == ({"a": 1}, {})


class CountedSchema(dict[str, Any]):
    """Schema that counts the fields made of it."""

    made = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.made += name == "title"
        return super().get(name, default)


def test_form_of_a_recursive_schema_ends_at_the_bound_of_fields() -> None:
    schema = CountedSchema(type="object", properties={f"p{number}": {"$ref": "#"} for number in range(7)})
    assert form_of(schema, {}).kind is InputKind.JSON
    assert schema.made <= MAX_FIELDS


@each_case(
    ("name", "text", "fault"),
    [
        ("/amount", "many", "'many' is not a number."),
        ("/amount", "nan", "'nan' is not a number."),
        ("/headers", "a", "Each line must be a name, a colon and a value."),
        ("/headers", "a: 1\na: 2", "'a' is given more than once."),
        ("/currency", '"GBP"', 'Choose one of "EUR", "USD".'),
        ("/free", "{", "Must be JSON. The text is not valid JSON: line 1, column 2: Expecting property name"),
    ],
)
def test_a_text_that_cannot_be_read_is_a_fault_of_its_field(name: str, text: str, fault: str) -> None:
    _, faults = typed_input(form_of(ORDER, {f"input{name}": text}))
    assert faults.keys() == {name}
    assert faults[name].startswith(fault)


@each_case(
    "schema",
    [
        None,
        {"type": "array", "items": {"type": "string"}, "oneOf": []},
        {"type": "object"},
        {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(200)}},
        {"$ref": "#/missing"},
        {"$ref": "#"},
    ],
)
def test_other_schemas_have_one_field_for_json(schema: Any) -> None:
    found = form_of(schema, {"input": "{}"})
    assert (found.kind, found.text, found.name) == (InputKind.JSON, "{}", "input")


def test_a_level_too_deep_is_a_field_for_json() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(6):
        schema = {"type": "object", "properties": {"a": schema}}
    found = fields_of(schema)
    assert [field.kind.value for field in found.values()] == ["group"] * 4 + ["json"]
    recursive = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    assert fields_of(recursive)["/next/next/next/next"].kind is InputKind.JSON


def test_names_with_slashes_and_tildes_keep_their_pointer() -> None:
    schema = {"type": "object", "properties": {"a/b~c": {"type": "string"}}}
    assert typed_input(form_of(schema, {"input/a~1b~0c": "x"})) == ({"a/b~c": "x"}, {})


@given(
    st.fixed_dictionaries(
        {"order_id": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1)},
        optional={
            "amount": st.integers(-(10**30), 10**30),
            "price": st.floats(allow_nan=False, allow_infinity=False),
            "currency": st.sampled_from(["EUR", "USD"]),
            "express": st.booleans(),
            "tags": st.lists(st.sampled_from(["a", "b c", "1"]), min_size=1),
            "address": st.fixed_dictionaries({"city": st.sampled_from(["Köln", "a/b"])}),
            "lines": st.lists(st.fixed_dictionaries({"sku": st.sampled_from(["x", "7"])}), min_size=1, max_size=4),
            "headers": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y: z"]), min_size=1),
            "wait": st.sampled_from(["2h", 3]),
            "to": st.sampled_from(["a", ["a", "b"]]),
            "text": st.sampled_from(["a\nb", "a\n"]),
            "free": st.recursive(st.integers(1 - 10**MAX_DIGITS, 10**MAX_DIGITS - 1) | st.booleans(), st.lists),
        },
    )
)
def test_a_stored_input_is_shown_in_the_form_and_read_again(value: dict[str, Any]) -> None:
    texts = texts_of(ORDER, value)
    assert texts is not None
    assert typed_input(form_of(ORDER, texts)) == (value, {})


_UNTYPED = [{"order_id": "a\r\nb"}, {"text": "\na"}, {"headers": {"a": " x"}}, {"to": ["a"]}, {"wait": "3"}]


@each_case("value", [{"unknown": 1, "order_id": "o"}, {"tags": [""]}, {"lines": [{}]}, {"order_id": ""}, *_UNTYPED])
def test_an_input_that_the_form_cannot_show_has_no_texts(value: Any) -> None:
    assert texts_of(ORDER, value) is None


def test_texts_that_a_field_of_a_browser_would_change_have_a_plain_field() -> None:
    """A browser sends nothing for a text that its field for dates cannot show, and cuts blanks around addresses."""
    schema = {"properties": {name: {"type": "string", "format": name} for name in ("date", "time", "email")}}
    shown = {
        text: fields_of(schema, {f"input/{name}": text})[f"/{name}"].input_type
        for name, text in (
            ("date", ""),
            ("date", "2026-02-28"),
            ("date", "2026-02-30"),
            ("date", "soon"),
            ("time", "08:30:00Z"),
            ("email", "a@b.example"),
            ("email", " c@d.example"),
        )
    }
    assert shown == {
        "": "date",
        "2026-02-28": "date",
        "2026-02-30": "text",
        "soon": "text",
        "08:30:00Z": "text",
        "a@b.example": "email",
        " c@d.example": "text",
    }


def test_choice_between_a_text_and_a_number_alike_keeps_the_number() -> None:
    schema = {"properties": {"size": {"enum": ["1", 1]}}}
    assert typed_input(form_of(schema, {"input/size": "1"})) == ({"size": 1}, {})
    assert typed_input(form_of(schema, {"input/size": '"1"'})) == ({"size": "1"}, {})
