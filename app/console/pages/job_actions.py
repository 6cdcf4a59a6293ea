"""Actions on one job: run, pause, resume, cancel."""

from app.console.http.actions import Done, action
from app.console.http.forms import form
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.jobs import job_cancellation, run_now
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.reading.execution_queries import get_execution
from app.web.http.conditions import actor
from app.web.http.request_log import trace_of_new_jobs
from app.web.services import services, wake


@action("POST /jobs/<job_id>/run")
def run(job_id: str) -> Done:
    """Run a job now."""
    database = services().database
    execution_id, _ = run_now.run_job(database, job_id, services().shards, actor().name, trace_of_new_jobs())
    wake(get_execution(database, execution_id).queue)
    return Done(f"The job runs now, as execution {execution_id}.")


@action("POST /jobs/<job_id>/pause")
def pause(job_id: str) -> Done:
    """Pause a job."""
    pause_job(services().database, job_id, actor().name)
    return Done("The job is paused: it starts nothing more, and its waiting executions are on hold.")


@action("POST /jobs/<job_id>/resume")
def resume(job_id: str) -> Done:
    """Resume a job."""
    for queue in resume_job(services().database, job_id, services().look_ahead_ms, actor().name):
        wake(queue)
    return Done("The job continues with its next run.")


@action("POST /jobs/<job_id>/cancel")
def cancel(job_id: str) -> Done:
    """Cancel a job."""
    if_running = form().choice("if_running", [each.value for each in IfRunning])
    wanted = IfRunning(if_running) if if_running else None
    job_cancellation.cancel_job(services().database, job_id, if_running=wanted, actor=actor().name)
    return Done("The job is cancelled: it never runs again.")
