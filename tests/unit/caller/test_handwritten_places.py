"""Hand-written modules of the client that repeat definitions of the service: each failure names the module."""

import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from client.task_executor_client import AsyncClient, Client, defaults, registration, transaction
from schema.states import EndpointType


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_endpoint_decorator_takes_every_transport(client: type) -> None:
    """If it fails, add the transport to the Literal of `endpoint` in client.py and async_client.py."""
    hint = get_type_hints(inspect.unwrap(client.endpoint), include_extras=True)["type"]
    assert set(get_args(hint)) == {type_.value for type_ in EndpointType}


def test_registration_has_the_spec_of_every_transport() -> None:
    """If it fails, add the transport to SPECS in registration.py: `register()` could not compare its endpoints."""
    assert registration.SPECS.keys() == {type_.value for type_ in EndpointType}
    assert set(registration.SPECS.values()) <= defaults.DEFAULTS.keys()


def test_transaction_passes_every_argument_of_te_enqueue() -> None:
    """If it fails, add the argument to Options and ARGUMENTS in transaction.py, in the order of the function."""
    text = (Path(__file__).parents[3] / "schema/functions/te_enqueue.sql").read_text()
    signature = text[text.index("te_enqueue(\n") : text.index(") RETURNS")]
    arguments = re.findall(r"^  (\w+) (\w+)", signature, re.MULTILINE)
    names = ["endpoint", "input", *(name for name in transaction.Options.__annotations__ if name != "schema")]
    assert arguments == [(name, taken) for name, (_, taken) in zip(names, transaction.ARGUMENTS, strict=True)]
