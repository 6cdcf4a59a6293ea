"""The files that cannot be run here: they parse, and they name what exists."""

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.catalog.crypto import SecretBox
from app.config import Settings
from schema.url import database_url

ROOT = Path(__file__).parents[2]
SETTINGS = {item.metadata["env"] for item in fields(Settings)}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    composed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return dict(composed["services"])


def test_compose_has_what_the_documentation_says(services: dict[str, Any]) -> None:
    assert {"roach1", "roach2", "roach3", "kafka", "redis", "api", "worker", "scheduler"} <= set(services)
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["scheduler"]["deploy"]["replicas"] == 2
    for name, service in services.items():
        missing = set(service.get("depends_on", ())) - set(services)
        assert not missing, f"{name} depends on {missing}"


def test_compose_sets_only_settings_that_exist_to_values_that_work(services: dict[str, Any]) -> None:
    for name in ("api", "worker", "scheduler", "migrate"):
        environment = services[name]["environment"]
        assert {key for key in environment if key.startswith("TE_")} <= SETTINGS
        assert database_url(environment["TE_DATABASE_URL"]).get_backend_name() == "cockroachdb"
        default_key = re.search(r":-(.+)}", environment["TE_SECRET_ENCRYPTION_KEY"])
        assert default_key
        SecretBox.from_setting(default_key.group(1))


def test_procfile_compose_and_dockerfile_run_the_same_programs(services: dict[str, Any]) -> None:
    procfile = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert set(procfile) == {"web", "worker", "scheduler"}
    for process, service in (("web", "api"), ("worker", "worker"), ("scheduler", "scheduler")):
        assert shlex.split(procfile[process])[:2] == services[service]["command"][:2]
    docker_command = re.search(r'^CMD \["([^"]+)"', (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert docker_command
    assert docker_command.group(1) == shlex.split(procfile["web"])[0]


def test_the_dockerfile_copies_files_that_exist() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
