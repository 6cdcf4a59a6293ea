"""Channels: endpoints that notify people: what is refused when one is registered, and trying one out."""

from typing import Any

import pytest

from app.catalog.specs.channel_presets import SCHEMES
from app.features.notifications.message import MESSAGE_SCHEMA
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.registered import INPUT, SCHEMA, created, one_shot, register

TOKEN = "xoxb-1234567890-abcdef"


def channel(url: Any, **fields: Any) -> dict[str, Any]:
    return {"name": "tell", "type": "NOTIFICATION", "spec": {"url": url} | fields}


@pytest.fixture
def named(api: Api) -> Api:
    """An API with a secret `token` and a config `mail`."""
    api.post("/secrets", {"name": "token", "value": TOKEN})
    values = {"user": "a@example.com", "url": f"slack://{TOKEN}/#ops", "hook": "in/9f1Kd0Qz7Lm2Xw4B"}
    api.post("/configs", {"name": "mail", "values": values})
    return api


def test_the_schema_of_messages_is_served_and_makes_a_payload_spec(api: Api) -> None:
    schema = api.get("/notifications/schema").json["schema"]
    assert schema == MESSAGE_SCHEMA
    assert api.post("/payload-specs", {"name": "message", "schema": schema}).status_code == 201
    # What a channel makes of a message by itself is what every message has.
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
def test_secrets_are_placeholders(named: Api, url: Any) -> None:
    answer = named.post("/endpoints", channel(url) | {"config": "mail"})
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert answer.json["spec"]["url"] == url
    assert TOKEN not in answer.get_data(as_text=True)


@each_case(
    ("url", "pointer", "says"),
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
        # Where a service has no place of its own for its token, by what it looks like.
        ("jsons://h/hooks/catch/9f1Kd0Qz7Lm2Xw4B", "/spec/url", "part 3 of the path"),
        ("jsons://h/{{secret.token}}/9f1c2a7e-5b3d-4c1f-8a6e-0d2b4f6a8c1e", "/spec/url", "part 2 of the path"),
        (["json://h/", "json://9f1Kd0Qz7Lm2Xw4B@h/"], "/spec/url/1", "the part before @"),
        ("json://h/?-of=9f1Kd0Qz7Lm2%58w4B", "/spec/url", "the parameter '-of'"),
        ("ntfys://ntfy.example.com/ops-9f1Kd0Qz7Lm2", "/spec/url", "part 1 of the path"),
        ("ntfys://ops-9f1Kd0Qz7Lm2", "/spec/url", "the part after ://"),
        ("json://h/{{config.hook}}", "/spec/url", "part 2 of the path"),
    ],
)
def test_a_secret_that_is_written_as_it_is_is_refused(named: Api, url: Any, pointer: str, says: str) -> None:
    answer = named.post("/endpoints", channel(url) | {"config": "mail"})
    assert answer.status_code == 422
    assert answer.json["error"]["details"][0]["pointer"] == pointer
    assert says in answer.json["error"]["message"]
    assert "POST /secrets" in answer.json["error"]["message"]
    assert not any(secret in answer.get_data(as_text=True) for secret in ("hunter2", "9f1Kd0Qz7Lm2", "9f1c2a7e"))


@pytest.mark.parametrize(
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
def test_what_is_no_channel_is_refused_with_what_is(named: Api, url: str) -> None:
    answer = named.post("/endpoints", channel(["json://h/", url]))
    assert (answer.status_code, answer.json["error"]["details"][0]["pointer"]) == (422, "/spec/url/1")
    assert all(f"{scheme}://" in answer.json["error"]["message"] for scheme in SCHEMES)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("slack://{{secret.token}}/#ops?verify=no", "'verify' is not allowed in a slack:// URL; allowed: none"),
        (
            "mailto://h?to=a@example.com&%61ttach=/etc/passwd",
            "'attach' is not allowed in a mailto:// URL; allowed: bcc,",
        ),
        ("pover://{{secret.token}}@{{secret.token}}?retry=3", "allowed: priority, sound"),
    ],
)
def test_a_parameter_that_a_preset_does_not_have_is_refused(named: Api, url: str, says: str) -> None:
    answer = named.post("/endpoints", channel(url))
    assert (answer.status_code, says in answer.json["error"]["message"]) == (422, True)


@pytest.mark.parametrize("urls", [[], ["json://h/"] * 11, [1], "", None])
def test_there_are_one_to_ten_of_them(api: Api, urls: Any) -> None:
    answer = api.post("/endpoints", channel(urls))
    assert (answer.status_code, answer.json["error"]["details"][0]["pointer"]) == (400, "/spec/url")


def test_a_test_is_a_job_with_a_message_as_its_input(api: Api) -> None:
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
    # A job of one's own may have the same key.
    assert created(api, one_shot("once"))["input"] == INPUT


def test_a_test_needs_an_endpoint_that_takes_messages(api: Api) -> None:
    assert api.post("/endpoints/nobody/test").json["error"]["code"] == "ENDPOINT_NOT_FOUND"
    assert api.post("/payload-specs", {"name": "spec", "schema": SCHEMA}).status_code == 201
    register(api, payload_spec="spec")
    refused = api.post("/endpoints/target/test")
    assert (refused.status_code, refused.json["error"]["code"]) == (422, "INPUT_VALIDATION_FAILED")
