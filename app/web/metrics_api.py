"""/metrics: metrics of the API processes, for Prometheus."""

from flask import Response

from app.kernel.metrics.group import GROUP
from app.kernel.metrics.scrape_server import CONTENT_TYPE
from app.web.openapi.resource import Resource, text_answer

resource = Resource("metrics", "Metrics for Prometheus.")

EXAMPLE = """\
# HELP task_executor_tasks_scheduled_total Jobs created, by their trigger.
# TYPE task_executor_tasks_scheduled_total counter
task_executor_tasks_scheduled_total{trigger="IMMEDIATE"} 412.0
"""


@resource.route("GET", "/metrics", returns=None, text=text_answer(CONTENT_TYPE, EXAMPLE))
def metrics() -> Response:
    """Get the metrics of the API processes since the start of the server, in Prometheus's text format.

    Workers and schedulers serve their metrics at addresses of their own.
    """
    return Response(GROUP.text(), content_type=CONTENT_TYPE)
