"""Chores of rollups: compute closed slots, and delete old slots."""

from app.features.rollups import rollup_slots
from app.features.rollups.rollup_slots import PRUNES, SHORT_S, kept
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far, report_progress


def chores(context: ChoreContext) -> list[Chore]:
    settings = context.settings

    def rollup() -> Counts:
        counts = counts_so_far()
        for step in rollup_slots.advance(context.database, settings.rollup_endpoints):
            counts.update({f"slots of {step} s": 1})
            if context.stopping():
                break
            report_progress()
        return counts

    def prune_rollups() -> Counts:
        counts = Counts()
        for of_length in kept(settings.rollup_days):
            for prune in PRUNES:
                done = context.delete(prune, of_length, work=f"{prune.name} of {of_length['step']} s")
                counts.update(rollups=done)
        return counts

    return [Chore("rollup", SHORT_S, rollup), Chore("prune_rollups", 600, prune_rollups)]
