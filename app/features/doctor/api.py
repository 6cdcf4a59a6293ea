"""/doctor."""

import time
from typing import TYPE_CHECKING, Any

from marshmallow import Schema, fields

from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered
from app.web.openapi.resource import Resource
from app.web.services import services, wake

if TYPE_CHECKING:
    from app.scheduler.finding import Finding

MAX_SECONDS = 5.0  # no check begins later, and a statement that has begun ends by its own timeout

resource = Resource("doctor", "Problems of the database and its rows.", read_scope=Scope.ADMIN)


class FindingSchema(Schema):
    """A problem and its fix."""

    check = fields.String(**answered("area of the problem", example="schedules"))
    problem = fields.String(**answered(example="1 repeating job is overdue, the first for 90 s (job_c72f90ab13de)"))
    fix = fields.String(**answered(example="start a scheduler (`python -m app.scheduler`)"))
    fixable = fields.Boolean(**answered("whether `flask doctor --fix` repairs it"))


class DoctorSchema(Schema):
    """Findings of all checks."""

    findings = fields.List(fields.Nested(FindingSchema), required=True)
    unfinished = fields.List(
        fields.String(),
        **answered(f"checks that {MAX_SECONDS:g} s did not suffice for; `flask doctor` waits for them", example=[]),
    )


@resource.route("GET", "/doctor", returns=DoctorSchema)
def get() -> dict[str, Any]:
    """Find problems of the database and its rows, as `flask doctor` does; repairs nothing."""
    # The modules of the scheduler are loaded by the first use.
    from app.features.doctor import examination  # noqa: PLC0415
    from app.scheduler.chore import ChoreContext  # noqa: PLC0415

    serving, until = services(), time.monotonic() + MAX_SECONDS
    context = ChoreContext(
        serving.database, serving.settings, hint=wake, stopping=lambda: time.monotonic() >= until, until=until
    )
    done = examination.examine(context, examination.checks(serving.features))
    return {"findings": [shape(each) for each in done.findings], "unfinished": done.unfinished}


def shape(each: "Finding") -> dict[str, object]:
    return {"check": each.check, "problem": each.problem, "fix": each.fix, "fixable": each.repair is not None}
