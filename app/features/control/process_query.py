"""Query of the process lists."""

from marshmallow import fields

from app.features.control.process_list import ProcessState
from app.web.http.pagination import PageQuery


class ProcessQuery(PageQuery):
    """Filters of a list of processes."""

    state = fields.Enum(ProcessState, by_value=True)
