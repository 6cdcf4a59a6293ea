"""GET /callbacks/schema: the schema of outcomes, for payload specs."""

from jsonschema import Draft202012Validator

from app.catalog.callback_outcome import OUTCOME_SCHEMA, samples
from schema.states import CallbackEvent
from tests.integration.client import Api
from tests.integration.registered import register


def test_served_schema_is_a_valid_payload_spec_and_matches_all_outcomes(api: Api) -> None:
    schema = api.get("/callbacks/schema").json["schema"]
    assert schema == OUTCOME_SCHEMA
    assert api.post("/payload-specs", {"name": "outcome", "schema": schema}).status_code == 201
    outcomes = Draft202012Validator(OUTCOME_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for event in CallbackEvent:
        for outcome in samples(event):
            outcomes.validate(outcome)
    register(api, "hook", payload_spec="outcome")
    register(api, callbacks=dict.fromkeys(CallbackEvent, "hook"))
