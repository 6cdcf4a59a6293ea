"""Workflows: a definition, from which each execution starts a workflow (app.features.workflows)."""

from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import fields, validate

from app.catalog.specs.spec_fields import DescribedValue, milliseconds, templated, whole
from app.catalog.specs.transport import Example, Outcome, Transport
from app.catalog.templates.compilation import FieldKind
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema
from schema.states import OnFailure

_NOTHING = frozenset[str]()


def named_endpoints(nodes: Any) -> Iterator[str]:
    """Yield the endpoints that the nodes of a body or of a stored spec name; skips values of another shape."""
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict):
            jobs = [job for job in (node, *(node.get("group") or ())) if isinstance(job, dict)]
            undoing = [job["compensate"] for job in jobs if isinstance(job.get("compensate"), dict)]
            names = [job.get("endpoint") for job in (*jobs, *undoing)]
            yield from (name for name in names if isinstance(name, str))


def _accept(_value: Any) -> None:
    """Accept any value: app.features.workflows.definitions checks it with its pointers."""


def _target(_spec: Mapping[str, Any]) -> str:
    return "workflow"


class WorkflowSpec(StrictSchema):
    """`spec` of a workflow endpoint: fields of `POST /workflows`, whose `input` is the input of the job."""

    nodes = templated(
        DescribedValue(
            _accept,
            {"type": "array", "items": {"type": "object"}, "minItems": 1},
            required=True,
            **described("as `nodes` of `POST /workflows`", example=[{"name": "a", "endpoint": "b"}]),
        ),
        FieldKind.OPAQUE,
        _NOTHING,
    )
    on_failure = fields.String(validate=validate.OneOf([each.value for each in OnFailure]))
    max_parallel = whole(1, 10_000)
    deadline = DescribedValue(
        _accept, {"type": ["string", "integer"]}, **described("time from the start, such as `2h`", example="2h")
    )
    output = templated(
        DescribedValue(
            _accept,
            {},
            **described(
                "JSON with variables, the body of the output of the execution; when absent, the states "
                "of the last nodes",
                example={"report": "{{parents.publish.output.body.id}}"},
            ),
        ),
        FieldKind.OPAQUE,
        _NOTHING,
    )
    timeout_ms = milliseconds(
        load_default=30_000, **described("time to store the workflow; `deadline` bounds its nodes")
    )


class WorkflowOutput(Outcome):
    """The workflow of an execution, and its output."""

    workflow_id = fields.String(required=True, **described(example="wf_18ec39ac366652fed74d06b9af1ba11a"))
    body = fields.Raw(required=True, **described(example={"publish": "SUCCEEDED"}))


TRANSPORT = Transport(
    title="workflows",
    noun="a workflow",
    target=_target,
    spec=WorkflowSpec(),
    output=WorkflowOutput(),
    errors=("WORKFLOW_FAILED", "TIMEOUT"),
    examples=(
        Example(
            name="nightly-report",
            spec={
                "nodes": [
                    {
                        "name": "mail",
                        "endpoint": "send-welcome-email",
                        "input": {"user_id": "{{workflow.input.user_id}}"},
                    },
                    {"name": "push", "endpoint": "push-notification", "after": ["mail"]},
                ],
                "deadline": "2h",
            },
            retry_policy={"max_attempts": 1},
        ),
    ),
)
