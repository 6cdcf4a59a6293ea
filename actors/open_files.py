"""Limit of open files: raised, or found too low, before the first delivery."""

import resource

from actors.dispatch.connector import ADDRESSES_AT_ONCE
from app.kernel.config import SettingError, Settings
from brokers.sharing.quota import max_claims

# Connections to the database besides the pool, to the source of hints and to Kafka's brokers, idle ones to targets,
# lookups of names, the loop's own, pipes to Dramatiq's parent, certificates that are being read.
RESERVE = 128
DEFAULT_POOL_SIZE = 10


def ensure_open_files(settings: Settings) -> None:
    """Raise the soft limit as far as the deliveries of this process may need; raises SettingError when it is too low.

    A process without descriptors fails deliveries that nothing else was wrong with, and spends their attempts. Each
    needs one; while it connects to a name with several addresses that do not answer it takes a few more.
    """
    deliveries = max_claims(settings.worker_max_concurrent)
    needed = deliveries + (settings.db_pool_size or DEFAULT_POOL_SIZE) + RESERVE
    wanted = needed + (ADDRESSES_AT_ONCE - 1) * deliveries
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SettingError(
            f"TE_WORKER_MAX_CONCURRENT={settings.worker_max_concurrent} needs {needed} open files, and the hard limit "
            f"of this process (RLIMIT_NOFILE, ulimit -Hn) is {hard}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
