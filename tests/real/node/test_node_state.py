"""Metrics of a real node and its containers, and its graceful shutdown."""

import json
from pathlib import Path

import pytest

from process_cluster import NODE, ProcessCluster, pod, process_cluster, shell
from pykubelet_process import NodeProcess

pytestmark = pytest.mark.timeout(120)
# Holds 32 MB of memory and has used 0.3 s of CPU when it is ready.
BUSY = """
import time
held = bytearray(32 * 2**20)
while time.process_time() < 0.3: pass
open("/tmp/READY", "w").close()
time.sleep(1000)
"""


def page(cluster: ProcessCluster, path: str) -> str:
    """A page of the node's own API, read through the API server."""
    return cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/{path}")


def test_figures_of_a_container_are_those_of_its_processes(cluster: ProcessCluster, tmp_path: Path) -> None:
    """They are in the summary and in the resource metrics; probes are counted too."""
    ready = tmp_path / "ready"
    container = shell("") | {"command": ["python3", "-c", BUSY.replace("/tmp/READY", str(ready))]}
    probe = {"exec": {"command": ["test", "-e", str(ready)]}, "periodSeconds": 1}
    cluster.run(pod("busy", container | {"readinessProbe": probe}))
    summary = json.loads(page(cluster, "stats/summary"))
    (shown,) = [one for one in summary["pods"] if one["podRef"]["name"] == "busy"]
    assert shown["containers"][0]["cpu"]["usageCoreNanoSeconds"] >= 250_000_000
    assert shown["memory"]["workingSetBytes"] >= 32 * 2**20
    assert summary["node"]["rlimit"]["curproc"] > 0
    resources = page(cluster, "metrics/resource")
    assert 'container_cpu_usage_seconds_total{container="main",namespace="default",pod="busy"}' in resources
    assert 'pod_memory_working_set_bytes{namespace="default",pod="busy"}' in resources
    own = page(cluster, "metrics")
    assert 'kubelet_active_pods{static=""}' in own
    assert "kubelet_pod_start_sli_duration_seconds_count" in own
    probes = page(cluster, "metrics/probes")
    assert 'probe_type="Readiness",result="successful"' in probes


def test_graceful_shutdown_ends_ordinary_pods_before_critical_ones(tmp_path: Path) -> None:
    """Each pod has the reason in its status, and all containers have exited."""
    with process_cluster(tmp_path) as cluster:
        assert cluster.node.stop() == 0
        options = ("--kubeconfig", str(cluster.server.kubeconfig), "--runtime", "process")
        graceful = ("--shutdown-grace-period", "12s", "--shutdown-grace-period-critical-pods", "6s")
        node = NodeProcess(tmp_path, *options, *graceful, name=NODE).start()
        order = tmp_path / "order"
        script = f"trap 'echo NAME >> {order}; exit 0' TERM; while :; do sleep 0.1; done"
        cluster.run(pod("ordinary", shell(script.replace("NAME", "ordinary"))))
        cluster.run(pod("vital", shell(script.replace("NAME", "vital")), priorityClassName="system-node-critical"))
        assert node.stop() == 0
        assert order.read_text().split() == ["ordinary", "vital"]
        for name in ("ordinary", "vital"):
            status = cluster.pod(name)["status"]
            assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
            (target,) = [one for one in status["conditions"] if one["type"] == "DisruptionTarget"]
            assert target["reason"] == "TerminationByKubelet"
            assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        (ready,) = [
            one for one in cluster.kubectl.json("get", "node", NODE)["status"]["conditions"] if one["type"] == "Ready"
        ]
        assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
        cluster.node.start()
