"""Preview of a schedule that is being typed: its rule in English, and its next ten runs."""

from datetime import timedelta

from app.console.http.console_page import Values
from app.console.http.forms import Fields
from app.console.http.page_rendering import now
from app.kernel.errors import TaskExecutorError
from app.schedule import preview
from app.schedule.cron import MAX_CRON, Schedule
from app.schedule.interval import parse_every

RUNS = 10


def preview_of(fields: Fields) -> Values:
    """Return the words and the next runs of the typed rule, or the fault; nothing for an empty rule."""
    found: Values = {"words": "", "next_runs": [], "fault": "", "zone": "", "local_now": None}
    try:
        cron, every = fields.text("cron", longest=MAX_CRON), fields.text("every")
        if not cron and not every:
            return found
        if not cron:
            step = timedelta(milliseconds=parse_every(every))
            runs = [
                preview.NextRun(now() + step * number, now() + step * number, None) for number in range(1, RUNS + 1)
            ]
            return found | {"words": "Counted from the start of the job", "next_runs": runs, "zone": "UTC"}
        schedule = Schedule.parse(cron, fields.text("timezone", "UTC"))
        return found | {
            "words": preview.describe(cron),
            "next_runs": preview.runs(schedule, now(), RUNS),
            "zone": schedule.timezone,
            "local_now": schedule.local(now()),
        }
    except TaskExecutorError as error:
        return found | {"fault": error.details[0]["message"] if error.details else error.message}
