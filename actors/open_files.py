"""Limit of open files: raised, or found too low, before the first delivery."""

import resource

from app.config import SettingError, Settings

# Connections to the database besides the pool, to the source of hints and to Kafka's brokers, idle ones to targets,
# lookups of names, the loop's own, pipes to Dramatiq's parent, certificates that are being read.
RESERVE = 128
DEFAULT_POOL_SIZE = 10


def ensure_open_files(settings: Settings) -> None:
    """Raise the soft limit as far as the deliveries of this process need it; raises SettingError when it cannot be.

    A process without descriptors fails deliveries that nothing else was wrong with, and spends their attempts.
    """
    needed = settings.worker_max_concurrent + (settings.db_pool_size or DEFAULT_POOL_SIZE) + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SettingError(
            f"TE_WORKER_MAX_CONCURRENT={settings.worker_max_concurrent} needs {needed} open files, and the hard limit "
            f"of this process (RLIMIT_NOFILE, ulimit -Hn) is {hard}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
