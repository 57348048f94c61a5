"""Pods that name a runtime class: they run as it says, or not at all."""

import json
from typing import Any

import pytest

from containerd_lab import OTHER_HANDLER, ContainerdLab
from process_cluster import NODE, ProcessCluster, pod, shell

# As long as all its waits together may take.
pytestmark = pytest.mark.timeout(120)
FAILED = "FailedCreatePodSandBox"


def runtime_class(name: str, handler: str) -> dict[str, Any]:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}


def test_pod_runs_as_its_runtime_class_says(cluster: ProcessCluster, containerd: ContainerdLab) -> None:
    """The class is the cluster's, its handler the container runtime's."""
    cluster.create(runtime_class("another", OTHER_HANDLER))
    cluster.run(pod("classed", shell("exec sleep 1000"), runtimeClassName="another"))
    cluster.run(pod("plain", shell("exec sleep 1000")))
    handlers = containerd.ready_sandboxes()
    assert (handlers["classed"], handlers["plain"]) == (OTHER_HANDLER, "")


def test_pod_of_a_handler_that_nobody_knows_does_not_run(cluster: ProcessCluster) -> None:
    """An event says so; it does not get less isolation than it asked for."""
    cluster.create(runtime_class("strong", "unheard-of"))
    cluster.create(pod("strong", shell("exec sleep 1000"), runtimeClassName="strong"))
    said = cluster.until_said("strong", FAILED, "unheard-of")
    assert said.endswith('no runtime for "unheard-of" is configured')
    assert cluster.pod("strong")["status"]["phase"] == "Pending"


def test_pod_of_a_class_that_does_not_exist_does_not_run(cluster: ProcessCluster) -> None:
    """The API server refuses one; a static pod needs no API server, and is told by the node."""
    (cluster.manifests / "lost.json").write_text(
        json.dumps(pod("lost", shell("exec sleep 1000"), runtimeClassName="nowhere"))
    )
    said = cluster.until_said(f"lost-{NODE}", FAILED, "nowhere")
    assert said == 'Failed to create pod sandbox: runtimeclass.node.k8s.io "nowhere" not found'
    (cluster.manifests / "lost.json").unlink()
