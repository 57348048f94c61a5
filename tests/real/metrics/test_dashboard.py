"""The shipped Grafana dashboard queries only metrics that the programs expose."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubectl import Kubectl
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
DASHBOARD = Path(__file__).parents[3] / "deploy/grafana-dashboard.json"
NODE = "/api/v1/nodes/node-1/proxy/metrics"
PATIENCE = "--timeout=30s"
WORDS = {"sum", "by", "rate", "count", "max", "topk", "vector", "or", "time", "histogram_quantile", "le"}
# A healthy node has no samples of these, and simulated containers use no CPU.
MAY_BE_EMPTY = {
    "pod_cpu_usage_seconds_total",
    "kubelet_admission_rejections_total",
    "kubelet_evictions",
    "kubelet_runtime_operations_errors_total",
    "kubelet_started_containers_errors_total",
}
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: first, image: "example/first:1"}
  containers:
  - name: main
    image: example/main:1
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: main, image: "example/main:1"}]}
"""
FIRST_ENDS = 'sim.pykubelet.dev/first: \'{"runs": [{"seconds": 0}]}\''


def expressions() -> list[str]:
    """All Prometheus expressions of the dashboard."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def metrics_of(expression: str) -> set[str]:
    """The metric names in an expression, without labels and durations."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)|\"[^\"]*\"", " ", expression)
    return set(re.findall(r"\b[a-z][a-z0-9_]+\b", bare)) - WORDS


def labels_of(expression: str) -> set[str]:
    """The labels that an expression groups by or selects by."""
    groups = re.findall(r"by \(([^)]*)\)", expression)
    chosen = re.findall(r"[{,]\s*(\w+)\s*=", expression)
    return {label.strip() for group in groups for label in group.split(",")} | set(chosen)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """All metrics pages of a cluster with a probed static pod and a deployment."""
    folder = tmp_path_factory.mktemp("metrics")
    manifest = folder / "pods.yaml"
    manifest.write_text(
        PODS.replace("metadata: {name: web}", f"metadata: {{name: web, annotations: {{{FIRST_ENDS}}}}}")
    )
    process = UpProcess(folder, str(manifest), runtime="sim").start()
    try:
        kubectl = Kubectl(process.kubeconfig, "default", folder / "cache")
        kubectl("wait", "--for=create", PATIENCE, "pod/web-node-1")
        kubectl("wait", "--for=condition=Ready", PATIENCE, "pod/web-node-1")
        kubectl("wait", "--for=create", PATIENCE, "deployment/shop")
        kubectl("wait", "--for=condition=Available", PATIENCE, "deployment/shop")
        assert "ADDED" in kubectl("get", "--raw", "/api/v1/pods?watch=1&timeoutSeconds=1")
        paths = ("/metrics", NODE, f"{NODE}/resource", f"{NODE}/cadvisor", f"{NODE}/probes")
        yield [kubectl("get", "--raw", path) for path in paths]
    finally:
        assert process.stop() == 0


def test_dashboard_queries_only_exposed_metrics_and_labels(pages: list[str]) -> None:
    """Every metric of every expression is on a page of a real run, with the labels of the expression."""
    told: dict[str, set[str]] = {}
    for family in (family for page in pages for family in text_string_to_metric_families(page)):
        for name in (family.name, f"{family.name}_total"):
            told.setdefault(name, set())
        for sample in family.samples:
            told.setdefault(sample.name, set()).update(sample.labels)
    asked = expressions()
    assert len(asked) > 40
    for expression in asked:
        for name in metrics_of(expression):
            assert name in told, f"{name} of {expression}"
            assert name in MAY_BE_EMPTY or labels_of(expression) <= told[name], f"{name} of {expression}"


def test_metrics_pages_count_what_happened(pages: list[str]) -> None:
    """Two pods of a deployment and a static pod with an init container were started and probed."""
    told = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for page in pages
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert told["kubelet_running_pods",] == 3
    assert told["kubelet_mirror_pods",] == 1
    assert told["kubelet_started_pods_total",] == 3
    assert told["kubelet_started_containers_total", ("container_type", "container")] == 3
    assert told["kubelet_started_containers_total", ("container_type", "init_container")] == 1
    assert told["kubelet_pod_start_duration_seconds_count",] == 2
    assert told["kubelet_runtime_operations_total", ("operation_type", "run_podsandbox")] == 3
    assert told["kubelet_pod_worker_duration_seconds_count", ("operation_type", "create")] > 0
    assert told["workqueue_adds_total", ("name", "deployment")] > 0
    assert told["apiserver_resource_objects", ("group", "apps"), ("resource", "deployments")] == 1
    assert told["apiserver_storage_size_bytes", ("storage_cluster_id", "sqlite")] > 0
