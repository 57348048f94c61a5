"""One cluster for all tests of a module: an API server, a node that runs processes, and kubectl."""

import os
from collections.abc import Iterator

import pytest

from process_cluster import ProcessCluster, WebPod, free_port, pod, process_cluster, shell


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def web(cluster: ProcessCluster, tmp_path_factory: pytest.TempPathFactory) -> WebPod:
    """A pod that serves a file on the machine's loopback."""
    folder, content, port = tmp_path_factory.mktemp("web"), os.urandom(300_000), free_port()
    (folder / "file").write_bytes(content)
    ready = {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
    serve = f"exec python3 -m http.server --bind 127.0.0.1 --directory {folder} {port}"
    cluster.run(pod("web", shell(serve, readinessProbe=ready)))
    return WebPod("web", port, content)
