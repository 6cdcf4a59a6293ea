"""Production how-tos, followed in an empty Debian with its own systemd: `python -m tests.production.debian trixie`.

It needs root, debootstrap, systemd-nspawn, ten minutes, and free ports 443, 5432, 8080, 9091 and 9092, because the
container shares the network of the host. It prints each block with its output, and exits with 1 after a failure.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.code_blocks import DOCS, ROOT, Block, blocks_of

MIRROR = "http://deb.debian.org/debian"
SOURCES = "/root/task-executor"
# The host's way to the package indexes. The documents do not mention it.
HOST_FILES = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
ENVIRONMENT |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

CERTIFICATE = """
mkdir -p /etc/ssl/te.example.org
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=te.example.org -addext subjectAltName=DNS:te.example.org \\
  -keyout /etc/ssl/te.example.org/privkey.pem -out /etc/ssl/te.example.org/fullchain.pem
"""
JOB_OVER_TLS = """
curl -sS --fail-with-body --cacert /etc/ssl/te.example.org/fullchain.pem --resolve te.example.org:443:127.0.0.1 \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -H 'Prefer: wait=10' \\
  https://te.example.org/jobs -d '{"url": "http://127.0.0.1:8080/health/live", "method": "GET"}' | grep SUCCESS
"""
NEXT_RELEASE = """sed -i 's/^version = .*/version = "999.0.0"/' pyproject.toml"""
UPGRADED = "readlink /opt/task-executor | grep 999.0.0; te-cli db current"
STOP = "systemctl stop task-executor-web task-executor-worker task-executor-scheduler"
START = STOP.replace("stop", "start")
# A restore on the same server, under another name.
SETTINGS = "set -a; . /etc/task-executor/environment; set +a; export PATH=/opt/task-executor/bin:$PATH; cd /root"
NEW_DATABASE = """
runuser -u postgres -- createdb --owner task_executor restored
sed -i 's#/task_executor$#/restored#' /etc/task-executor/environment
. /etc/task-executor/environment
"""
UNITS = "systemctl --no-pager list-units 'task-executor*' --all; te-cli jobs list"


def main() -> int:
    """Follow the pages in a new root, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=["bookworm", "trixie"])
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/te-debian"), help="of the roots")
    options = parser.parse_args()
    root = _new_root(options.suite, options.folder)
    with _booted(root) as pid:
        done = subprocess.run(_inside(pid, "bash", "-s"), input=_script(), text=True, check=False)
    return 1 if done.returncode else 0


def _script() -> str:
    """Return the blocks of the pages in one shell, with the steps between them that a reader does."""
    install = blocks_of(DOCS / "how-to/systemd.md")
    (proxy,), (upgrade,) = blocks_of(DOCS / "how-to/tls.md"), blocks_of(DOCS / "how-to/upgrade.md")
    dump, restore, doctor, *_ = blocks_of(DOCS / "how-to/backup.md")
    steps: list[str | Block] = [*install, CERTIFICATE, proxy, JOB_OVER_TLS, NEXT_RELEASE, upgrade, UPGRADED]
    steps += [SETTINGS, dump, STOP, NEW_DATABASE, restore, START, "sleep 15", doctor, UNITS]
    texts = [step if isinstance(step, str) else step.text for step in steps]
    shown = [f"set -x\n{text}\n{{ set +x; }} 2> /dev/null; date +'--- %T'" for text in texts]
    return "\n".join(["set -euo pipefail; exec 2>&1", f"cd {SOURCES}", *shown])


def _new_root(suite: str, folder: Path) -> Path:
    """Return a copy of an empty Debian with the sources of HEAD."""
    folder.mkdir(parents=True, exist_ok=True)
    empty, root = folder / suite, folder / f"{suite}-used"
    if not (empty / "etc/os-release").exists():
        _run("debootstrap", "--include=ca-certificates,dbus", suite, str(empty), MIRROR)
        _run("chroot", str(empty), "apt-get", "update")
    shutil.rmtree(root, ignore_errors=True)
    _run("cp", "--archive", str(empty), str(root))
    sources = root / SOURCES[1:]
    sources.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "--extract", "--directory", str(sources)], input=archive.stdout, check=True)
    return root


@contextmanager
def _booted(root: Path) -> Iterator[int]:
    """Boot the root, and yield the process id of its systemd."""
    bound = [f"--bind-ro={file}" for file in HOST_FILES if Path(file).exists()]
    command = ["systemd-nspawn", "--quiet", "--boot", "--directory", str(root), "--register=no", "--keep-unit", *bound]
    if not Path("/run/systemd/system").exists():  # nspawn needs a hierarchy of cgroups, which a systemd would mount
        mount = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, "sh", *command]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as nspawn:
        try:
            yield _leader(nspawn)
        finally:
            nspawn.terminate()  # powers the container off
            nspawn.wait(60)


def _leader(nspawn: subprocess.Popen[bytes]) -> int:
    """Wait until the container's systemd has started, and return its process id."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and nspawn.poll() is None:
        for child in psutil.Process(nspawn.pid).children():
            asked = subprocess.run(
                _inside(child.pid, "systemctl", "is-system-running"), capture_output=True, check=False
            )
            if asked.stdout.strip() in {b"running", b"degraded"}:
                return child.pid
        time.sleep(0.5)
    sys.exit("the container did not start")


def _inside(pid: int, *command: str) -> Sequence[str]:
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    spaces = ["--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd=/"]
    return ["nsenter", f"--target={pid}", *spaces, "env", "--ignore-environment", *variables, *command]


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
