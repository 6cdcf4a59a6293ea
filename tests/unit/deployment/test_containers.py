"""Dockerfile and docker-compose.yml, which cannot be run here: they parse, and they name what exists."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import requires
from typing import Any

import psycopg2.extensions
import pytest
import yaml
from packaging.requirements import Requirement

from app.kernel.config import Settings
from app.kernel.db.startup import doubts_about_version
from schema.url import database_url
from tests.unit.deployment.answers import answering
from tests.unit.deployment.deployed import READ_SECRETS, ROOT, SETTINGS, canonical, versions

DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMAGE = {"python_version": "3.12", "python_full_version": "3.12.14", "extra": ""}  # as it is said to markers
OURS = {"api", "worker", "scheduler", "migrate"}
OTHERS_SETTINGS = {"CHANGELOG.md", "receiving.md"}  # of former releases, and of receivers
OF_THE_API = (
    "docker-compose.yml",
    "deploy/kubernetes/overlays/example/kustomization.yaml",
    "deploy/systemd/task-executor-web.service",
)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    composed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return dict(composed["services"])


def test_compose_has_what_the_documentation_says(services: dict[str, Any]) -> None:
    assert {"roach1", "roach2", "roach3", "balancer", "kafka", "redis", *OURS} <= set(services)
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["scheduler"]["deploy"]["replicas"] == 2
    for name, service in services.items():
        missing = set(service.get("depends_on", ())) - set(services)
        assert not missing, f"{name} depends on {missing}"


def test_compose_sets_only_settings_that_exist_to_values_that_work(services: dict[str, Any]) -> None:
    for name in OURS:
        environment = services[name]["environment"]
        assert {key for key in environment if key.startswith("TE_")} <= SETTINGS
        assert database_url(environment["TE_DATABASE_URL"]).get_backend_name() == "cockroachdb"
        key = environment["TE_SECRET_ENCRYPTION_KEY"]
        assert key.startswith("${TE_SECRET_ENCRYPTION_KEY:?" if name in READ_SECRETS else ""), "a known key is none"
        assert bool(key) is (name in READ_SECRETS)


def test_no_file_names_a_setting_that_does_not_exist() -> None:
    named = [*(ROOT / "deploy").rglob("*"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*")]
    files = [path for path in named if path.is_file() and path.name not in OTHERS_SETTINGS]
    found = {
        (path.name, name)
        for path in files
        for name in re.findall(r"\bTE_[A-Z0-9_]+[A-Z0-9]\b", path.read_text(errors="ignore"))
    }
    assert len({name for _, name in found}) > 20
    assert {(file, name) for file, name in found if name not in SETTINGS} == set()


@pytest.mark.parametrize("file", OF_THE_API)
def test_each_deployment_shows_how_the_api_is_tuned(file: str) -> None:
    """With the defaults, where it sets them."""
    text = (ROOT / file).read_text()
    defaults = {item.metadata["env"]: str(item.default) for item in fields(Settings) if item.name.startswith("web_")}
    assert [name for name in defaults if not re.search(rf"\b{name}\b", text)] == []
    for name, value in re.findall(r'\b(TE_WEB_[A-Z_]+)(?:=|: )"?(\w+)', text):
        assert defaults[name] == value


def test_compose_publishes_nothing_beyond_this_machine(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_driver_understands_the_database_url_of_compose(services: dict[str, Any]) -> None:
    """The libpq that psycopg2 was built with checks the names of the parameters."""
    url = database_url(services["api"]["environment"]["TE_DATABASE_URL"])
    _, arguments = url.get_dialect()().create_connect_args(url)
    parsed = psycopg2.extensions.parse_dsn(psycopg2.extensions.make_dsn(**arguments))
    assert (parsed["host"], parsed["port"]) == ("balancer", "26257")


def test_the_balancer_sends_to_every_node_that_is_ready(services: dict[str, Any]) -> None:
    (mounted,) = services["balancer"]["volumes"]
    configuration = (ROOT / mounted.split(":")[0]).read_text()
    nodes = {name for name, service in services.items() if "--join" in str(service.get("command"))}
    assert set(re.findall(r"server (\S+) \1:26257 check port 8080$", configuration, re.MULTILINE)) == nodes
    assert "option httpchk GET /health?ready=1" in configuration


def test_containers_of_ours_may_do_nothing_but_their_work(services: dict[str, Any]) -> None:
    for name in OURS:
        service = services[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE)[-1] == "10001:10001", "Kubernetes wants a number"


@pytest.mark.parametrize(("answer", "status"), [(200, 0), (503, 1), (None, 1)])
def test_the_image_is_healthy_while_its_api_says_that_it_is_ready(answer: int | None, status: int) -> None:
    found = re.search(r"^HEALTHCHECK [^\[]*CMD (\[.+\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    assert found
    _, *arguments = json.loads(found.group(1))
    with answering(answer, "/health/ready") as port:
        command = [sys.executable, *(word.replace("8080", str(port)) for word in arguments)]
        assert subprocess.run(command, check=False, capture_output=True).returncode == status


def test_containers_are_asked_where_they_answer(services: dict[str, Any]) -> None:
    for name in ("worker", "scheduler"):
        port = services[name]["environment"][f"TE_{name.upper()}_METRICS_ADDR"].rpartition(":")[2]
        assert services[name]["healthcheck"]["test"][1:5] == [
            "python",
            "-m",
            "app.kernel.metrics.probe",
            f"127.0.0.1:{port}",
        ]
    assert "healthcheck" not in services["api"], "that of the image is its own"


def test_docker_compose_itself_understands_the_file() -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        pytest.skip("needs the docker CLI with its plugin compose")
    environment = {"TE_SECRET_ENCRYPTION_KEY": "any", "PATH": "/usr/bin:/bin"}
    command = [docker, "compose", "--project-directory", str(ROOT), "config", "--quiet"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr


def test_what_is_fetched_is_pinned(services: dict[str, Any]) -> None:
    images = [service["image"] for service in services.values() if "image" in service]
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+", image)] == []
    undigested = {image.split(":")[0] for image in images if not re.search(r"@sha256:[0-9a-f]{64}$", image)}
    assert undigested == {"cockroachdb/cockroach"}, "as the head of the file says"
    assert re.search(r"^ARG PYTHON=python:[\d.]+-\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON}"}


def test_the_image_installs_what_the_product_needs_and_nothing_else() -> None:
    """By hash, in the versions that the tests run with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = project["optional-dependencies"]
    assert parts["all"] == ["task-executor[scheduler,web,worker]"]
    product = [*project["dependencies"], *parts["scheduler"], *parts["web"], *parts["worker"]]
    locked, tested = versions("requirements.lock"), versions("constraints.txt")
    assert set(locked) == needed(product) | {"setuptools"}, "run make lock"
    assert {name: tested.get(name, version) for name, version in locked.items()} == locked, "run make lock"


def needed(lines: list[str]) -> set[str]:
    """Return the names of requirements that apply to the image, and of what they require in turn."""
    found: set[str] = set()
    waiting = list(lines)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonical(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate(IMAGE)):
            found.add(name)
            waiting += requires(name) or []
    return found


def test_procfile_compose_and_dockerfile_run_the_same_programs(services: dict[str, Any]) -> None:
    procfile = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert set(procfile) == {"web", "worker", "scheduler"}
    for process, service in (("web", "api"), ("worker", "worker"), ("scheduler", "scheduler")):
        assert shlex.split(procfile[process])[:2] == services[service]["command"][:2]
    docker_command = re.search(r'^CMD \["([^"]+)"', DOCKERFILE, re.MULTILINE)
    assert docker_command
    assert docker_command.group(1) == shlex.split(procfile["web"])[0]


def test_the_dockerfile_copies_files_that_exist() -> None:
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    sent = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert {name for names in copied for name in names} == sent


def test_compose_runs_a_release_of_cockroachdb_without_known_faults(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values() if "cockroachdb/cockroach" in service.get("image", "")}
    assert [doubts_about_version(f"CockroachDB CCL {image.rpartition(':')[2]}") for image in images] == [[]]
