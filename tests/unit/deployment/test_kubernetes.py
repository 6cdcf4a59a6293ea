"""deploy/kubernetes: valid by the schemas of Kubernetes, and consistent with the product."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.dev.stack import programs
from app.kernel.config import Settings
from app.kernel.metrics.series import PREFIX
from app.web import health_api
from tests.series import SERIES
from tests.unit.deployment.deployed import READ_SECRETS, SETTINGS

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
OLDEST, NEWEST = "1.30", "1.37"  # supported versions of Kubernetes
POD_IS_SEALED = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001}
CONTAINER_IS_SEALED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
NO_KEY = {"name": "TE_SECRET_ENCRYPTION_KEY", "value": ""}


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


BASE = [
    document
    for file in sorted((FOLDER / "base").glob("*.yaml"))
    if file.name != "kustomization.yaml"
    for document in documents(file.read_text())
]
KUSTOMIZATION = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())
CONFIG = dict(line.split("=", 1) for line in KUSTOMIZATION["configMapGenerator"][0]["literals"])


def of(kind: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in BASE if document["kind"] == kind}


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name, the pod and the container of each workload."""
    for name, workload in (of("Deployment") | of("Job")).items():
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        yield name, pod, container


def rendered(folder: str) -> list[dict[str, Any]]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    done = subprocess.run([kubectl, "kustomize", str(FOLDER / folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_valid(version: str) -> None:
    assert BASE
    for document in BASE:
        kubernetes_validate.validate(document, version, strict=True)


def test_example_overlay_renders_valid_objects_with_its_own_values() -> None:
    objects = rendered("overlays/example")
    for document in objects:
        kubernetes_validate.validate(document, NEWEST, strict=True)
    kinds = {document["kind"] for document in objects}
    assert kinds == {document["kind"] for document in BASE} | {"Namespace", "ConfigMap"}
    images = {
        container["image"]
        for document in objects
        if document["kind"] in {"Deployment", "Job"}
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"registry.example.com/task-executor:1.0.0"}
    (configured,) = (document["data"] for document in objects if document["kind"] == "ConfigMap")
    assert set(configured) <= SETTINGS
    Settings.from_env(configured | {"TE_DATABASE_URL": "postgresql://db/te"})


def test_base_lists_all_its_files_and_has_valid_settings() -> None:
    files = {file.name for file in (FOLDER / "base").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    assert set(CONFIG) <= SETTINGS
    Settings.from_env(CONFIG | {"TE_DATABASE_URL": "postgresql://db/te"})
    assert not of("Secret"), "a published key protects nothing"


def test_each_process_runs_its_program_without_privileges_and_has_time_to_stop() -> None:
    worker = programs.worker(processes=1)
    expected = {"api": programs.WEB, "worker": worker, "scheduler": ("python", "-m", *programs.SCHEDULER)}
    expected["migrate"] = programs.MIGRATE
    assert {name: tuple(container["args"]) for name, _, container in pods()} == expected
    for name, pod, container in pods():
        assert POD_IS_SEALED.items() <= pod["securityContext"].items()
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == CONTAINER_IS_SEALED
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
        assert container["envFrom"] == [
            {"configMapRef": {"name": "task-executor"}},
            {"secretRef": {"name": "task-executor"}},
        ]
        assert container.get("env", []) == ([] if name in READ_SECRETS else [NO_KEY])
    grace = of("Deployment")["worker"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > Settings.from_env(CONFIG | {"TE_DATABASE_URL": "postgresql://db/te"}).worker_shutdown_timeout_seconds


def test_probes_use_existing_paths_and_ports() -> None:
    probed = {
        (name, probe["httpGet"]["path"], container["ports"][0]["containerPort"])
        for name, _, container in pods()
        for kind, probe in container.items()
        if kind.endswith("Probe") and "httpGet" in probe
    }
    port = {name: int(CONFIG[f"TE_{name.upper()}_METRICS_ADDR"].rpartition(":")[2]) for name in ("worker", "scheduler")}
    api = int(CONFIG["TE_LISTEN_ADDR"].rpartition(":")[2])
    assert probed == {
        ("api", "/health/live", api),
        ("api", "/health/ready", api),
        ("worker", "/metrics", port["worker"]),
        ("scheduler", "/metrics", port["scheduler"]),
    }
    assert {path for name, path, _ in probed if name == "api"} == set(
        re.findall('"GET", "(/.+?)"', getsource(health_api))
    )
    probes = {name: {kind for kind in container if kind.endswith("Probe")} for name, _, container in pods()}
    assert all({"livenessProbe", "readinessProbe"} <= probes[name] for name in ("api", "worker", "scheduler"))
    for name, number in port.items():
        annotations = of("Deployment")[name]["spec"]["template"]["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(number)


def test_budgets_scalers_and_services_select_existing_deployments() -> None:
    deployments = of("Deployment")
    labels = {name: item["spec"]["template"]["metadata"]["labels"] for name, item in deployments.items()}
    assert set(of("PodDisruptionBudget")) == set(deployments)
    for name, budget in of("PodDisruptionBudget").items():
        assert budget["spec"]["selector"]["matchLabels"] == labels[name]
    for name, scaler in of("HorizontalPodAutoscaler").items():
        assert scaler["spec"]["scaleTargetRef"]["name"] == name
        assert "replicas" not in deployments[name]["spec"], "each apply would reset the number that the scaler set"
        assert scaler["spec"]["minReplicas"] > 1
    assert of("Service")["api"]["spec"]["selector"] == labels["api"]


def test_workers_scale_by_existing_metrics() -> None:
    (metric,) = of("HorizontalPodAutoscaler")["worker"]["spec"]["metrics"]
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["external"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    named = set(re.findall(r"task_executor_\w+", rule["metricsQuery"] + rule["seriesQuery"]))
    assert len(named) == 4
    assert named <= {PREFIX + name for name in SERIES}
