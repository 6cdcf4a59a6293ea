"""Channels, endpoints that notify people: invalid channels are refused, and test messages are jobs."""

from typing import Any

import pytest

from app.catalog.specs.channel_presets import SCHEMES
from app.features.notifications.message import MESSAGE_SCHEMA
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import INPUT, SCHEMA, created, one_shot, register

TOKEN = "xoxb-1234567890-abcdef"


def channel(url: Any, **fields: Any) -> dict[str, Any]:
    return {"name": "tell", "type": "NOTIFICATION", "spec": {"url": url} | fields}


@pytest.fixture
def with_secrets(api: Api) -> Api:
    """Create the secret `token` and the config `mail`."""
    api.post("/secrets", {"name": "token", "value": TOKEN})
    values = {"user": "a@example.com", "url": f"slack://{TOKEN}/#ops", "hook": "in/9f1Kd0Qz7Lm2Xw4B"}
    api.post("/configs", {"name": "mail", "values": values})
    return api


def test_served_schema_of_messages_is_a_valid_payload_spec(api: Api) -> None:
    schema = api.get("/notifications/schema").json["schema"]
    assert schema == MESSAGE_SCHEMA
    assert api.post("/payload-specs", {"name": "message", "schema": schema}).status_code == 201
    # The default templates of a channel use only fields that every message has.
    url = "mailto://mail.example.com?to=ops@example.com"
    assert api.post("/endpoints", channel(url) | {"payload_spec": "message"}).status_code == 201


@pytest.mark.parametrize(
    "url",
    [
        "mailtos://{{config.user}}:{{secret.token}}@mail.example.com:465?mode=ssl&to=ops@example.com",
        "{{secret.token}}",
        "slack://{{secret.token}}/#ops/@somebody",
        "pagerduty://{{secret.token}}@{{secret.token}}",
        "tgram://{{secret.token}}/12315544",
        "json://h/hooks/{{secret.token}}?:since=2024-01-31&to=john.doe1984@example.com",
        "ntfy://h/team-alerts-2024-production/2024-q1-kubernetes-3a-alerts",
        "jsons://hooks.example.com/alerts?+Authorization=Bearer {{secret.token}}&:team=ops",
        [
            "ntfy://ntfy-1-7f9c4d5b6-x2/alerts",
            "ntfy://ntfy-alerts",
            "workflows://prod-1.example.com:443/id/{{secret.token}}/",
        ],
    ],
)
def test_secret_parts_of_a_url_may_be_placeholders(with_secrets: Api, url: Any) -> None:
    answer = with_secrets.post("/endpoints", channel(url) | {"config": "mail"})
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert answer.json["spec"]["url"] == url
    assert TOKEN not in answer.get_data(as_text=True)


@each_case(
    ("url", "pointer", "message"),
    [
        ("mailto://me:hunter2@mail.example.com", "/spec/url", "the password"),
        ("mailto://me:{{config.user}}@mail.example.com", "/spec/url", "the password"),
        (f"slack://{TOKEN}/#ops", "/spec/url", "the part after ://"),
        ("slack://{{secret.token}}/B0123ABCD/#ops", "/spec/url", "part 1 of the path"),
        ("{{config.url}}", "/spec/url", "the part after ://"),
        (["json://h/", "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"], "/spec/url/1", "part 1 of the path"),
        ("ntfys://4sSdPq/9LmNo@chat.example.com", "/spec/url", "the part before @"),
        ("pover://abc@{{secret.token}}", "/spec/url", "the part before @"),
        ("workflows://prod.example/id/AbCdEf", "/spec/url", "part 2 of the path"),
        ("json://h/?+X-Api-Key=abc", "/spec/url", "the parameter '+x-api-key'"),
        ("json://h/?%74oken=abc", "/spec/url", "the parameter 'token'"),
        ("json://h/?token={{secret.token}}&token=abc", "/spec/url", "the parameter 'token'"),
        # These services have no fixed part for a token, so a token is recognised by its form.
        ("jsons://h/hooks/catch/9f1Kd0Qz7Lm2Xw4B", "/spec/url", "part 3 of the path"),
        ("jsons://h/{{secret.token}}/9f1c2a7e-5b3d-4c1f-8a6e-0d2b4f6a8c1e", "/spec/url", "part 2 of the path"),
        (["json://h/", "json://9f1Kd0Qz7Lm2Xw4B@h/"], "/spec/url/1", "the part before @"),
        ("json://h/?-of=9f1Kd0Qz7Lm2%58w4B", "/spec/url", "the parameter '-of'"),
        ("ntfys://ntfy.example.com/ops-9f1Kd0Qz7Lm2", "/spec/url", "part 1 of the path"),
        ("ntfys://ops-9f1Kd0Qz7Lm2", "/spec/url", "the part after ://"),
        ("json://h/{{config.hook}}", "/spec/url", "part 2 of the path"),
    ],
)
def test_plain_secret_in_a_url_is_refused(with_secrets: Api, url: Any, pointer: str, message: str) -> None:
    answer = with_secrets.post("/endpoints", channel(url) | {"config": "mail"})
    assert answer.status_code == 422
    assert answer.json["error"]["details"][0]["pointer"] == pointer
    assert message in answer.json["error"]["message"]
    assert "POST /secrets" in answer.json["error"]["message"]
    assert not any(secret in answer.get_data(as_text=True) for secret in ("hunter2", "9f1Kd0Qz7Lm2", "9f1c2a7e"))


@each_case(
    "url",
    [
        "exec://ls",
        "syslog://",
        "dbus://",
        "file:///etc/passwd",
        "https://example.com/hook",
        "x",
        "gotifys://push.example.com/{{secret.token}}",
        "xexec://{{secret.token}}",
    ],
)
def test_unsupported_scheme_is_refused_with_the_allowed_schemes(with_secrets: Api, url: str) -> None:
    answer = with_secrets.post("/endpoints", channel(["json://h/", url]))
    assert (answer.status_code, answer.json["error"]["details"][0]["pointer"]) == (422, "/spec/url/1")
    assert all(f"{scheme}://" in answer.json["error"]["message"] for scheme in SCHEMES)


@each_case(
    ("url", "message"),
    [
        ("slack://{{secret.token}}/#ops?verify=no", "'verify' is not allowed in a slack:// URL; allowed: none"),
        (
            "mailto://h?to=a@example.com&%61ttach=/etc/passwd",
            "'attach' is not allowed in a mailto:// URL; allowed: bcc,",
        ),
        ("pover://{{secret.token}}@{{secret.token}}?retry=3", "allowed: priority, sound"),
    ],
)
def test_parameter_outside_the_preset_is_refused(with_secrets: Api, url: str, message: str) -> None:
    answer = with_secrets.post("/endpoints", channel(url))
    assert (answer.status_code, message in answer.json["error"]["message"]) == (422, True)


@each_case("urls", [[], ["json://h/"] * 11, [1], "", None])
def test_channel_has_1_to_10_urls(api: Api, urls: Any) -> None:
    answer = api.post("/endpoints", channel(urls))
    assert (answer.status_code, answer.json["error"]["details"][0]["pointer"]) == (400, "/spec/url")


def test_channel_test_is_a_job_with_a_message_as_its_input(api: Api) -> None:
    register(api)
    first = api.post("/endpoints/target/test", headers={"Idempotency-Key": "once"})
    assert (first.status_code, first.json["endpoint"], first.json["trigger"]) == (201, "target", "IMMEDIATE")
    assert (first.json["input"]["event"], first.json["execution"]["status"]) == ("test", "QUEUED")
    again = api.post("/endpoints/target/test", headers={"Idempotency-Key": "once"})
    assert (again.status_code, again.json["job_id"]) == (200, first.json["job_id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert api.post("/endpoints/target/test").json["job_id"] != first.json["job_id"]
    waiting = api.post("/endpoints/target/test", headers={"Prefer": "respond-async"})
    assert (waiting.status_code, "Location" in waiting.headers) == (202, True)
    # The keys of tests and the keys of jobs are separate.
    assert created(api, one_shot("once"))["input"] == INPUT


def test_channel_test_needs_an_endpoint_that_accepts_messages(api: Api) -> None:
    assert api.post("/endpoints/nobody/test").json["error"]["code"] == "ENDPOINT_NOT_FOUND"
    assert api.post("/payload-specs", {"name": "spec", "schema": SCHEMA}).status_code == 201
    register(api, payload_spec="spec")
    refused = problem(api.post("/endpoints/target/test"), 422, "INPUT_VALIDATION_FAILED")
    # The request has no body, so no pointer leads to the fault.
    assert pointers(refused) == [""]
    words = "The payload spec of 'target' rejects messages: /user_id: Required. See GET /notifications/schema"
    assert refused["message"] == refused["details"][0]["message"] == f"{words} for their schema."
