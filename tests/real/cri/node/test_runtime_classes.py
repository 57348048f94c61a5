"""Pods with a RuntimeClass run with its handler or not at all."""

import json
from typing import Any

import pytest

from containerd_lab import OTHER_HANDLER, ContainerdLab
from process_cluster import NODE, ProcessCluster, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FAILED = "FailedCreatePodSandBox"


def runtime_class(name: str, handler: str) -> dict[str, Any]:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}


def test_pod_runs_as_its_runtime_class_says(cluster: ProcessCluster, containerd: ContainerdLab) -> None:
    """The sandbox has the handler of the class; a pod without a class has the default handler."""
    cluster.create(runtime_class("another", OTHER_HANDLER))
    cluster.run(pod("classed", shell("exec sleep 1000"), runtimeClassName="another"))
    cluster.run(pod("plain", shell("exec sleep 1000")))
    handlers = containerd.ready_sandboxes()
    assert (handlers["classed"], handlers["plain"]) == (OTHER_HANDLER, "")


def test_pod_with_an_unknown_runtime_handler_does_not_run(cluster: ProcessCluster) -> None:
    """An event has the reason; the pod must not run with less isolation than requested."""
    cluster.create(runtime_class("strong", "unheard-of"))
    cluster.create(pod("strong", shell("exec sleep 1000"), runtimeClassName="strong"))
    said = cluster.until_said("strong", FAILED, "unheard-of")
    assert said.endswith('no runtime for "unheard-of" is configured')
    assert cluster.pod("strong")["status"]["phase"] == "Pending"


def test_pod_of_a_class_that_does_not_exist_does_not_run(cluster: ProcessCluster) -> None:
    """A static pod bypasses admission by the API server, so the node itself reports the missing class."""
    (cluster.manifests / "lost.json").write_text(
        json.dumps(pod("lost", shell("exec sleep 1000"), runtimeClassName="nowhere"))
    )
    said = cluster.until_said(f"lost-{NODE}", FAILED, "nowhere")
    assert said == 'Failed to create pod sandbox: runtimeclass.node.k8s.io "nowhere" not found'
    (cluster.manifests / "lost.json").unlink()
