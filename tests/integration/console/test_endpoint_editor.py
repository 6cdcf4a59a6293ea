"""Editor of an endpoint: faults at their fields, changes before they are saved, and edits of two people."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.views.typed_definition import PARTS
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.console.visitor import Markup, Visitor

PAGE, ONE = "/console/endpoints/send-mail/edit", "/console/endpoints/send-mail"
SAVE = "/console/do/put/endpoints/send-mail"
SPEC = '{"url": "https://x.example/", "timeout_ms": %s}'
LIMITS = {"max_in_flight": 7}


@pytest.fixture
def endpoint(api: Api, database: Database) -> str:
    definition = {"name": "send-mail", "type": "HTTP", "spec": {"url": "https://x.example/", "timeout_ms": 5000}}
    assert api.post("/endpoints", definition | {"limits": LIMITS, "callbacks": None}).status_code == 201
    return "send-mail"


class Editor:
    """A person with the form, and its hidden fields of the latest answer."""

    def __init__(self, app: Flask) -> None:
        self.visitor = Visitor(app, Scope.ADMIN)
        self.hidden = self.visitor.form(PAGE, SAVE)
        self._sent = 0

    def send(self, do: str, status: int, **fields: str) -> str:
        """Send the form, with its parts as JSON where their text is given; returns the page that answers."""
        self._sent += 1
        as_json = {f"as:{part}": "json" for part in PARTS if part in fields}
        once = {"once": f"{id(self)}-{self._sent}"}
        answer = self.visitor.send(
            SAVE, {**self.hidden, "keep_response": "always", "do": do, **fields, **as_json, **once}
        )
        body = answer.get_data(as_text=True)
        assert answer.status_code == status, body
        if status == 303:
            return self.visitor.get(answer.headers["Location"])
        shown = Markup(body)
        assert shown.faults == []
        (self.hidden,) = (each["fields"] for each in shown.forms if each["action"] == SAVE)
        return body


@pytest.fixture
def editor(app: Flask, endpoint: str) -> Editor:
    return Editor(app)


def test_changes_are_shown_before_they_are_saved(app: Flask, api: Api, database: Database, editor: Editor) -> None:
    rows.add_executions(database, 3, endpoint="send-mail")
    shown = editor.send("check", 200, spec=SPEC % 9000, retry_policy='{"max_attempts": 7}')
    parts = (
        "spec.timeout_ms",
        ">5000<",
        ">9000<",
        "retry_policy.max_attempts",
        "3 waiting executions",
        "Save version 2",
    )
    assert [part for part in parts if part not in shown] == []
    assert api.get("/endpoints/send-mail").json["version"] == 1
    assert "Version 2 is in effect" in editor.send("save", 303, spec=SPEC % 9000, retry_policy='{"max_attempts": 7}')
    found = api.get("/endpoints/send-mail").json
    kept = (found["version"], found["spec"]["timeout_ms"], found["retry_policy"]["max_attempts"], found["limits"])
    assert kept == (2, 9000, 7, LIMITS)


def test_text_that_differs_from_the_shown_changes_is_shown_first(api: Api, editor: Editor) -> None:
    editor.send("check", 200, spec=SPEC % 9000)
    assert ">8000<" in editor.send("save", 200, spec=SPEC % 8000)
    assert api.get("/endpoints/send-mail").json["version"] == 1


@each_case(
    ("fields", "field", "message"),
    [
        ({"spec": "{"}, "spec", "The text is not valid JSON"),
        ({"spec": ""}, "spec", "url: Required."),
        ({"spec": SPEC % '"soon"'}, "spec", "timeout_ms: "),
        ({"spec": '{"url": "https://x.example/{{secret.nobody}}"}'}, "spec", "url: "),
        ({"retry_policy": '{"max_attempts": 0}'}, "retry_policy", "max_attempts: "),
        ({"callbacks": '{"on_failure": "nobody"}'}, "callbacks", "nobody"),
        ({"payload_spec": "nobody"}, "payload_spec", "There is no payload spec named"),
        ({"config": "nobody"}, "config", "There is no config named"),
    ],
)
def test_fault_stands_at_its_field(editor: Editor, fields: dict[str, str], field: str, message: str) -> None:
    shown = editor.send("check", 422, **{"spec": SPEC % 9000, **fields})
    note = shown.split(f'id="n-{field}">', 1)[1].partition("</p>")[0]
    assert message in note
    assert shown.count('aria-invalid="true"') == 1
    assert "Save version" not in shown


def test_edit_of_two_people_is_refused_and_shows_the_changes_of_the_first(app: Flask, api: Api, editor: Editor) -> None:
    second = Editor(app)
    for each, timeout in ((editor, 9000), (second, 7000)):
        each.send("check", 200, spec=SPEC % timeout)
    editor.send("save", 303, spec=SPEC % 9000)
    refused = second.send("save", 412, spec=SPEC % 7000)
    parts = ("Not saved", "visitor saved version 2", "What was changed meanwhile", ">5000<", ">9000<", ">7000<")
    assert [part for part in parts if part not in refused] == []
    assert api.get("/endpoints/send-mail").json["spec"]["timeout_ms"] == 9000
    assert "Version 3" in second.send("save", 303, spec=SPEC % 7000), "now that it has seen the changes"


def test_pause_after_the_form_was_opened_is_kept(api: Api, editor: Editor) -> None:
    editor.send("check", 200, spec=SPEC % 9000)
    assert api.post("/endpoints/send-mail/pause", {}).status_code == 200
    assert "Its definition is as it was" in editor.send("save", 412, spec=SPEC % 9000)
    assert "Version 2" in editor.send("save", 303, spec=SPEC % 9000)
    assert api.get("/endpoints/send-mail").json["paused_at"] is not None


def test_null_and_true_are_changes(api: Api, editor: Editor) -> None:
    """The version of the other is stored with a value that Python or a reader could take for the same."""
    body = SPEC[:-1] % 5000 + ', "body_template": {"a": %s}}'
    editor.send("check", 200, spec=body % 1)
    editor.send("save", 303, spec=body % 1)
    second = Editor(editor.visitor.app)
    for value in ("true", '1, "reason": null'):
        assert "Save version 3" in second.send("check", 200, spec=body % value)
    second.send("save", 303, spec=body % '1, "reason": null')
    editor.hidden["base"] = "2"
    refused = editor.send("save", 412, spec=body % 1)
    assert "visitor saved version 3" in refused
    assert "Its definition is as it was" not in refused


def test_page_that_answers_leaves_nothing(api: Api, database: Database, editor: Editor) -> None:
    """The check of callbacks counts a change of them, so that changes come one after another."""
    alert = {"name": "alert", "type": "HTTP", "spec": {"url": "https://alert.example/"}}
    assert api.post("/endpoints", alert).status_code == 201
    rows_of = text("SELECT id, revision, (SELECT count(*) FROM idempotency_keys) FROM catalog_revision ORDER BY id")
    typed = {"spec": SPEC % 9000, "callbacks": '{"on_failure": "alert"}'}
    before = database.fetch(rows_of)
    editor.send("check", 200, **typed)
    editor.send("check", 422, **typed, config="nobody")
    editor.send("check", 200, **typed)
    hidden = editor.hidden
    assert database.fetch(rows_of) == before
    assert api.post("/endpoints/send-mail/pause", {}).status_code == 200
    before = database.fetch(rows_of)
    editor.hidden = hidden
    editor.send("save", 412, **typed)
    assert database.fetch(rows_of) == before
    editor.send("save", 303, **typed)
    assert database.fetch(rows_of) != before


def test_editor_needs_the_scope_to_change_endpoints(app: Flask, api: Api, endpoint: str) -> None:
    reader = Visitor(app, Scope.READ)
    assert PAGE not in reader.get(ONE)
    reader.get(PAGE, 403)
    assert PAGE in Visitor(app, Scope.ADMIN).get(ONE)


def test_definition_of_a_url_cannot_change(app: Flask, api: Api) -> None:
    name = api.post("/jobs", {"url": "https://x.example/"}).json["endpoint"]
    visitor = Visitor(app, Scope.ADMIN)
    assert "/edit" not in visitor.get(f"/console/endpoints/{name}").split("<main", 1)[1]
    assert "its definition cannot change" in visitor.get(f"/console/endpoints/{name}/edit", 409)


FIELDS = {"spec/url": "https://x.example/", "spec/timeout_ms": "5000"}


def test_form_has_the_fields_of_the_transport_with_their_values(editor: Editor) -> None:
    shown = editor.visitor.get(PAGE)
    parts = (
        'id="f-spec/url" name="spec/url" type="text" value="https://x.example/"',
        'id="f-spec/timeout_ms" name="spec/timeout_ms" type="text" value="5000"',
        "Empty: 30000",
        'name="spec/signing/secret"',
        'name="retry_policy/max_attempts"',
        'name="callbacks/on_failure"',
    )
    assert [part for part in parts if part not in shown] == []
    assert 'name="spec/topic"' not in shown
    unchanged = editor.send("check", 200, **FIELDS)
    assert "Nothing has changed." in unchanged, "an empty field is left out, as the definition leaves it out"


def test_typed_fields_become_the_next_version(api: Api, editor: Editor) -> None:
    typed = {
        **FIELDS,
        "spec/method": '"PUT"',
        "spec/headers": "X-Team: billing\nX-Url: https://a.example:8/",
        "spec/body_template": '{"user": "{{input.user}}"}',
        "spec/expected_status_codes": "200\n204",
        "retry_policy/max_attempts": "7",
    }
    assert "spec.headers" in editor.send("check", 200, **typed)
    editor.send("save", 303, **typed)
    found = api.get("/endpoints/send-mail").json
    assert found["spec"] == {
        "url": "https://x.example/",
        "timeout_ms": 5000,
        "method": "PUT",
        "headers": {"X-Team": "billing", "X-Url": "https://a.example:8/"},
        "body_template": {"user": "{{input.user}}"},
        "expected_status_codes": [200, 204],
    }
    assert (found["retry_policy"]["max_attempts"], found["callbacks"]) == (7, None)


@each_case(
    ("fields", "field", "message"),
    [
        ({"spec/url": ""}, "spec/url", "Required."),
        ({"spec/url": "ftp://x"}, "spec/url", "Must start with http://"),
        ({"spec/url": "https://x.example/{{secret.nobody}}"}, "spec/url", "nobody"),
        ({"spec/timeout_ms": "soon"}, "spec/timeout_ms", "is not a number"),
        ({"spec/timeout_ms": "0"}, "spec/timeout_ms", "Must be from 1 to"),
        ({"spec/headers": "X-Team"}, "spec/headers", "a colon and a value"),
        ({"spec/headers": "a: 1\na: 2"}, "spec/headers", "given more than once"),
        ({"spec/headers": "A b: 1"}, "spec/headers", "A b: Must be a valid header name"),
        ({"spec/body_template": "{"}, "spec/body_template", "The text is not valid JSON"),
        ({"spec/signing/secret": "plain"}, "spec/signing/secret", "Must be one {{secret.NAME}} placeholder"),
        ({"spec/expected_status_codes": "200\n7"}, "spec/expected_status_codes", "1: Must be from 100 to 599"),
        ({"retry_policy/max_attempts": "0"}, "retry_policy/max_attempts", "Must be"),
        ({"retry_policy/delays_ms": "100"}, "retry_policy/delays_ms", "Only with backoff"),
        ({"callbacks/on_failure": "nobody"}, "callbacks/on_failure", "nobody"),
    ],
)
def test_fault_stands_at_the_field_of_its_pointer(
    editor: Editor, fields: dict[str, str], field: str, message: str
) -> None:
    shown = editor.send("check", 422, **{**FIELDS, **fields})
    note = shown.split(f'id="n-{field}">', 1)[1].partition("</p>")[0]
    assert message in note
    assert shown.count('aria-invalid="true"') == 1
    assert "Save version" not in shown


def test_part_is_shown_as_json_and_back(api: Api, editor: Editor) -> None:
    as_json = editor.send("json:spec", 200, **FIELDS)
    assert "&#34;timeout_ms&#34;: 5000" in as_json
    assert 'name="spec/url"' not in as_json
    assert 'name="retry_policy/max_attempts"' in as_json
    fields = editor.send("fields:spec", 200, spec=SPEC % 8000)
    assert 'name="spec/timeout_ms" type="text" value="8000"' in fields
    refused = editor.send("fields:spec", 422, spec='{"url": "https://x.example/", "speed": 1}')
    assert "The form has no field for some of this" in refused
    assert "&#34;speed&#34;: 1" in refused


def test_definition_that_the_form_cannot_show_is_json(app: Flask, api: Api, endpoint: str) -> None:
    body = {"type": "HTTP", "spec": {"url": "https://x.example/", "headers": {"X-Note": " spaces "}}}
    assert api.send("PUT", "/endpoints/send-mail", json=body).status_code == 200
    shown = Editor(app).visitor.get(PAGE)
    assert "&#34;X-Note&#34;: &#34; spaces &#34;" in shown
    assert 'name="retry_policy/max_attempts"' in shown
