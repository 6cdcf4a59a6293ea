"""Transports: each has a spec and a dispatcher; its rules and defaults are declared by the fields of the spec."""

from pathlib import Path

import pytest
from marshmallow import Schema, fields

import app.catalog.specs
import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import DISPATCHERS
from app.catalog.specs import TRANSPORTS
from app.catalog.specs.spec_fields import milliseconds, templated, text
from app.catalog.specs.transport import Example, Transport
from app.catalog.templates.compilation import CONFIG, FieldKind
from schema.states import EndpointType

ROOT = Path(app.catalog.specs.__file__).parents[3]


@pytest.mark.parametrize("folder", ["app/catalog/specs", "actors/dispatch"])
def test_every_endpoint_type_has_its_modules(folder: str) -> None:
    """Modules are found by the name of the queue; this test lists missing files without an import."""
    wanted = [f"{folder}/{endpoint_type.queue}.py" for endpoint_type in EndpointType]
    assert [path for path in wanted if not (ROOT / path).exists()] == []


def test_every_endpoint_type_has_a_dispatcher() -> None:
    """If it fails, add the transport to DISPATCHERS, in actors.dispatch."""
    assert DISPATCHERS.keys() == set(EndpointType)


def transport(spec: Schema) -> Transport:
    example = Example(name="parrot", spec={})
    return Transport(title="", noun="", target=str, spec=spec, output=Schema(), errors=(), examples=(example,))


def test_defaults_and_rules_come_from_the_fields() -> None:
    class Spec(Schema):
        words = templated(text(required=True), FieldKind.LINE, CONFIG)
        loud = fields.Boolean(load_default=False)
        timeout_ms = milliseconds(load_default=1)

    made = transport(Spec())
    assert made.defaults == {"loud": False, "timeout_ms": 1}
    assert {name: rule.kind for name, rule in made.rules.items()} == {"words": FieldKind.LINE}


def test_spec_without_a_time_limit_is_refused_at_import() -> None:
    class ParrotSpec(Schema):
        timeout_ms = milliseconds()

    with pytest.raises(TypeError, match="ParrotSpec declares no timeout_ms with a default"):
        transport(ParrotSpec())


@pytest.mark.parametrize("endpoint_type", TRANSPORTS)
def test_examples_of_a_transport_are_valid_specs(endpoint_type: EndpointType) -> None:
    for example in TRANSPORTS[endpoint_type].examples:
        assert TRANSPORTS[endpoint_type].spec.validate(example.spec) == {}
