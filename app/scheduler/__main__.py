"""`python -m app.scheduler`: reads the settings, builds the chores and runs them until a signal."""

import os
import sys
from datetime import timedelta

from app import db, log
from app.config import SettingError, Settings
from app.db import Database
from app.db.ready import NotReadyError, wait_until_ready
from app.scheduler.exhaust import Exhaust
from app.scheduler.materialize import Materialize
from app.scheduler.process import Every, SchedulerProcess
from app.scheduler.promote import Promote
from app.scheduler.prune import Prune
from app.scheduler.prune_audit import PruneAudit
from app.scheduler.reclaim import Reclaim
from app.scheduler.retire import Retire
from app.wakeup import Notifier

DAY_MS = 24 * 3600 * 1000


def main() -> int:
    """Run the scheduler; returns the exit status."""
    try:
        settings = Settings.from_env(os.environ)
    except SettingError as error:
        return _refuse(str(error))
    log.configure(settings.log_level, settings.log_format)
    database = db.connect(settings.database_url, pool_size=settings.db_pool_size or 10, application_name="te-scheduler")
    process = SchedulerProcess()
    process.catch_signals()
    try:
        wait_until_ready(database, settings.startup_timeout_seconds, stopping=process.is_stopping)
        return process.run(_plan(settings, database, process))
    except NotReadyError as error:
        return 0 if process.is_stopping() else _refuse(error.message)
    finally:
        database.close()


def _plan(settings: Settings, database: Database, process: SchedulerProcess) -> list[Every]:
    shards = settings.shards(cockroach=database.is_cockroach)
    ahead_ms = int(settings.look_ahead_seconds * 1000)
    stuck_ms = int(settings.stuck_timeout_seconds * 1000)
    retention_ms = int(settings.retention_days * DAY_MS)
    audit_ms = int(settings.audit_retention_days * DAY_MS)
    hint, stopping = Notifier.over(database, settings.wakeup_redis_url).hint, process.is_stopping
    materialize = Materialize(
        database,
        shards=shards,
        ahead_ms=ahead_ms,
        batch=settings.cron_batch_size,
        grace=timedelta(seconds=settings.misfire_grace_seconds),
        hint=hint,
        stopping=stopping,
    )
    promote = Promote(database, shards=shards, ahead_ms=ahead_ms, hint=hint, stopping=stopping)
    dead = Reclaim.from_dead_workers(database, hint=hint, stopping=stopping)
    stuck = Reclaim.of_stuck(database, stuck_ms=stuck_ms, hint=hint, stopping=stopping)
    return [
        Every(settings.cron_tick_interval_seconds, materialize),
        Every(settings.promote_interval_ms / 1000, promote),
        Every(min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds), dead),
        Every(settings.reclaim_interval_seconds, stuck),
        Every(60, Retire(database, stopping=stopping)),
        Every(300, Exhaust(database, stopping=stopping)),
        Every(3600, Prune(database, shards=shards, retention_ms=retention_ms, stopping=stopping)),
        Every(3600, PruneAudit(database, retention_ms=audit_ms, stopping=stopping)),
    ]


def _refuse(message: str) -> int:
    sys.stderr.write(f"scheduler: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
