"""/metrics: what all processes of the API have counted, for Prometheus."""

from flask import Response

from app.kernel.metrics.exposition import CONTENT_TYPE
from app.kernel.metrics.process_metrics import EXPOSITION
from app.web.openapi.resource import Resource

resource = Resource("metrics", "What was counted, for Prometheus.")


EXAMPLE = """\
# HELP task_executor_tasks_scheduled_total Jobs created, by their trigger.
# TYPE task_executor_tasks_scheduled_total counter
task_executor_tasks_scheduled_total{trigger="IMMEDIATE"} 412.0
"""


@resource.route("GET", "/metrics", returns=None, text=CONTENT_TYPE, text_example=EXAMPLE)
def metrics() -> Response:
    """Tell what the processes of the API have counted since they were started together, in Prometheus's text format.

    Workers and schedulers tell it at addresses of their own.
    """
    return Response(EXPOSITION.text(), content_type=CONTENT_TYPE)
