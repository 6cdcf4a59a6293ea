"""What the lists of processes are asked for."""

from marshmallow import fields

from app.api.http.pagination import PageQuery
from app.stats.processes import ProcessState


class ProcessQuery(PageQuery):
    """Filters of a list of processes."""

    state = fields.Enum(ProcessState, by_value=True)
