"""Chores of rollups: compute closed slots, and delete old ones."""

from app.features.rollups import rollup_slots
from app.features.rollups.rollup_slots import MAX_SLOTS, PRUNES, SHORT_S, kept_seconds
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far, report_progress


def chores(context: ChoreContext) -> list[Chore]:
    settings = context.settings

    def rollup() -> Counts:
        counts = counts_so_far()
        for step in rollup_slots.advance(context.database, settings.rollup_endpoints):
            counts.update({f"slots of {step} s": 1})
            if context.stopping() or counts[f"slots of {SHORT_S} s"] >= MAX_SLOTS:
                break
            report_progress()
        return counts

    def prune_rollups() -> Counts:
        counts = Counts()
        for step, kept_s in kept_seconds(settings.rollup_days).items():
            for prune in PRUNES:
                done = context.delete(prune, {"step": step, "kept_s": kept_s}, work=f"{prune.name} of {step} s")
                counts.update(rollups=done)
        return counts

    return [Chore("rollup", SHORT_S, rollup), Chore("prune_rollups", 600, prune_rollups)]
