"""Pods with claims on a real node: the data outlives the pod and the node's program."""

from pathlib import Path
from typing import Any

import pytest

from process_cluster import PATIENCE, ProcessCluster, pod, shell
from pykubelet_process import ControllersProcess

pytestmark = pytest.mark.timeout(180)
MOUNTS = [
    {"name": "data", "mountPath": "/data"},
    {"name": "data", "mountPath": "/part", "subPath": "deep/part"},
]
# The pod is ready when it has written, both to the volume and to a part of it.
SCRIPT = "echo start >> /data/starts; cp /data/starts /part/copy; exec sleep 1000"
READY = {"exec": {"command": ["/bin/sh", "-c", "test -s /part/copy"]}, "periodSeconds": 1}


def local_volume(name: str, path: Path, node: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "local": {"path": str(path)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def test_claimed_volume_keeps_its_data_across_pods_and_a_crash_of_the_node(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    """The pod waits for its claim, writes through a subPath too, and finds its data after kill -9 of the node."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o777)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    web = pod("claimed", shell(SCRIPT, volumeMounts=MOUNTS, readinessProbe=READY), volumes=volumes)
    requests = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": requests}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    names = "--controllers=persistentvolume,scheduler"
    controllers = ControllersProcess(cluster.server.kubeconfig, names, "--no-leader-elect").start()
    try:
        cluster.create(claim, web)
        cluster.until_said("claimed", "FailedMount", "PVC is not bound")
        cluster.create(local_volume("local", folder, cluster.node.name))
        cluster.until("condition=Ready", "claimed")
        cluster.node.kill()
        cluster.node.start()
        cluster.kubectl("delete", "pod", "claimed", PATIENCE)
        cluster.run(web)
        assert (folder / "starts").read_text() == "start\nstart\n"
        assert (folder / "deep/part/copy").read_text() == "start\nstart\n"
        cluster.kubectl("delete", "pod", "claimed", PATIENCE)
        cluster.kubectl("delete", "pvc", "data", PATIENCE)
        cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Released", "pv/local", PATIENCE)
        assert (folder / "deep/part/copy").exists()
        cluster.kubectl("delete", "pv", "local", PATIENCE)
    finally:
        assert controllers.stop() == 0
