"""One cluster per test module: an API server, a node that runs processes, and kubectl."""

from collections.abc import Iterator

import pytest

from process_cluster import ProcessCluster, WebPod, process_cluster, serve_file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def web(cluster: ProcessCluster, tmp_path_factory: pytest.TempPathFactory) -> WebPod:
    """A pod that serves a file on the machine's loopback."""
    return serve_file(cluster, tmp_path_factory.mktemp("web"))
