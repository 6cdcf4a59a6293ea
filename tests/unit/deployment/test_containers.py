"""Dockerfile and docker-compose.yml, checked without Docker: valid syntax, and names that exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import psycopg2.extensions
import pytest
import yaml
from jsonschema import Draft7Validator
from packaging.requirements import Requirement

from app.kernel.config import Settings
from app.kernel.db.startup import doubts_about_version
from schema.url import database_url
from tests.unit.deployment.answers import answering
from tests.unit.deployment.deployed import NOT_INSTALLED, READ_SECRETS, ROOT, SETTINGS, canonical, versions

DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMAGE = {"python_version": "3.12", "python_full_version": "3.12.14", "extra": ""}  # environment of requirement markers
OURS = {"api", "worker", "scheduler", "migrate"}
OTHERS_SETTINGS = {"CHANGELOG.md", "receiving.md"}  # settings of earlier releases, and of receivers
COMPOSED = {"docker-compose.yml": "cockroachdb", "deploy/compose/postgres.yml": "postgresql"}
OF_THE_API = (
    *COMPOSED,
    "deploy/kubernetes/overlays/example/kustomization.yaml",
    "deploy/systemd/task-executor-web.service",
)


@pytest.fixture(scope="module", params=COMPOSED)
def file(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def services_of(file: str) -> dict[str, Any]:
    composed: dict[str, Any] = yaml.safe_load((ROOT / file).read_text())
    return dict(composed["services"])


@pytest.fixture(scope="module")
def each(file: str) -> dict[str, Any]:
    """The services of each Compose file in turn."""
    return services_of(file)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the Compose file with CockroachDB."""
    return services_of("docker-compose.yml")


def test_compose_file_matches_the_schema_of_its_specification(file: str) -> None:
    """The schema is schema/compose-spec.json of github.com/compose-spec/compose-spec at 170098b, Apache-2.0."""
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    Draft7Validator(schema).validate(yaml.safe_load((ROOT / file).read_text()))


def test_compose_has_the_documented_services(each: dict[str, Any], services: dict[str, Any]) -> None:
    assert {"roach1", "roach2", "roach3", "balancer", "kafka", "redis", *OURS} <= set(services)
    assert set(services_of("deploy/compose/postgres.yml")) == {"postgres", *OURS}
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["scheduler"]["deploy"]["replicas"] == 2
    for name, service in each.items():
        missing = set(service.get("depends_on", ())) - set(each)
        assert not missing, f"{name} depends on {missing}"


def test_compose_sets_existing_settings_to_valid_values(file: str, each: dict[str, Any]) -> None:
    for name in OURS:
        environment = each[name]["environment"]
        assert {key for key in environment if key.startswith("TE_")} <= SETTINGS
        url = environment["TE_DATABASE_URL"].replace("${POSTGRES_PASSWORD:?set it in .env}", "secret")
        assert database_url(url).get_backend_name() == COMPOSED[file]
        key = environment["TE_SECRET_ENCRYPTION_KEY"]
        assert key.startswith("${TE_SECRET_ENCRYPTION_KEY:?" if name in READ_SECRETS else ""), "a published key"
        assert bool(key) is (name in READ_SECRETS)


def test_no_file_names_a_setting_that_does_not_exist() -> None:
    named = [*(ROOT / "deploy").rglob("*"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*")]
    files = [path for path in named if path.is_file() and path.name not in OTHERS_SETTINGS]
    found = {
        (path.name, name)
        for path in files
        for name in re.findall(r"\bTE_[A-Z0-9_]+[A-Z0-9]\b", path.read_text(errors="ignore"))
    }
    assert len({name for _, name in found}) > 20
    assert {(file, name) for file, name in found if name not in SETTINGS} == set()


@pytest.mark.parametrize("file", OF_THE_API)
def test_each_deployment_lists_all_settings_of_the_api(file: str) -> None:
    """Each setting has its default value."""
    text = (ROOT / file).read_text()
    defaults = {item.metadata["env"]: str(item.default) for item in fields(Settings) if item.name.startswith("web_")}
    assert [name for name in defaults if not re.search(rf"\b{name}\b", text)] == []
    for name, value in re.findall(r'\b(TE_WEB_[A-Z_]+)(?:=|: )"?(\w+)', text):
        assert defaults[name] == value


def test_compose_publishes_ports_on_the_local_machine_only(each: dict[str, Any]) -> None:
    ports = [port for service in each.values() for port in service.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_driver_accepts_the_database_url_of_compose(services: dict[str, Any]) -> None:
    """The libpq of psycopg2 checks the names of the parameters."""
    url = database_url(services["api"]["environment"]["TE_DATABASE_URL"])
    _, arguments = url.get_dialect()().create_connect_args(url)
    parsed = psycopg2.extensions.parse_dsn(psycopg2.extensions.make_dsn(**arguments))
    assert (parsed["host"], parsed["port"]) == ("balancer", "26257")


def test_balancer_sends_to_every_ready_node(services: dict[str, Any]) -> None:
    (mounted,) = services["balancer"]["volumes"]
    configuration = (ROOT / mounted.split(":")[0]).read_text()
    nodes = {name for name, service in services.items() if "--join" in str(service.get("command"))}
    assert set(re.findall(r"server (\S+) \1:26257 check port 8080$", configuration, re.MULTILINE)) == nodes
    assert "option httpchk GET /health?ready=1" in configuration


def test_containers_of_the_product_have_no_extra_privileges(each: dict[str, Any]) -> None:
    for name in OURS:
        service = each[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE)[-1] == "10001:10001", "Kubernetes needs a numeric user"


@pytest.mark.parametrize(("answer", "status"), [(200, 0), (503, 1), (None, 1)])
def test_image_is_healthy_while_its_api_is_ready(answer: int | None, status: int) -> None:
    found = re.search(r"^HEALTHCHECK [^\[]*CMD (\[.+\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    assert found
    _, *arguments = json.loads(found.group(1))
    with answering(answer, "/health/ready") as port:
        command = [sys.executable, *(word.replace("8080", str(port)) for word in arguments)]
        assert subprocess.run(command, check=False, capture_output=True).returncode == status


def test_health_checks_use_the_metrics_ports(each: dict[str, Any]) -> None:
    for name in ("worker", "scheduler"):
        port = each[name]["environment"][f"TE_{name.upper()}_METRICS_ADDR"].rpartition(":")[2]
        assert each[name]["healthcheck"]["test"][1:5] == [
            "python",
            "-m",
            "app.kernel.metrics.probe",
            f"127.0.0.1:{port}",
        ]
    assert "healthcheck" not in each["api"], "the API has the health check of its image"


def test_docker_compose_accepts_the_file(file: str) -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        pytest.skip("needs the docker CLI with its plugin compose")
    environment = {"TE_SECRET_ENCRYPTION_KEY": "any", "POSTGRES_PASSWORD": "any", "PATH": "/usr/bin:/bin"}
    command = [docker, "compose", "--file", str(ROOT / file), "config", "--quiet"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr


def test_images_are_pinned(each: dict[str, Any]) -> None:
    images = [service["image"] for service in each.values() if "build" not in service]
    assert [image for image in images if not re.search(r":v?\d+\.\d+", image)] == []
    undigested = {image.split(":")[0] for image in images if not re.search(r"@sha256:[0-9a-f]{64}$", image)}
    assert undigested <= {"cockroachdb/cockroach"}, "see the head of docker-compose.yml"
    assert re.search(r"^ARG PYTHON=python:[\d.]+-\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON}"}


def test_image_installs_exactly_the_requirements_of_the_product() -> None:
    """requirements.lock has the versions that the tests run with, and hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = project["optional-dependencies"]
    assert parts["all"] == ["task-executor[scheduler,web,worker]"]
    product = [*project["dependencies"], *parts["scheduler"], *parts["web"], *parts["worker"]]
    locked, tested = versions("requirements.lock"), versions("constraints.txt")
    assert set(locked) == needed(product) | NOT_INSTALLED, "run make lock"
    assert {name: tested.get(name, version) for name, version in locked.items()} == locked, "run make lock"


def needed(lines: list[str]) -> set[str]:
    """Return the names of the requirements that apply to the image, including indirect requirements."""
    found: set[str] = set()
    waiting = list(lines)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonical(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate(IMAGE)):
            found.add(name)
            waiting += requires(name) or []
    return found


def test_procfile_compose_and_dockerfile_run_the_same_programs(each: dict[str, Any]) -> None:
    procfile = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert set(procfile) == {"web", "worker", "scheduler"}
    for process, service in (("web", "api"), ("worker", "worker"), ("scheduler", "scheduler")):
        assert shlex.split(procfile[process])[:2] == each[service]["command"][:2]
    docker_command = re.search(r'^CMD \["([^"]+)"', DOCKERFILE, re.MULTILINE)
    assert docker_command
    assert docker_command.group(1) == shlex.split(procfile["web"])[0]


def test_dockerfile_copies_files_that_exist() -> None:
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    sent = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert {name for names in copied for name in names} == sent


def test_compose_runs_a_release_of_cockroachdb_without_known_faults(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values() if "cockroachdb/cockroach" in service.get("image", "")}
    assert [doubts_about_version(f"CockroachDB CCL {image.rpartition(':')[2]}") for image in images] == [[]]
