"""One cluster per test module: an API server, a node that runs its containers with containerd, and kubectl."""

import os
from collections.abc import Iterator

import pytest

from containerd_lab import ContainerdLab
from cri_lab import node_runtime
from oci_images import WEB
from process_cluster import ProcessCluster, WebPod, pod, process_cluster


@pytest.fixture(scope="module")
def cluster(containerd: ContainerdLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster"), node_runtime(containerd)) as made:
        yield made


@pytest.fixture(scope="module")
def web(cluster: ProcessCluster, tmp_path_factory: pytest.TempPathFactory) -> WebPod:
    """A pod that serves a file at its own address."""
    folder, content = tmp_path_factory.mktemp("web"), os.urandom(300_000)
    (folder / "file").write_bytes(content)
    ready = {"httpGet": {"port": 8080, "path": "/file"}, "periodSeconds": 1}
    mounts = [{"name": "files", "mountPath": "/srv"}]
    serve = {"name": "main", "image": WEB, "readinessProbe": ready, "volumeMounts": mounts}
    cluster.run(pod("web", serve, volumes=[{"name": "files", "hostPath": {"path": str(folder)}}]))
    return WebPod("web", 8080, content)
