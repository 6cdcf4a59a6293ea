"""Plan of a scheduler: the chores of the kernel and of the features."""

from app.feature import completion_handlers
from app.features import FEATURES
from app.scheduler.chore import Chore, ChoreContext
from app.scheduler.chores import kernel_chores
from app.scheduler.finding import SafetyNet
from app.scheduler.safety_nets import SAFETY_NETS


def plan(context: ChoreContext) -> list[Chore]:
    """Build all chores of one scheduler."""
    checks = [check for feature in FEATURES for check in feature.checks()]
    nets = [*SAFETY_NETS, *(check for check in checks if isinstance(check, SafetyNet))]
    of_features = (chore for feature in FEATURES for chore in feature.chores(context))
    return [*kernel_chores(context, completion_handlers(FEATURES), nets), *of_features]
