"""Open files of a worker: the needs of its deliveries, and the connections of processes with actors that are left."""

import resource

from actors.dispatch.connector import ADDRESSES_AT_ONCE
from app.kernel.config import SettingError, Settings
from brokers.sharing.quota import max_claims

# Descriptors besides deliveries and pool: other database connections, the source of wake-ups, Kafka's brokers, idle
# connections, name lookups, the loop's own, pipes to Dramatiq's parent, certificates.
RESERVE = 128
ACTOR_PROCESSES = 1_000  # connected processes of users at each listener for which files may be open
MAX_ACTOR_PROCESSES = 10_000  # at each listener, however many files may be open
# Connections by TLS without an accepted key, from the accept on. One more is closed at once; the kit tries again.
MAX_WITHOUT_KEY = 512
DEFAULT_POOL_SIZE = 10


def ensure_open_files(settings: Settings) -> None:
    """Raise the soft limit of open files to the needs of the deliveries; raises SettingError if that is impossible.

    A process without descriptors would fail deliveries and spend their attempts. A delivery needs one descriptor, and a
    few more while it connects to a name with several addresses that do not answer.
    """
    needed = _needed(settings)
    wanted = needed + _passing(settings) + ACTOR_PROCESSES * _files_of_processes(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SettingError(
            f"TE_WORKER_MAX_CONCURRENT={settings.worker_max_concurrent} needs {needed} open files, and the hard limit "
            f"of this process (RLIMIT_NOFILE, ulimit -Hn) is {hard}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def max_actor_processes(settings: Settings) -> int:
    """Return how many processes with actors may connect at each listener; deliveries keep the files that they need.

    Connections that are being made keep their files, too, but under a low limit no more than half of the rest.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_ACTOR_PROCESSES
    left = soft - _needed(settings)
    left -= min(_passing(settings), left // 2)
    return min(max(1, left // max(1, _files_of_processes(settings))), MAX_ACTOR_PROCESSES)


def _needed(settings: Settings) -> int:
    return max_claims(settings.worker_max_concurrent) + (settings.db_pool_size or DEFAULT_POOL_SIZE) + RESERVE


def _passing(settings: Settings) -> int:
    """Return the files of connections that are being made: to further addresses of a name, and without a key yet."""
    racing = (ADDRESSES_AT_ONCE - 1) * max_claims(settings.worker_max_concurrent)
    return racing + bool(settings.actors_tls_addr) * MAX_WITHOUT_KEY


def _files_of_processes(settings: Settings) -> int:
    """Return the files of one process at each listener: two at the Unix socket (ProcessConnection), one at the port."""
    return 2 * bool(settings.actors_listen) + bool(settings.actors_tls_addr)
