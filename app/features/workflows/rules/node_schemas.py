"""Fields of a workflow in requests: valid values, error messages and OpenAPI descriptions."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.catalog.endpoints.live_settings_fields import Ratio, priority_field, queue_field
from app.catalog.specs.spec_fields import TextInOrder, whole
from app.features.workflows.rules.workflow_bounds import MAX_EDGES, MAX_ITEMS, MAX_NODES, MIN_DEADLINE_MS
from app.kernel.described_fields import described
from app.kernel.errors import Detail
from app.kernel.formats import escaped, marshmallow_faults, show_duration
from app.kernel.suggestions import did_you_mean
from app.web.http.request_fields import Body, Delay, Name, SecretName, check_key
from app.web.jobs.labels import labels_field
from schema.inline_bounds import MAX_ATTEMPTS
from schema.job_bounds import MAX_DELAY_MS, MAX_IDEMPOTENCY_KEY, MAX_JOB_NAME
from schema.states import OnFailure, RunIf

MAX_SHOWN = 20  # faults with a suggestion; an answer shows no more faults
_TEMPLATES = (
    "may contain `{{workflow.input.…}}`, `{{workflow.id}}` and `{{parents.NAME.…}}` of nodes before it; with "
    "`for_each` also `{{item}}` and `{{item_number}}`"
)
_PARALLEL = {"description": "items that may run at the same time; no limit when absent", "example": 50}


class ToleranceSchema(Body):
    """Failed items that do not fail their node: `count`, or `percent` of all items."""

    count = whole(0, MAX_ITEMS, **described(example=3))
    percent = Ratio(validate=validate.Range(0, 100), **described(example=1))

    @validates_schema
    def check_single(self, data: Mapping[str, Any], **_: Any) -> None:
        if len(data) != 1:
            raise ValidationError("Must have either `count` or `percent`.")


class CompensationSchema(Body):
    """Job that undoes a job: of a node, of each succeeded item of a list, or of a member of a group."""

    endpoint = Name(required=True, **described(example="resize"))
    input = fields.Dict(
        **described(
            "of its job; may contain `{{workflow.input.…}}`, `{{workflow.id}}`, `{{parents.NAME.…}}`, "
            "`{{node.input.…}}` and `{{node.output.…}}`",
            example={"id": "{{node.output.body.id}}"},
        )
    )


class NewMemberSchema(Body):
    """A member of a group: a job of an endpoint."""

    name = SecretName(required=True, **described(example="small"))
    endpoint = Name(required=True, **described(example="resize"))
    input = fields.Dict(**described(f"of its job; {_TEMPLATES}", example={"width": 64}))
    priority = priority_field(**described("of its job", example=200))
    queue = queue_field(**described("of its job", example="bulk"))
    max_attempts = whole(
        1, MAX_ATTEMPTS, **described("of its job; by the endpoint's retry policy when absent", example=3)
    )
    labels = labels_field()
    delay = Delay(
        **described(
            "time from the start of the node until its job is due; as `delay` of a job, at most "
            f"{show_duration(MAX_DELAY_MS)}"
        )
    )
    compensate = fields.Nested(
        CompensationSchema, **described("undoes the job after a failure with `on_failure: compensate`")
    )


class NewNodeSchema(NewMemberSchema):
    """A node of a workflow.

    With `endpoint` it is a job, with `for_each` too a job for each item. With `group` it is several jobs. With neither
    it is a gate, which succeeds as soon as it starts.
    """

    endpoint = Name(**described("absent for a group and a gate", example="resize"))
    after = fields.List(
        SecretName(),
        validate=validate.Length(max=MAX_EDGES),
        **described("names of the nodes that it waits for", example=["extract"]),
    )
    run_if = fields.Enum(
        RunIf,
        by_value=True,
        **described(
            "`all_succeeded` (default): starts when all nodes in `after` went well; `all_done`: when "
            "they are through; `any_failed`: when they are through and at least one did not go well",
            example="all_succeeded",
        ),
    )
    on_failure = fields.Enum(
        OnFailure, by_value=True, **described("after its failure; that of the workflow when absent", example="stop")
    )
    for_each = fields.Raw(
        **described(
            f"a list, or a template of a list, of at most {MAX_ITEMS:,} items: the node has a job for each item",
            type=["string", "array"],
            example="{{parents.extract.output.body.rows}}",
        )
    )
    group = fields.List(
        fields.Nested(NewMemberSchema),
        validate=validate.Length(1, MAX_ITEMS),
        **described("members: the node is through when all their jobs have ended"),
    )
    tolerate = fields.Nested(ToleranceSchema, **described("of `for_each` and `group`; 0 when absent"))
    max_parallel = whole(1, MAX_ITEMS, metadata=_PARALLEL)


class NewWorkflowSchema(Body):
    """A workflow to create."""

    name = fields.String(
        required=True,
        validate=validate.Length(1, MAX_JOB_NAME),
        **described("for display and filters; need not be unique", example="nightly-report"),
    )
    idempotency_key = TextInOrder(
        validate=[validate.Length(1, MAX_IDEMPOTENCY_KEY), check_key],
        **described(
            "here or in the Idempotency-Key header: a second request with the key gets the first workflow",
            example="report-2026-11-22",
        ),
    )
    labels = labels_field()
    input = fields.Dict(**described("for `{{workflow.input.…}}`", example={"day": "2026-11-22"}))
    on_failure = fields.Enum(
        OnFailure,
        by_value=True,
        **described(
            "after the failure of a node without an own rule: `stop` (default) starts no further node, "
            "except for handlers and clean-up, and the workflow fails; `continue` skips the nodes behind it only; "
            "`compensate` stops, and undoes the succeeded jobs that have `compensate`, the last ended first",
            example="stop",
        ),
    )
    max_parallel = whole(1, MAX_NODES, **described("nodes and items that may run at the same time", example=200))
    deadline = Delay(
        validate=validate.Range(MIN_DEADLINE_MS, error=f"Must be at least {show_duration(MIN_DEADLINE_MS)}."),
        **described(
            "time from the creation until the workflow is stopped as by a cancellation with `abort`, and FAILED",
            example="2h",
        ),
    )
    nodes = fields.List(fields.Nested(NewNodeSchema), required=True, validate=validate.Length(1, MAX_NODES))

    def load(self, data: Any, **_options: Any) -> Any:
        """Return the body unread: `rules.graph` reads it, and finds the faults of the whole graph."""
        return {"body": data}


WORKFLOW = NewWorkflowSchema()


def load_given(schema: Schema, data: Any, pointer: str, faults: list[Detail]) -> dict[str, Any]:
    """Load the given fields of an object and of the objects in its lists, without null; collects all faults.

    Schema.load visits each field of each object, which would take a second for 10,000 nodes.
    """
    if not isinstance(data, dict):
        faults.append(Detail(pointer=pointer, message="Must be an object."))
        return {}
    loaded = {}
    for name, value in data.items():
        field, at = schema.fields.get(name), f"{pointer}/{escaped(name)}"
        if field is None:
            suggestion = did_you_mean(name, schema.fields) if len(faults) < MAX_SHOWN else ""
            faults.append(Detail(pointer=at, message=f"Unknown field.{suggestion}"))
        elif value is not None:
            loaded[name] = _value(field, value, at, faults)
    faults += [
        Detail(pointer=f"{pointer}/{name}", message="Required.")
        for name, field in schema.fields.items()
        if field.required and name not in loaded
    ]
    return {name: value for name, value in loaded.items() if value is not None}


def _value(field: fields.Field[Any], value: Any, pointer: str, faults: list[Detail]) -> Any:
    """Load a value; None, and its faults, if it is not valid."""
    try:
        if isinstance(field, fields.List) and isinstance(field.inner, fields.Nested) and isinstance(value, list):
            for validator in field.validators:
                validator(value)
            schema = field.inner.schema
            return [load_given(schema, each, f"{pointer}/{index}", faults) for index, each in enumerate(value)]
        return field.deserialize(value)
    except ValidationError as error:
        for path, message in marshmallow_faults(error.messages):
            faults.append(Detail(pointer="/".join([pointer, *map(escaped, path)]), message=message))
        return None
