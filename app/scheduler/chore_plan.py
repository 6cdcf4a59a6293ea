"""Plan of a scheduler: the chores of the kernel and of the features, and their intervals."""

from app.feature import completion_handlers
from app.features import FEATURES
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import CHORE_FAILURES, FAILED
from app.queue.claiming.shards import SURVEY_SECONDS
from app.scheduler.chore import Chore, ChoreContext
from app.scheduler.finding import SAFETY_NETS, SafetyNet
from app.scheduler.materializer import Materializer
from app.scheduler.outbox_chore import Outbox
from app.scheduler.pruner import Pruner, PruningPace
from app.scheduler.reclaimer import Reclaimer
from app.scheduler.upkeep import Promoter, Upkeep

_FAILING = ("reclaim from dead workers", "reclaim of stuck executions", "expire", "repairs")


def plan(context: ChoreContext) -> list[Chore]:
    """Build all chores of one scheduler."""
    PROCESS.begin(FAILED, _FAILING)
    checks = [check for feature in FEATURES for check in feature.checks()]
    nets = [*SAFETY_NETS, *(check for check in checks if isinstance(check, SafetyNet))]
    settings, outbox, upkeep = context.settings, Outbox(context, completion_handlers(FEATURES)), Upkeep(context, nets)
    reclaimer, pruner = Reclaimer(context, outbox), Pruner(context, pace=PruningPace())
    dead_every = min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds)
    chores = [
        Chore("survey of shards", SURVEY_SECONDS, upkeep.survey_shards),
        Chore("materialize", settings.cron_tick_interval_seconds, Materializer(context).materialize),
        Chore("promote", settings.promote_interval_ms / 1000, Promoter(context).promote),
        Chore("reclaim from dead workers", dead_every, reclaimer.reclaim_from_dead_workers),
        Chore("reclaim of stuck executions", settings.reclaim_interval_seconds, reclaimer.reclaim_stuck),
        Chore("outbox", 2, outbox.handle),
        Chore("finish changes", 60, upkeep.finish),
        Chore("repairs", 3600, upkeep.repair),
        Chore("time zones", 60, upkeep.follow_time_zones),
        Chore("prune", 3600, pruner.prune),
        Chore("prune_versions", 3600, pruner.prune_versions),
        Chore("prune_audit", 3600, pruner.prune_audit),
        Chore("prune_configs", 3600, pruner.prune_configs),
        Chore("prune_inline_endpoints", 3600, pruner.prune_inline_endpoints),
        Chore("prune_keys", 3600, pruner.prune_keys),
        Chore("prune_heartbeats", 60, pruner.prune_heartbeats),
        *(chore for feature in FEATURES for chore in feature.chores(context)),
    ]
    PROCESS.begin(CHORE_FAILURES, [chore.name for chore in chores])
    return chores
