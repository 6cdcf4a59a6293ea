"""`python -m app.scheduler`: reads the settings, builds the chores and runs them until a signal."""

import logging
import os
import sys
import threading
from typing import NoReturn

from app.kernel import db, log
from app.kernel.collector import spare_what_is_there
from app.kernel.config import SettingError, Settings
from app.kernel.db.startup import NotReadyError, wait_until_ready
from app.kernel.metrics import PROCESS
from app.kernel.metrics.group import serving
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.kernel.processes.region import REGION
from app.kernel.tracing.exporting import exporting
from app.kernel.wakeup import WakeupSender
from app.scheduler.chore import ChoreContext
from app.scheduler.chore_conditions import with_conditions
from app.scheduler.chore_plan import plan
from app.scheduler.scheduler_process import SchedulerProcess, StuckError

EXIT_STUCK = 75  # EX_TEMPFAIL of sysexits.h: a supervisor should start the process again
PATIENCE_SECONDS = 0.05  # wait of a chore for a connection in use
GIVE_UP_SECONDS = 5.0  # maximum for the exit of a stuck process


def main() -> int:
    try:
        settings = Settings.from_env(os.environ)
        spans = exporting(settings.traces, "scheduler")
    except SettingError as error:
        return _refuse(str(error))
    log.configure(settings.log_level, settings.log_format)
    PROCESS.endpoints.most = settings.metrics_max_endpoints
    database = db.connect(
        settings.database_url,
        pool_size=settings.db_pool_size or 10,
        application_name="te-scheduler",
        patience_seconds=PATIENCE_SECONDS,
    )
    health = HealthThread(database, Component(REGION, ProcessKind.SCHEDULER))
    process = SchedulerProcess()
    process.catch_signals()
    try:
        for thread in (*serving(settings.scheduler_metrics_addr), *spans):
            thread.start()
        wait_until_ready(database, settings.startup_timeout_seconds, stopping=process.is_stopping)
        health.start()
        hint = WakeupSender(database, settings.wakeup_redis_url).hint
        context = ChoreContext(database, settings, hint=hint, stopping=process.is_stopping, exporting=spans)
        chores = with_conditions(database, plan(context))
        spare_what_is_there()
        return process.run(chores)
    except NotReadyError as error:
        return 0 if process.is_stopping() else _refuse(error.explained)
    except StuckError as error:
        _give_up(error)
    finally:
        for each in spans:
            each.stop()
        health.stop()
        database.close()


def _give_up(error: StuckError) -> NoReturn:
    """Exit at once: a wait for the stalled thread would never end."""
    # The log may be a full pipe without a reader.
    rescue = threading.Timer(GIVE_UP_SECONDS, os._exit, [EXIT_STUCK])
    rescue.daemon = True
    rescue.start()
    logging.getLogger(__name__).critical("the scheduler exits: %s", error)
    logging.shutdown()
    os._exit(EXIT_STUCK)


def _refuse(message: str) -> int:
    sys.stderr.write(f"scheduler: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
