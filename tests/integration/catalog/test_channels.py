"""Channels: endpoints that notify people."""

from app.notifications.message import MESSAGE_SCHEMA
from tests.integration.client import Api


def test_the_schema_of_messages_is_served_and_makes_a_payload_spec(api: Api) -> None:
    schema = api.get("/notifications/schema").json["schema"]
    assert schema == MESSAGE_SCHEMA
    assert api.post("/payload-specs", {"name": "message", "schema": schema}).status_code == 201
