"""Hand-written modules of the client that repeat definitions of the service: each failure names the module."""

import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from client.task_executor_client import AsyncClient, Client, defaults, definition_differences, transaction_call
from schema.states import EndpointType


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_endpoint_decorator_takes_every_transport(client: type) -> None:
    """If it fails, add the transport to the Literal of `endpoint` in client.py and async_client.py."""
    hint = get_type_hints(inspect.unwrap(client.endpoint), include_extras=True)["type"]
    assert set(get_args(hint)) == {type_.value for type_ in EndpointType}


def test_registration_has_the_spec_of_every_transport() -> None:
    """If it fails, add the transport to SPECS in definition_differences.py, so that `register()` can compare."""
    assert definition_differences.SPECS.keys() == {type_.value for type_ in EndpointType}
    assert set(definition_differences.SPECS.values()) <= defaults.DEFAULTS.keys()


OPTIONS = [name for name in transaction_call.Options.__annotations__ if name != "schema"]
SEND_OPTIONS = [name for name in transaction_call.SendOptions.__annotations__ if name not in {*OPTIONS, "schema"}]


@pytest.mark.parametrize(
    ("function", "names", "arguments"),
    [
        ("te_enqueue", ["endpoint", "input", *OPTIONS], transaction_call.ARGUMENTS),
        ("te_send", ["url", "body", *SEND_OPTIONS, *OPTIONS], transaction_call.SEND_ARGUMENTS),
    ],
)
def test_transaction_passes_every_argument(
    function: str, names: list[str], arguments: tuple[tuple[str, str], ...]
) -> None:
    """If it fails, add the argument to the options and arguments in transaction_call.py, in the function's order."""
    text = (Path(__file__).parents[3] / f"schema/functions/{function}.sql").read_text()
    signature = text[text.index(f"{function}(\n") : text.rindex(") RETURNS TABLE")]
    found = re.findall(r"^  (\w+) (\w+)", signature, re.MULTILINE)
    assert found == [(name, taken) for name, (_, taken) in zip(names, arguments, strict=True)]


def test_unknown_option_of_a_call_in_a_transaction_is_refused_with_the_remedy() -> None:
    for option, remedy in (("idempotancy_key", "'idempotency_key'"), ("cron", "te.send"), ("zzz", "known options: ")):
        with pytest.raises(TypeError, match=remedy):
            transaction_call.sending("https://shop.example", None, {option: "x"})  # type: ignore[misc]
        with pytest.raises(TypeError, match=remedy):
            transaction_call.enqueuing("mail", None, {option: "x"})  # type: ignore[misc]
